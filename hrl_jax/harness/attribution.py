"""Labels of criteria: what is computed, and what of an answer is believed.

Reach and training stage are computed from the records (rules 1 and 2 of H-62),
always in the desired form (H-61): a penalty that is never triggered is met.
Only reward hacking is asked (rule 3), and an accusation counts only if its
quotes are there. No answer overrides a computed label.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from hrl_jax.harness import cases, history, quotes, records, terms


class Knobs(NamedTuple):
  """Choices of the attributor.

  Attributes:
    saturated_records: earlier steps with a record that must be full too, for
      saturated; 0 asks for none.
    reach_counts_guided: whether rollouts that saw a field for a criterion count
      as having reached it.
    computed_confidence: of a label that is computed, when it is new (H-63).
    mass_below_level: whether a task is saturated only if its mass is also at
      most the next level and the median of the two records before (H-34).
    has_history: False labels from the current group alone: unmet is blind, full
      is saturated, and one saturated criterion makes a task saturated.
  """

  saturated_records: int
  reach_counts_guided: bool
  computed_confidence: float
  mass_below_level: bool
  has_history: bool


class Standing(NamedTuple):
  """A criterion over all rollouts of a draw.

  Attributes:
    target: its name.
    reached: valid rollouts that reach the desired form, as a sum of scores.
    valid: rollouts that count.
  """

  target: terms.Target
  reached: float
  valid: int


def standings(groups: Sequence[history.Seen]) -> tuple[Standing, ...]:
  """The criteria over the stacked groups of a draw (H-60).

  Args:
    groups: of one task and one rubric; thin ones are passed over.

  Returns:
    One per criterion, none if every group is thin (H-65).
  """
  thick = [group for group in groups if not group.is_thin]
  if not thick:
    return ()
  valid = sum(group.valid for group in thick)
  columns = zip(*(group.tallies for group in thick), strict=True)
  return tuple(
    Standing(column[0].target, sum(tally.reached for tally in column), valid)
    for column in columns
  )


def computed(
  groups: Sequence[history.Seen], before: history.History, knobs: Knobs
) -> tuple[records.Label, ...]:
  """The labels that rules give; separating criteria are "agree" so far.

  Args:
    groups: of this draw, of one task and one rubric.
    before: the task's history, without this draw.
    knobs: choices.
  """
  return tuple(
    _label(standing, before, knobs) for standing in standings(groups)
  )


def with_answers(
  labels: Sequence[records.Label],
  before: history.History,
  case: cases.Case,
  answer: cases.Attribution,
) -> tuple[tuple[records.Label, ...], tuple[str, ...]]:
  """Labels with what a role answered, as far as it holds.

  Args:
    labels: of `computed`.
    before: the task's history, without this draw.
    case: that was shown.
    answer: to it.

  Returns:
    The labels, and a line for everything that was not believed.
  """
  views = {view.target: view for view in case.criteria}
  suspicions = {each.target: each for each in answer.suspicions}
  generic = dict(answer.generic)
  problems = list(answer.problems)
  result = []
  for label in labels:
    view = views[label.target]
    if label.reason == "separates" and label.target in suspicions:
      suspicion = suspicions[label.target]
      if trouble := quotes.unsupported(suspicion, view, case.responses):
        problems.append(f"{label.target[0]}: {trouble}")
        label = msgspec.structs.replace(label, reason="unsupported")
      else:
        label = _spurious(label, before, suspicion)
    elif label.target in generic and view in case.full():
      cited = generic[label.target]
      if trouble := quotes.misquoted(cited, case.responses):
        problems.append(f"{label.target[0]}: {trouble}")
      else:
        label = msgspec.structs.replace(label, is_generic=True, quotes=cited)
    result.append(label)
  return tuple(result), tuple(problems)


def with_wording(
  labels: Sequence[records.Label], case: cases.Case, answer: cases.Wording
) -> tuple[tuple[records.Label, ...], tuple[str, ...]]:
  """Labels with the phrases that let a surface form pass (H-64).

  A phrase that does not stand in its criterion is not believed.

  Returns:
    The labels, and a line for every such phrase.
  """
  texts = {view.target: view.text for view in case.criteria}
  problems = list(answer.problems)
  result = []
  for label in labels:
    phrase = answer.phrases.get(label.target)
    if phrase and phrase in texts[label.target]:
      label = msgspec.structs.replace(label, wording=phrase)
    elif phrase is not None:
      problems.append(
        f"{label.target[0]}: its wording does not hold {phrase[:80]!r}"
      )
    result.append(label)
  return tuple(result), tuple(problems)


def is_saturated(
  labels: Sequence[records.Label],
  mass: float | None,
  before: history.History,
  *,
  last_mass: float,
  next_level: float | None,
  knobs: Knobs,
) -> bool:
  """Whether the task is diagnosed as saturated (H-34).

  Args:
    labels: of this draw.
    mass: discriminative mass of the draw's first group, None if it is thin.
    before: the task's history, without this draw.
    last_mass: mass at the last change of the level, at first at the cold
      start; NaN where that was thin, and the first draw that was not counts.
    next_level: weight of the level below, None at the lowest.
    knobs: choices.
  """
  if mass is None or not any(each.name == "saturated" for each in labels):
    return False
  if not knobs.has_history:
    return True
  masses = [each.mass for each in before.draws() if each.mass is not None]
  if math.isnan(last_mass) and masses:
    last_mass = masses[0]
  # False where no mass is known.
  if not mass < last_mass:
    return False
  if not knobs.mass_below_level:
    return True
  recent = masses[-2:]
  median = sum(recent) / len(recent) if recent else mass
  return next_level is not None and mass <= min(next_level, median)


def _label(
  standing: Standing, before: history.History, knobs: Knobs
) -> records.Label:
  name, reason, evidence = _rule(standing, before, knobs)
  route: terms.Interface | None = "rollout" if name == "blind" else None
  persistence = _persistence(standing.target, name, before)
  return records.Label(
    target=standing.target,
    name=name,
    reason=reason,
    route=route,
    is_generic=False,
    wording=None,
    quotes=(),
    confidence=_confidence(knobs.computed_confidence, persistence),
    persistence=persistence,
    evidence=evidence,
  )


def _rule(
  standing: Standing, before: history.History, knobs: Knobs
) -> tuple[terms.LabelName, str, tuple[str, ...]]:
  """Label, reason and the records behind it, by rules 1 and 2 of H-62."""
  if not knobs.has_history:
    return _rule_of_group(standing)
  earlier = [
    (seen, tally)
    for seen in before.seen
    if not seen.is_thin
    for tally in seen.tallies
    if tally.target == standing.target
  ]
  if standing.reached == 0:
    reached = [
      seen.id
      for seen, tally in earlier
      if (tally.reached if knobs.reach_counts_guided else tally.unguided) > 0
    ]
    if reached:
      return "agree", "noise", (reached[-1],)
    if not earlier:
      return "agree", "no_history", ()
    return "blind", "never_met", tuple(seen.id for seen, _ in earlier[-4:])
  if standing.reached == standing.valid:
    # A second group of a step, or another grading of its rollouts, says
    # nothing about another step; a probe saw what is not mounted.
    graded = [pair for pair in earlier if pair[0].kind != "probe"]
    steps = sorted({seen.step for seen, _ in graded}, reverse=True)
    steps = steps[: knobs.saturated_records]
    recent = [pair for pair in graded if pair[0].step in steps]
    evidence = tuple(seen.id for seen, _ in recent)
    if len(steps) == knobs.saturated_records and all(
      tally.reached == seen.valid for seen, tally in recent
    ):
      return "saturated", "full", evidence
    return "agree", "not_yet", evidence
  return "agree", "separates", ()


def _rule_of_group(
  standing: Standing,
) -> tuple[terms.LabelName, str, tuple[str, ...]]:
  """The rules where nothing is known but the group."""
  if standing.reached == 0:
    return "blind", "never_met", ()
  if standing.reached == standing.valid:
    return "saturated", "full", ()
  return "agree", "separates", ()


def _spurious(
  label: records.Label, before: history.History, suspicion: cases.Suspicion
) -> records.Label:
  persistence = _persistence(label.target, "spurious", before)
  return msgspec.structs.replace(
    label,
    name="spurious",
    reason=suspicion.pattern,
    route="rubric",
    quotes=suspicion.quotes,
    confidence=_confidence(suspicion.confidence, persistence),
    persistence=persistence,
  )


def _persistence(
  target: terms.Target, name: terms.LabelName, before: history.History
) -> int:
  """Draws in a row, this one included, with this label at this version."""
  by_step: dict[int, list[terms.LabelName | None]] = {}
  for seen in before.draws():
    if seen.is_thin:
      continue  # It says nothing, and was given no label.
    named = [tally.label for tally in seen.tallies if tally.target == target]
    by_step[seen.step] = named
  count = 1
  for step in reversed(sorted(by_step)):
    if by_step[step] != [name]:
      break
    count += 1
  return count


def _confidence(first: float, persistence: int) -> float:
  """Confidence grows towards 1 as a label persists (H-63)."""
  return 1.0 - (1.0 - first) * 2.0 ** -(persistence - 1)
