import numpy as np
import pytest

from hrl_jax.lab import quality
from hrl_jax.lab import world as worlds
from hrl_jax.lab.parameters import Parameters

pytestmark = pytest.mark.core

WORLD = worlds.draw(0, Parameters())
TASK = next(task.id for task in WORLD.train if len(WORLD.asked[task.id]) == 4)
FIRST, SECOND, THIRD, FOURTH = WORLD.facts(TASK)
WRONG = WORLD.questions[WORLD.asked[TASK][0]].misconception


@pytest.mark.parametrize(
  ("response", "expected"),
  [
    # All four facts, in whichever order.
    (f"{FOURTH} {FIRST} {THIRD} {SECOND}", 1.0),
    (f"{FIRST} {SECOND}", 2 / 4),
    # One of two facts is wrong: 1/4 - 0.5 * 1/2.
    (f"{FIRST} {WRONG}", 0.0),
    (WRONG, -0.5),
    ("", 0.0),
    # Praise and claims are worth nothing and cost nothing.
    (f"great {FIRST} complete", 1 / 4),
    # Four words of filler, two of them said before: 1/4 - 0.04 - 0.02.
    (f"{FIRST} quite really really really", 1 / 4 - 0.04 - 0.02),
    # A fact is counted once; saying it again is repetition.
    (f"{FIRST} {FIRST}", 1 / 4 - 0.01),
    ("unheard of", 0.0),
  ],
)
def test_quality_by_hand(response, expected):
  assert quality.quality(WORLD, TASK, response) == pytest.approx(expected)


def test_facts_of_each_sort_are_counted_by_hand():
  asked = [WORLD.questions[word] for word in WORLD.asked[TASK]]
  unknown = [q.fact for q in asked if q.knowledge == 0]
  neglected = [q.fact for q in asked if q.knowledge > 0 and q.is_neglected]
  covered = [q.fact for q in asked if q.is_covered]
  assert len(unknown) + len(neglected) + len(covered) == 4
  said = quality.named(WORLD, TASK, f"{unknown[0]} {covered[0]} {WRONG}")
  assert said.unknown == 1 / len(unknown)
  assert said.covered == 1 / len(covered)
  if neglected:
    assert said.neglected == 0
  else:
    assert np.isnan(said.neglected)


def test_it_stays_within_its_bounds():
  expensive = WORLD._replace(
    parameters=Parameters(wrong_cost=3.0, filler_cost=1.0)
  )
  assert quality.quality(expensive, TASK, f"{WRONG} quite") == -1.0


def test_the_order_has_ties():
  responses = [
    f"{FIRST} {SECOND}",
    f"great {THIRD} {FOURTH}",
    f"{FIRST}",
    f"{WRONG}",
  ]
  qualities = quality.qualities(WORLD, TASK, responses)
  # Two facts each, then one, then a wrong one.
  np.testing.assert_array_equal(
    quality.order(qualities),
    [[0, 0, 1, 1], [0, 0, 1, 1], [-1, -1, 0, 1], [-1, -1, -1, 0]],
  )


def test_many_groups_are_ordered_at_once():
  quality_PG = np.array([[0.1, 0.2, 0.1], [1.0, 0.0, -1.0]])
  order_PGG = quality.order(quality_PG)
  assert order_PGG.shape == (2, 3, 3)
  for own_GG, quality_G in zip(order_PGG, quality_PG, strict=True):
    np.testing.assert_array_equal(own_GG, quality.order(quality_G))
  np.testing.assert_array_equal(order_PGG, -order_PGG.swapaxes(1, 2))


def test_sums_that_are_equal_by_the_formula_tie():
  # 0.5 - 0.03 - 0.01 and 0.5 - 0.04 differ in their last bit.
  assert 0.5 - 0.03 - 0.01 != 0.5 - 0.04
  one, two = quality.qualities(
    WORLD,
    TASK,
    [
      f"{FIRST} {SECOND} quite really really",
      f"{FIRST} {SECOND} indeed quite really simply",
    ],
  )
  assert one == two == 0.46


def test_an_unknown_task_is_refused():
  with pytest.raises(ValueError, match="no task 'x'"):
    quality.quality(WORLD, "x", "amber")
