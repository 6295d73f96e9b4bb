"""JSON objects in free text, found in one pass.

A reply may be 10 MB of anything, so the text is walked once: from a brace to
the one that closes it, strings skipped whole, depth and number bounded. What
is between balanced braces and is no JSON counts as prose.
"""

import itertools
import json
import re
from typing import Any, NamedTuple

_MOST_OBJECTS = 1000
_MOST_DEPTH = 64
_MOST_TOKENS = 100_000
_LONGEST_MENDED = 100_000

# A string that never ends takes the rest of the text with it.
_TOKEN = re.compile(r'"(?:[^"\\]++|\\.)*+"?|[{}\[\]]', re.DOTALL)
# An odd backslash before what it cannot escape.
_STRAY_BACKSLASH = re.compile(
  r'(?<!\\)(?:\\\\)*+\\(?!["\\/bfnrt]|u[0-9a-fA-F]{4})'
)

# Objects become tuples of pairs, so that a repeated key stays visible.
Object = tuple[tuple[str, Any], ...]
_DECODER = json.JSONDecoder(object_pairs_hook=tuple, strict=False)


class ObjectError(ValueError):
  """The braces of a text leave open which objects it holds."""


class Found(NamedTuple):
  """One object of a text.

  Attributes:
    value: its pairs in order; objects in it are tuples too, arrays lists.
    start: index of its first brace.
    end: index of the first character after it.
  """

  value: Object
  start: int
  end: int


class Scan(NamedTuple):
  """The objects of a text, and the rest.

  Attributes:
    text: what was scanned.
    objects: those that are in no other, in order.
    prose: everything outside them, a line break for each.
  """

  text: str
  objects: tuple[Found, ...]
  prose: str

  @property
  def whole(self) -> bool:
    """Whether the text is one object and nothing else."""
    return len(self.objects) == 1 and self.prose == "\n"


def scan(text: str) -> Scan:
  """Finds every object that is in no other.

  Raises:
    ObjectError: if a brace outside all strings is not matched within 100,000
      strings and brackets, if objects are nested deeper than 64 levels, or if
      there are 1000 or more.
  """
  found, prose = [], []
  done = end = 0
  for _ in range(_MOST_OBJECTS):
    start = text.find("{", end)
    # The end of an object whose beginning is not here.
    if text.find("}", end, start if start >= 0 else len(text)) >= 0:
      raise ObjectError("a brace closes nothing")
    if start < 0:
      prose.append(text[done:])
      return Scan(text, tuple(found), "\n".join(prose))
    end = _end(text, start)
    value = _decoded(text[start:end])
    if value is not None:
      found.append(Found(value, start, end))
      prose.append(text[done:start])
      done = end
  raise ObjectError(f"more than {_MOST_OBJECTS} pairs of braces")


def _end(text: str, start: int) -> int:
  """Index after the brace that closes the one at `start`."""
  depth = 0
  tokens = itertools.islice(_TOKEN.finditer(text, start), _MOST_TOKENS)
  for token in tokens:
    if token[0] in ("{", "["):
      depth += 1
      if depth > _MOST_DEPTH:
        raise ObjectError(f"nested deeper than {_MOST_DEPTH} levels")
    elif token[0] in ("}", "]"):
      depth -= 1
      if depth == 0:
        return token.end()
  raise ObjectError(f"a brace is not closed within {_MOST_TOKENS} tokens")


def _decoded(text: str) -> Object | None:
  """The object that the text is, or None if it is no JSON.

  Models write LaTeX into strings: a backslash that escapes nothing in JSON
  stands for itself. No quote or brace changes its meaning by that.
  """
  if "\\" in text and len(text) <= _LONGEST_MENDED:
    text = _STRAY_BACKSLASH.sub(r"\g<0>\\", text)
  try:
    return _DECODER.decode(text)
  # Not only JSONDecodeError: an integer of 5000 digits is a ValueError.
  except ValueError:
    return None
