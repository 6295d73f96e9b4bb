"""Short names for what a prompt shows.

A task's id is in the ids of its criteria and records: they belong to others and
are long. So a prompt names things by their places, and an answer is read back
with the same tables.
"""

from collections.abc import Iterable, Mapping
from typing import TypeVar

from hrl_jax.harness import cases, terms

Thing = TypeVar("Thing")


def criteria(case: cases.Case) -> dict[str, cases.CriterionView]:
  """The criteria of the task: c1, c2, ..."""
  return _numbered("c", case.criteria)


def related(case: cases.Case) -> dict[str, cases.RelatedView]:
  """Criteria of other tasks: r1, r2, ..."""
  return _numbered("r", case.related)


def archive(case: cases.ProposalCase) -> dict[str, terms.Version]:
  """Wordings that may be restored: a1, a2, ..."""
  return _numbered("a", case.archive)


def evidence(case: cases.ProposalCase) -> dict[str, str]:
  """Ids of records: of earlier candidates, and of what labels rest on.

  They are e1, e2, ..., those of the first round last.
  """
  ids = [update.candidate.id for update in case.updates]
  ids += [each for label in case.labels for each in label.evidence]
  ids += [rejection.candidate.id for rejection in case.rejections]
  return _numbered("e", dict.fromkeys(ids))


def in_history(target: terms.Target) -> str:
  """What a criterion is called in the lines of a task's story."""
  cid, version = target
  return f"#{cid.rpartition('#')[2]}@{version}"


def by_target(case: cases.Case) -> dict[terms.Target, str]:
  """The name of each criterion of the task."""
  return {view.target: name for name, view in criteria(case).items()}


def satisfying(view: cases.CriterionView) -> tuple[int, ...]:
  """Numbers, from 1, of the rollouts that are as a criterion wants (H-61)."""
  wanted = view.points > 0
  return tuple(n for n, met in enumerate(view.met, 1) if met is wanted)


def failing(view: cases.CriterionView) -> tuple[int, ...]:
  """Likewise, of those that are not."""
  unwanted = view.points < 0
  return tuple(n for n, met in enumerate(view.met, 1) if met is unwanted)


def listed(names: Iterable[object]) -> str:
  """Names or numbers in a row, "none" if there are none."""
  return ", ".join(map(str, names)) or "none"


def picked(
  offered: Mapping[str, cases.CriterionView],
  targets: Iterable[terms.Target],
) -> dict[str, cases.CriterionView]:
  """Those of these criteria that are named, in their order."""
  wanted = set(targets)
  return {n: view for n, view in offered.items() if view.target in wanted}


def _numbered(letter: str, things: Iterable[Thing]) -> dict[str, Thing]:
  return {f"{letter}{n}": thing for n, thing in enumerate(things, 1)}
