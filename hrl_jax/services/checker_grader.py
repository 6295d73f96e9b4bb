"""The grader of criteria that name an exact checker."""

from collections.abc import Iterable, Iterator

import numpy as np

from hrl_jax import base
from hrl_jax.services import checkers


class CheckerGrader:
  """Runs the checker of every criterion, in this process.

  A `protocols.Grader`. A checker that cannot decide leaves its score missing.
  """

  def grade(
    self, requests: Iterable[base.GradeRequest]
  ) -> Iterator[base.Grade]:
    """Yields one grade per request, as they come.

    Raises:
      ValueError: if a criterion names no checker, or an unknown one.
    """
    for request in requests:
      scores_C = np.full(len(request.rubric), np.nan)
      failures = []
      for index, criterion in enumerate(request.rubric):
        if criterion.checker is None:
          raise ValueError(
            f"Criterion {criterion.text!r} names no checker, and no judge is "
            "configured. Name a checker, or drop judged criteria from the bank "
            "with data.bank.without_judged."
          )
        try:
          scores_C[index] = checkers.check(
            criterion.checker, request.response, criterion.arguments
          )
        except checkers.CheckerError as error:
          failures.append(
            base.Failure(
              request.slot,
              request.rollout,
              index,
              str(error),
              request.response,
            )
          )
      yield base.Grade(request.slot, request.rollout, scores_C, tuple(failures))
