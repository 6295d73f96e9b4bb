"""Long texts cut at the end of a sentence (H-40)."""

import re
from collections.abc import Callable, Sequence

_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|\n+")


def trimmed(text: str, most: int, count: Callable[[str], int]) -> str:
  """The text, or as many of its first sentences as have so many tokens.

  A first sentence that is too long alone is cut at a word, and a first word
  after a letter.

  Args:
    text: any.
    most: tokens.
    count: tokens of a text.
  """
  if count(text) <= most:
    return text
  ends = [match.start() for match in _SENTENCE_END.finditer(text)]
  words = [match.start() for match in re.finditer(r"\s+", text)]
  for places in (ends, words, range(1, len(text))):
    fitting = _longest(text, places, most, count)
    if fitting:
      return fitting
  return ""


def _longest(
  text: str, places: Sequence[int], most: int, count: Callable[[str], int]
) -> str:
  """The longest start that ends at one of the places; found by halving."""
  low, high = 0, len(places)
  while low < high:
    middle = (low + high + 1) // 2
    if count(text[: places[middle - 1]]) <= most:
      low = middle
    else:
      high = middle - 1
  return text[: places[low - 1]] if low else ""
