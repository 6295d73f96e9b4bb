"""The judge of the lab: exact checkers whose verdicts are sometimes turned.

A turned verdict stands for the noise of a judging model (H-17). Whether one is
turned depends on the world's seed, on what is graded and on the statement, and
on nothing else: it is the same in every method, and after a resume, and another
one when a response is graded again.
"""

import hashlib
from collections.abc import Iterable, Iterator

import numpy as np

from hrl_jax import base
from hrl_jax.lab import language
from hrl_jax.lab import world as worlds

_UNIT = 2.0**-64


class LabJudge:
  """Decides the sentences of the lab; a `protocols.Grader`.

  A sentence that is none of `lab.language` has no score.
  """

  def __init__(self, world: worlds.World):
    """Makes the judge of a world."""
    self._seed = world.seed
    self._flips = world.parameters.flips

  def grade(
    self, requests: Iterable[base.GradeRequest]
  ) -> Iterator[base.Grade]:
    """Yields one grade per request, as they come.

    Raises:
      ValueError: if a criterion names a checker: that is exact, and not
        judged.
    """
    for request in requests:
      words = language.words(request.response)
      turned = _Turned(self._seed, request, self._flips)
      scores_C = np.full(len(request.rubric), np.nan)
      failures = []
      for index, criterion in enumerate(request.rubric):
        checker = _checker(criterion)
        if checker is None:
          failures.append(_undecided(request, index, criterion.text))
        else:
          scores_C[index] = checker(words) ^ turned(criterion.text)
      yield base.Grade(request.slot, request.rollout, scores_C, tuple(failures))


class _Turned:
  """Which verdicts of one grading are turned round."""

  def __init__(self, seed: int, request: base.GradeRequest, rate: float):
    occasion = (
      seed,
      request.occasion.step,
      request.occasion.purpose,
      request.slot,
      request.rollout,
      request.attempt,
    )
    self._hash = hashlib.blake2b(repr(occasion).encode(), digest_size=8)
    self._rate = rate

  def __call__(self, text: str) -> bool:
    own = self._hash.copy()
    own.update(text.encode())
    return int.from_bytes(own.digest(), "big") * _UNIT < self._rate


def _checker(criterion: base.Criterion) -> language.Checker | None:
  if criterion.checker is not None:
    raise ValueError(
      f"Criterion {criterion.text!r} names the checker {criterion.checker!r}, "
      "which decides it exactly. Grade it with services.mixed_grader."
    )
  return language.checker(criterion.text)


def _undecided(
  request: base.GradeRequest, index: int, text: str
) -> base.Failure:
  return base.Failure(
    request.slot,
    request.rollout,
    index,
    f"Nothing in the lab decides {text!r}.",
    request.response,
  )
