"""What typed operations do to a rubric (H-42).

A candidate's operations are applied together, to a rubric of which `validity`
has said that they may be.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from hrl_jax.harness import changes, rubrics, terms


class Change(NamedTuple):
  """What operations did.

  Attributes:
    rubric: afterwards.
    made: wordings that it did not have before.
    retired: wordings that it has no longer.
  """

  rubric: rubrics.TaskRubric
  made: tuple[terms.Version, ...]
  retired: tuple[terms.Target, ...]


def apply(
  rubric: rubrics.TaskRubric,
  operations: Sequence[changes.RubricOperation],
  *,
  step: int,
) -> Change:
  """Applies operations together; `validity.problem` has found none.

  Args:
    rubric: to change.
    operations: in order.
    step: at which the new wordings are made.
  """
  entries = list(rubric.entries)
  lineages = rubric.lineages
  for operation in operations:
    gone = set(touches(operation))
    places = [i for i, e in enumerate(entries) if e.version.cid in gone]
    old = [entries[place] for place in places]
    new = list(_replacements(rubric, operation, old, lineages, step))
    if isinstance(operation, changes.Rewrite | changes.Reweight):
      entries[places[0]] = new[0]
      continue
    lineages += len(new)
    entries = [e for e in entries if e.version.cid not in gone] + new
  before = {entry.version.target for entry in rubric.entries}
  after = {entry.version.target for entry in entries}
  return Change(
    rubric=rubric._replace(
      entries=tuple(entries), version=rubric.version + 1, lineages=lineages
    ),
    made=tuple(e.version for e in entries if e.version.target not in before),
    retired=tuple(
      e.version.target for e in rubric.entries if e.version.target not in after
    ),
  )


def touches(operation: changes.RubricOperation) -> tuple[str, ...]:
  """The lineages of a rubric that an operation names."""
  match operation:
    case changes.Create():
      return ()
    case changes.Merge():
      return operation.cids
  return (operation.cid,)


def texts(operation: changes.RubricOperation) -> tuple[str, ...]:
  """The wordings that an operation brings."""
  match operation:
    case changes.Create() | changes.Rewrite() | changes.Merge():
      return (operation.text,)
    case changes.Split():
      return operation.texts
  return ()


def wordings(candidate: changes.Candidate) -> list[str]:
  """The wordings that a candidate would bring into a rubric."""
  return [
    text
    for operation in candidate.operations
    if isinstance(operation, changes.RubricOperation)
    for text in texts(operation)
  ]


def _replacements(
  rubric: rubrics.TaskRubric,
  operation: changes.RubricOperation,
  old: Sequence[rubrics.Entry],
  lineages: int,
  step: int,
) -> Iterator[rubrics.Entry]:
  """What stands in a rubric for the criteria that an operation names."""
  parents = touches(operation)
  match operation:
    case changes.Rewrite():
      version = old[0].version
      yield old[0]._replace(
        version=terms.Version(
          cid=version.cid,
          version=version.version + 1,
          text=operation.text,
          sign=version.sign,
          origin=version.origin,
          parents=version.parents,
          step=step,
        )
      )
      return
    case changes.Reweight():
      yield old[0]._replace(raw=operation.weight)
      return
    case changes.Delete():
      return
    case changes.Create():
      parents = (operation.restores,) if operation.restores else ()
      origin = "restore" if operation.restores else "create"
      raws = (operation.weight,)
    case changes.Merge():
      origin = "merge"
      total = sum(entry.raw for entry in old)
      size = min(max(abs(total), rubric.lowest), rubric.highest)
      raws = (size if total > 0 else -size,)
    case changes.Split():
      origin = "split"
      raws = split_weights(operation, old[0].raw)
  for index, (text, raw) in enumerate(zip(texts(operation), raws, strict=True)):
    yield rubrics.Entry(
      terms.Version(
        cid=f"{rubric.task}#{lineages + index}",
        version=0,
        text=text,
        sign=1 if raw > 0 else -1,
        origin=origin,
        parents=parents,
        step=step,
      ),
      raw,
    )


def split_weights(operation: changes.Split, raw: float) -> tuple[float, ...]:
  """The parts' weights: those it names, or equal shares of the old one."""
  if operation.weights is not None:
    return operation.weights
  count = len(operation.texts)
  return (raw / count,) * count
