"""Exact checkers: code that decides whether a response meets a criterion.

`text` holds our own; `if_verifiable` those of IFEval and IFBench, under names
such as "ifeval:keywords:existence". The same response, name and arguments
give the same score, in any process and any order of calls.
"""

from collections.abc import Mapping
from typing import Any

from hrl_jax.services.checkers import bounded, contract, registry

CheckerError = contract.CheckerError


def names() -> frozenset[str]:
  """Names that a criterion may give."""
  return frozenset(registry.CHECKERS)


def arguments(name: str) -> frozenset[str]:
  """Names of the arguments that the checker takes, all of them required.

  Raises:
    ValueError: if the name is unknown.
  """
  return frozenset(registry.find(name).kinds)


def validate(name: str, arguments: Mapping[str, Any]) -> None:
  """Makes sure that the checker can run here with these arguments.

  Raises:
    ValueError: if the name is unknown, an argument is missing, unknown or of
      the wrong kind, something that the checker needs is not installed, or a
      regular expression does not end in time.
  """
  checker = registry.find(name)
  contract.check_kinds(name, checker, arguments)
  if checker.has_pattern:
    bounded.prepare(name, arguments)
  else:
    contract.prepare(name, checker, arguments)


def check(name: str, response: str, arguments: Mapping[str, Any]) -> float:
  """The score of a response in [0, 1]: 1 where the criterion is met.

  A response of white space alone meets nothing, be it reward or penalty.

  Args:
    name: of the checker.
    response: any text.
    arguments: keyword arguments of the checker.

  Raises:
    ValueError: as `validate`.
    CheckerError: if the checker cannot decide about this response, or not in
      time. The score is missing then: it is not zero (H-101).
  """
  checker = registry.find(name)
  contract.check_kinds(name, checker, arguments)
  if checker.has_pattern:
    return bounded.decide(name, response, arguments)
  contract.prepare(name, checker, arguments)
  return registry.decide(name, response, arguments)
