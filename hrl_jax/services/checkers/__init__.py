"""Exact checkers: code that decides whether a response meets a criterion.

`text` holds our own; `if_verifiable` those of IFEval and IFBench, under names
such as "ifeval:keywords:existence". The same response, name and arguments
give the same score, in any process and any order of calls.
"""

from collections.abc import Mapping
from typing import Any

from hrl_jax.services.checkers import contract, if_verifiable, text

CheckerError = contract.CheckerError

_CHECKERS: Mapping[str, contract.Checker] = {
  **text.CHECKERS,
  **if_verifiable.CHECKERS,
}


def names() -> frozenset[str]:
  """Names that a criterion may give."""
  return frozenset(_CHECKERS)


def arguments(name: str) -> frozenset[str]:
  """Names of the arguments that the checker takes, all of them required.

  Raises:
    ValueError: if the name is unknown.
  """
  return frozenset(_checker(name).kinds)


def validate(name: str, arguments: Mapping[str, Any]) -> None:
  """Makes sure that the checker can run here with these arguments.

  Raises:
    ValueError: if the name is unknown, an argument is missing, unknown or of
      the wrong kind, or something that the checker needs is not installed.
  """
  contract.check_arguments(name, _checker(name), arguments)


def check(name: str, response: str, arguments: Mapping[str, Any]) -> float:
  """The score of a response in [0, 1]: 1 where the criterion is met.

  A response of white space alone meets nothing, be it reward or penalty.

  Args:
    name: of the checker.
    response: any text.
    arguments: keyword arguments of the checker.

  Raises:
    ValueError: as `validate`.
    CheckerError: if the checker cannot decide about this response. The score
      is missing then: it is not zero (H-101).
  """
  validate(name, arguments)
  if not response.strip():
    return 0.0
  try:
    return float(_checker(name).decide(response, arguments))
  except Exception as error:
    raise CheckerError(
      f"Checker {name!r} cannot decide about a response of {len(response)} "
      f"characters, {ascii(response)[:80]}: {type(error).__name__}: {error}. "
      "The score is missing."
    ) from error


def _checker(name: str) -> contract.Checker:
  if name not in _CHECKERS:
    raise ValueError(
      f"Unknown checker {name!r}. hrl_jax.services.checkers.names() lists "
      f"the {len(_CHECKERS)} known ones."
    )
  return _CHECKERS[name]
