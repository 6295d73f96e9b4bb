"""Our own checkers: pure functions of a response and their arguments.

A phrase is found wherever its words stand as whole words, in any case, over
any white space, with straight or curly apostrophes. A phrase that ends in "*"
is found wherever a word begins with it: "vaccin*" finds "vaccines". None of
the checkers is met by a response without a letter or digit.
"""

import functools
import re
import string
import unicodedata
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

from hrl_jax.services.checkers import contract

# A letter or digit of any script. The underscore is a mark here: in Markdown,
# "_doctor_" is the word "doctor".
_LETTER = r"[^\W_]"
_WORD = re.compile(rf"{_LETTER}+(?:['-]{_LETTER}+)*")
_STRAIGHT = str.maketrans(
  dict.fromkeys("\u2018\u2019\u02bc", "'") | dict.fromkeys("\u2010\u2011", "-")
)
_CLOSING = "\"'\u201d\u2019\u00bb)]}*_`"
_WIDE_ENDS = "\u3002\uff01\uff1f"
_ENDS = ".!?\u2026"
# Each run of marks is looked at once, from its start: linear on a million.
_SENTENCE_END = re.compile(
  rf"(?<![{_ENDS}])[{_ENDS}]++[{re.escape(_CLOSING)}]*+(?=\s|\Z)|[{_WIDE_ENDS}]"
)
_LIST_LINE = re.compile(
  r"^[^\S\n]*(?:[-*+\u2022\u2013\u2014\u25aa\u25e6]|\(?\d{1,3}[.):]|[a-z][.)])\s",
  re.MULTILINE,
)
_BARE_NUMBER = re.compile(r"\s*\(?\d{1,3}[.)]\s*")
_FIRST_PERSON = re.compile(
  rf"(?<!{_LETTER})(?:i(?!\.e)|me|my|mine|myself)(?!{_LETTER})"
)


def mentions_any(response: str, phrases: Sequence[str]) -> bool:
  """At least one of the phrases occurs."""
  return mentions_at_least(response, phrases, 1)


def mentions_all(response: str, phrases: Sequence[str]) -> bool:
  """Every one of the phrases occurs."""
  return mentions_at_least(response, phrases, len(phrases))


def mentions_at_least(
  response: str, phrases: Sequence[str], count: int
) -> bool:
  """At least `count` of the phrases occur; each counts once."""
  text = _folded(response)
  return sum(bool(_phrase(each).search(text)) for each in phrases) >= count


def mentions_in_order(response: str, phrases: Sequence[str]) -> bool:
  """All phrases occur, each after the end of the one before."""
  text = _folded(response)
  position = 0
  for phrase in phrases:
    match = _phrase(phrase).search(text, position)
    if match is None:
      return False
    position = match.end()
  return True


def first_person(response: str) -> bool:
  """Speaks in the first person singular: I, me, my, mine or myself."""
  return bool(_FIRST_PERSON.search(_folded(response)))


def contains_pattern(response: str, pattern: str) -> bool:
  """The regular expression matches somewhere; case counts unless it says so."""
  return _has_word(response) and bool(_compiled(pattern).search(response))


def starts_with_any(response: str, phrases: Sequence[str]) -> bool:
  """The first words are one of the phrases, whatever marks stand before."""
  text = _folded(response)
  first = _WORD.search(text)
  return first is not None and any(
    _phrase(each).match(text, first.start()) for each in phrases
  )


def ends_with_any(response: str, phrases: Sequence[str]) -> bool:
  """The last words are one of the phrases, whatever marks stand after."""
  text = _folded(response)
  end = max(
    (index + 1 for index, each in enumerate(text) if each.isalnum()), default=0
  )
  return any(
    match.end() == end
    for each in phrases
    for match in _phrase(each).finditer(text)
  )


def ends_with_punctuation(response: str) -> bool:
  """The last sentence is complete: it has its full stop, "?", "!" or "…".

  Closing quotes, brackets and emphasis may follow. The number of a list item
  that was never written, "2." on the last of several lines, ends nothing.
  """
  text = response.rstrip(_CLOSING + string.whitespace)
  _, newline, last_line = text.rpartition("\n")
  if not _has_word(text) or (newline and _BARE_NUMBER.fullmatch(last_line)):
    return False
  return text[-1] in _ENDS + _WIDE_ENDS


def word_count(response: str, minimum: int, maximum: int) -> bool:
  """Has between minimum and maximum words, both included."""
  return minimum <= len(_words(response)) <= maximum and _has_word(response)


def sentence_count(response: str, minimum: int, maximum: int) -> bool:
  """Has between minimum and maximum sentences, an unfinished last included.

  A sentence ends at ".", "!", "?" or "…" before white space, and at the full
  stops of Chinese and Japanese. "Dr. Smith" is two.
  """
  pieces = _SENTENCE_END.split(response)
  count = sum(_has_word(piece) for piece in pieces)
  return minimum <= count <= maximum and count > 0


def line_count(response: str, minimum: int, maximum: int) -> bool:
  """Has between minimum and maximum lines that are not blank."""
  count = sum(_has_word(line) for line in response.split("\n"))
  return minimum <= count <= maximum and count > 0


def no_list(response: str) -> bool:
  """No line begins with a bullet, a number or a letter of a list."""
  return _has_word(response) and not _LIST_LINE.search(response)


def asks_question(response: str) -> bool:
  """Some sentence ends in a question mark."""
  return _has_word(response) and any(mark in response for mark in "?\uff1f")


def repeats(response: str, size: int, share: float) -> bool:
  """Repeats itself: for penalties.

  Of all runs of `size` words, more than the given share have occurred before
  in the response.
  """
  runs = _runs(_words(response), size)
  return bool(runs) and 1 - len(set(runs)) / len(runs) > share


def _folded(text: str) -> str:
  """The text as phrases are looked for: case, marks and spaces made equal."""
  folded = unicodedata.normalize("NFC", text).casefold()
  composed = unicodedata.normalize("NFC", folded).translate(_STRAIGHT)
  return " ".join(composed.split())


def _words(text: str) -> list[str]:
  return _WORD.findall(_folded(text))


def _has_word(text: str) -> bool:
  return any(map(str.isalnum, text))


def _runs(words: Sequence[str], size: int) -> list[int]:
  """A number for every run of `size` words, the same for the same words."""
  if size > len(words):
    return []
  # Runs of twice the length are pairs of runs: no run is ever written out,
  # which would take the memory of size x words.
  runs, length = _numbered(words), 1
  while length < size:
    shift = min(length, size - length)
    runs = _numbered(zip(runs, runs[shift:], strict=False))
    length += shift
  return runs


def _numbered(items: Iterable[Hashable]) -> list[int]:
  numbers: dict[Hashable, int] = {}
  return [numbers.setdefault(item, len(numbers)) for item in items]


@functools.lru_cache(maxsize=4096)
def _phrase(phrase: str) -> re.Pattern[str]:
  folded = _folded(phrase)
  ending = f"{_LETTER}*" if folded.endswith("*") else f"(?!{_LETTER})"
  body = re.escape(folded.removesuffix("*"))
  return re.compile(f"(?<!{_LETTER}){body}{ending}")


@functools.lru_cache(maxsize=4096)
def _compiled(pattern: str) -> re.Pattern[str]:
  return re.compile(pattern)


def _check_range(arguments: Mapping[str, Any]) -> None:
  if arguments["minimum"] > arguments["maximum"]:
    raise ValueError(
      f"No number is at least {arguments['minimum']} and at most "
      f"{arguments['maximum']}. Lower minimum or raise maximum."
    )


def _check_count(arguments: Mapping[str, Any]) -> None:
  if arguments["count"] > len(arguments["phrases"]):
    raise ValueError(
      f"count is {arguments['count']}, but there are only "
      f"{len(arguments['phrases'])} phrases. Lower it."
    )


def _check_pattern(arguments: Mapping[str, Any]) -> None:
  for probe in contract.PROBES:
    contains_pattern(probe, **arguments)


_PHRASES = {"phrases": contract.PHRASES}
_SOME_PHRASES = {**_PHRASES, "count": contract.whole_number(1)}
_RANGE = {
  "minimum": contract.whole_number(0),
  "maximum": contract.whole_number(1),
}
_RUNS = {"size": contract.whole_number(1), "share": contract.SHARE}

CHECKERS = {
  "mentions_any": contract.keyword(mentions_any, _PHRASES),
  "mentions_all": contract.keyword(mentions_all, _PHRASES),
  "mentions_at_least": contract.keyword(
    mentions_at_least, _SOME_PHRASES, _check_count
  ),
  "mentions_in_order": contract.keyword(mentions_in_order, _PHRASES),
  "first_person": contract.keyword(first_person, {}),
  "contains_pattern": contract.keyword(
    contains_pattern, {"pattern": contract.PATTERN}, _check_pattern
  )._replace(has_pattern=True),
  "starts_with_any": contract.keyword(starts_with_any, _PHRASES),
  "ends_with_any": contract.keyword(ends_with_any, _PHRASES),
  "ends_with_punctuation": contract.keyword(ends_with_punctuation, {}),
  "word_count": contract.keyword(word_count, _RANGE, _check_range),
  "sentence_count": contract.keyword(sentence_count, _RANGE, _check_range),
  "line_count": contract.keyword(line_count, _RANGE, _check_range),
  "no_list": contract.keyword(no_list, {}),
  "asks_question": contract.keyword(asks_question, {}),
  "repeats": contract.keyword(repeats, _RUNS),
}
