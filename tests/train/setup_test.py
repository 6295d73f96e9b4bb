import numpy as np
import pytest

from hrl_jax import config as configs
from hrl_jax import resume, train
from hrl_jax.checkpoint import hf
from hrl_jax.data import bank
from hrl_jax.services import (
  checker_grader,
  checkers,
  judge_thresholds,
  likelihood,
)
from tests import messages, tiny
from tests.services import fault_server


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
  path = tmp_path_factory.mktemp("tiny")
  tiny.judged_config(path, "")
  return path


def likelihood_config(folder, name="thresholds.json", threshold=0.0):
  """A run whose judge is its first policy, at one threshold for all."""
  made = tiny.judged_config(folder, "")
  made.num_steps = 2
  made.judge.kind = "likelihood"
  made.judge.thresholds = str(folder / name)
  made.data.max_prompt_tokens = 40
  tasks = bank.load(
    [*made.data.train, *made.data.held_out], checkers=checkers.names()
  ).tasks
  frozen = {
    task.id: (
      judge_thresholds.prompt_hash(task.prompt),
      {each.text: threshold for each in task.rubric if not each.checker},
    )
    for task in tasks
  }
  judge_thresholds.save(
    judge_thresholds.Frozen(
      weights_hash=hf.weights_hash(made.model.path),
      template=likelihood.TEMPLATE,
      rollouts=8,
      max_tokens=8,
      seed=0,
      tasks=frozen,
    ),
    made.judge.thresholds,
  )
  return configs.from_config_dict(made)


def test_the_first_policy_judges_what_no_checker_decides(folder):
  setup, state = train.build(likelihood_config(folder))
  for _, _, record in train.run(setup, state):
    for group in record.evidence.groups:
      assert group.scores_GC.shape == (4, 5)
      assert np.isin(group.scores_GC, (0.0, 1.0)).all()
    assert not record.evidence.failures
    assert 0 <= record.metrics["checked"] <= 1
    assert not np.isnan(record.metrics["judged"])


def test_a_threshold_out_of_reach_is_met_by_nothing(folder):
  setup, state = train.build(likelihood_config(folder, "high.json", 1e6))
  _, _, record = next(train.run(setup, state))
  # Neither the reward of 2 nor the penalty of 1.
  assert record.metrics["judged"] == 0.0


def test_other_thresholds_are_another_judge(folder):
  first, other = (
    resume.identity(train.build(likelihood_config(folder, name, value))[0])
    for name, value in (("one.json", 0.0), ("two.json", 0.1))
  )
  assert first.model != other.model
  assert first._replace(model=other.model) == other


def test_thresholds_of_other_tasks_are_refused(folder):
  config = likelihood_config(folder)
  (folder / "thresholds.json").write_text(
    (folder / "thresholds.json").read_text().replace("rude", "kind")
  )
  with pytest.raises(ValueError, match="no threshold"):
    train.build(config)


def test_without_a_judge_its_criteria_are_dropped_and_said(folder, caplog):
  made = tiny.judged_config(folder, "")
  made.judge.kind = "none"
  setup, _ = train.build(configs.from_config_dict(made))
  assert isinstance(setup.world.grader, checker_grader.CheckerGrader)
  assert all(each.checker for each in setup.bank.tasks[0].rubric)
  assert "8 criteria name no checker" in caplog.text


def test_a_key_that_the_environment_lacks_is_named(folder, monkeypatch):
  monkeypatch.delenv("NO_SUCH_KEY", raising=False)
  made = tiny.judged_config(folder, "http://127.0.0.1:1/v1")
  made.judge.endpoint.api_key_variable = "NO_SUCH_KEY"
  with pytest.raises(ValueError, match="'NO_SUCH_KEY'") as caught:
    train.build(configs.from_config_dict(made))
  messages.check_message(caught.value)


def test_a_key_of_the_environment_reaches_the_judge(folder, monkeypatch):
  monkeypatch.setenv("JUDGE_KEY", "secret\n")
  with fault_server.FaultServer(lambda body: "", api_key="secret") as url:
    made = tiny.judged_config(folder, url)
    made.judge.endpoint.api_key_variable = "JUDGE_KEY"
    train.build(configs.from_config_dict(made))


def test_arguments_that_a_method_does_not_take_are_named(folder):
  made = tiny.config(folder)
  made.method.arguments = {"levels": 4}
  with pytest.raises(ValueError, match="'levels'") as caught:
    train.build(configs.from_config_dict(made))
  messages.check_message(caught.value)
