"""From one harness to the next: what the log's records do to a state.

`commit` is the only way to change a state, and `replay` is the commit of a
whole log: a live state and a replayed one are equal bit for bit.
"""

from collections.abc import Iterable, Mapping

import numpy as np

from hrl_jax import base
from hrl_jax.harness import changes, operations, records, rubrics, terms
from hrl_jax.harness import state as states


def commit(
  state: states.HarnessState, log: Iterable[records.Record]
) -> states.HarnessState:
  """The state after some records of the log.

  Accepted updates, removals and the calibration change it; the other records
  are passed over.

  Args:
    state: before.
    log: in its order, which is that of the interfaces within a task: rubric,
      rollout, sampling, removals (H-88).
  """
  changing = [record for record in log if is_change(record)]
  if not changing:
    return state
  draft, places = _Draft(state), state.places
  for record in changing:
    match record:
      case records.Calibration():
        draft.calibrate(record)
      case changes.Removal():
        gone = (changes.Drop(record.field),)
        draft.mount(places[record.task], gone, record.step)
      case changes.Update():
        candidate = record.candidate
        place, step = places[candidate.task], candidate.step
        if candidate.interface == "sampling":
          draft.lower(place, record.measurement.after)
        elif candidate.interface == "rollout":
          draft.mount(place, candidate.operations, step)
        else:
          draft.rewrite(place, candidate.operations, step)
  return draft.done(state.version + len(changing))


def replay(
  bank: base.Bank, log: Iterable[records.Record]
) -> states.HarnessState:
  """The live state that a log leads to, bit for bit."""
  return commit(states.init(bank), log)


def is_change(record: records.Record) -> bool:
  """Whether a record changes the harness."""
  match record:
    case changes.Update():
      return record.decision.is_accepted
    case changes.Removal() | records.Calibration():
      return True
  return False


def mounted(
  fields: Mapping[terms.FieldKind, terms.Field],
  proposed: Iterable[changes.Add | changes.Drop],
  *,
  step: int,
) -> dict[terms.FieldKind, terms.Field]:
  """The fields after operations on guidance, withdrawals first."""
  after = dict(fields)
  proposed = tuple(proposed)
  for operation in proposed:
    if isinstance(operation, changes.Drop):
      del after[operation.field]
  for operation in proposed:
    if isinstance(operation, changes.Add):
      after[operation.field] = terms.Field(
        kind=operation.field,
        targets=operation.targets,
        text=operation.text,
        donors=operation.donors,
        step=step,
      )
  return {kind: after[kind] for kind in terms.FIELD_KINDS if kind in after}


def orphans(after: states.TaskHarness) -> tuple[terms.FieldKind, ...]:
  """Mounted fields of which a target is no longer in the rubric (H-88)."""
  active = {entry.version.target for entry in after.rubric.entries}
  return tuple(
    kind
    for kind, field in after.fields.items()
    if not active.issuperset(field.targets)
  )


def over_cap(
  state: states.HarnessState, cap: int
) -> tuple[tuple[int, terms.FieldKind], ...]:
  """Places and fields that a cap takes away, the oldest mounted first (H-39).

  Of fields as old the one with the highest index goes.
  """
  result = []
  counts_N = (state.field_N3 != states.NONE).sum(axis=1)
  for place in np.flatnonzero(counts_N > cap).tolist():
    fields = states.fields(state, place)
    oldest = sorted(
      fields,
      key=lambda kind: (fields[kind].step, -terms.FIELD_KINDS.index(kind)),
    )
    result += [(place, kind) for kind in oldest[: len(fields) - cap]]
  return tuple(result)


class _Draft:
  """A state that is being written: the arrays are private copies of its own."""

  def __init__(self, state: states.HarnessState):
    self._state = state.replace(
      level_N=state.level_N.copy(),
      mass_N=state.mass_N.copy(),
      field_N3=state.field_N3.copy(),
      rubric_version_N=state.rubric_version_N.copy(),
      lineages_N=state.lineages_N.copy(),
    )
    self._owns_criteria = False

  def done(self, version: int) -> states.HarnessState:
    return self._state.replace(version=version)

  def lower(self, place: int, mass: float) -> None:
    self._state.level_N[place] += 1
    self._state.mass_N[place] = mass

  def mount(
    self, place: int, proposed: Iterable[changes.Operation], step: int
  ) -> None:
    before = states.fields(self._state, place)
    now = mounted(before, proposed, step=step)
    for column, kind in enumerate(terms.FIELD_KINDS):
      if now.get(kind) is before.get(kind):
        continue
      index = states.NONE
      if kind in now:
        index = len(self._state.fields)
        table = self._state.fields.extended([now[kind]])
        self._state = self._state.replace(fields=table)
      self._state.field_N3[place, column] = index

  def rewrite(
    self, place: int, proposed: Iterable[changes.Operation], step: int
  ) -> None:
    before = states.rubric(self._state, place)
    indices = self._state.criterion_NC[place].tolist()
    now = operations.apply(before, tuple(proposed), step=step).rubric
    self._own_criteria(len(now.entries))
    state = self._state
    known = {
      entry.version.target: index
      for entry, index in zip(before.entries, indices, strict=False)
    }
    made = [e.version for e in now.entries if e.version.target not in known]
    for index, version in enumerate(made, start=len(state.versions)):
      known[version.target] = index
    self._write(place, now, known)
    self._state = state.replace(versions=state.versions.extended(made))

  def calibrate(self, calibration: records.Calibration) -> None:
    self._own_criteria(0)
    places = self._state.places
    for name, cids in calibration.anchors.items():
      place = places[name]
      anchored = rubrics.seed(self._state.bank.tasks[place], cids)
      indices = self._state.criterion_NC[place].tolist()
      known = {
        entry.version.target: index
        for entry, index in zip(anchored.entries, indices, strict=False)
      }
      self._write(place, anchored, known)
      self._state.anchored_N[place] = anchored.anchored
      self._state.free_N[place] = anchored.free
    for name, mass in calibration.masses.items():
      self._state.mass_N[places[name]] = mass
    bands = (calibration.rollout, calibration.rubric)
    self._state = self._state.replace(
      levels_4=np.array(calibration.levels),
      bands_22=np.array([[band.lower, band.upper] for band in bands]),
    )

  def _write(
    self,
    place: int,
    now: rubrics.TaskRubric,
    known: Mapping[terms.Target, int],
  ) -> None:
    state, used = self._state, len(now.entries)
    state.rubric_version_N[place] = now.version
    state.lineages_N[place] = now.lineages
    state.criterion_NC[place, used:] = states.NONE
    state.raw_NC[place, used:] = 0.0
    state.anchor_NC[place, used:] = False
    state.criterion_NC[place, :used] = [
      known[entry.version.target] for entry in now.entries
    ]
    state.raw_NC[place, :used] = [entry.raw for entry in now.entries]
    state.anchor_NC[place, :used] = [entry.is_anchor for entry in now.entries]

  def _own_criteria(self, width: int) -> None:
    """Copies what rubrics are in; at least so many columns, by doubling."""
    columns = before = self._state.criterion_NC.shape[1]
    while columns < width:
      columns *= 2
    if self._owns_criteria and columns == before:
      return
    state, more = self._state, ((0, 0), (0, columns - before))
    self._owns_criteria = True
    self._state = state.replace(
      criterion_NC=np.pad(
        state.criterion_NC, more, constant_values=states.NONE
      ),
      raw_NC=np.pad(state.raw_NC, more),
      anchor_NC=np.pad(state.anchor_NC, more),
      anchored_N=state.anchored_N.copy(),
      free_N=state.free_N.copy(),
    )
