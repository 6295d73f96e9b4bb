"""Fresh groups under candidates' guidance, on the recording policy (H-81).

Those of all candidates are sampled in one go: an engine and a judge have work
for all their places. Nothing of it is ever trained on (H-89).
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import jax
import numpy as np

from hrl_jax import protocols
from hrl_jax.harness import changes, commits, critic, donors, records, terms
from hrl_jax.methods import drawing
from hrl_jax.methods.harnessrl import parts, recording, views

Fields = Mapping[terms.FieldKind, terms.Field]


class _Side(NamedTuple):
  """A group to sample for a candidate.

  Attributes:
    proposed: the candidate.
    fields: that the group sees.
    id: of its record.
  """

  proposed: parts.Proposed
  fields: Fields
  id: str


def measure(
  made: parts.Parts,
  proposed: Sequence[parts.Proposed],
  *,
  budget: int,
  probe: protocols.Probe,
  key: jax.Array,
) -> dict[str, parts.Found]:
  """Measures valid candidates on guidance, as far as the budget goes.

  Args:
    made: the evolver.
    proposed: the candidates.
    budget: fresh groups that may be sampled; the largest potential comes first
      (H-86).
    probe: of theta_t.
    key: consumed.

  Returns:
    What was found of each, by its id.
  """
  cost = 2 if made.knobs.paired_probe else 1
  # Ties in order of the draws.
  ranked = sorted(proposed, key=lambda each: -each.candidate.potential)
  chosen, left = ranked[: budget // cost], ranked[budget // cost :]
  sides = [side for each in chosen for side in _sides(each)[:cost]]
  groups = _sample(made, sides, probe, key) if sides else []
  found = {
    each.candidate.id: _found(each, groups[cost * i : cost * (i + 1)])
    for i, each in enumerate(chosen)
  }
  none = parts.Found(parts.unmeasured("no_budget"))
  return found | {each.candidate.id: none for each in left}


def _sides(proposed: parts.Proposed) -> tuple[_Side, _Side]:
  """The group with a candidate, and the one without (H-87a)."""
  candidate = proposed.candidate
  before = proposed.labelled.draw.harness.fields
  after = commits.mounted(before, candidate.operations, step=candidate.step)
  name = f"probe:{candidate.id}"
  return (
    _Side(proposed, after, name),
    _Side(proposed, before, f"{name}:without"),
  )


def _sample(
  made: parts.Parts,
  sides: Sequence[_Side],
  probe: protocols.Probe,
  key: jax.Array,
) -> list[records.Group]:
  slots = []
  for side in sides:
    draw = side.proposed.labelled.draw
    prompts = views.prompts(
      draw.task,
      side.fields,
      group_size=made.group_size,
      condition_on=made.knobs.condition_on,
    )
    view = views.view(draw.task, prompts, draw.harness.rubric)
    slots.append((draw.place, view, 1.0))
  evidence = probe.sample(drawing.of_views(slots, num_groups=len(slots)), key)
  seen = {group.slot: group for group in evidence.groups}
  return [
    recording.group(
      seen[slot],
      id=side.id,
      kind="probe",
      step=side.proposed.candidate.step,
      task=side.proposed.labelled.draw.task.id,
      rubric=side.proposed.labelled.draw.harness.rubric,
      fields=side.fields.values(),
      is_guided=[bool(side.fields)] * made.group_size,
      importance=None,
    )
    for slot, side in enumerate(sides)
  ]


def _found(
  proposed: parts.Proposed, groups: Sequence[records.Group]
) -> parts.Found:
  """A fresh group against the recorded one, or against its own pair."""
  draw, after = proposed.labelled.draw, groups[0]
  before = groups[1] if len(groups) > 1 else draw.groups[0]
  spent = {
    "rollouts": len(groups) * len(after.rollouts),
    "gradings": len(groups) * len(after.rollouts) * len(after.criteria),
  }
  rewards_2G = [recording.rewards_of(group) for group in (before, after)]
  points = [
    critic.mean_points(rewards_G, minimum=after.minimum_valid)
    for rewards_G in rewards_2G
  ]
  if np.isnan(points).any():
    return parts.Found(parts.unmeasured("thin_group", **spent), tuple(groups))
  measurement = changes.Measurement(
    status="ok",
    reason="sampled",
    before=points[0],
    after=points[1],
    delta=points[1] - points[0],
    valid=min(int((~np.isnan(each_G)).sum()) for each_G in rewards_2G),
    weights_version=after.weights_version,
    target_met=_target_met(proposed, after),
    **spent,
  )
  return parts.Found(measurement, tuple(groups))


def _target_met(proposed: parts.Proposed, group: records.Group) -> bool | None:
  """Whether every target of a withdrawn field is met by some rollout (H-82)."""
  fields = proposed.labelled.draw.harness.fields
  withdrawn = {
    target
    for operation in proposed.candidate.operations
    if isinstance(operation, changes.Drop)
    for target in fields[operation.field].targets
    # A rubric that follows another rule may have lost it since.
    if target in group.criteria
  }
  if not withdrawn:
    return None
  return all(
    any(
      rollout.reward is not None
      and donors.desired(rollout, index, group.weights[index] < 0)
      for rollout in group.rollouts
    )
    for index in map(group.criteria.index, withdrawn)
  )
