"""The harness evolver: attribute, propose, measure, accept (section 2.3)."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax
import msgspec

from hrl_jax import base, protocols
from hrl_jax import clock as clocks
from hrl_jax.harness import cases, changes, commits, rubrics
from hrl_jax.harness import state as states
from hrl_jax.methods.harnessrl import (
  attributing,
  measuring,
  observing,
  outcomes,
  parts,
  proposing,
  routing,
  tallying,
  views,
)

RubricOf = Callable[[states.HarnessState, int], rubrics.TaskRubric]


class Seen(NamedTuple):
  """A step as the evolver sees it.

  Attributes:
    step: updates before it.
    evidence: of it.
    harness_of: a task's interfaces as it was drawn, by its place in the bank.
    rubric_after: its rubric after the step, by the harness and its place.
    probe: of the policy that made the evidence.
  """

  step: int
  evidence: base.Evidence
  harness_of: observing.HarnessOf
  rubric_after: RubricOf
  probe: protocols.Probe


def evolve(
  made: parts.Parts,
  state: states.HarnessState,
  seen: Seen,
  key: jax.Array,
) -> protocols.Learnt:
  """The harness of the next step, and what is worth a curve.

  Args:
    made: the evolver.
    state: the harness that the step was drawn from.
    seen: the step.
    key: consumed.
  """
  clock, asked_before = clocks.Clock(), dict(made.roles.tally)
  draws = observing.observe(
    made, state.bank, seen.harness_of, seen.step, seen.evidence
  )
  clock.lap("remember")
  labelled = attributing.label(made, draws, seen.step, state.levels_4.tolist())
  clock.lap("attribute")
  rounds = _rounds(made, state, labelled, seen, key, clock)
  labelled = _with_problems(labelled, [each.proposed for each in rounds])
  measured = [each.measured for each in rounds]
  updates = _in_order(measured)
  after = commits.commit(state, updates)
  removals = _orphans(after, draws, seen)
  after = commits.commit(after, removals)
  made.memory.append(
    [
      *(each.record for each in labelled),
      *(outcome for each in labelled for outcome in outcomes.outcomes(each)),
      *(group for each in measured for group in each.groups),
      *updates,
      *removals,
    ]
  )
  clock.lap("remember")
  gradings = sum(each.proposed.gradings for each in rounds)
  metrics = tallying.metrics(made, labelled, measured, removals, gradings)
  asked = tallying.asked(asked_before, made.roles.tally)
  return protocols.Learnt(after, {**metrics, **asked}, clock.seconds)


class _Round(NamedTuple):
  proposed: proposing.Round
  measured: measuring.Measured


def _rounds(
  made: parts.Parts,
  state: states.HarnessState,
  labelled: Sequence[parts.Labelled],
  seen: Seen,
  key: jax.Array,
  clock: clocks.Clock,
) -> list[_Round]:
  """Proposals and measurements; what is rejected may come back (H-74)."""
  knobs, cap = made.knobs, views.cap(seen.step, made.num_steps)
  asked = [
    each
    for each in labelled
    if routing.is_worth_asking(each, knobs.interfaces, cap)
  ]
  rejections: dict[str, tuple[cases.Rejection, ...]] = {}
  budget = round(knobs.probe_share * seen.evidence.plan.num_groups)
  rounds: list[_Round] = []
  for number in range(knobs.rounds if knobs.has_critic else 1):
    if not asked:
      break
    proposed = proposing.propose(
      made, asked, rejections, cap=cap, round=number, probe=seen.probe
    )
    clock.lap("propose")
    measured = measuring.measure(
      made,
      state,
      proposed.proposed,
      budget=budget,
      probe=seen.probe,
      key=jax.random.fold_in(key, number),
      round=number,
    )
    clock.lap("measure")
    rounds.append(_Round(proposed, measured))
    budget -= measured.sampled
    rejections = _rejections(measured.updates)
    asked = [each for each in asked if each.draw.task.id in rejections]
  return rounds


def _rejections(
  updates: Sequence[changes.Update],
) -> dict[str, tuple[cases.Rejection, ...]]:
  """What goes back to the proposer, by task: all that is no want of budget."""
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


def _with_problems(
  labelled: Sequence[parts.Labelled], rounds: Sequence[proposing.Round]
) -> tuple[parts.Labelled, ...]:
  """The labels, with what the proposer said that could not be used."""

  def whole(each: parts.Labelled) -> parts.Labelled:
    task = each.draw.task.id
    more = [p for round in rounds for p in round.problems.get(task, ())]
    record = msgspec.structs.replace(
      each.record, problems=(*each.record.problems, *more)
    )
    return each._replace(record=record)

  return tuple(map(whole, labelled))


def _in_order(
  measured: Sequence[measuring.Measured],
) -> list[changes.Update]:
  """The updates of all rounds as they are committed: task by task, and within
  a task rubric, rollout, sampling (H-88)."""
  order = ("rubric", "rollout", "sampling")
  by_task: dict[str, list[changes.Update]] = {}
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
  after: states.HarnessState, draws: Sequence[parts.Draw], seen: Seen
) -> list[changes.Removal]:
  """Fields that the step has left without their target (H-88)."""
  return [
    changes.Removal(seen.step, draw.task.id, kind, "orphan")
    for draw in draws
    for kind in commits.orphans(
      states.task(after, draw.place)._replace(
        rubric=seen.rubric_after(after, draw.place)
      )
    )
  ]
