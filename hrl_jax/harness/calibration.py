"""What the cold start fixes: sampling levels, bands and anchors (H-90 to H-94).

The seed policy answers every task once, without guidance and under the seed
rubrics. A second group of some tasks, and a second grading of some groups, show
how far a group's mean moves although nothing has changed: an effect that is no
larger is none.

Points are 100 times a reward (H-7). All is float64; what is missing is NaN.
"""

import jax
import numpy as np
from jaxtyping import Array, Bool, Float64, Key

from hrl_jax.core import rewards
from hrl_jax.harness import records, terms

_RESAMPLES = 10_000
_PASSED = 0.5


class CalibrationError(ValueError):
  """The cold start says too little for a run to rest on it."""


def masses(
  scores_PGC: Float64[np.ndarray, "P G C"],
  weights_PC: Float64[np.ndarray, "P C"],
  *,
  minimum: int,
) -> Float64[np.ndarray, " P"]:
  """The discriminative mass of groups (H-35).

  It is the share of a rubric's criteria, unweighted, that separate the group:

    0 < sum over valid rollouts of the score < number of valid rollouts

  which is the same for a criterion and for a penalty.

  Args:
    scores_PGC: in [0, 1], NaN where missing.
    weights_PC: signed, on any scale; 0 marks padding.
    minimum: valid rollouts without which a group says nothing (H-65).

  Returns:
    One share per group, NaN where the group is thin.
  """
  _, valid_PG = rewards.rubric_rewards(scores_PGC, weights_PC)
  is_real_PC = weights_PC != 0
  reached_PC = scores_PGC.sum(axis=1, where=valid_PG[:, :, None])
  count_P1 = valid_PG.sum(axis=1, keepdims=True)
  separates_PC = is_real_PC & (reached_PC > 0) & (reached_PC < count_P1)
  masses_P = separates_PC.sum(axis=1) / is_real_PC.sum(axis=1)
  return np.where(rewards.thin(valid_PG, minimum), np.nan, masses_P)


def levels(
  masses_N: Float64[np.ndarray, " N"],
) -> tuple[float, float, float, float]:
  """The four task weights 1, gamma_1, gamma_2 and gamma_3 (H-93).

  The masses are sorted from high to low and cut into three parts; the gammas
  are the medians of the top, the middle and the bottom one. Where N does not
  divide by 3, the upper parts have one more each. Only masses enter, so it does
  not matter which of two tasks with equal ones comes first. The median of an
  even number is the mean of the middle two.

  Args:
    masses_N: discriminative mass of each task, NaN where its group was thin:
      such a task is left out.

  Raises:
    CalibrationError: if fewer than three tasks have a mass, or if a median is 0
      and so cannot weigh a task.
  """
  known_N = np.sort(masses_N[~np.isnan(masses_N)])[::-1]
  if len(known_N) < 3:
    raise CalibrationError(
      f"The sampling levels need at least 3 tasks, but {len(known_N)} of "
      f"{len(masses_N)} have a discriminative mass. The other groups were "
      "thin: see why their rollouts were not graded."
    )
  medians = [float(np.median(part)) for part in np.array_split(known_N, 3)]
  for number, median in enumerate(medians, start=1):
    if median <= 0:
      raise CalibrationError(
        f"gamma_{number} would be {median}, but a task of weight 0 is never "
        f"drawn. Of {len(known_N)} tasks, {np.count_nonzero(known_N == 0)} "
        "have no criterion that separates their rollouts: use larger groups "
        "or a higher temperature, or leave such tasks out of the bank."
      )
  return 1.0, medians[0], medians[1], medians[2]


def rollout_band(
  first_points_P: Float64[np.ndarray, " P"],
  second_points_P: Float64[np.ndarray, " P"],
  ranges_N: Float64[np.ndarray, " N"],
  key: Key[Array, ""],
  *,
  minimum_pairs: int,
) -> records.Band:
  """The band in which an effect of guidance counts (H-91, H-92).

  The lower bound is the 95th percentile, by linear interpolation, of
  |first - second|; its interval is a percentile bootstrap over pairs. The upper
  one is the median of the ranges.

  Args:
    first_points_P: mean points of a task's first group, NaN where thin.
    second_points_P: those of an independent second group, likewise.
    ranges_N: highest less lowest reward of every first group, in points, NaN
      where thin.
    key: of the bootstrap, consumed.
    minimum_pairs: below this many pairs there is no band.

  Returns:
    The band. A pair with a NaN is left out: `samples` counts the others, so
    `len(first_points_P) - samples` were lost.

  Raises:
    CalibrationError: if there are too few pairs, no range, or no room between
      the bounds (H-94).
  """
  remedy = (
    "Use larger groups (the lower bound falls as 1 / sqrt(G)), tasks whose "
    "rollouts differ more, or more second groups if the interval is wide."
  )
  return _band(
    "rollout",
    np.abs(first_points_P - second_points_P),
    ranges_N,
    key,
    minimum_pairs=minimum_pairs,
    remedy=remedy,
  )


def rubric_band(
  points_P: Float64[np.ndarray, " P"],
  regraded_points_P: Float64[np.ndarray, " P"],
  ranges_N: Float64[np.ndarray, " N"],
  key: Key[Array, ""],
  *,
  minimum_pairs: int,
) -> records.Band:
  """The band in which an effect of the rubric counts (H-91, H-92).

  As `rollout_band`, of the same group graded twice. Where grading is exact the
  lower bound is 0, and a change without any effect lies within the band.

  Args:
    points_P: mean points of a group, NaN where thin.
    regraded_points_P: those of the same rollouts, graded again.
    ranges_N: as for `rollout_band`.
    key: of the bootstrap, consumed.
    minimum_pairs: below this many pairs there is no band.

  Raises:
    CalibrationError: as for `rollout_band`.
  """
  remedy = (
    "Use a steadier judge (lower its temperature), larger groups, tasks whose "
    "rollouts differ more, or more regraded groups if the interval is wide."
  )
  return _band(
    "rubric",
    np.abs(points_P - regraded_points_P),
    ranges_N,
    key,
    minimum_pairs=minimum_pairs,
    remedy=remedy,
  )


def anchors(
  scores_GC: Float64[np.ndarray, "G C"],
  weights_C: Float64[np.ndarray, " C"],
  regraded_GC: Float64[np.ndarray, "G C"] | None,
  *,
  max_share: float,
  minimum: int,
) -> tuple[int, ...]:
  """The seed criteria of a task whose text is fixed for good (H-44).

  A criterion may be an anchor if its weight is positive, its scores of the
  valid rollouts differ and correlate positively with what the rest of the
  rubric gives them, and no verdict on it flipped in the regrading. Of these the
  heaviest are taken, the earlier one of two equals first. One that would
  carry the anchors' share A of the positive weight above `max_share` is
  skipped, and lighter ones are still tried: else one heavy criterion would
  leave its task without anchors. At least one positive criterion stays free.

  Args:
    scores_GC: of the cold-start group, in [0, 1], NaN where missing.
    weights_C: of the seed rubric, on its own scale; 0 marks padding.
    regraded_GC: scores of a second grading, None if there was none; a missing
      one flips nothing.
    max_share: the largest A, in [0, 1].
    minimum: valid rollouts without which a group says nothing (H-65).

  Returns:
    Places in the rubric, ascending; none where the group is thin.
  """
  _, valid_1G = rewards.rubric_rewards(scores_GC[None], weights_C[None])
  if rewards.thin(valid_1G, minimum)[0]:
    return ()
  fit_C = (weights_C > 0) & _agrees_with_the_rest(
    scores_GC[valid_1G[0]], weights_C
  )
  if regraded_GC is not None:
    fit_C &= ~_flipped(scores_GC, regraded_GC)
  return _heaviest(fit_C, weights_C, max_share)


def _band(
  name: terms.Interface,
  differences_P: Float64[np.ndarray, " P"],
  ranges_N: Float64[np.ndarray, " N"],
  key: Key[Array, ""],
  *,
  minimum_pairs: int,
  remedy: str,
) -> records.Band:
  known_P = differences_P[~np.isnan(differences_P)]
  known_ranges_N = ranges_N[~np.isnan(ranges_N)]
  samples, groups = len(known_P), len(known_ranges_N)
  if samples < max(minimum_pairs, 1) or not groups:
    raise CalibrationError(
      f"The {name} band needs at least {max(minimum_pairs, 1)} pairs and 1 "
      f"range, but {samples} of {len(differences_P)} pairs and {groups} of "
      f"{len(ranges_N)} ranges are known. Measure more of them, or see why "
      "the others were not graded."
    )
  lower = float(np.percentile(known_P, 95))
  upper = float(np.median(known_ranges_N))
  places = jax.random.randint(key, (_RESAMPLES, samples), 0, samples)
  resampled = np.percentile(known_P[np.asarray(places)], 95, axis=1)
  low, high = map(float, np.percentile(resampled, [2.5, 97.5]))
  if lower >= upper:
    raise CalibrationError(
      f"The {name} band is empty. Its lower bound, the 95th percentile of the "
      f"null variation of {samples} pairs, is {lower:.2f} points (95 % "
      f"interval {low:.2f} to {high:.2f}); its upper bound, the median range "
      f"of rewards within {groups} groups, is {upper:.2f}. {remedy}"
    )
  return records.Band(
    lower=lower, upper=upper, samples=samples, low=low, high=high
  )


def _agrees_with_the_rest(
  scores_GC: Float64[np.ndarray, "G C"], weights_C: Float64[np.ndarray, " C"]
) -> Bool[np.ndarray, " C"]:
  """Whether both vary over the rollouts, and with positive correlation."""
  earned_GC = np.where(weights_C == 0, 0.0, scores_GC * weights_C)
  rest_GC = earned_GC.sum(axis=1, keepdims=True) - earned_GC
  rest_GC /= np.abs(weights_C).sum()
  # What rounding leaves of a constant also has a correlation.
  varies_C = (np.ptp(scores_GC, axis=0) > rewards.TOLERANCE) & (
    np.ptp(rest_GC, axis=0) > rewards.TOLERANCE
  )
  centred_GC = scores_GC - scores_GC.mean(axis=0)
  centred_rest_GC = rest_GC - rest_GC.mean(axis=0)
  covariance_C = (centred_GC * centred_rest_GC).mean(axis=0)
  # Correlation > TOLERANCE, without a division by zero.
  scale_C = centred_GC.std(axis=0) * centred_rest_GC.std(axis=0)
  return varies_C & (covariance_C > rewards.TOLERANCE * scale_C)


def _flipped(
  scores_GC: Float64[np.ndarray, "G C"], regraded_GC: Float64[np.ndarray, "G C"]
) -> Bool[np.ndarray, " C"]:
  known_GC = ~np.isnan(scores_GC) & ~np.isnan(regraded_GC)
  differs_GC = (scores_GC >= _PASSED) != (regraded_GC >= _PASSED)
  return (known_GC & differs_GC).any(axis=0)


def _heaviest(
  fit_C: Bool[np.ndarray, " C"],
  weights_C: Float64[np.ndarray, " C"],
  max_share: float,
) -> tuple[int, ...]:
  if not 0 <= max_share <= 1:
    raise ValueError(
      f"The anchors' share of the positive weight is capped at {max_share}, "
      "but a share lies in [0, 1]."
    )
  available = weights_C[weights_C > 0].sum()
  room = np.count_nonzero(weights_C > 0) - 1
  chosen: list[int] = []
  share = 0.0
  for place in np.argsort(-weights_C, kind="stable"):
    added = float(weights_C[place] / available)
    # 0.1 + 0.2 is more than half of 0.6 by a rounding.
    fits = share + added <= max_share + rewards.TOLERANCE
    if fit_C[place] and fits and len(chosen) < room:
      chosen.append(int(place))
      share += added
  return tuple(sorted(chosen))
