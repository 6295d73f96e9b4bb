import numpy as np
import pytest

from hrl_jax.trials import nulls
from tests.harness import makes

A, B = makes.target(0), makes.target(1)
# Rollout 10 to 60 points, rubric 5 to 60.
BANDS = np.array([[10.0, 60.0], [5.0, 60.0]])


def group(a, b):
  """Four rollouts; both criteria have half of the weight."""
  return makes.group({A: a, B: b})


# A is blind; B was met by half and is met by all: 25 points become 50.
RISES = nulls.Seen(
  earlier=group("0000", "1100"),
  recorded=group("0000", "1100"),
  fresh=group("0000", "1111"),
  regraded=group("0000", "1100"),
)
# A has left blind, but the fresh group lacks it; 12.5 points become 0. Graded
# again, a rollout has B: 12.5 points more.
FALLS = nulls.Seen(
  earlier=group("0000", "1111"),
  recorded=group("1000", "0000"),
  fresh=group("0000", "0000"),
  regraded=group("1000", "0100"),
)


def rates(*seen):
  return {each.name: each for each in nulls.rates(seen, BANDS)}


def test_each_kind_is_decided_by_the_critic():
  found = rates(RISES, FALLS)
  add = found["add, any task"]
  assert (add.candidates, add.accepted) == (2, 1)
  assert add.bias == pytest.approx((25 - 12.5) / 2)
  # A fall of 12.5 points is more than the tolerance of 10.
  drop = found["drop by the reward, any task"]
  assert (drop.candidates, drop.accepted) == (2, 1)
  rubric = found["rubric, any task"]
  assert (rubric.candidates, rubric.accepted) == (2, 1)
  assert rubric.bias == pytest.approx(12.5 / 2)


def test_candidates_are_proposed_where_the_recorded_group_asks_for_them():
  found = rates(RISES, FALLS)
  assert found["add, where a criterion is blind"].candidates == 1
  assert found["add, where a criterion is blind"].bias == pytest.approx(25)
  left = found["drop, where a criterion has left blind"]
  assert (left.candidates, left.accepted) == (1, 0)
  # With a reward that holds, the target decides.
  for fresh, accepted in (
    (group("0100", "0000"), 1),
    (group("0000", "1000"), 0),
  ):
    left = rates(FALLS._replace(fresh=fresh))[left.name]
    assert (left.candidates, left.accepted, left.bias) == (1, accepted, 0)


def test_the_table_has_a_line_for_each_kind():
  head, *told = nulls.lines([*nulls.rates([RISES], BANDS)])
  assert "expected" in head
  assert "100.0%      2.5%" in told[0]
  assert "nan%" in told[3]
