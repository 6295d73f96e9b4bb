"""What became of accepted candidates, for whoever proposes next (H-56)."""

from collections.abc import Iterator, Sequence

from hrl_jax.harness import changes, operations, terms
from hrl_jax.methods.harnessrl import parts

# Draws of a task after an acceptance at which it is looked at.
_DRAWS = 2


def outcomes(labelled: parts.Labelled) -> tuple[changes.Outcome, ...]:
  """The outcomes that this draw shows of the task's accepted candidates.

  Each is looked at at the next two draws after its acceptance. Differences are
  to the group that it was measured against.
  """
  draw = labelled.draw
  draws, now = draw.before.draws(), draw.seen[0]
  names = {each.target: each.name for each in labelled.record.labels}
  result = []
  for index, update in enumerate(draw.before.updates):
    accepted = update.candidate.step
    later = {seen.step for seen in draws if seen.step > accepted}
    if not update.decision.is_accepted or len(later) >= _DRAWS:
      continue
    then = next(
      seen for seen in draws if seen.step == accepted and not seen.is_thin
    )
    targets = _targets(update, draw.before.updates[:index], [*names])
    result.append(
      changes.Outcome(
        candidate=update.candidate.id,
        task=draw.task.id,
        step=labelled.record.step,
        draw=len(later) + 1,
        labels=tuple((t, names[t]) for t in targets if t in names),
        mass_delta=_difference(now.mass, then.mass),
        points_delta=_difference(now.points, then.points),
      )
    )
  return tuple(result)


def _targets(
  update: changes.Update,
  earlier: Sequence[changes.Update],
  present: Sequence[terms.Target],
) -> tuple[terms.Target, ...]:
  """The criteria that an update is about, as they are called after it.

  Args:
    update: an accepted one.
    earlier: those of the task before it.
    present: criteria of the rubric now.
  """
  targets = [version.target for version in update.made]
  for operation in update.candidate.operations:
    match operation:
      case changes.Add():
        targets += operation.targets
      case changes.Drop():
        targets += _withdrawn(operation.field, earlier)
      case changes.Reweight():
        targets += [t for t in present if t[0] in operations.touches(operation)]
  return tuple(dict.fromkeys(targets))


def _withdrawn(
  kind: terms.FieldKind, earlier: Sequence[changes.Update]
) -> Iterator[terms.Target]:
  """The targets of the field of a kind that was mounted last."""
  for update in reversed(earlier):
    for operation in update.candidate.operations:
      if (
        update.decision.is_accepted
        and isinstance(operation, changes.Add)
        and operation.field == kind
      ):
        yield from operation.targets
        return


def _difference(now: float | None, then: float | None) -> float | None:
  return None if now is None or then is None else now - then
