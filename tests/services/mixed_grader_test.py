import numpy as np
import pytest

from hrl_jax import base
from hrl_jax.services import checker_grader, mixed_grader
from tests import fakes

pytestmark = pytest.mark.core

CHECKED = base.Criterion("Has an a.", 1.0, "contains_pattern", {"pattern": "a"})
JUDGED = base.Criterion("Is kind.", 2.0)
RUDE = base.Criterion("Is rude.", -1.0)


def request(rubric, slot=0, rollout=0, response="abc"):
  return base.GradeRequest(
    occasion=base.Occasion(0, "test"),
    slot=slot,
    rollout=rollout,
    attempt=0,
    prompt=(base.Message("user", "?"),),
    response=response,
    rubric=rubric,
  )


class Judge(fakes.FakeGrader):
  """Finds everything kind and nothing rude; answers in reverse order.

  Loses the last criterion of a response that holds an "x".
  """

  def __init__(self):
    super().__init__(lambda text, response: float(text == "Is kind."))
    self.asked = []

  def grade(self, requests):
    requests = list(requests)
    self.asked += [r.rubric for r in requests]
    for asked, grade in reversed(
      list(zip(requests, super().grade(requests), strict=True))
    ):
      if "x" in asked.response and asked.rubric:
        last = len(asked.rubric) - 1
        grade.scores_C[last] = np.nan
        lost = base.Failure(asked.slot, asked.rollout, last, "lost", "raw")
        grade = grade._replace(failures=(lost,))
      yield grade


def grade(judge, *requests):
  grader = mixed_grader.MixedGrader(checker_grader.CheckerGrader(), judge)
  return {(g.slot, g.rollout): g for g in grader.grade(iter(requests))}


def test_each_criterion_has_the_score_of_its_grader():
  judge = Judge()
  found = grade(
    judge,
    request((RUDE, CHECKED, JUDGED)),
    request((JUDGED, CHECKED), slot=1, response="b"),
  )
  np.testing.assert_array_equal(found[0, 0].scores_C, [0, 1, 1])
  np.testing.assert_array_equal(found[1, 0].scores_C, [1, 0])
  assert judge.asked == [(RUDE, JUDGED), (JUDGED,)]


def test_a_rubric_of_one_kind_works_too():
  found = grade(Judge(), request((CHECKED,)), request((JUDGED,), rollout=1))
  np.testing.assert_array_equal(found[0, 0].scores_C, [1])
  np.testing.assert_array_equal(found[0, 1].scores_C, [1])


def test_failures_name_the_place_in_the_whole_rubric():
  bad = base.Criterion("?", 1.0, "contains_pattern", {"pattern": "a"})
  found = grade(Judge(), request((JUDGED, CHECKED, bad, RUDE), response="x"))
  np.testing.assert_array_equal(found[0, 0].scores_C, [1, 0, 0, np.nan])
  (lost,) = found[0, 0].failures
  assert lost.criterion == 3 and lost.raw == "raw"


def test_a_loss_of_the_whole_response_stays_whole():
  class Lost(Judge):
    def grade(self, requests):
      for asked in requests:
        lost = base.Failure(asked.slot, asked.rollout, None, "late")
        yield base.Grade(
          asked.slot, asked.rollout, np.full(len(asked.rubric), np.nan), (lost,)
        )

  found = grade(Lost(), request((CHECKED, JUDGED)))
  np.testing.assert_array_equal(found[0, 0].scores_C, [1, np.nan])
  assert found[0, 0].failures[0].criterion is None


def test_the_judge_is_fed_one_by_one():
  pulled = []

  def requests():
    for rollout in range(3):
      pulled.append(rollout)
      yield request((CHECKED, JUDGED), rollout=rollout)

  judge = fakes.FakeGrader(lambda text, response: 1.0)
  grader = mixed_grader.MixedGrader(checker_grader.CheckerGrader(), judge)
  grades = grader.grade(requests())
  next(grades)
  assert pulled == [0]
