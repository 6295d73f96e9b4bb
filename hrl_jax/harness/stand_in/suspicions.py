"""Which criteria only follow a surface, as far as words and lengths tell."""

import re
from collections.abc import Mapping, Sequence

from hrl_jax.harness import cases, records

# A criterion that sorts rollouts by their length may do so by chance: with
# three on either side, one in twenty does.
_LEAST_SIDE = 3


# A phrase as each response has it, empty where it does not.
Found = Mapping[str, Sequence[str]]


def attribution(case: cases.Case, phrases: Sequence[str]) -> cases.Attribution:
  """Suspicions of separating criteria, and full ones met by boilerplate.

  Args:
    case: as an LLM would be shown it.
    phrases: surface phrases, in lower case.
  """
  found = {
    phrase: [_found(phrase, response) for response in case.responses]
    for phrase in phrases
  }
  suspicions = []
  for view in case.separating():
    # Guidance, not a rewording, answers a penalty that is triggered.
    if view.points > 0:
      suspicions += _suspicion(view, case.responses, found)
  generic = []
  for view in case.full():
    quotes = _shared(_where(view, True), found)
    if quotes and _speaks_of(view.text, quotes[0].text):
      generic.append((view.target, quotes))
  return cases.Attribution(tuple(suspicions), tuple(generic))


def _suspicion(
  view: cases.CriterionView, responses: Sequence[str], found: Found
) -> list[cases.Suspicion]:
  meeting, failing = _where(view, True), _where(view, False)
  absent = {
    phrase: places
    for phrase, places in found.items()
    if not any(places[i] for i in failing)
  }
  quotes = _shared(meeting, absent)
  if quotes:
    return [
      cases.Suspicion(
        view.target, "superficial_compliance", quotes, confidence=0.7
      )
    ]
  lengths = [len(response.split()) for response in responses]
  is_sorted = min(len(meeting), len(failing)) >= _LEAST_SIDE and min(
    lengths[i] for i in meeting
  ) > max(lengths[i] for i in failing)
  if not is_sorted:
    return []
  whole = tuple(records.Quote(i, responses[i]) for i in meeting[:2])
  return [cases.Suspicion(view.target, "length_gaming", whole, confidence=0.5)]


def _where(view: cases.CriterionView, is_met: bool) -> list[int]:
  return [place for place, met in enumerate(view.met) if met is is_met]


def _found(phrase: str, response: str) -> str:
  """A phrase as a response has it, empty if it does not."""
  match = re.search(re.escape(phrase), response, re.IGNORECASE)
  return match[0] if match else ""


def _shared(places: Sequence[int], found: Found) -> tuple[records.Quote, ...]:
  """Quotes of a phrase that all of some rollouts have; none if there is none.

  A single rollout shares nothing.
  """
  if len(places) < 2:
    return ()
  for said in found.values():
    if all(said[place] for place in places):
      return tuple(records.Quote(place, said[place]) for place in places)
  return ()


def _speaks_of(text: str, phrase: str) -> bool:
  """Whether a statement has a word of a phrase."""
  return bool(set(text.lower().split()) & set(phrase.lower().split()))
