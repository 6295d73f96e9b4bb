"""What a run lost to its graders and engines, and when that is too much."""

import logging
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

# Above these shares a run says so (H-102).
_ALARM = 0.01

_logger = logging.getLogger(__name__)


class Losses(NamedTuple):
  """Counts over the steps of a run; dropped groups are not among them.

  Attributes:
    rollouts: of the batches.
    missing: of them, those without a reward.
    groups: of the batches.
    thin: of them, those with too few rewards to be trained on.
  """

  rollouts: int = 0
  missing: int = 0
  groups: int = 0
  thin: int = 0

  def plus(self, metrics: Mapping[str, Any]) -> "Losses":
    """The counts with one more step, of which `metrics.jsonl` has a line."""
    return Losses(
      self.rollouts + metrics["rollouts"],
      self.missing + metrics["missing_rollouts"],
      self.groups + metrics["groups"],
      self.thin + metrics["thin_groups"],
    )

  def excess(self) -> str | None:
    """In words, what was lost beyond 1 %; None where nothing was."""
    if not self.groups:
      return None
    shares = (self.missing / self.rollouts, self.thin / self.groups)
    return self.describe() if max(shares) > _ALARM else None

  def describe(self) -> str:
    """All counts in one line."""
    return (
      f"{self.missing} of {self.rollouts} rollouts have no reward, "
      f"{self.thin} of {self.groups} groups were too thin to train on"
    )


def total(steps: Iterable[Mapping[str, Any]]) -> Losses:
  """The counts over the lines of `metrics.jsonl`."""
  counts = Losses()
  for metrics in steps:
    counts = counts.plus(metrics)
  return counts


class Alarm:
  """Says so in the log when a step adds to losses that are too many."""

  def __init__(self, before: Losses):
    """Goes on from the counts of a run that was resumed."""
    self._counts = before

  def step(self, metrics: Mapping[str, Any]) -> None:
    """Counts one step; warns only where that step lost something."""
    self._counts = self._counts.plus(metrics)
    excess = self._counts.excess()
    if excess and (metrics["missing_rollouts"] or metrics["thin_groups"]):
      _logger.warning(
        "More than %.0f %% lost so far: %s. failures.jsonl in the run folder "
        "names each with its reason.",
        100 * _ALARM,
        excess,
      )
