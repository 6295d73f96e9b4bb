"""Rewards of rubric scores, on the host in float64.

A score says how far a rollout meets a criterion, in [0, 1]; NaN is a score
that could not be had. A missing score makes the rollout's reward missing: were
it read as "not met", every failure on a penalty would be a gift (H-101).
"""

import numpy as np
from jaxtyping import Array, Bool, Float

# Rewards of a group that lie this close are equal (H-22). Judges' floats need
# it: the float32 mean of five rewards of 0.3 is not 0.3.
TOLERANCE = 1e-6


def rubric_rewards(
  scores_PGC: Float[np.ndarray, "P G C"], weights_PC: Float[np.ndarray, "P C"]
) -> tuple[Float[np.ndarray, "P G"], Bool[np.ndarray, "P G"]]:
  """Weighs the scores of every rollout into its reward (H-20).

    reward = sum_c weight_c score_c / sum_c max(weight_c, 0)

  The best response has reward 1. Penalties can make a reward negative, and
  nothing is clipped: that would tie rollouts that differ.

  Args:
    scores_PGC: in [0, 1], NaN where missing.
    weights_PC: signed, on any scale; 0 marks padding, whose scores, NaN or
      not, are ignored.

  Returns:
    The rewards in float64, NaN where a criterion has no score, and whether
    each rollout is valid, that is, has all of its scores.

  Raises:
    ValueError: if a task has no positive weight (H-100) or one that is not
      finite, or if a score lies outside [0, 1].
  """
  weights_PC = np.asarray(weights_PC, np.float64)
  _check_weights(weights_PC)
  scores_PGC = np.where(weights_PC[:, None] == 0, 0.0, scores_PGC)
  _check_scores(scores_PGC)
  earned_PG = _total(scores_PGC * weights_PC[:, None])
  available_P = _total(np.maximum(weights_PC, 0.0))
  valid_PG = ~np.isnan(scores_PGC).any(axis=2)
  return earned_PG / available_P[:, None], valid_PG


def is_constant(
  rewards_PG: Float[Array | np.ndarray, "P G"],
  valid_PG: Bool[Array | np.ndarray, "P G"],
) -> Bool[Array | np.ndarray, " P"]:
  """Whether the valid rewards of a group are all equal (H-22).

  Equal means within `TOLERANCE`, in whatever precision the rewards come. One
  function serves the host and the device, so a group that is dropped or kept
  there is the one that has no advantage here. A group with fewer than two
  valid rollouts has no contrast either.

  Args:
    rewards_PG: ignored where not valid, NaN or not.
    valid_PG: False where a rollout has no reward.

  Returns:
    One truth per group, in the kind of array that came in.
  """
  highest_P = rewards_PG.max(axis=1, where=valid_PG, initial=-np.inf)
  lowest_P = rewards_PG.min(axis=1, where=valid_PG, initial=np.inf)
  return highest_P - lowest_P <= TOLERANCE


def minimum_valid(group_size: int) -> int:
  """Valid rollouts without which a group counts for nothing (H-65).

  J_min = max(2, G / 2), rounded up.
  """
  return max(2, (group_size + 1) // 2)


def thin(
  valid_PG: Bool[np.ndarray, "P G"], minimum: int
) -> Bool[np.ndarray, " P"]:
  """Whether a group has fewer than `minimum` valid rollouts (H-102)."""
  return valid_PG.sum(axis=1) < minimum


def _total(
  values_C: Float[np.ndarray, "*axes C"],
) -> Float[np.ndarray, "*axes"]:
  # One after the other: then padding, wherever it stands, changes no bit. The
  # pairwise sum of numpy depends on the width.
  return np.cumsum(values_C, axis=-1)[..., -1]


def _check_weights(weights_PC: Float[np.ndarray, "P C"]) -> None:
  for row in np.flatnonzero(~np.isfinite(weights_PC).all(axis=1)):
    raise ValueError(
      f"The rubric in row {row} has a weight that is not finite: "
      f"{weights_PC[row].tolist()}. Weights are signed numbers, 0 for padding."
    )
  for row in np.flatnonzero(~(weights_PC > 0).any(axis=1)):
    raise ValueError(
      f"The rubric in row {row} has no positive weight: "
      f"{weights_PC[row].tolist()}. A reward is a share of the positive "
      "weight: leave such a task out of the bank, and refuse a change that "
      "makes one."
    )


def _check_scores(scores_PGC: Float[np.ndarray, "P G C"]) -> None:
  for place in np.argwhere((scores_PGC < 0) | (scores_PGC > 1)):
    raise ValueError(
      f"Score {scores_PGC[tuple(place)]} of task row {place[0]}, rollout "
      f"{place[1]}, criterion {place[2]} lies outside [0, 1]. The grader must "
      "rescale it, or hand over NaN if there is no score."
    )
