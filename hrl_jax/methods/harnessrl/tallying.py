"""Numbers of a step, for the logs (H-123)."""

from collections.abc import Mapping, Sequence

import numpy as np

from hrl_jax.core import task_sampling
from hrl_jax.harness import changes, reversals, rubrics, terms
from hrl_jax.harness import state as states
from hrl_jax.methods.harnessrl import measuring, parts


def metrics(
  made: parts.Parts,
  labelled: Sequence[parts.Labelled],
  measured: Sequence[measuring.Measured],
  removals: Sequence[changes.Removal],
  donor_gradings: int,
) -> dict[str, float | int]:
  """What a step of the evolver is worth a curve for.

  Args:
    made: the evolver.
    labelled: the draws.
    measured: of all rounds.
    removals: of orphans.
    donor_gradings: criteria that donors were graded by.
  """
  updates = [update for each in measured for update in each.updates]
  spent = [update.measurement for update in updates]
  return {
    **labels(labelled),
    **decisions(updates),
    **probed(updates),
    "harness/accepted_grounded": _share_accepted(updates, True),
    "harness/accepted_ungrounded": _share_accepted(updates, False),
    "harness/foreign_donors": foreign_donors(updates),
    "harness/reversals": reversed_updates(made, labelled, updates),
    "harness/orphans": len(removals),
    "harness/no_budget": sum(each.reason == "no_budget" for each in spent),
    "harness/probe_groups": sum(each.sampled for each in measured),
    "harness/probe_rollouts": sum(each.rollouts for each in spent),
    "harness/probe_gradings": sum(each.gradings for each in spent),
    "harness/donor_gradings": donor_gradings,
  }


def labels(labelled: Sequence[parts.Labelled]) -> dict[str, float | int]:
  """Share of each label among all criteria of the draws, and tasks by kind."""
  found = [each.record for each in labelled]
  names = [label.name for record in found for label in record.labels]
  return {
    **{
      f"harness/{name}": names.count(name) / len(names) if names else np.nan
      for name in terms.LABELS
    },
    "harness/thin_tasks": sum(each.code == "thin_group" for each in found),
    "harness/saturated_tasks": sum(each.is_saturated for each in found),
    "harness/problems": sum(len(each.problems) for each in found),
  }


def decisions(updates: Sequence[changes.Update]) -> dict[str, float | int]:
  """Accepted and rejected candidates, in all and of each interface."""
  total = sum(update.decision.is_accepted for update in updates)
  result: dict[str, float | int] = {
    "harness/accepted": total,
    "harness/rejected": len(updates) - total,
  }
  for name in terms.INTERFACES:
    verdicts = [
      update.decision.is_accepted
      for update in updates
      if update.candidate.interface == name
    ]
    result[f"harness/{name}_accepted"] = sum(verdicts)
    result[f"harness/{name}_rejected"] = len(verdicts) - sum(verdicts)
  return result


def probed(updates: Sequence[changes.Update]) -> dict[str, float | int]:
  """Measured and accepted candidates by what is measured of them (H-87).

  Each kind has its own rate of accepting what does nothing. Adds that could not
  have passed even if every target came to be met are counted too (H-71).
  """
  by_kind: dict[str, list[changes.Update]] = {
    "adds": [],
    "drops": [],
    "rubrics": [],
  }
  for update in updates:
    if update.measurement.delta is None:
      continue
    operations = update.candidate.operations
    kind = "drops"
    if update.candidate.interface == "rubric":
      kind = "rubrics"
    elif any(isinstance(each, changes.Add) for each in operations):
      kind = "adds"
    by_kind[kind].append(update)
  result: dict[str, float | int] = {
    "harness/hopeless_adds": sum(
      update.candidate.potential < update.decision.lower
      for update in by_kind["adds"]
    )
  }
  for kind, found in by_kind.items():
    result[f"harness/{kind}_measured"] = len(found)
    result[f"harness/{kind}_accepted"] = sum(
      update.decision.is_accepted for update in found
    )
  return result


def foreign_donors(updates: Sequence[changes.Update]) -> float:
  """Share of other tasks' responses among those that accepted fields teach."""
  return _share(
    [
      donor.task != update.candidate.task
      for update in updates
      if update.decision.is_accepted
      for operation in update.candidate.operations
      if isinstance(operation, changes.Add)
      for donor in operation.donors
      if donor.sign == "positive"
    ]
  )


def reversed_updates(
  made: parts.Parts,
  labelled: Sequence[parts.Labelled],
  updates: Sequence[changes.Update],
) -> float | int:
  """Accepted rubric updates that undo a recent one (H-122).

  NaN without a memory, which does not know what was done.
  """
  if not made.knobs.has_memory:
    return np.nan
  accepted = {
    update.candidate.task: update
    for update in updates
    if update.decision.is_accepted and update.candidate.interface == "rubric"
  }
  draws = [e.draw for e in labelled if e.draw.task.id in accepted]
  return sum(_is_reversal(made, each, accepted[each.task.id]) for each in draws)


def asked(
  before: Mapping[str, int], after: Mapping[str, int]
) -> dict[str, float | int]:
  """Calls and tokens of a step, by role; none where no model is asked."""
  return {
    f"harness/{name}": count - before.get(name, 0)
    for name, count in after.items()
  }


def standing(
  state: states.HarnessState, weights_N: np.ndarray
) -> dict[str, float | int]:
  """Where the three interfaces stand over the bank.

  Args:
    state: the harness.
    weights_N: with which tasks are drawn, whoever sets them.
  """
  return {
    "harness/mounted": float((state.field_N3 != states.NONE).sum(1).mean()),
    **{
      f"harness/level_{level}": float((state.level_N == level).mean())
      for level in range(4)
    },
    "harness/effective_sample": task_sampling.effective_sample_size(weights_N),
    "harness/rubric_changes": int(state.rubric_version_N.sum()),
  }


def _share_accepted(
  updates: Sequence[changes.Update], is_grounded: bool
) -> float:
  """Of the measured candidates with evidence from other tasks, or without."""
  return _share(
    [
      update.decision.is_accepted
      for update in updates
      if update.measurement.delta is not None
      and update.candidate.is_grounded is is_grounded
    ]
  )


def _is_reversal(
  made: parts.Parts, draw: parts.Draw, update: changes.Update
) -> bool:
  steps = [seen.step for seen in (*draw.before.draws(), *draw.seen)]
  story = reversals.Story(
    rubrics.seed(draw.task), (*draw.before.updates, update), steps
  )
  marks = reversals.marks(
    story,
    similarity=lambda one, other: made.limits.similarity(one, [other])[0],
    floor=made.limits.highest_similarity,
  )
  return marks[-1].undone is not None


def _share(facts: Sequence[bool]) -> float:
  return float(np.mean(facts)) if facts else np.nan
