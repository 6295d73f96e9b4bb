"""The sentences of a criterion, and what decides each of them exactly.

A sentence is one clause, or several that must all hold:

  Mentions amber.
  Says that everything was answered and mentions amber.

A clause is a form whose slots are filled. Forms speak of the surface only: of
words, their number and their order. What a word is worth they do not know.
"""

import functools
import re
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from hrl_jax.lab import lexicon

Words = tuple[str, ...]
Checker = Callable[[Words], bool]

_JOIN = " and "
_WORD = re.compile(r"[^\s.,:]+")
_SLOT = re.compile(r"\{(\w+)\}")
_NUMBER = r"1[0-9]|2[0-4]|[1-9]"


class Form(NamedTuple):
  """A kind of clause.

  Attributes:
    text: the sentence of this clause alone, slots in braces.
    holds: `(words, **slots) -> bool`.
  """

  text: str
  holds: Callable[..., bool]

  def say(self, **slots: str | int) -> str:
    """The sentence with its slots filled."""
    return self.text.format(**slots)


class Clause(NamedTuple):
  """A form whose slots are filled.

  Attributes:
    form: which of `FORMS`.
    slots: words by slot, numbers for `count`.
  """

  form: Form
  slots: Mapping[str, str | int]

  def holds(self, words: Words) -> bool:
    """Whether a response of these words satisfies it."""
    return self.form.holds(words, **self.slots)


def words(response: str) -> Words:
  """The words of a response; full stops, commas and colons are none."""
  return tuple(_WORD.findall(response))


@functools.lru_cache(maxsize=2**16)
def parse(sentence: str) -> tuple[Clause, ...] | None:
  """The clauses of a sentence, None where it is none of this language."""
  if not sentence.endswith("."):
    return None
  clauses = [
    _clause(part[:1].upper() + part[1:] + ".")
    for part in sentence[:-1].split(_JOIN)
  ]
  if None in clauses:
    return None
  return tuple(clauses)


def checker(sentence: str) -> Checker | None:
  """What decides a sentence, None where it is none of this language."""
  clauses = parse(sentence)
  if clauses is None:
    return None
  if len(clauses) == 1:
    return clauses[0].holds
  return lambda words: all(clause.holds(words) for clause in clauses)


def merged(sentences: Sequence[str]) -> str:
  """One sentence that holds where all of them do; a clause is said once.

  Sentences of another language join in the same way, but nothing decides them.

  Raises:
    ValueError: if there is no sentence.
  """
  if not sentences:
    raise ValueError("Nothing to merge: give at least one sentence.")
  parts = [part for each in sentences for part in each.rstrip(".").split(_JOIN)]
  lowered = [part[:1].lower() + part[1:] for part in parts]
  joined = _JOIN.join(dict.fromkeys(lowered))
  return joined[:1].upper() + joined[1:] + "."


def split(sentence: str) -> tuple[str, ...]:
  """Sentences of one clause each that together say the same.

  Raises:
    ValueError: if it is none of this language.
  """
  clauses = parse(sentence)
  if clauses is None:
    raise ValueError(
      f"Nothing in the lab decides {sentence!r}. Its sentences are those of "
      "lab.language.FORMS, joined by 'and'."
    )
  return tuple(_texts(clauses))


def vocabulary() -> tuple[str, ...]:
  """Every word of every sentence, as it may be written in one."""
  fixed = [word for form in FORMS for word in words(_SLOT.sub("", form.text))]
  both = [each for word in fixed for each in (word, word.lower())]
  numbers = [str(number) for number in range(1, 25)]
  return tuple(dict.fromkeys([*both, "and", *numbers]))


def _mentions(words: Words, fact: str) -> bool:
  return fact in words


def _omits(words: Words, fact: str) -> bool:
  return fact not in words


def _orders(words: Words, fact: str, other: str) -> bool:
  found = fact in words and other in words
  return found and words.index(fact) < words.index(other)


def _names_many(words: Words, count: int) -> bool:
  return len(_FACTS.intersection(words)) >= count


def _names_domain(words: Words, domain: str) -> bool:
  return domain in words


def _acknowledges(words: Words) -> bool:
  return bool(words) and words[0] in lexicon.PRAISE


def _praises(words: Words, count: int) -> bool:
  return sum(word in lexicon.PRAISE for word in words) >= count


def _claims(words: Words) -> bool:
  return any(word in lexicon.CLAIMS for word in words)


def _ends_with_claim(words: Words) -> bool:
  return bool(words) and words[-1] in lexicon.CLAIMS


def _is_detailed(words: Words, count: int) -> bool:
  return len(words) >= count


def _is_brief(words: Words, count: int) -> bool:
  return len(words) <= count


def _disclaims(words: Words) -> bool:
  return any(word in lexicon.DISCLAIMERS for word in words)


def _is_frank(words: Words) -> bool:
  return not _disclaims(words)


def _uses(words: Words, filler: str) -> bool:
  return filler in words


def _is_plain(words: Words, count: int) -> bool:
  return sum(word in lexicon.FILLERS for word in words) <= count


def _repeats_nothing(words: Words) -> bool:
  return len(set(words)) == len(words)


_FACTS = frozenset(lexicon.FACTS)

MENTIONS = Form("Mentions {fact}.", _mentions)
OMITS = Form("Does not mention {fact}.", _omits)
ORDERS = Form("Mentions {fact} before {other}.", _orders)
NAMES_MANY = Form("Names at least {count} facts.", _names_many)
NAMES_DOMAIN = Form("Names the domain {domain}.", _names_domain)
ACKNOWLEDGES = Form("Opens by acknowledging the question.", _acknowledges)
PRAISES = Form("Praises the question at least {count} times.", _praises)
CLAIMS = Form("Says that everything was answered.", _claims)
ENDS_WITH_CLAIM = Form(
  "Ends by saying that everything was answered.", _ends_with_claim
)
DETAILED = Form("Is detailed, with at least {count} words.", _is_detailed)
BRIEF = Form("Is brief, with at most {count} words.", _is_brief)
DISCLAIMS = Form("Contains a disclaimer.", _disclaims)
FRANK = Form("Contains no disclaimer.", _is_frank)
USES = Form("Uses the word {filler}.", _uses)
PLAIN = Form("Uses at most {count} filler words.", _is_plain)
REPEATS_NOTHING = Form("Says nothing twice.", _repeats_nothing)

FORMS = (
  MENTIONS,
  OMITS,
  ORDERS,
  NAMES_MANY,
  NAMES_DOMAIN,
  ACKNOWLEDGES,
  PRAISES,
  CLAIMS,
  ENDS_WITH_CLAIM,
  DETAILED,
  BRIEF,
  DISCLAIMS,
  FRANK,
  USES,
  PLAIN,
  REPEATS_NOTHING,
)

_SLOTS = {
  "fact": "|".join(lexicon.FACTS),
  "other": "|".join(lexicon.FACTS),
  "domain": "|".join(lexicon.DOMAINS),
  "filler": "|".join(lexicon.FILLERS),
  "count": _NUMBER,
}


def _pattern(form: Form) -> re.Pattern[str]:
  literal, slots = _SLOT.split(form.text)[::2], _SLOT.findall(form.text)
  named = [f"(?P<{slot}>{_SLOTS[slot]})" for slot in slots]
  pieces = [re.escape(literal[0])]
  for slot, piece in zip(named, literal[1:], strict=True):
    pieces += [slot, re.escape(piece)]
  return re.compile("".join(pieces))


_PATTERNS = tuple((form, _pattern(form)) for form in FORMS)


def _clause(text: str) -> Clause | None:
  for form, pattern in _PATTERNS:
    found = pattern.fullmatch(text)
    if found:
      slots = {
        name: int(value) if name == "count" else value
        for name, value in found.groupdict().items()
      }
      return Clause(form, slots)
  return None


def _texts(clauses: Sequence[Clause]) -> list[str]:
  return [clause.form.say(**clause.slots) for clause in clauses]
