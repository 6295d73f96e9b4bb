import json

import numpy as np
import pytest

from hrl_jax.evaluation import report
from hrl_jax.harness import records

SUMMARY = {
  "score": 0.5,
  "score_low": 0.25,
  "score_high": 0.75,
  "graded": 2,
  "tasks": 2,
  "length": 12.5,
  "truncated": 0.5,
  "checked": 0.5,
  "judged": None,
}
STEP = {
  "step": 0,
  "rollouts": 32,
  "missing_rollouts": 0,
  "groups": 4,
  "thin_groups": 0,
  "reward": 0.1,
}


def write(path, records):
  path.write_text("".join(json.dumps(record) + "\n" for record in records))


@pytest.fixture
def folder(tmp_path):
  later = {**SUMMARY, "score": 0.75}
  write(
    tmp_path / "evaluation.jsonl",
    [{"step": 0, **SUMMARY}, {"step": 4, **later}],
  )
  write(
    tmp_path / "answers.jsonl",
    [
      {"step": 0, "task": "a", "score": 0.25, "checked": 0.5, "judged": 0},
      {"step": 0, "task": "b", "score": None, "checked": 0.5, "judged": None},
      {"step": 4, "task": "a", "score": 0.75, "checked": 0.75, "judged": 1},
      {"step": 4, "task": "b", "score": 0.5, "checked": 1.0, "judged": 1},
    ],
  )
  write(tmp_path / "metrics.jsonl", [STEP, {**STEP, "kl": None}])
  write(tmp_path / "failures.jsonl", [])
  return tmp_path


def test_the_lines_tell_before_after_and_the_paired_change(folder):
  before, after, change = report.lines(folder)
  assert before.startswith("before: held-out score 0.500 [0.250, 0.750]")
  assert "mean length 12.5 tokens, 50% cut" in before
  assert after.startswith("after 4 steps: held-out score 0.750")
  # Task b has no score before: only task a can be compared.
  assert change.startswith("change: +0.500 [+0.500, +0.500]")


def test_checked_and_judged_criteria_are_told_apart(folder):
  evaluations = [{"step": step, **SUMMARY, "judged": 0.5} for step in (0, 4)]
  write(folder / "evaluation.jsonl", evaluations)
  *_, checked, judged = report.lines(folder)
  # (0.75 - 0.5 + 1 - 0.5) / 2; of task b no judged score is known before.
  assert checked.startswith("  by checked criteria alone: +0.375 [")
  assert judged.startswith("  by judged criteria alone: +1.000 [")


def test_what_was_lost_is_told_with_its_reasons(folder):
  lossy = {**STEP, "missing_rollouts": 2, "thin_groups": 1}
  write(folder / "metrics.jsonl", [STEP, lossy])
  reasons = [{"reason": "HTTP 500 (4 tries)"}] * 2 + [{"reason": "cut"}]
  write(folder / "failures.jsonl", reasons)
  _, _, _, lost, most, least = report.lines(folder)
  assert lost == (
    "lost in training: 2 of 64 rollouts have no reward, 1 of 8 groups were too "
    "thin to train on (MORE THAN 1 %)"
  )
  assert most == "  2 times: HTTP 500 (4 tries)"
  assert least == "  1 times: cut"


def test_tasks_that_were_always_thin_are_listed(folder):
  def labels(step, task, code):
    return records.Labels(
      step, task, ("g",), (), code, "rules", None, is_saturated=False
    )

  log = [
    records.Header("bank"),
    labels(0, "a", "thin_group"),
    labels(0, "b", "thin_group"),
    labels(1, "b", "labelled"),
    labels(2, "b", "thin_group"),
    labels(2, "c", "labelled"),
  ]
  (folder / "memory").mkdir()
  path = folder / "memory" / "log.jsonl"
  path.write_bytes(b"".join(map(records.encode, log)))
  assert report.lines(folder)[-1] == (
    "1 tasks had too few graded rollouts in every draw, so their harness never "
    "changed: a"
  )
  path.write_bytes(b"".join(map(records.encode, log[3:])))
  assert len(report.lines(folder)) == 3


def test_a_missing_score_is_nan(folder):
  np.testing.assert_array_equal(report.scores(folder, 0), [0.25, np.nan])


def test_the_curves_are_drawn_although_metrics_are_missing(folder):
  assert report.plot(folder).stat().st_size > 10_000
