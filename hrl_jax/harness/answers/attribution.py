"""Answers to the hacking question."""

from typing import Any

from hrl_jax.harness import cases, records, terms
from hrl_jax.harness.answers import values
from hrl_jax.harness.prompts import attribution, names


def read(value: Any, case: cases.Case) -> cases.Attribution:
  """What a role said of the criteria that it was asked about.

  Each criterion's entry stands on its own: where it cannot be used, a problem
  says why and the criterion counts as not named. Whether the quotes stand in
  their rollouts is checked later.

  Args:
    value: the answer to `prompts.attribution.question`, any JSON value.
    case: that it was about.
  """
  about = attribution.asked(case)
  groups = {"separating": about.separating, "full": about.full}
  asked = [group for group, criteria in groups.items() if criteria]
  try:
    said = values.members(value, "the answer", asked)
  except values.UnusableError as error:
    return cases.Attribution(problems=(str(error),))
  problems: list[str] = []
  suspicions = values.entries(
    said.get("separating", {}),
    "separating",
    about.separating,
    _suspicion,
    problems,
  )
  generic = values.entries(
    said.get("full", {}), "full", about.full, _generic, problems
  )
  return cases.Attribution(suspicions, generic, tuple(problems))


def _suspicion(
  entry: Any, place: str, view: cases.CriterionView
) -> cases.Suspicion | None:
  keys = ("reason", "quotes", "pattern", "confidence")
  said = values.members(entry, place, keys)
  values.string(said["reason"], f"{place}.reason")
  patterns = {attribution.NO_PATTERN: None}
  patterns |= {pattern: pattern for pattern in cases.HACK_PATTERNS}
  pattern = values.named(said["pattern"], f"{place}.pattern", patterns)
  confidence = values.number(said["confidence"], f"{place}.confidence")
  if not 0 <= confidence <= 1:
    raise values.UnusableError(
      f"{place}.confidence is {confidence:g}, not from 0 to 1"
    )
  quotes = _quotes(said["quotes"], f"{place}.quotes", view)
  if pattern is None:
    return None
  _check_some(quotes, place)
  return cases.Suspicion(view.target, pattern, quotes, confidence)


def _generic(
  entry: Any, place: str, view: cases.CriterionView
) -> tuple[terms.Target, tuple[records.Quote, ...]] | None:
  said = values.members(entry, place, ("reason", "quotes", "generic"))
  values.string(said["reason"], f"{place}.reason")
  is_generic = said["generic"]
  if not isinstance(is_generic, bool):
    raise values.UnusableError(
      f"{place}.generic is {values.shown(is_generic)}, not true or false"
    )
  quotes = _quotes(said["quotes"], f"{place}.quotes", view)
  if not is_generic:
    return None
  _check_some(quotes, place)
  return view.target, quotes


def _quotes(
  value: Any, place: str, view: cases.CriterionView
) -> tuple[records.Quote, ...]:
  """Quotes from satisfying rollouts."""
  # A prompt counts from 1, a record from 0.
  places = {number: number - 1 for number in names.satisfying(view)}
  found = []
  for index, item in enumerate(values.items(value, place)):
    inner = f"{place}[{index}]"
    said = values.members(item, inner, ("rollout", "text"))
    found.append(
      records.Quote(
        rollout=values.named(said["rollout"], f"{inner}.rollout", places),
        text=values.text(said["text"], f"{inner}.text"),
      )
    )
  return tuple(found)


def _check_some(quotes: tuple[records.Quote, ...], place: str) -> None:
  if not quotes:
    raise values.UnusableError(f"{place} has no quote")
