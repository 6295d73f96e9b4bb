"""The critic measures candidates on the policy that made their groups (H-80).

Fresh groups of all candidates on guidance are sampled in one go, and so are all
gradings of recorded rollouts: an engine and a judge have work for all their
places. Nothing of it is ever trained on (H-89).
"""

from collections.abc import Sequence
from typing import NamedTuple

import jax
import numpy as np

from hrl_jax import protocols
from hrl_jax.harness import commits, critic, donors, operations, records
from hrl_jax.harness import state as states
from hrl_jax.methods import drawing
from hrl_jax.methods.harnessrl import parts, proposing, recording, views


class Measured(NamedTuple):
  """What was measured.

  Attributes:
    updates: one per candidate, in order, decided.
    groups: records of the fresh and the regraded groups.
    sampled: fresh groups.
  """

  updates: tuple[records.Update, ...]
  groups: tuple[records.Group, ...]
  sampled: int


def measure(
  made: parts.Parts,
  state: states.HarnessState,
  proposed: Sequence[proposing.Proposed],
  *,
  budget: int,
  probe: protocols.Probe,
  key: jax.Array,
  round: int,
) -> Measured:
  """Measures and decides; what is not valid is rejected unmeasured.

  Args:
    made: the evolver.
    state: the harness that the groups were recorded under.
    proposed: candidates.
    budget: fresh groups that may be sampled (H-86).
    probe: of theta_t.
    key: consumed.
    round: of proposals in this step.
  """
  found = {
    each.candidate.id: _Found(_none(each.problem.code))
    for each in proposed
    if each.problem
  }
  by_interface: dict[str, list[proposing.Proposed]] = {
    name: [] for name in records.INTERFACES
  }
  for each in proposed:
    if not each.problem:
      by_interface[each.candidate.interface].append(each)
  found |= {e.candidate.id: _mass(e) for e in by_interface["sampling"]}
  if made.knobs.has_critic:
    found |= _fresh(made, by_interface["rollout"], budget, probe, key)
    found |= _regraded(by_interface["rubric"], probe, round)
  return Measured(
    updates=tuple(
      _decided(made, state, each, found.get(each.candidate.id))
      for each in proposed
    ),
    groups=tuple(group for each in found.values() for group in each.groups),
    sampled=sum(each.sampled for each in found.values()),
  )


class _Found(NamedTuple):
  measurement: records.Measurement
  groups: tuple[records.Group, ...] = ()
  sampled: int = 0


def _none(reason: str) -> records.Measurement:
  return records.Measurement(status="none", reason=reason)


def _mass(proposed: proposing.Proposed) -> _Found:
  """A lower level needs only the mass of the recorded group (H-80)."""
  seen = proposed.labelled.draw.seen[0]
  return _Found(
    records.Measurement(
      status="ok",
      reason="mass",
      after=seen.mass,
      valid=seen.valid,
      weights_version=proposed.labelled.draw.groups[0].weights_version,
    )
  )


def _fresh(
  made: parts.Parts,
  proposed: Sequence[proposing.Proposed],
  budget: int,
  probe: protocols.Probe,
  key: jax.Array,
) -> dict[str, _Found]:
  """Groups sampled under the candidates' fields (H-81, H-82)."""
  cost = 2 if made.knobs.paired_probe else 1
  # The largest potential first; ties in order of the draws.
  ranked = sorted(proposed, key=lambda each: -each.candidate.potential)
  chosen = ranked[: budget // cost]
  found = {e.candidate.id: _Found(_none("no_budget")) for e in ranked}
  if not chosen:
    return found
  slots = []
  for each in chosen:
    draw = each.labelled.draw
    after = _after(each)
    for fields in (after, draw.harness.fields)[:cost]:
      view = views.view(
        draw.task,
        fields,
        draw.harness.rubric,
        group_size=made.group_size,
        condition_on=made.knobs.condition_on,
      )
      slots.append((draw.place, view, 1.0))
  evidence = probe.sample(drawing.of_views(slots, num_groups=len(slots)), key)
  seen = {group.slot: group for group in evidence.groups}
  for index, each in enumerate(chosen):
    groups = [
      _probe_record(made, each, seen[cost * index + side], fields, side)
      for side, fields in enumerate(
        (_after(each), each.labelled.draw.harness.fields)[:cost]
      )
    ]
    found[each.candidate.id] = _Found(
      _difference(made, each, groups), tuple(groups), len(groups)
    )
  return found


def _after(
  proposed: proposing.Proposed,
) -> dict[records.FieldKind, records.Field]:
  """The fields of a task if a candidate were accepted."""
  candidate = proposed.candidate
  return commits.mounted(
    proposed.labelled.draw.harness.fields,
    candidate.operations,
    step=candidate.step,
  )


def _probe_record(made, proposed, seen, fields, side) -> records.Group:
  draw, candidate = proposed.labelled.draw, proposed.candidate
  return recording.group(
    seen,
    id=f"probe:{candidate.id}" + (":without" if side else ""),
    kind="probe",
    step=candidate.step,
    task=draw.task.id,
    rubric=draw.harness.rubric,
    fields=fields.values(),
    is_guided=[bool(fields)] * made.group_size,
    importance=None,
  )


def _difference(
  made: parts.Parts,
  proposed: proposing.Proposed,
  groups: Sequence[records.Group],
) -> records.Measurement:
  """A fresh group against the recorded one, or its own pair (H-87a)."""
  draw = proposed.labelled.draw
  before = groups[1] if made.knobs.paired_probe else draw.groups[0]
  rewards_before_G = recording.rewards_of(before)
  rewards_after_G = recording.rewards_of(groups[0])
  minimum = before.minimum_valid
  points = [
    critic.mean_points(rewards_G, minimum=minimum)
    for rewards_G in (rewards_before_G, rewards_after_G)
  ]
  valid = min(
    int((~np.isnan(rewards_G)).sum())
    for rewards_G in (rewards_before_G, rewards_after_G)
  )
  size = len(groups[0].rollouts)
  if np.isnan(points).any():
    return _none("thin_group")
  return records.Measurement(
    status="ok",
    reason="sampled",
    before=points[0],
    after=points[1],
    delta=points[1] - points[0],
    valid=valid,
    weights_version=groups[0].weights_version,
    target_met=_target_met(proposed, groups[0]),
    gradings=len(groups) * size * len(groups[0].criteria),
    rollouts=len(groups) * size,
  )


def _target_met(
  proposed: proposing.Proposed, group: records.Group
) -> bool | None:
  """Whether every target of a withdrawn field is met by some rollout (H-82)."""
  draw = proposed.labelled.draw
  targets = [
    target
    for operation in proposed.candidate.operations
    if isinstance(operation, records.Drop)
    for target in draw.harness.fields[operation.field].targets
    if target in group.criteria
  ]
  if not targets:
    return None
  return all(
    any(
      rollout.reward is not None
      and donors.desired(rollout, index, group.weights[index] < 0)
      for rollout in group.rollouts
    )
    for index in map(group.criteria.index, targets)
  )


def _regraded(
  proposed: Sequence[proposing.Proposed], probe: protocols.Probe, round: int
) -> dict[str, _Found]:
  """Recorded rollouts under the candidates' rubrics (H-83).

  Only criteria with new words are graded; the others keep their scores, which
  is exact because each is judged on its own.
  """
  changes = [_change(each) for each in proposed]
  places = [
    (index, place)
    for index, (each, change) in enumerate(zip(proposed, changes, strict=True))
    for place, rollout in enumerate(each.labelled.draw.groups[0].rollouts)
    if change.made and rollout.reward is not None
  ]
  scores = probe.grade(
    [
      _submission(proposed[index], changes[index], place)
      for index, place in places
    ],
    f"regrade {round}",
  )
  by_place = dict(zip(places, scores, strict=True))
  found = {}
  for index, (each, change) in enumerate(zip(proposed, changes, strict=True)):
    before = each.labelled.draw.groups[0]
    scores_GC = _scores(
      before,
      change,
      [by_place.get((index, place)) for place in range(len(before.rollouts))],
    )
    after = recording.regraded(
      before, scores_GC, change.rubric, id=f"regrade:{each.candidate.id}"
    )
    graded = sum(len(change.made) for i, _ in places if i == index)
    found[each.candidate.id] = _Found(
      _effect(before, after, graded), (after,) if graded else ()
    )
  return found


def _change(proposed: proposing.Proposed) -> operations.Change:
  candidate = proposed.candidate
  return operations.apply(
    proposed.labelled.draw.harness.rubric,
    candidate.operations,
    step=candidate.step,
  )


def _submission(
  proposed: proposing.Proposed, change: operations.Change, place: int
) -> protocols.Submission:
  draw = proposed.labelled.draw
  new = {version.target for version in change.made}
  rubric = tuple(
    criterion
    for entry, criterion in zip(
      change.rubric.entries, change.rubric.criteria(), strict=True
    )
    if entry.version.target in new
  )
  return protocols.Submission(
    draw.place, draw.task.prompt, draw.groups[0].rollouts[place].text, rubric
  )


def _scores(
  before: records.Group,
  change: operations.Change,
  graded: Sequence[np.ndarray | None],
) -> np.ndarray:
  """`[G, C]` scores by the changed rubric, NaN where there is none."""
  known_GC = recording.scores_of(before)
  columns = {target: i for i, target in enumerate(before.criteria)}
  new = {version.target for version in change.made}
  scores_GC = np.full((len(graded), len(change.rubric.entries)), np.nan)
  fresh = 0
  for column, entry in enumerate(change.rubric.entries):
    target = entry.version.target
    if target in new:
      for place, scores_C in enumerate(graded):
        if scores_C is not None:
          scores_GC[place, column] = scores_C[fresh]
      fresh += 1
    else:
      scores_GC[:, column] = known_GC[:, columns[target]]
  return scores_GC


def _effect(
  before: records.Group, after: records.Group, graded: int
) -> records.Measurement:
  difference = critic.delta_points(
    recording.rewards_of(before),
    recording.rewards_of(after),
    minimum=before.minimum_valid,
  )
  if np.isnan(difference.delta):
    return _none("thin_group")
  return records.Measurement(
    status="ok",
    reason="regraded",
    before=difference.before,
    after=difference.after,
    delta=difference.delta,
    valid=difference.valid,
    weights_version=before.weights_version,
    gradings=graded,
  )


def _decided(
  made: parts.Parts,
  state: states.HarnessState,
  proposed: proposing.Proposed,
  found: _Found | None,
) -> records.Update:
  candidate = proposed.candidate
  rubric = proposed.labelled.draw.harness.rubric
  measurement = found.measurement if found else _none("no_critic")
  if proposed.problem:
    decision = records.Decision(False, f"invalid:{proposed.problem.code}")
  elif not found:
    decision = records.Decision(True, "no_critic")
  else:
    decision = critic.decide(
      candidate,
      measurement,
      state.bands_22,
      made.knobs.critic,
      weights={e.version.cid: e.raw for e in rubric.entries},
    )
  if candidate.interface != "rubric" or not decision.is_accepted:
    return records.Update(candidate, measurement, decision)
  change = _change(proposed)
  return records.Update(
    candidate, measurement, decision, change.made, change.retired
  )
