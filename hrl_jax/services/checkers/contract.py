"""What a checker is, what it takes, and how it fails."""

import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from hrl_jax.data import jsonl


class CheckerError(RuntimeError):
  """A checker could not decide about a response: the score is missing."""


class Kind(NamedTuple):
  """The values that an argument takes.

  Attributes:
    meaning: completes "must be".
    accepts: True for the values of the kind.
  """

  meaning: str
  accepts: Callable[[Any], bool]


Arguments = Mapping[str, Any]


class Checker(NamedTuple):
  """One exact checker.

  Attributes:
    kinds: of each of its arguments; all are required.
    decide: `decide(response, arguments)`, True where the criterion is met;
      never called with a response of white space alone.
    prepare: `prepare(arguments)` raises ValueError where arguments of the
      right kinds cannot be used all the same.
    has_pattern: whether an argument is a regular expression, which may never
      end: `bounded` runs the checker then.
  """

  kinds: Mapping[str, Kind]
  decide: Callable[[str, Arguments], bool]
  prepare: Callable[[Arguments], None]
  has_pattern: bool = False


def keyword(
  function: Callable[..., bool],
  kinds: Mapping[str, Kind],
  prepare: Callable[[Arguments], None] = lambda arguments: None,
) -> Checker:
  """The checker that calls `function(response, **arguments)`."""
  return Checker(
    kinds, lambda response, arguments: function(response, **arguments), prepare
  )


def one_of(*values: str) -> Kind:
  """The kind of the given texts."""
  return Kind(
    f"one of {list(values)}",
    lambda value: isinstance(value, str) and value in values,
  )


def whole_number(lowest: int) -> Kind:
  """The kind of the whole numbers from the lowest on."""
  return Kind(
    f"a whole number of at least {lowest}",
    lambda value: (
      isinstance(value, int) and not isinstance(value, bool) and value >= lowest
    ),
  )


def _is_text(value: Any) -> bool:
  return isinstance(value, str) and bool(value.strip())


def _is_phrase(value: Any) -> bool:
  return isinstance(value, str) and any(map(str.isalnum, value))


def _is_pattern(value: Any) -> bool:
  if not _is_text(value):
    return False
  try:
    re.compile(value)
  except (re.error, RecursionError, OverflowError, ValueError):
    return False
  return True


def _is_share(value: Any) -> bool:
  is_number = isinstance(value, int | float) and not isinstance(value, bool)
  return is_number and 0 <= value < 1


# Over these a repetition inside a repetition shows how long it takes.
PROBES = (
  "a first sentence, with a comma. a second one has 2 halves.",
  "A FIRST SENTENCE, WITH A COMMA. A SECOND ONE HAS 2 HALVES.",
  *(
    f"{unit * (58 // len(unit))}\x00" for unit in ("a", "1", " ", "ab ", "a, ")
  ),
)

TEXT = Kind("a text that is not empty", _is_text)
TEXTS = Kind(
  "a list of texts, none empty",
  lambda value: (
    isinstance(value, list) and bool(value) and all(map(_is_text, value))
  ),
)
PHRASES = Kind(
  "a list of phrases, each with a letter or digit",
  lambda value: (
    isinstance(value, list) and bool(value) and all(map(_is_phrase, value))
  ),
)
LETTER = Kind(
  "one letter from a to z",
  lambda value: (
    isinstance(value, str)
    and len(value) == 1
    and value.isascii()
    and value.isalpha()
  ),
)
PATTERN = Kind("a regular expression", _is_pattern)
SHARE = Kind("a number from 0 to below 1", _is_share)


def check_kinds(name: str, checker: Checker, arguments: Arguments) -> None:
  """Raises ValueError unless names and kinds of the arguments are right."""
  missing = sorted(checker.kinds.keys() - arguments.keys())
  unknown = sorted(map(str, arguments.keys() - checker.kinds.keys()))
  if missing or unknown:
    raise ValueError(
      f"Checker {name!r} takes exactly the arguments {sorted(checker.kinds)}; "
      f"missing are {missing}, unknown {jsonl.shown(unknown)}."
    )
  for key, kind in checker.kinds.items():
    if not kind.accepts(arguments[key]):
      raise ValueError(
        f"Checker {name!r}: {key} must be {kind.meaning}, got "
        f"{jsonl.shown(arguments[key])}."
      )


def prepare(name: str, checker: Checker, arguments: Arguments) -> None:
  """Raises ValueError if arguments of the right kinds cannot be used."""
  try:
    checker.prepare(arguments)
  except ValueError as error:
    raise ValueError(f"Checker {name!r}: {error}") from error


def undecided(name: str, response: str, reason: str) -> str:
  """Returns the message of a `CheckerError`."""
  return (
    f"Checker {name!r} cannot decide about a response of {len(response)} "
    f"characters, {jsonl.shown(response)}: {reason}. The score is missing."
  )
