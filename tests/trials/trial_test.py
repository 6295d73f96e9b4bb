"""A trial is a run of the real code in a small world."""

import json

import pytest

from configs import lab as config_file
from hrl_jax.lab import files
from hrl_jax.trials import table, trial, updates
from tests.lab import worlds

STEPS = 2


def configured(folder):
  config = config_file.get_config(str(folder))
  config.num_steps = STEPS
  config.rollout.tasks_per_step = 4
  config.evaluation.every = 1
  config.method.arguments.probe_share = 0.5
  config.method.arguments.cold_start.second_groups = 12
  config.method.arguments.cold_start.regraded_groups = 12
  config.method.arguments.cold_start.minimum_pairs = 5
  return config


@pytest.fixture(scope="module")
def results(tmp_path_factory):
  folder = tmp_path_factory.mktemp("lab")
  world = worlds.small()
  files.prepare(world, folder / "world")
  made = {}
  for arm in ("grpo", "harnessrl"):
    config = configured(folder / "world")
    config.workdir = str(folder / arm)
    path = folder / f"{arm}.json"
    made[arm] = trial.run(config, world, arm, path)
    # Done once, it is read, wherever its files are; but not for another.
    config.workdir = "nowhere"
    assert trial.run(config, world, arm, path) == json.loads(path.read_text())
    config.optimizer.learning_rate = 1e-3
    with pytest.raises(ValueError, match=r"learning_rate: 0.0005 -> 0.001"):
      trial.run(config, world, arm, path)
  return made


def test_every_step_and_every_evaluation_is_there(results):
  for result in results.values():
    assert [step["step"] for step in result["steps"]] == [0, 1]
    assert [each["step"] for each in result["evaluations"]] == [0, 1, 2]
    assert all(-1 <= each["quality"] <= 1 for each in result["evaluations"])


def test_arms_begin_alike(results):
  grpo, harnessrl = results.values()
  assert grpo["evaluations"][0] == harnessrl["evaluations"][0]


def test_what_a_step_cost_is_counted(results):
  for step in results["grpo"]["steps"]:
    assert step["rollouts"] == 4 * 8
    # Each rollout by every criterion of its rubric, of which there are 8 to 12.
    assert 8 * 32 <= step["gradings"] <= 12 * 32
  for step in results["harnessrl"]["steps"]:
    assert step["rollouts"] == 32 + step["harness/probe_rollouts"]
    assert step["rollouts"] <= 32 + 0.5 * 32
    assert 8 * step["rollouts"] <= step["gradings"]


def test_shares_of_pairs_add_up_to_one(results):
  for result in results.values():
    for step in result["steps"]:
      shares = [
        step[f"pairs_{name}"]
        for name in ("blind", "saturated", "spurious", "agree")
      ]
      assert sum(shares) == pytest.approx(1)


def test_only_a_method_with_a_harness_has_updates(results):
  assert results["grpo"]["sentences"] == updates.sentences(worlds.small(), [])
  assert set(results["harnessrl"]["sentences"]) == {
    "refinements_measured",
    "refinements_accepted",
    "decoys_measured",
    "decoys_accepted",
  }
  assert results["grpo"]["reversals"] == []
  windows = results["harnessrl"]["reversals"]
  accepted = sum(
    step["harness/rubric_accepted"] for step in results["harnessrl"]["steps"]
  )
  assert sum(window["accepted"] for window in windows) == accepted


def test_results_make_a_table(results):
  text = "\n".join(table.lines([*results.values()]))
  assert "harnessrl" in text and "quality" in text
