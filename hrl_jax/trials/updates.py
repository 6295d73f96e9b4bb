"""What a harness's log tells about its rubric updates, knowing the world."""

from collections.abc import Iterable, Sequence

from hrl_jax import base
from hrl_jax.harness import (
  changes,
  history,
  operations,
  records,
  reversals,
  rubrics,
)
from hrl_jax.lab import pool
from hrl_jax.lab import world as worlds


def sentences(
  world: worlds.World, log: Iterable[records.Record]
) -> dict[str, int]:
  """Measured and accepted rubric updates that write refinements, or decoys.

  A critic that tells good wordings from bad ones accepts more of the former.
  Updates that write both, and secondary ones, which need no effect, are left
  out.
  """
  counts = {
    f"{kind}_{what}": 0
    for kind in ("refinements", "decoys")
    for what in ("measured", "accepted")
  }
  for record in log:
    if not isinstance(record, changes.Update):
      continue
    candidate = record.candidate
    are_good = {
      pool.is_refinement(world, candidate.task, text)
      for text in operations.wordings(candidate)
    }
    is_told = candidate.is_primary and len(are_good) == 1
    if not is_told or record.measurement.delta is None:
      continue
    kind = "refinements" if are_good.pop() else "decoys"
    counts[f"{kind}_measured"] += 1
    counts[f"{kind}_accepted"] += record.decision.is_accepted
  return counts


def reversal_windows(
  bank: base.Bank, log: Sequence[records.Record], steps: int
) -> list[dict[str, int]]:
  """Accepted and reversing rubric updates by quarter of a run (H-122).

  Args:
    bank: of the run.
    log: of its harness, empty where it had none.
    steps: of the run.
  """
  if not log:
    return []
  by_task: dict[str, list[records.Record]] = {}
  for record in log:
    by_task.setdefault(history.task_of(record), []).append(record)
  stories = [
    reversals.Story(
      rubrics.seed(task),
      [r for r in by_task[task.id] if isinstance(r, changes.Update)],
      [r.step for r in by_task[task.id] if _is_draw(r)],
    )
    for task in bank.tasks
    if task.id in by_task
  ]
  windows = reversals.reversal_rate(
    stories,
    steps=steps,
    window=-(-steps // 4),
    # The lab's sentences say what they say: another is another.
    similarity=lambda one, other: float(one == other),
    floor=0.95,
  )
  return [window._asdict() for window in windows]


def _is_draw(record: records.Record) -> bool:
  return isinstance(record, records.Group) and record.kind == "train"
