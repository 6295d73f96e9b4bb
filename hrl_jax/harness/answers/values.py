"""Checked reading of JSON values that may be anything."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

Thing = TypeVar("Thing")
Found = TypeVar("Found")

_LONGEST = 60
_INERT = "\u200b"
_TYPES = {dict: "an object", list: "a list", bool: "a truth value"}


class UnusableError(ValueError):
  """A part of an answer cannot be used; says where and why, in one line."""


def members(value: Any, place: str, keys: Sequence[str]) -> dict[str, Any]:
  """The members of an object that has these keys and no others."""
  if not isinstance(value, dict):
    raise UnusableError(f"{place} is {shown(value)}, not an object")
  for key in value:
    if key not in keys:
      raise UnusableError(f"{place} has the unknown key {shown(key)}")
  for key in keys:
    if key not in value:
      raise UnusableError(f"{place} lacks {key!r}")
  return value


def entries(
  value: Any,
  place: str,
  known: Mapping[str, Thing],
  read_one: Callable[[Any, str, Thing], Found | None],
  problems: list[str],
) -> tuple[Found, ...]:
  """What is found in an object with an entry for each of some names.

  Args:
    value: maybe such an object.
    place: of it.
    known: what the names stand for.
    read_one: what an entry holds, from the entry, its place and what its name
      stands for; None for nothing.
    problems: where it is put what cannot be used: of keys that are not known
      the first, and every entry that is missing or refused.
  """
  if not isinstance(value, dict):
    problems.append(f"{place} is {shown(value)}, not an object")
    return ()
  unknown = [key for key in value if key not in known]
  if unknown:
    problems.append(f"{place} has the unknown key {shown(unknown[0])}")
  found = []
  for name, thing in known.items():
    try:
      if name not in value:
        raise UnusableError(f"{place} lacks {name!r}")
      found.append(read_one(value[name], f"{place}.{name}", thing))
    except UnusableError as error:
      problems.append(str(error))
  return tuple(each for each in found if each is not None)


def items(value: Any, place: str) -> list[Any]:
  """The items of a list."""
  if not isinstance(value, list):
    raise UnusableError(f"{place} is {shown(value)}, not a list")
  return value


def string(value: Any, place: str) -> str:
  """A text, as it is."""
  if not isinstance(value, str):
    raise UnusableError(f"{place} is {shown(value)}, not a text")
  return value


def text(value: Any, place: str) -> str:
  """A text that says something and that a log can hold.

  The zero-width character after an opening bracket goes: it was ours (see
  `fences.neutralise`), and a model may have copied it.
  """
  value = string(value, place)
  if not value.replace(_INERT, "").strip():
    raise UnusableError(f"{place} is empty")
  if not _is_unicode(value):
    raise UnusableError(f"{place} holds half a surrogate pair")
  for bracket in "<[]":
    value = value.replace(bracket + _INERT, bracket)
  return value


def number(value: Any, place: str) -> float:
  """A finite number."""
  if isinstance(value, int | float) and not isinstance(value, bool):
    try:
      found = float(value)
    except OverflowError:
      found = math.inf
    if math.isfinite(found):
      return found
  raise UnusableError(f"{place} is {shown(value)}, not a finite number")


def named(value: Any, place: str, known: Mapping[Any, Thing]) -> Thing:
  """What a name or number stands for."""
  is_name = isinstance(value, str) or type(value) is int
  if not is_name or value not in known:
    offered = ", ".join(map(str, known)) if known else "none"
    raise UnusableError(
      f"{place} is {shown(value)}, which is not of: {offered}"
    )
  return known[value]


def shown(value: Any) -> str:
  """A value for a problem: short, on one line, never an error."""
  if isinstance(value, str):
    short = value[:_LONGEST] + "..." * (len(value) > _LONGEST)
    return ascii(short)
  if value is None:
    return "null"
  if isinstance(value, float) or (type(value) is int and abs(value) < 10**15):
    return str(value)
  return _TYPES.get(type(value), "a huge number")


def _is_unicode(value: str) -> bool:
  try:
    value.encode()
  except UnicodeEncodeError:
    return False
  return True
