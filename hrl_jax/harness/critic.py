"""The critic's decisions: which measured candidates join the harness.

A candidate is accepted by what it did to the mean of a group, in points (H-7),
on the frozen policy that made the recorded group; the bounds are those of the
cold start. Bands are closed: an effect on a bound is inside.

  candidate                bounds on the effect            besides
  sampling (H-80)          none                            a measured mass
  rollout, with an add     lower <= delta <= upper         (H-81)
  rollout, drops only      -lower <= delta                 target met (H-82)
  rubric, primary          lower <= |delta| <= upper       (H-84)
  rubric, secondary only   |delta| <= upper                (H-85)

Each decision has a code:

  measured             accepted: sampling, which needs no more
  within               accepted: the effect is inside its bounds
  below, above         rejected: the effect is outside, on that side
  target_unmet         rejected: no rollout meets the target without its field
  unmeasured:<reason>  rejected: there is no measurement (H-86), with its own
                       reason, or "mass", "delta" or "target" for the number
                       that it lacks
"""

import math
from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

import numpy as np
from jaxtyping import Float64

from hrl_jax.harness import changes, history


class Knobs(NamedTuple):
  """What the paper leaves open.

  Attributes:
    drop_needs_target_met: whether a field is only withdrawn where a rollout
      meets its target without it: the whole weight of a criterion is smaller
      than the tolerance, so reward alone does not notice its loss (H-82).
    drop_upper_bound: whether a withdrawal is also refused where the mean rises
      by more than the tolerance; a rise is no reason to keep a crutch (H-82).
    rubric_sign: "absolute": a rubric may move the mean either way; "signed": it
      must move it the way that its operations intend, where they agree (H-84).
    secondary_lower_bound: whether the lower bound also holds for a rubric
      candidate of secondary operations only: the deletion of a criterion that
      all meet cannot move the mean (H-85).
  """

  drop_needs_target_met: bool = True
  drop_upper_bound: bool = False
  rubric_sign: Literal["absolute", "signed"] = "absolute"
  secondary_lower_bound: bool = False


class _Band(NamedTuple):
  lower: float
  upper: float


_OPERATIONS = {
  "sampling": changes.Lower,
  "rollout": changes.Add | changes.Drop,
  "rubric": changes.RubricOperation,
}


class Difference(NamedTuple):
  """Means of the same rollouts before and after, in points.

  Attributes:
    before: NaN where too few rollouts count.
    after: likewise.
    delta: after - before.
    valid: rollouts that count on both sides.
  """

  before: float
  after: float
  delta: float
  valid: int


def mean_points(rewards_G: Float64[np.ndarray, " G"], *, minimum: int) -> float:
  """The mean of a group's valid rewards, in points (H-7).

  Args:
    rewards_G: NaN where not valid.
    minimum: valid rollouts below which there is no mean (H-65): NaN.
  """
  valid_G = ~np.isnan(rewards_G)
  if valid_G.sum() < max(minimum, 1):
    return math.nan
  return float(history.POINTS * rewards_G[valid_G].mean())


def delta_points(
  before_G: Float64[np.ndarray, " G"],
  after_G: Float64[np.ndarray, " G"],
  *,
  minimum: int,
) -> Difference:
  """What another rubric does to the same rollouts (H-83).

  Only rollouts that are valid under both rubrics count, on both sides: else the
  loss of a good one would look like an effect.

  Args:
    before_G: rewards as recorded, NaN where not valid.
    after_G: under the candidate rubric, in the same order.
    minimum: common rollouts below which there is no measurement (H-86).
  """
  common_G = ~np.isnan(before_G) & ~np.isnan(after_G)
  before = mean_points(before_G[common_G], minimum=minimum)
  after = mean_points(after_G[common_G], minimum=minimum)
  return Difference(before, after, after - before, int(common_G.sum()))


def decide(
  candidate: changes.Candidate,
  measurement: changes.Measurement,
  bands_22: Float64[np.ndarray, "2 2"],
  knobs: Knobs,
  *,
  weights: Mapping[str, float] | None = None,
) -> changes.Decision:
  """Accepts or rejects a candidate by its measured effect.

  Args:
    candidate: valid operations on one interface.
    measurement: of it; None and NaN both mean that a number is missing.
    bands_22: rollout and rubric by lower and upper bound, in points, as the
      harness state has them.
    knobs: what the paper leaves open.
    weights: of the task's criteria before the candidate, on the seed's scale,
      by lineage; needed where the sign counts and a penalty is reweighted.

  Raises:
    ValueError: if the candidate has no operation or one of another interface,
      or if a bound is missing: then the cold start has not been.
  """
  _check(candidate, bands_22)
  rollout, rubric = (_Band(*bounds) for bounds in bands_22.tolist())
  if measurement.status == "none":
    return _rejected(f"unmeasured:{measurement.reason}")
  if candidate.interface == "sampling":
    return _sampling(measurement)
  if _is_missing(measurement.delta):
    return _rejected("unmeasured:delta")
  if candidate.interface == "rubric":
    return _rubric(candidate, measurement, rubric, knobs, weights)
  if all(isinstance(each, changes.Drop) for each in candidate.operations):
    return _withdrawal(measurement, rollout, knobs)
  return _within(measurement.delta, rollout.lower, rollout.upper)


def intent(
  operations: Sequence[changes.Operation],
  weights: Mapping[str, float] | None = None,
) -> Literal[-1, 0, 1]:
  """Which way rubric operations mean to move the mean of a group (H-84).

  -1, tightening: a create, a rewrite, a split and a heavier penalty ask more.
  1, relaxing: a delete and a lighter penalty ask less. 0, open: a merge and
  another weight of a positive criterion may do either, and so may operations
  that do not all have the same intent.

  Args:
    operations: of a rubric candidate.
    weights: before them, see `decide`.

  Raises:
    ValueError: if the earlier weight of a reweighted penalty is not there.
  """
  ways = {_way(operation, weights or {}) for operation in operations}
  return ways.pop() if len(ways) == 1 else 0


def _way(
  operation: changes.Operation, weights: Mapping[str, float]
) -> Literal[-1, 0, 1]:
  match operation:
    case changes.Create() | changes.Rewrite() | changes.Split():
      return -1
    case changes.Delete():
      return 1
    case changes.Reweight(cid=cid, weight=weight) if weight < 0:
      if cid not in weights:
        raise ValueError(
          f"The penalty {cid} is reweighted to {weight}, but its weight before "
          f"is not among those of {sorted(weights)}: hand over the weights of "
          "the task's rubric."
        )
      return 1 if weight > weights[cid] else -1
  return 0


def _sampling(measurement: changes.Measurement) -> changes.Decision:
  if _is_missing(measurement.after):
    return _rejected("unmeasured:mass")
  return changes.Decision(is_accepted=True, code="measured")


def _withdrawal(
  measurement: changes.Measurement, band: _Band, knobs: Knobs
) -> changes.Decision:
  lower = -band.lower
  upper = band.lower if knobs.drop_upper_bound else None
  decision = _within(measurement.delta, lower, upper)
  if not decision.is_accepted or not knobs.drop_needs_target_met:
    return decision
  if measurement.target_met is None:
    return _rejected("unmeasured:target", lower, upper)
  if not measurement.target_met:
    return _rejected("target_unmet", lower, upper)
  return decision


def _rubric(
  candidate: changes.Candidate,
  measurement: changes.Measurement,
  band: _Band,
  knobs: Knobs,
  weights: Mapping[str, float] | None,
) -> changes.Decision:
  if not candidate.is_primary and not knobs.secondary_lower_bound:
    return _within(abs(measurement.delta), None, band.upper)
  way = 0
  if knobs.rubric_sign == "signed":
    way = intent(candidate.operations, weights)
  effect = way * measurement.delta if way else abs(measurement.delta)
  return _within(effect, band.lower, band.upper)


def _within(
  effect: float, lower: float | None, upper: float | None
) -> changes.Decision:
  if lower is not None and effect < lower:
    return _rejected("below", lower, upper)
  if upper is not None and effect > upper:
    return _rejected("above", lower, upper)
  return changes.Decision(
    is_accepted=True, code="within", lower=lower, upper=upper
  )


def _rejected(
  code: str, lower: float | None = None, upper: float | None = None
) -> changes.Decision:
  return changes.Decision(
    is_accepted=False, code=code, lower=lower, upper=upper
  )


def _is_missing(number: float | None) -> bool:
  return number is None or math.isnan(number)


def _check(
  candidate: changes.Candidate, bands_22: Float64[np.ndarray, "2 2"]
) -> None:
  if np.isnan(bands_22).any():
    raise ValueError(
      f"The acceptance bands are {bands_22.tolist()}: nothing can be decided "
      "before the cold start has measured them."
    )
  if not candidate.operations:
    raise ValueError(
      f"Candidate {candidate.id} has no operation. A noop is no candidate."
    )
  for operation in candidate.operations:
    if not isinstance(operation, _OPERATIONS[candidate.interface]):
      raise ValueError(
        f"Candidate {candidate.id} for the {candidate.interface} interface "
        f"has the operation {operation}, which is of another one."
      )
