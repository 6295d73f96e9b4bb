"""JSON Lines that any text survives.

A line ends at the byte `\\n` and nowhere else, so U+2028, U+0085 and a bare
carriage return inside a text are text. JSON is read strictly: UTF-8, one
object a line, no key twice, no number that is not finite.
"""

import collections
import json
import math
import os
from collections.abc import Iterable, Iterator, Mapping
from typing import Any


def read(path: str | os.PathLike[str]) -> Iterator[tuple[int, dict[str, Any]]]:
  """Yields each object of a file with the number of its line, from 1.

  Lines of nothing but white space are passed over.

  Raises:
    ValueError: if the file cannot be read or a line is not a strict JSON
      object; the message names file and line.
  """
  try:
    with open(path, "rb") as file:
      for number, line in enumerate(file, start=1):
        if line.strip():
          yield number, _parsed(line, f"{named(path)}, line {number}")
  except OSError as error:
    raise ValueError(
      f"Cannot read {named(path)}: {error.strerror}. Give the "
      "path of a readable file with one JSON object a line."
    ) from error


def write(
  records: Iterable[Mapping[str, Any]], path: str | os.PathLike[str]
) -> None:
  """Writes one object a line, as `read` gives them back.

  Args:
    records: the objects.
    path: of the file, overwritten.

  Raises:
    ValueError: if an object would not be read back as it is; nothing has been
      written then.
  """
  lines = [_line(record) for record in records]
  with open(path, "wb") as file:
    file.writelines(lines)


def named(path: str | os.PathLike[str]) -> str:
  """The path as an error message names it: on one line."""
  text = os.fspath(path)
  return text if text.isprintable() else ascii(text)


def shown(value: Any, limit: int = 80) -> str:
  """The value as an error message shows it: one line of ASCII, cut short."""
  try:
    text = ascii(value).replace("\n", " ")
  except (RecursionError, ValueError):
    # Too deep, or an integer of more digits than Python writes.
    text = f"<{type(value).__name__} too large to show>"
  return text if len(text) <= limit else f"{text[:limit]}..."


def _line(record: Mapping[str, Any]) -> bytes:
  try:
    text = json.dumps(record, ensure_ascii=False, allow_nan=False)
    line = text.encode() if _is_unicode(text) else _escaped(record)
    faithful = json.loads(line) == record
  except (TypeError, ValueError) as error:
    raise ValueError(f"Not JSON: {error}, in {shown(record)}.") from error
  if not faithful:
    raise ValueError(
      "Would not be read back unchanged (a tuple, a key that is not a string, "
      f"or a surrogate pair as two characters): {shown(record)}."
    )
  return line + b"\n"


def _is_unicode(text: str) -> bool:
  return not any("\ud800" <= character <= "\udfff" for character in text)


def _escaped(record: Mapping[str, Any]) -> bytes:
  # UTF-8 has no lone surrogates; the escapes of JSON do.
  return json.dumps(record, ensure_ascii=True, allow_nan=False).encode()


def _parsed(line: bytes, where: str) -> dict[str, Any]:
  try:
    record = json.loads(
      line.decode(),
      object_pairs_hook=_object,
      parse_constant=_refuse_constant,
      parse_float=_finite,
    )
  except UnicodeDecodeError as error:
    raise ValueError(
      f"{where}: byte {error.start} is not UTF-8. Save the file as UTF-8."
    ) from error
  except RecursionError as error:
    raise ValueError(
      f"{where}: nested too deeply. A task needs five levels."
    ) from error
  except json.JSONDecodeError as error:
    raise ValueError(
      f"{where}: not strict JSON: {error.msg} at column {error.colno}. Write "
      "one object a line."
    ) from error
  except ValueError as error:
    raise ValueError(f"{where}: not strict JSON: {error}.") from error
  if not isinstance(record, dict):
    raise ValueError(
      f"{where}: expected a JSON object, got {shown(record)}. Write one "
      "object a line."
    )
  return record


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
  record = dict(pairs)
  if len(record) < len(pairs):
    counts = collections.Counter(key for key, _ in pairs)
    twice = sorted(key for key, count in counts.items() if count > 1)
    raise ValueError(f"the keys {shown(twice)} occur twice in one object")
  return record


def _refuse_constant(constant: str) -> float:
  raise ValueError(f"{constant} is not a JSON number")


def _finite(digits: str) -> float:
  number = float(digits)
  if not math.isfinite(number):
    raise ValueError(f"{digits[:80]} is too large for a double")
  return number
