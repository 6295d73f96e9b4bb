import numpy as np
import pytest

from hrl_jax import base
from hrl_jax.harness import records, rubrics, terms
from hrl_jax.methods.harnessrl import recording
from tests import fakes

pytestmark = pytest.mark.core

TASK = fakes.task("t", "p", ("Has a.", 3.0), ("Has d.", -1.0))
RUBRIC = rubrics.seed(TASK)
NAN = np.nan


def seen(scores_GC, rewards_G):
  rollouts = tuple(
    base.Rollout(
      slot=5,
      index=index,
      sampled_under=0,
      trained_under=0,
      text=f"text {index}",
      seed=index,
      completion=base.Completion(
        index,
        np.arange(index + 1, dtype=np.int32),
        np.zeros(index + 1, np.float32),
        np.zeros(index + 1, np.float32),
        "stop",
        weights_version=7,
      ),
    )
    for index in range(len(scores_GC))
  )
  rewards_G = np.array(rewards_G)
  return base.Group(
    5, rollouts, np.array(scores_GC), rewards_G, ~np.isnan(rewards_G), "trained"
  )


def group(scores_GC, rewards_G, **facts):
  known = {
    "id": "train:4:5",
    "kind": "train",
    "step": 4,
    "task": "t",
    "rubric": RUBRIC,
    "fields": (),
    "is_guided": [False] * len(scores_GC),
    "importance": 0.5,
  }
  return recording.group(seen(scores_GC, rewards_G), **{**known, **facts})


def test_a_record_says_everything_about_its_rollouts():
  field = terms.Field("criterion", (("t#0", 0),), "Has a.", (), 1)
  made = group(
    [[1.0, 0.0], [0.0, 1.0], [NAN, 0.0]],
    [1.0, -1 / 3, NAN],
    fields=[field],
    is_guided=[True, True, False],
  )
  assert (made.slot, made.step, made.task, made.kind) == (5, 4, "t", "train")
  assert made.weights_version == 7
  assert made.criteria == (("t#0", 0), ("t#1", 0))
  assert made.weights == (3.0, -1.0)
  assert (made.fields, made.importance) == ((field,), 0.5)
  # max(2, 3 / 2).
  assert made.minimum_valid == 2
  assert made.rollouts[1] == records.Rollout(
    "text 1", 2, "stop", -1 / 3, (0.0, 1.0), True
  )


def test_what_is_missing_is_none_in_the_log_and_nan_in_arrays():
  made = group([[1.0, 0.0], [NAN, 0.0]], [1.0, NAN])
  assert made.rollouts[1].reward is None
  assert made.rollouts[1].scores == (None, 0.0)
  np.testing.assert_array_equal(recording.rewards_of(made), [1.0, NAN])
  np.testing.assert_array_equal(
    recording.scores_of(made), [[1.0, 0.0], [NAN, 0.0]]
  )


def test_a_regrade_weighs_the_new_scores_by_the_new_rubric():
  before = group([[1.0, 0.0], [0.0, 1.0]], [1.0, -1 / 3])
  added = terms.Version("t#2", 0, "Has b.", 1, "create", step=4)
  rubric = RUBRIC._replace(
    entries=(*RUBRIC.entries, rubrics.Entry(added, 1.0)), version=1
  )
  # Positive weights 3 and 1 are scaled to the seed's sum of 3: 2.25 and 0.75.
  scores_GC = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, NAN]])
  after = recording.regraded(before, scores_GC, rubric, id="regrade:x")
  assert (after.kind, after.id) == ("regrade", "regrade:x")
  assert after.criteria[-1] == ("t#2", 0)
  assert after.weights == (2.25, -1.0, 0.75)
  assert after.rollouts[0].reward == 0.75
  assert after.rollouts[1].reward is None
  assert after.importance is None
  same = ("step", "slot", "task", "weights_version", "minimum_valid")
  assert all(getattr(after, n) == getattr(before, n) for n in same)
  assert [r.text for r in after.rollouts] == ["text 0", "text 1"]
