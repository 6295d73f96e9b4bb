"""Checkers for the criteria that name one, a judge for the rest."""

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from hrl_jax import base, protocols


class MixedGrader:
  """Divides each rubric between two graders; a `protocols.Grader`."""

  def __init__(self, checker: protocols.Grader, judge: protocols.Grader):
    """Takes the grader of criteria that name a checker, and of the others."""
    self._checker = checker
    self._judge = judge

  def grade(
    self, requests: Iterable[base.GradeRequest]
  ) -> Iterator[base.Grade]:
    """Yields one grade per request, in the judge's order."""
    checked: dict[tuple[int, int], tuple[base.Rubric, base.Grade]] = {}

    def judged() -> Iterator[base.GradeRequest]:
      for request in requests:
        part = _part(request, _checked(request.rubric))
        (grade,) = self._checker.grade([part])
        checked[request.slot, request.rollout] = (request.rubric, grade)
        yield _part(request, _judged(request.rubric))

    for grade in self._judge.grade(judged()):
      rubric, own = checked.pop((grade.slot, grade.rollout))
      yield _merged(rubric, own, grade)


def _checked(rubric: base.Rubric) -> list[int]:
  return [i for i, each in enumerate(rubric) if each.checker is not None]


def _judged(rubric: base.Rubric) -> list[int]:
  return [i for i, each in enumerate(rubric) if each.checker is None]


def _part(
  request: base.GradeRequest, indices: Sequence[int]
) -> base.GradeRequest:
  return request._replace(rubric=tuple(request.rubric[i] for i in indices))


def _merged(
  rubric: base.Rubric, checked: base.Grade, judged: base.Grade
) -> base.Grade:
  """The scores of both, and their failures, by place in the whole rubric."""
  scores_C = np.full(len(rubric), np.nan)
  failures = []
  for indices, grade in (
    (_checked(rubric), checked),
    (_judged(rubric), judged),
  ):
    scores_C[indices] = grade.scores_C
    for failure in grade.failures:
      index = failure.criterion
      whole = None if index is None else indices[index]
      failures.append(failure._replace(criterion=whole))
  return base.Grade(judged.slot, judged.rollout, scores_C, tuple(failures))
