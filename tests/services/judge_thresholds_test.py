import json
import pathlib

import numpy as np
import pytest

from hrl_jax import base
from hrl_jax.data import bank
from hrl_jax.services import checkers, judge_thresholds, likelihood

PROMPT = (base.Message("user", "Say a."),)
TASK = base.Task(
  "a",
  "test",
  PROMPT,
  (
    base.Criterion("Is kind.", 1.0),
    base.Criterion("Has an a.", 1.0, "contains_pattern", {"pattern": "a"}),
    base.Criterion("Is rude.", -1.0),
  ),
)
FROZEN = judge_thresholds.Frozen(
  weights_hash="abc",
  template=likelihood.TEMPLATE,
  rollouts=4,
  max_tokens=8,
  seed=0,
  tasks={
    "a": (
      judge_thresholds.prompt_hash(PROMPT),
      {"Is kind.": 0.25, "Is rude.": -0.125},
    )
  },
)


def test_thresholds_are_read_as_they_were_written(tmp_path):
  path = tmp_path / "thresholds.json"
  judge_thresholds.save(FROZEN, path)
  assert judge_thresholds.load(path, weights_hash="abc") == FROZEN


def test_equal_thresholds_give_equal_bytes_whatever_their_order(tmp_path):
  task = FROZEN.tasks["a"]
  turned = (task[0], dict(reversed(task[1].items())))
  for name, tasks in (
    ("one", {"a": task, "b": task}),
    ("two", {"b": turned, "a": turned}),
  ):
    judge_thresholds.save(FROZEN._replace(tasks=tasks), tmp_path / name)
  assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


def test_a_threshold_is_written_with_six_digits(tmp_path):
  tasks = {"a": ("h", {"Is kind.": 0.12345678})}
  judge_thresholds.save(FROZEN._replace(tasks=tasks), tmp_path / "file")
  loaded = judge_thresholds.load(tmp_path / "file", weights_hash="abc")
  assert loaded.tasks["a"][1] == {"Is kind.": 0.123457}


def test_thresholds_of_another_model_are_refused(tmp_path):
  judge_thresholds.save(FROZEN, tmp_path / "file")
  with pytest.raises(ValueError, match="SHA-256 abc, but def is to judge") as e:
    judge_thresholds.load(tmp_path / "file", weights_hash="def")
  assert "scripts/calibrate_judge.py" in str(e.value)


def test_thresholds_of_another_wording_are_refused(tmp_path):
  judge_thresholds.save(FROZEN._replace(template="old"), tmp_path / "file")
  with pytest.raises(ValueError, match="for the wording 'old'"):
    judge_thresholds.load(tmp_path / "file", weights_hash="abc")


def test_the_judged_criteria_of_a_task_have_thresholds():
  assert judge_thresholds.of_tasks(FROZEN, [TASK], "file") == {
    (PROMPT, "Is kind."): 0.25,
    (PROMPT, "Is rude."): -0.125,
  }


@pytest.mark.parametrize(
  "task, text",
  [
    (TASK._replace(rubric=(base.Criterion("Is new.", 1.0),)), "Is new."),
    (TASK._replace(id="b"), "Is kind."),
  ],
  ids=["criterion", "task"],
)
def test_a_judged_criterion_without_threshold_is_named(task, text):
  with pytest.raises(ValueError, match="has no threshold") as error:
    judge_thresholds.of_tasks(FROZEN, [task], "some/file.json")
  for named in (repr(task.id), repr(text), "some/file.json", "calibrate_judge"):
    assert named in str(error.value)


def test_a_prompt_that_changed_since_is_named():
  changed = TASK._replace(prompt=(base.Message("user", "Say b."),))
  with pytest.raises(ValueError, match="The prompt of task 'a' is not the one"):
    judge_thresholds.of_tasks(FROZEN, [changed], "file")


def test_a_task_of_checkers_alone_needs_no_threshold():
  exact = TASK._replace(id="other", rubric=TASK.rubric[1:2])
  assert judge_thresholds.of_tasks(FROZEN, [exact], "file") == {}


@pytest.mark.parametrize(
  "content",
  [
    b"",
    b"[]",
    b"{}",
    b"\xff",
    json.dumps({**json.loads('{"weights_sha256": 1}'), "tasks": 3}).encode(),
  ],
)
def test_a_file_of_another_form_is_refused(tmp_path, content):
  (tmp_path / "file").write_bytes(content)
  with pytest.raises(ValueError, match="not have the form of thresholds"):
    judge_thresholds.load(tmp_path / "file", weights_hash="abc")


@pytest.mark.parametrize("value", ["NaN", "Infinity", '"0.5"', "null", "true"])
def test_a_threshold_that_is_no_finite_number_is_refused(tmp_path, value):
  judge_thresholds.save(FROZEN, tmp_path / "file")
  text = (tmp_path / "file").read_text().replace("0.25", value)
  (tmp_path / "file").write_text(text)
  with pytest.raises(ValueError, match="no finite number"):
    judge_thresholds.load(tmp_path / "file", weights_hash="abc")


def test_a_file_that_is_missing_is_named(tmp_path):
  with pytest.raises(ValueError, match="There are no thresholds at"):
    judge_thresholds.load(tmp_path / "none.json", weights_hash="abc")


def test_a_threshold_lies_one_and_a_half_deviations_above_the_mean():
  # Mean 2; squared deviations 4 + 0 + 4 = 8, over 3 - 1: a deviation of 2.
  gains_N = np.array([0.0, 2.0, 4.0])
  assert judge_thresholds.freeze(gains_N) == pytest.approx(2 + 1.5 * 2)


@pytest.mark.parametrize("gains", [[], [0.5], [0.5, np.nan]])
def test_too_few_gains_freeze_no_threshold(gains):
  with pytest.raises(ValueError, match="at least 2 finite gains"):
    judge_thresholds.freeze(np.array(gains))


def test_the_package_has_a_threshold_for_every_judged_criterion():
  folder = pathlib.Path(bank.__file__).parent / "tasks"
  tasks = bank.load(
    [folder / "train.jsonl", folder / "held_out.jsonl"],
    checkers=checkers.names(),
    validate=checkers.validate,
  ).tasks
  path = folder / "thresholds.json"
  content = json.loads(path.read_text())
  frozen = judge_thresholds.load(path, weights_hash=content["weights_sha256"])
  found = judge_thresholds.of_tasks(frozen, tasks, path)
  judged = sum(c.checker is None for task in tasks for c in task.rubric)
  assert len(found) == judged
  # None is left over of a criterion that has since been rewritten.
  assert sum(len(texts) for _, texts in frozen.tasks.values()) == judged
