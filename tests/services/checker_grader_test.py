import numpy as np
import pytest

from hrl_jax import base
from hrl_jax.services import checker_grader


def request(response, *rubric):
  return base.GradeRequest(
    occasion=base.Occasion(0, "test"),
    slot=3,
    rollout=1,
    attempt=0,
    prompt=(base.Message("user", "Say yes."),),
    response=response,
    rubric=rubric,
  )


YES = base.Criterion("Says yes.", 1.0, "mentions_any", {"phrases": ["yes"]})
SHORT = base.Criterion(
  "Is short.", 1.0, "word_count", {"minimum": 1, "maximum": 2}
)


def grades(*requests):
  return list(checker_grader.CheckerGrader().grade(iter(requests)))


def test_every_criterion_is_checked_in_order():
  first, second = grades(
    request("Yes, with many words.", YES, SHORT), request("no", YES, SHORT)
  )
  assert (first.slot, first.rollout) == (3, 1)
  np.testing.assert_array_equal(first.scores_C, [1.0, 0.0])
  np.testing.assert_array_equal(second.scores_C, [0.0, 1.0])
  assert first.failures == ()


def test_a_checker_that_cannot_decide_leaves_its_score_missing(monkeypatch):
  from hrl_jax.services import checkers

  def check(name, response, arguments):
    if name == "word_count":
      raise checkers.CheckerError("cannot count")
    return 1.0

  monkeypatch.setattr(checker_grader.checkers, "check", check)
  (grade,) = grades(request("yes", YES, SHORT))
  np.testing.assert_array_equal(grade.scores_C, [1.0, np.nan])
  (failure,) = grade.failures
  assert (failure.slot, failure.rollout, failure.criterion) == (3, 1, 1)
  assert failure.raw == "yes"
  assert "cannot count" in failure.reason


def test_a_judged_criterion_is_refused():
  with pytest.raises(ValueError, match="names no checker"):
    grades(request("yes", base.Criterion("Is kind.", 1.0)))
