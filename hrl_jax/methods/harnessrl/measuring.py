"""The critic: candidates on the policy that made their groups (H-80)."""

from collections.abc import Sequence
from typing import NamedTuple

import jax

from hrl_jax import protocols
from hrl_jax.harness import changes, critic, records, terms
from hrl_jax.harness import state as states
from hrl_jax.methods.harnessrl import parts, probing, regrading


class Measured(NamedTuple):
  """What was measured.

  Attributes:
    updates: one per candidate, in order, decided.
    groups: records of what was sampled, and of the gradings by rubrics that
      were accepted. Those of a rejected rubric are left out: later words would
      bear the names of its criteria.
    sampled: fresh groups.
  """

  updates: tuple[changes.Update, ...]
  groups: tuple[records.Group, ...]
  sampled: int


def measure(
  made: parts.Parts,
  state: states.HarnessState,
  proposed: Sequence[parts.Proposed],
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
  valid: dict[str, list[parts.Proposed]] = {
    name: [] for name in terms.INTERFACES
  }
  for each in proposed:
    if not each.problem:
      valid[each.candidate.interface].append(each)
  found = {each.candidate.id: _mass(each) for each in valid["sampling"]}
  if made.knobs.has_critic:
    found |= probing.measure(
      made, valid["rollout"], budget=budget, probe=probe, key=key
    )
    found |= regrading.measure(valid["rubric"], probe, f"regrade {round}")
  updates = tuple(
    _decided(made, state, each, found.get(each.candidate.id))
    for each in proposed
  )
  accepted = {u.candidate.id for u in updates if u.decision.is_accepted}
  groups = tuple(
    group
    for name, each in found.items()
    for group in each.groups
    if group.kind == "probe" or name in accepted
  )
  sampled = sum(group.kind == "probe" for group in groups)
  return Measured(updates, groups, sampled)


def _mass(proposed: parts.Proposed) -> parts.Found:
  """A lower level needs only the mass of the recorded group (H-80)."""
  draw = proposed.labelled.draw
  return parts.Found(
    changes.Measurement(
      status="ok",
      reason="mass",
      after=draw.seen[0].mass,
      valid=draw.seen[0].valid,
      weights_version=draw.groups[0].weights_version,
    )
  )


def _decided(
  made: parts.Parts,
  state: states.HarnessState,
  proposed: parts.Proposed,
  found: parts.Found | None,
) -> changes.Update:
  candidate = proposed.candidate
  if proposed.problem:
    code, detail = proposed.problem
    rejected = changes.Decision(False, f"invalid:{code}")
    return changes.Update(candidate, parts.unmeasured(detail), rejected)
  if found:
    measurement = found.measurement
    rubric = proposed.labelled.draw.harness.rubric
    decision = critic.decide(
      candidate,
      measurement,
      state.bands_22,
      made.knobs.critic,
      weights={e.version.cid: e.raw for e in rubric.entries},
    )
  else:
    measurement = parts.unmeasured("no_critic")
    decision = changes.Decision(True, "no_critic")
  if candidate.interface != "rubric" or not decision.is_accepted:
    return changes.Update(candidate, measurement, decision)
  change = regrading.change(proposed)
  return changes.Update(
    candidate, measurement, decision, change.made, change.retired
  )
