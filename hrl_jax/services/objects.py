"""JSON objects in the replies of models, found in one pass.

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
# A comma before a closing bracket; strings, and a comma without an item before
# it, are kept.
_LAST_COMMA = re.compile(
  r'("(?:[^"\\]++|\\.)*+"|[\[{]\s*+,)|,(?=\s*+[}\]])', re.DOTALL
)

_REASONING = r"(?:think|thinking|thought|reasoning)"
_OPENING = re.compile(rf"<{_REASONING}>|\[think\]", re.I)
_CLOSING = re.compile(rf"</{_REASONING}>|\[/think\]", re.I)

# Objects become tuples of pairs, so that a repeated key stays visible.
Object = tuple[tuple[str, Any], ...]
_DECODER = json.JSONDecoder(object_pairs_hook=tuple, strict=False)


class ObjectError(ValueError):
  """A text leaves open which objects it holds; says why, in one line."""


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


def answer(text: str, *, cut: bool, last_commas: bool = False) -> Scan:
  """The objects of what a reply says once its reasoning is over.

  Args:
    text: the reply, any characters.
    cut: whether the reply was ended by its token limit; then it counts only
      if it is one complete object.
    last_commas: as in `scan`.

  Raises:
    ObjectError: if nothing, or not all that belongs to it, can be read.
  """
  text = text.strip()
  if not text:
    raise ObjectError("the reply is empty" + (", cut at its limit" * cut))
  try:
    if text[0] == "{":
      whole = scan(text, last_commas=last_commas)
      # Inside the strings of a whole object, tags are quotations.
      if whole.whole:
        return whole
    if cut:
      raise ObjectError("cut at its token limit")
    text = _after_reasoning(text)
    found = scan(text, last_commas=last_commas)
  except ObjectError as error:
    raise ObjectError(f"{error}: {shown(text)}") from None
  if not text:
    raise ObjectError("nothing after its reasoning")
  if not found.whole and _OPENING.search(text):
    raise ObjectError(f"its reasoning does not end: {shown(text)}")
  return found


def scan(text: str, *, last_commas: bool = False) -> Scan:
  """Finds every object that is in no other.

  Args:
    text: any characters.
    last_commas: whether an object is one although a comma stands after the
      last item of it, or of anything in it.

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
    value = _decoded(text[start:end], last_commas)
    if value is not None:
      found.append(Found(value, start, end))
      prose.append(text[done:start])
      done = end
  raise ObjectError(f"more than {_MOST_OBJECTS} pairs of braces")


def shown(value: Any) -> str:
  """What a value is, in at most 90 ASCII characters, on one line."""
  if isinstance(value, tuple):
    return f"an object with keys {shown(', '.join(k[:20] for k, _ in value))}"
  if isinstance(value, list):
    return f"a list of {len(value)}"
  text = ascii(value[:60] if isinstance(value, str) else value)
  return text if len(text) <= 62 else text[:59] + "..."


def _after_reasoning(text: str) -> str:
  """What follows the last closing tag, or all of it.

  Raises:
    ObjectError: if that tag is inside an object that reasoning does not
      explain: there it may be a quotation.
  """
  closings = list(_CLOSING.finditer(text))
  if not closings:
    return text
  reasoned = closings[0].end() if _OPENING.match(text) else 0
  if reasoned < closings[-1].end():
    scan(text[reasoned : closings[-1].start()])
  return text[closings[-1].end() :].strip()


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


def _decoded(text: str, last_commas: bool) -> Object | None:
  """The object that the text is, or None if it is no JSON.

  Models write LaTeX into strings: a backslash that escapes nothing in JSON
  stands for itself. No quote or brace changes its meaning by that.
  """
  if "\\" in text and len(text) <= _LONGEST_MENDED:
    text = _STRAY_BACKSLASH.sub(r"\g<0>\\", text)
  if last_commas and len(text) <= _LONGEST_MENDED:
    text = _LAST_COMMA.sub(r"\1", text)
  try:
    return _DECODER.decode(text)
  # Not only JSONDecodeError: an integer of 5000 digits is a ValueError.
  except ValueError:
    return None
