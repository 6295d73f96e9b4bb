"""Numbers of a step, for the logs (H-123)."""

from collections.abc import Sequence

import numpy as np

from hrl_jax.core import task_sampling
from hrl_jax.harness import records
from hrl_jax.harness import state as states
from hrl_jax.methods.harnessrl import measuring, parts


def metrics(
  state: states.HarnessState,
  labelled: Sequence[parts.Labelled],
  measured: Sequence[measuring.Measured],
  removals: Sequence[records.Removal],
) -> dict[str, float]:
  """What a step of the harness is worth a curve for.

  Args:
    state: after the step.
    labelled: the draws.
    measured: of all rounds.
    removals: of orphans.
  """
  updates = [update for each in measured for update in each.updates]
  return {
    **labels(labelled),
    **decisions(updates),
    **standing(state),
    "harness/orphans": len(removals),
    "harness/probe_groups": sum(each.sampled for each in measured),
    "harness/probe_rollouts": sum(u.measurement.rollouts for u in updates),
    "harness/probe_gradings": sum(u.measurement.gradings for u in updates),
    "harness/problems": sum(len(each.record.problems) for each in labelled),
    "harness/no_budget": sum(
      u.measurement.reason == "no_budget" for u in updates
    ),
  }


def labels(labelled: Sequence[parts.Labelled]) -> dict[str, float]:
  """Share of each label among all criteria of the draws."""
  names = [each.name for l in labelled for each in l.record.labels]
  return {
    **{
      f"harness/{name}": names.count(name) / len(names) if names else np.nan
      for name in records.LABELS
    },
    "harness/thin_tasks": sum(
      each.record.code == "thin_group" for each in labelled
    ),
    "harness/saturated_tasks": sum(
      each.record.is_saturated for each in labelled
    ),
  }


def decisions(updates: Sequence[records.Update]) -> dict[str, float]:
  """Accepted and rejected candidates per interface; donors; grounding."""
  result: dict[str, float] = {}
  for name in records.INTERFACES:
    of_interface = [u for u in updates if u.candidate.interface == name]
    accepted = sum(u.decision.is_accepted for u in of_interface)
    result[f"harness/{name}_accepted"] = accepted
    result[f"harness/{name}_rejected"] = len(of_interface) - accepted
  for name, grounded in (("grounded", True), ("ungrounded", False)):
    verdicts = [
      u.decision.is_accepted
      for u in updates
      if u.measurement.delta is not None and u.candidate.is_grounded is grounded
    ]
    result[f"harness/accepted_{name}"] = (
      float(np.mean(verdicts)) if verdicts else np.nan
    )
  foreign = [
    donor.task != update.candidate.task
    for update in updates
    if update.decision.is_accepted
    for operation in update.candidate.operations
    if isinstance(operation, records.Add)
    for donor in operation.donors
    if donor.sign == "positive"
  ]
  result["harness/foreign_donors"] = (
    float(np.mean(foreign)) if foreign else np.nan
  )
  return result


def standing(state: states.HarnessState) -> dict[str, float]:
  """Where the three interfaces stand over the bank."""
  weights_N = states.weights(state)
  levels_N = state.level_N
  return {
    "harness/mounted": float((state.field_N3 != states.NONE).sum(1).mean()),
    **{
      f"harness/level_{level}": float((levels_N == level).mean())
      for level in range(4)
    },
    "harness/effective_sample": task_sampling.effective_sample_size(weights_N),
    "harness/rubric_changes": int(state.rubric_version_N.sum()),
  }
