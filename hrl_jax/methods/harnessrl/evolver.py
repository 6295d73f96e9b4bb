"""The harness evolver: attribute, propose, measure, accept (section 2.3)."""

from collections.abc import Sequence

import jax

from hrl_jax import base, protocols
from hrl_jax.harness import cases, commits, records
from hrl_jax.harness import state as states
from hrl_jax.methods.harnessrl import (
  attributing,
  measuring,
  observing,
  parts,
  proposing,
  tallying,
)


def evolve(
  made: parts.Parts,
  state: states.HarnessState,
  harness_of: observing.HarnessOf,
  step: int,
  evidence: base.Evidence,
  probe: protocols.Probe,
  key: jax.Array,
) -> tuple[states.HarnessState, dict[str, float]]:
  """The harness of the next step, and what is worth a curve.

  Args:
    made: the evolver.
    state: the harness that the step was drawn from.
    harness_of: a task's interfaces, by its place in the bank.
    step: updates before it.
    evidence: of the step.
    probe: of the policy that made it.
    key: consumed.
  """
  draws = observing.observe(made, state, harness_of, step, evidence)
  labelled = attributing.label(made, draws, step, state.levels_4.tolist())
  log: list[records.Record] = [each.record for each in labelled]
  for each in labelled:
    log += attributing.outcomes(each)
  measured = _rounds(made, state, labelled, step, probe, key)
  for each in measured:
    log += each.groups
  updates = _by_task(measured)
  log += updates
  state = commits.commit(state, updates)
  removals = _orphans(state, draws, step)
  state = commits.commit(state, removals)
  made.memory.append([*log, *removals])
  return state, tallying.metrics(state, labelled, measured, removals)


def _rounds(
  made: parts.Parts,
  state: states.HarnessState,
  labelled: Sequence[parts.Labelled],
  step: int,
  probe: protocols.Probe,
  key: jax.Array,
) -> list[measuring.Measured]:
  """Proposals and measurements; what is rejected may come back (H-74)."""
  asked = [each for each in labelled if proposing.is_worth_asking(each)]
  rejections: dict[str, tuple[cases.Rejection, ...]] = {}
  budget = round(made.knobs.probe_share * len(labelled))
  result: list[measuring.Measured] = []
  for number in range(made.knobs.rounds if made.knobs.has_critic else 1):
    if not asked:
      break
    proposed = proposing.propose(made, asked, rejections, step, number, probe)
    measured = measuring.measure(
      made,
      state,
      proposed,
      budget=budget,
      probe=probe,
      key=jax.random.fold_in(key, number),
      round=number,
    )
    result.append(measured)
    budget -= measured.sampled
    rejections = _rejections(measured.updates)
    asked = [each for each in asked if each.draw.task.id in rejections]
  return result


def _rejections(
  updates: Sequence[records.Update],
) -> dict[str, tuple[cases.Rejection, ...]]:
  """What goes back to the proposer, by task: it was measured, or invalid."""
  rejected: dict[str, tuple[cases.Rejection, ...]] = {}
  for update in updates:
    if update.decision.is_accepted or update.measurement.reason == "no_budget":
      continue
    task = update.candidate.task
    rejected[task] = (
      *rejected.get(task, ()),
      cases.Rejection(update.candidate, update.measurement, update.decision),
    )
  return rejected


def _by_task(
  measured: Sequence[measuring.Measured],
) -> list[records.Update]:
  """The updates of all rounds as they are committed: task by task, and within
  a task rubric, rollout, sampling (H-88)."""
  order = ("rubric", "rollout", "sampling")
  by_task: dict[str, list[records.Update]] = {}
  for each in measured:
    for update in each.updates:
      by_task.setdefault(update.candidate.task, []).append(update)
  return [
    update
    for updates in by_task.values()
    for update in sorted(
      updates, key=lambda each: order.index(each.candidate.interface)
    )
  ]


def _orphans(
  state: states.HarnessState, draws: Sequence[parts.Draw], step: int
) -> list[records.Removal]:
  """Fields that the commit has left without their target (H-88)."""
  return [
    records.Removal(step, draw.task.id, kind, "orphan")
    for draw in draws
    for kind in commits.orphans(states.task(state, draw.place))
  ]
