import numpy as np
import pytest

from hrl_jax import base
from hrl_jax import evidence as evidences
from hrl_jax.evaluation import parts

pytestmark = pytest.mark.core

RUBRIC = (
  base.Criterion("c", 2.0, checker="no_list"),
  base.Criterion("j", 3.0),
  base.Criterion("d", 2.0, checker="no_list"),
  base.Criterion("p", -1.0),
)


def evidence(rubric, *scores_GC):
  slot = base.Slot(0, 0, 1.0, rubric, (0,) * len(scores_GC), (0, 0))
  plan = base.Plan(((base.Message("user", "?"),),), (slot,), 1)
  rollout = base.Rollout(0, 0, 0, 0, "", 0, None)
  graded = {
    (0, index): (rollout._replace(index=index), np.array(scores_C, float))
    for index, scores_C in enumerate(scores_GC)
  }
  groups = list(evidences.groups(plan, [0], graded))
  return evidences.evidence(base.Occasion(0, "test"), plan, groups, [], [])


def test_each_part_is_a_reward_of_its_own():
  found = parts.by_grader(evidence(RUBRIC, [1, 1, 0, 1], [0.5, 0, 1, 0]))
  # Checked: 2 / 4 and (1 + 2) / 4. Judged: (3 - 1) / 3 and 0 / 3.
  np.testing.assert_allclose(found["checked"], [[0.5, 0.75]])
  np.testing.assert_allclose(found["judged"], [[2 / 3, 0.0]])


def test_what_the_judge_lost_is_missing_in_its_part_only():
  found = parts.by_grader(evidence(RUBRIC, [1, np.nan, 1, 0], [0, 1, 0, 0]))
  np.testing.assert_allclose(found["checked"], [[1.0, 0.0]])
  np.testing.assert_array_equal(found["judged"], [[np.nan, 1.0]])


def test_a_part_without_positive_weight_is_missing():
  rubric = (RUBRIC[0], RUBRIC[3])
  found = parts.by_grader(evidence(rubric, [1, 1], [1, 0]))
  np.testing.assert_array_equal(found["judged"], [[np.nan, np.nan]])
  np.testing.assert_array_equal(found["checked"], [[1.0, 1.0]])


def test_no_group_gives_no_part():
  nothing = evidence(RUBRIC, [1, 1, 1, 1], [0, 0, 0, 0])._replace(
    groups=(), rewards_PG=np.zeros((0, 2))
  )
  assert parts.by_grader(nothing)["judged"].shape == (0, 2)
