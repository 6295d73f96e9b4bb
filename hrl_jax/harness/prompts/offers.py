"""What a proposer may choose from at a draw.

The label of a criterion fixes the interface (H-70): what no label asks for is
not on offer, and an answer that takes it anyway is refused. Whether what is
taken from an offer may be applied is checked later (H-43, H-73).
"""

from collections.abc import Mapping
from typing import NamedTuple

from hrl_jax.harness import cases, terms
from hrl_jax.harness.prompts import names

LOWEST_LEVEL = 3

# Rubric operations that bring no wording which would have to be graded.
_WORDLESS = ("delete", "reweight")


class Offer(NamedTuple):
  """Operations to choose from, with the names that each may use.

  Attributes:
    lower: whether the task's weight may fall by a level.
    adds: what each kind of field may target; none where none may be added.
    drops: kinds that may be withdrawn.
    rubric: what each operation may name; none where the rubric stays.
  """

  lower: bool
  adds: Mapping[terms.FieldKind, tuple[str, ...]]
  drops: tuple[terms.FieldKind, ...]
  rubric: Mapping[str, tuple[str, ...]]

  @property
  def is_empty(self) -> bool:
    """Whether there is nothing to choose from."""
    return not (self.lower or self.adds or self.drops or self.rubric)


def of(case: cases.ProposalCase) -> Offer:
  """The offer of a case; in a second round, of the rejected interfaces only."""
  interfaces = set(case.interfaces)
  if case.rejections:
    interfaces &= {each.candidate.interface for each in case.rejections}
  adds = _adds(case) if "rollout" in interfaces else {}
  return Offer(
    lower=(
      "sampling" in interfaces
      and case.is_saturated
      and case.level < LOWEST_LEVEL
    ),
    adds=adds,
    drops=_drops(case, adds) if "rollout" in interfaces else (),
    rubric=_rubric(case) if "rubric" in interfaces else {},
  )


def blind(case: cases.ProposalCase) -> tuple[str, ...]:
  """The blind criteria, heaviest first."""
  known = names.criteria(case.case)
  wanted = {label.target for label in case.labels if label.name == "blind"}
  found = [name for name, view in known.items() if view.target in wanted]
  return tuple(sorted(found, key=lambda name: -abs(known[name].points)))


def _adds(
  case: cases.ProposalCase,
) -> dict[terms.FieldKind, tuple[str, ...]]:
  targets = blind(case)
  if not targets or case.cap < 1:
    return {}
  known = names.criteria(case.case)
  given = tuple(
    name for name in targets if _has_positive(case, known[name].target)
  )
  adds = {"criterion": targets, "reference": given, "critique": targets}
  return {kind: found for kind, found in adds.items() if found}


def _has_positive(case: cases.ProposalCase, target: terms.Target) -> bool:
  donations = case.donations.get(target, ())
  return any(each.donor.sign == "positive" for each in donations)


def _drops(
  case: cases.ProposalCase,
  adds: Mapping[terms.FieldKind, tuple[str, ...]],
) -> tuple[terms.FieldKind, ...]:
  """Fields of which no target is blind; any, where a new one may replace it."""
  still = {label.target for label in case.labels if label.name == "blind"}
  return tuple(
    kind
    for kind in terms.FIELD_KINDS
    if kind in case.fields
    and (adds or not still.intersection(case.fields[kind].targets))
  )


def _rubric(case: cases.ProposalCase) -> dict[str, tuple[str, ...]]:
  """Any criterion where one is spurious, else those of secondary operations."""
  labels = {label.target: label for label in case.labels}
  is_primary = any(label.name == "spurious" for label in case.labels)
  touched = {
    name: view
    for name, view in names.criteria(case.case).items()
    if view.target in labels
    and (
      is_primary
      or labels[view.target].is_generic
      or labels[view.target].name in ("blind", "saturated")
    )
  }
  if not touched:
    return {}
  free = tuple(name for name, view in touched.items() if not view.is_anchor)
  pairs = free if len(free) > 1 else ()
  offered = {
    "restore": tuple(names.archive(case)),
    "rewrite": free,
    "delete": free,
    "reweight": tuple(touched),
    "merge": pairs,
    "split": free,
  }
  offered = {name: found for name, found in offered.items() if found}
  if not case.writes:
    return {n: found for n, found in offered.items() if n in _WORDLESS}
  return {"create": (), **offered}
