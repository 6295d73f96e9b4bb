import json

import numpy as np
import pytest

from hrl_jax.evaluation import report

SUMMARY = {
  "score": 0.5,
  "score_low": 0.25,
  "score_high": 0.75,
  "graded": 2,
  "tasks": 2,
  "length": 12.5,
  "truncated": 0.5,
}


@pytest.fixture
def folder(tmp_path):
  def write(name, records):
    lines = [json.dumps(record) + "\n" for record in records]
    (tmp_path / name).write_text("".join(lines))

  later = {**SUMMARY, "score": 0.75}
  write("evaluation.jsonl", [{"step": 0, **SUMMARY}, {"step": 4, **later}])
  write(
    "answers.jsonl",
    [
      {"step": 0, "task": "a", "score": 0.25},
      {"step": 0, "task": "b", "score": None},
      {"step": 4, "task": "a", "score": 0.75},
      {"step": 4, "task": "b", "score": 0.5},
    ],
  )
  write("metrics.jsonl", [{"step": 0, "reward": 0.1}, {"step": 1, "kl": None}])
  return tmp_path


def test_the_lines_tell_before_after_and_the_paired_change(folder):
  before, after, change = report.lines(folder)
  assert before.startswith("before: held-out score 0.500 [0.250, 0.750]")
  assert "mean length 12.5 tokens, 50% cut" in before
  assert after.startswith("after 4 steps: held-out score 0.750")
  # Task b has no score before: only task a can be compared.
  assert change.startswith("change: +0.500 [+0.500, +0.500]")


def test_a_missing_score_is_nan(folder):
  np.testing.assert_array_equal(report.scores(folder, 0), [0.25, np.nan])


def test_the_curves_are_drawn_although_metrics_are_missing(folder):
  assert report.plot(folder).stat().st_size > 10_000
