import dataclasses

import numpy as np
import pytest

from hrl_jax import base, protocols
from hrl_jax.lab import judge
from hrl_jax.services import checker_grader, mixed_grader
from tests.lab import worlds

WORLD = worlds.small()
CERTAIN = WORLD._replace(
  parameters=dataclasses.replace(worlds.SMALL, flips=0.0)
)
NOISY = WORLD._replace(parameters=dataclasses.replace(worlds.SMALL, flips=0.3))
GOLD = base.Criterion("Mentions gold.", 2.0)
SHORT = base.Criterion("Is brief, with at most 2 words.", -1.0)


def request(response="gold amber", rubric=(GOLD, SHORT), **changes):
  return base.GradeRequest(
    occasion=base.Occasion(3, "train"),
    slot=5,
    rollout=1,
    attempt=0,
    prompt=(base.Message("user", "Explain in science: fox"),),
    response=response,
    rubric=tuple(rubric),
  )._replace(**changes)


def scores(world, *requests):
  grades = list(judge.LabJudge(world).grade(iter(requests)))
  return np.array([grade.scores_C for grade in grades])


def test_it_is_a_grader():
  assert isinstance(judge.LabJudge(WORLD), protocols.Grader)


def test_without_flips_it_is_exact():
  np.testing.assert_array_equal(
    scores(CERTAIN, request(), request("amber amber amber"), request("")),
    [[1, 1], [0, 0], [0, 1]],
  )


def test_grades_name_their_rollout():
  (grade,) = judge.LabJudge(CERTAIN).grade([request(slot=7, rollout=4)])
  assert (grade.slot, grade.rollout, grade.failures) == (7, 4, ())
  assert grade.scores_C.dtype == np.float64


# What every response meets.
MANY = [
  base.Criterion(f"Is brief, with at most {count} words.", 1.0)
  for count in range(2, 25)
]


def test_flips_come_at_their_rate():
  requests = [
    request(rubric=MANY, slot=slot, rollout=rollout)
    for slot in range(400)
    for rollout in range(8)
  ]
  flipped = scores(NOISY, *requests) != 1
  # Three standard deviations of a share of 3,200 * 23: 0.0051.
  assert abs(flipped.mean() - 0.3) < 0.0051


def test_flips_of_one_response_are_independent():
  requests = [
    request(rubric=MANY, slot=slot, rollout=rollout)
    for slot in range(100)
    for rollout in range(8)
  ]
  flipped = (scores(NOISY, *requests) != 1).sum(axis=1)
  # Binomial(23, 0.3): variance 23 * 0.3 * 0.7 = 4.83, whose own standard
  # deviation over 800 responses is 4.83 * sqrt(2 / 800) = 0.24.
  assert abs(flipped.var() - 4.83) < 0.75


@pytest.mark.parametrize(
  "changes",
  [
    {"occasion": base.Occasion(4, "train")},
    {"occasion": base.Occasion(3, "evaluation")},
    {"slot": 6},
    {"rollout": 2},
    {"attempt": 1},
  ],
)
def test_another_grading_is_another_draw(changes):
  one = scores(NOISY, request(rubric=MANY))
  other = scores(NOISY, request(rubric=MANY, **changes))
  # Of 23 verdicts 2 * 0.3 * 0.7 differ, 9.7 of them; no less than 3 is sure.
  assert (one != other).sum() >= 3
  np.testing.assert_array_equal(
    other, scores(NOISY, request(rubric=MANY, **changes))
  )


def test_a_flip_asks_neither_for_the_response_nor_for_the_other_criteria():
  alone = scores(NOISY, *(request(rubric=[SHORT], slot=s) for s in range(200)))
  beside = scores(NOISY, *(request(slot=s) for s in range(200)))
  np.testing.assert_array_equal(alone[:, 0], beside[:, 1])
  longer = scores(
    NOISY,
    *(request("gold gold gold", rubric=[SHORT], slot=s) for s in range(200)),
  )
  np.testing.assert_array_equal(alone, 1 - longer)


def test_another_world_flips_others():
  other = worlds.small(seed=4)._replace(parameters=NOISY.parameters)
  requests = [request(slot=slot) for slot in range(200)]
  assert (scores(NOISY, *requests) != scores(other, *requests)).any()


def test_what_it_cannot_decide_is_missing_with_a_reason():
  kind = base.Criterion("Is kind.", 1.0)
  (grade,) = judge.LabJudge(CERTAIN).grade([request(rubric=(GOLD, kind))])
  np.testing.assert_array_equal(grade.scores_C, [1, np.nan])
  (failure,) = grade.failures
  assert (failure.slot, failure.rollout, failure.criterion) == (5, 1, 1)
  assert "Is kind." in failure.reason
  assert failure.raw == "gold amber"


def test_a_criterion_with_a_checker_is_not_its_business():
  checked = base.Criterion(
    "Says gold.", 1.0, "mentions_any", {"phrases": ["gold"]}
  )
  lab = judge.LabJudge(CERTAIN)
  with pytest.raises(ValueError, match="names the checker 'mentions_any'"):
    list(lab.grade([request(rubric=(checked,))]))
  mixed = mixed_grader.MixedGrader(checker_grader.CheckerGrader(), lab)
  (grade,) = mixed.grade([request(rubric=(checked, SHORT))])
  np.testing.assert_array_equal(grade.scores_C, [1, 1])
