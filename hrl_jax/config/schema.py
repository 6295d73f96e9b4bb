"""Frozen dataclasses that check themselves, made from nested mappings.

A section is a frozen dataclass of knobs without defaults. Its annotations say
what each knob may be, `within` and `one_of` which values it may take; a
mapping with a knob too many or too few is refused by name.
"""

import dataclasses
import difflib
import json
import math
import re
import types
import typing
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, ClassVar, Literal, TypeVar

from hrl_jax.data import jsonl

# Deeper than any knob, and well within what Python can walk through.
_DEEPEST = 32
_WIDEST = 2**63
_PAIR = re.compile("[\ud800-\udbff][\udc00-\udfff]")


def within(interval: str) -> Any:
  """A number in an interval, written as in mathematics: `(0, 1]`."""
  return dataclasses.field(metadata={"interval": interval})


def one_of(names: Iterable[str]) -> Any:
  """One of the names, such as the keys of a table of functions."""
  return dataclasses.field(metadata={"names": tuple(names)})


class Section:
  """Base of the dataclasses: checks every range at construction.

  Attributes:
    place: where the section stands, such as "config.rollout"; a keyword of
      the class statement.
  """

  place: ClassVar[str]

  def __init_subclass__(cls, *, place: str):
    super().__init_subclass__()
    cls.place = place

  def __post_init__(self):
    for field in dataclasses.fields(self):
      value = vars(self)[field.name]
      _check_range(f"{self.place}.{field.name}", value, field.metadata)


AnySection = TypeVar("AnySection", bound=Section)


def build(cls: type[AnySection], values: Mapping[Any, Any]) -> AnySection:
  """Makes a section and those inside it.

  A list becomes a tuple and, where a float is asked for, an int a float;
  nothing else is converted.

  Args:
    cls: the section's class.
    values: every knob by name; sections inside it are mappings.

  Raises:
    ValueError: if a knob is unknown (with the nearest legal one), missing, of
      the wrong type or out of range.
  """
  annotations = {field.name: annotation for field, annotation in _fields(cls)}
  for name in values:
    if name not in annotations:
      raise ValueError(_unknown(cls, name))
  missing = [name for name in annotations if name not in values]
  if missing:
    raise ValueError(
      f"{cls.place} lacks {', '.join(missing)}. No knob has a default in the "
      "code: write each of them into the config file."
    )
  return cls(
    **{
      name: _converted(values[name], f"{cls.place}.{name}", annotation)
      for name, annotation in annotations.items()
    }
  )


def as_dict(value: Any) -> Any:
  """Returns a section, or a value of one, as JSON values."""
  if isinstance(value, Section):
    return {name: as_dict(inner) for name, inner in vars(value).items()}
  if isinstance(value, Mapping):
    return {name: as_dict(inner) for name, inner in value.items()}
  if isinstance(value, tuple):
    return [as_dict(inner) for inner in value]
  return value


def flat(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
  """Returns nested mappings as one, with dotted names."""
  result = {}
  for name, value in values.items():
    if isinstance(value, Mapping) and value:
      result |= flat(value, f"{prefix}{name}.")
    else:
      result[f"{prefix}{name}"] = value
  return result


def differences(
  old: Mapping[str, Any], new: Mapping[str, Any]
) -> tuple[str, ...]:
  """Returns `name: old -> new` for every entry that is not the same in both.

  Args:
    old: JSON values by name, nested or flat.
    new: likewise; an entry of only one of them is `absent` from the other.
  """
  old_texts = {name: _json(value) for name, value in flat(old).items()}
  new_texts = {name: _json(value) for name, value in flat(new).items()}
  return tuple(
    f"{name}: {old_texts.get(name, 'absent')} -> "
    f"{new_texts.get(name, 'absent')}"
    for name in dict.fromkeys([*old_texts, *new_texts])
    if old_texts.get(name) != new_texts.get(name)
  )


def _json(value: Any) -> str:
  return json.dumps(value, sort_keys=True)


def _fields(cls: type[Section]) -> Iterator[tuple[dataclasses.Field, Any]]:
  annotations = typing.get_type_hints(cls)
  for field in dataclasses.fields(cls):
    yield field, annotations[field.name]


def _is_section(annotation: Any) -> bool:
  return isinstance(annotation, type) and issubclass(annotation, Section)


def _unknown(cls: type[Section], name: Any) -> str:
  legal = dict(_places(cls))
  nearest = difflib.get_close_matches(jsonl.shown(name).strip("'"), legal, n=1)
  advice = (
    f"Did you mean {legal[nearest[0]]}?"
    if nearest
    else f"Its knobs are {', '.join(field.name for field, _ in _fields(cls))}."
  )
  return f"{cls.place} has no knob {jsonl.shown(name)}. {advice}"


def _places(cls: type[Section]) -> Iterator[tuple[str, str]]:
  for field, annotation in reversed(list(_fields(cls))):
    if _is_section(annotation):
      yield from _places(annotation)
    yield field.name, f"{cls.place}.{field.name}"


def _converted(value: Any, place: str, annotation: Any) -> Any:
  if _is_section(annotation):
    if not isinstance(value, Mapping):
      raise _refused(place, "a section of knobs", value)
    return build(annotation, value)
  if not _is_shallow(value, _DEEPEST):
    raise _refused(place, f"nested at most {_DEEPEST} deep", value)
  if not all(map(_survives, _leaves(value))):
    raise _refused(
      place, "without NUL, surrogate pair and integer beyond 64 bits", value
    )
  frozen = _frozen(value)
  if type(value) is int and not _fits(value, annotation):
    frozen = float(value) if _fits(float(value), annotation) else value
  if not _fits(frozen, annotation):
    raise _refused(place, _spelled(annotation), value)
  return frozen


def _refused(place: str, meaning: str, value: Any) -> ValueError:
  return ValueError(
    f"{place} must be {meaning}, got {jsonl.shown(value)} of type "
    f"{type(value).__name__}."
  )


def _is_shallow(value: Any, depth: int) -> bool:
  if isinstance(value, Mapping):
    value = tuple(value.values())
  if not isinstance(value, list | tuple):
    return True
  return depth > 0 and all(_is_shallow(inner, depth - 1) for inner in value)


def _frozen(value: Any) -> Any:
  if isinstance(value, Mapping):
    return types.MappingProxyType(
      {name: _frozen(inner) for name, inner in value.items()}
    )
  if isinstance(value, list | tuple):
    return tuple(_frozen(inner) for inner in value)
  return value


def _leaves(value: Any) -> Iterator[Any]:
  if isinstance(value, Mapping):
    yield from value
    value = tuple(value.values())
  if isinstance(value, list | tuple):
    for inner in value:
      yield from _leaves(inner)
  else:
    yield value


def _survives(value: Any) -> bool:
  # A wider integer fits no array and is not always written as JSON, which
  # joins a surrogate pair into one character; no path holds a NUL.
  if isinstance(value, int):
    return -_WIDEST <= value < _WIDEST
  if isinstance(value, str):
    return "\0" not in value and not _PAIR.search(value)
  return True


def _fits(value: Any, annotation: Any) -> bool:
  origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
  if origin in (types.UnionType, typing.Union):
    return any(_fits(value, argument) for argument in arguments)
  if origin is Literal:
    # True == 1, but a flag is not a number.
    return any(
      type(value) is type(argument) and value == argument
      for argument in arguments
    )
  if origin is tuple:
    return isinstance(value, tuple) and all(
      _fits(item, arguments[0]) for item in value
    )
  if origin is Mapping:
    return isinstance(value, Mapping) and _is_json(value)
  if annotation in (int, float):
    # A bool is an int to Python, never to a reader of the config.
    return isinstance(value, annotation) and not isinstance(value, bool)
  return isinstance(value, annotation)


def _is_json(value: Any) -> bool:
  if isinstance(value, Mapping):
    return all(
      isinstance(name, str) and _is_json(inner) for name, inner in value.items()
    )
  if isinstance(value, tuple):
    return all(_is_json(item) for item in value)
  if isinstance(value, float):
    return math.isfinite(value)
  return value is None or isinstance(value, bool | int | str)


def _spelled(annotation: Any) -> str:
  origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
  if origin in (types.UnionType, typing.Union):
    return " or ".join(map(_spelled, arguments))
  if origin is Literal:
    return " or ".join(map(repr, arguments))
  if origin is tuple:
    return f"a tuple of {_spelled(arguments[0])}"
  if origin is Mapping:
    return "a mapping of JSON values"
  return "None" if annotation is types.NoneType else annotation.__name__


def _check_range(place: str, value: Any, limits: Mapping[str, Any]) -> None:
  if value is None:
    return
  if "interval" in limits and not _contains(limits["interval"], value):
    raise ValueError(
      f"{place} must lie in {limits['interval']}, got {jsonl.shown(value)}."
    )
  if "names" in limits and value not in limits["names"]:
    raise ValueError(
      f"{place} must be one of {', '.join(limits['names'])}, got "
      f"{jsonl.shown(value)}."
    )


def _contains(interval: str, value: int | float) -> bool:
  low, high = map(float, interval[1:-1].split(","))
  above = value > low if interval[0] == "(" else value >= low
  below = value < high if interval[-1] == ")" else value <= high
  return above and below
