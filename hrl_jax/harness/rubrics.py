"""The rubric of one task, and the weights that its criteria end up with (H-41).

A criterion's raw weight is what operations set, on the seed's own scale. What
it counts in a reward follows from all of them:

  positive anchors      weight = raw * (anchors' seed sum / anchors' sum now)
  other positive ones   weight = raw * (their seed sum / their sum now)
  penalties             weight = raw

So the positive weights always add up to those of the seed, anchors keep their
share, and a penalty keeps its size beside them, whatever the operations were
and in whichever order. On the seed both factors are exactly 1: an untouched
rubric gives the seed's rewards to the last bit. The paper's lambda is this
weight times kappa = 100 / (positive sum of the seed): in points.
"""

from collections.abc import Sequence
from typing import NamedTuple

from hrl_jax import base
from hrl_jax.harness import terms


class Entry(NamedTuple):
  """A criterion of a rubric.

  Attributes:
    version: its wording.
    raw: weight as set, on the seed's scale.
    is_anchor: whether its wording is fixed (H-44).
  """

  version: terms.Version
  raw: float
  is_anchor: bool = False


class TaskRubric(NamedTuple):
  """The rubric of a task as operations see it.

  Attributes:
    task: id.
    entries: the criteria, in order.
    version: counts the accepted changes.
    lineages: ids that were given out for this task so far.
    anchored: sum of the anchors' positive weights in the seed.
    free: likewise of the other positive ones.
    lowest: least size of a weight in the seed (V1).
    highest: greatest one.
    most: criteria that it may have (V5).
  """

  task: str
  entries: tuple[Entry, ...]
  version: int
  lineages: int
  anchored: float
  free: float
  lowest: float
  highest: float
  most: int

  @property
  def kappa(self) -> float:
    """Points of a weight of 1."""
    return 100.0 / (self.anchored + self.free)

  def weights(self) -> tuple[float, ...]:
    """What each criterion counts, on the seed's scale.

    Raises:
      ZeroDivisionError: if a kind that the seed had has no positive weight
        left; operations refuse such a rubric.
    """
    sums = positive_sums(self.entries)
    anchored = self.anchored / sums.anchored if self.anchored else 0.0
    free = self.free / sums.free if self.free else 0.0
    return tuple(
      entry.raw
      if entry.raw < 0
      else entry.raw * (anchored if entry.is_anchor else free)
      for entry in self.entries
    )

  def criteria(self) -> base.Rubric:
    """The rubric as graders take it."""
    return tuple(
      base.Criterion(
        entry.version.text,
        weight,
        entry.version.checker,
        entry.version.arguments,
      )
      for entry, weight in zip(self.entries, self.weights(), strict=True)
    )

  def find(self, cid: str) -> Entry | None:
    """The criterion of a lineage, None if it is not in the rubric."""
    return next((e for e in self.entries if e.version.cid == cid), None)


class PositiveSums(NamedTuple):
  """Sums of positive raw weights: of anchors, and of the others."""

  anchored: float
  free: float


def positive_sums(entries: Sequence[Entry]) -> PositiveSums:
  """The sums that the rescaling divides by."""
  positive = [entry for entry in entries if entry.raw > 0]
  return PositiveSums(
    anchored=sum(entry.raw for entry in positive if entry.is_anchor),
    free=sum(entry.raw for entry in positive if not entry.is_anchor),
  )


def seed_versions(task: base.Task) -> tuple[terms.Version, ...]:
  """The wordings that a task starts with."""
  return tuple(
    terms.Version(
      cid=f"{task.id}#{index}",
      version=0,
      text=criterion.text,
      sign=1 if criterion.weight > 0 else -1,
      origin="seed",
      checker=criterion.checker,
      arguments=criterion.arguments,
    )
    for index, criterion in enumerate(task.rubric)
  )


def seed(task: base.Task, anchors: Sequence[str] = ()) -> TaskRubric:
  """The rubric that a task starts with.

  Args:
    task: of the bank.
    anchors: lineages whose wording is fixed.
  """
  entries = tuple(
    Entry(version, criterion.weight, version.cid in anchors)
    for version, criterion in zip(seed_versions(task), task.rubric, strict=True)
  )
  return of_entries(
    task,
    entries,
    version=0,
    lineages=len(entries),
    sums=positive_sums(entries),
  )


def of_entries(
  task: base.Task,
  entries: tuple[Entry, ...],
  *,
  version: int,
  lineages: int,
  sums: PositiveSums,
) -> TaskRubric:
  """The rubric of a task with other criteria than the seed's.

  Args:
    task: of the bank; its rubric gives the limits.
    entries: the criteria.
    version: see `TaskRubric`.
    lineages: see `TaskRubric`.
    sums: of the seed's weights, anchors apart.
  """
  sizes = [abs(criterion.weight) for criterion in task.rubric]
  return TaskRubric(
    task=task.id,
    entries=entries,
    version=version,
    lineages=lineages,
    anchored=sums.anchored,
    free=sums.free,
    lowest=min(sizes),
    highest=max(sizes),
    most=max(20, -(-3 * len(task.rubric) // 2)),
  )
