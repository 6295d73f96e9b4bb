"""What the pairs of a group say about its reward (H-120, H-121).

A pair of rollouts has a class by its rewards and by the oracle, which no part
of training sees:

  rewards tie   blind        the shared reward is below the threshold
                saturated    it is not
  they differ   agree        in the order of the oracle
                wrong way    against it
                oracle tied  the oracle sees no difference

The paper's spurious class is the last two together.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float64, Int64

from hrl_jax.core import rewards


class Counts(NamedTuple):
  """Pairs of each class, by group."""

  blind: Int64[np.ndarray, " P"]
  saturated: Int64[np.ndarray, " P"]
  agree: Int64[np.ndarray, " P"]
  wrong_way: Int64[np.ndarray, " P"]
  oracle_tied: Int64[np.ndarray, " P"]

  @property
  def spurious(self) -> Int64[np.ndarray, " P"]:
    """Pairs that the reward separates without the oracle's order."""
    return self.wrong_way + self.oracle_tied

  @property
  def total(self) -> Int64[np.ndarray, " P"]:
    """All pairs that have a class."""
    return self.blind + self.saturated + self.agree + self.spurious


class Shares(NamedTuple):
  """Classes as shares of all pairs, NaN where there is no pair.

  Attributes:
    blind: with saturated, spurious and agree this adds up to 1.
    saturated: see `Counts`.
    spurious: wrong way and oracle tied.
    agree: reward-oracle agreement.
    wrong_way: a part of spurious.
    oracle_tied: the other part.
  """

  blind: Float64[np.ndarray, " P"]
  saturated: Float64[np.ndarray, " P"]
  spurious: Float64[np.ndarray, " P"]
  agree: Float64[np.ndarray, " P"]
  wrong_way: Float64[np.ndarray, " P"]
  oracle_tied: Float64[np.ndarray, " P"]


def pair_classes(
  rewards_PG: Float64[np.ndarray, "P G"],
  valid_PG: Bool[np.ndarray, "P G"],
  oracle_PG: Float64[np.ndarray, "P G"],
  *,
  threshold: float = 0.5,
) -> Counts:
  """Counts the pairs of each group by class: 28 where all of 8 are valid.

  Rewards tie within `rewards.TOLERANCE`, oracle values likewise; so does a
  shared reward with the threshold, and is then not below it.

  Args:
    rewards_PG: in reward units, ignored where not valid.
    valid_PG: False where a rollout has no reward; it is in no pair.
    oracle_PG: higher is better, on any scale, such as `oracle_ranking` or a
      gold score; NaN where missing: that rollout is in no pair either.
    threshold: reward that parts blind from saturated, 50 points in the paper.
  """
  counts_PG = valid_PG & ~np.isnan(oracle_PG)
  first, second = np.triu_indices(rewards_PG.shape[1], k=1)
  # From here on the second axis is that of the pairs.
  is_pair = counts_PG[:, first] & counts_PG[:, second]
  reward = _order(rewards_PG[:, first], rewards_PG[:, second])
  oracle = _order(oracle_PG[:, first], oracle_PG[:, second])
  shared = (rewards_PG[:, first] + rewards_PG[:, second]) / 2
  is_low = shared < threshold - rewards.TOLERANCE
  is_tied = reward == 0
  classes = Counts(
    blind=is_tied & is_low,
    saturated=is_tied & ~is_low,
    agree=~is_tied & (reward == oracle),
    wrong_way=~is_tied & (reward == -oracle),
    oracle_tied=~is_tied & (oracle == 0),
  )
  return Counts(*((is_pair & each).sum(axis=1) for each in classes))


def pooled(counts: Counts) -> Counts:
  """The pairs of all groups together, as those of one group."""
  return Counts(*(each.sum(keepdims=True) for each in counts))


def shares(counts: Counts) -> Shares:
  """The share of each class among the pairs, group by group."""
  total_P = np.where(counts.total > 0, counts.total, np.nan)
  return Shares(
    blind=counts.blind / total_P,
    saturated=counts.saturated / total_P,
    spurious=counts.spurious / total_P,
    agree=counts.agree / total_P,
    wrong_way=counts.wrong_way / total_P,
    oracle_tied=counts.oracle_tied / total_P,
  )


def oracle_ranking(
  wins_GG: Float64[np.ndarray, "G G"],
) -> Float64[np.ndarray, " G"]:
  """Win counts of a group's rollouts, which rank them (H-121).

  Each pair is compared in both orders and the two scores are averaged; a
  rollout's count is the sum over its opponents. Equal counts tie.

  Args:
    wins_GG: at row i and column j what rollout i scores against j where i is
      shown first: 1 for a win, 0.5 for a tie, 0 for a loss, NaN where missing.
      The diagonal is ignored.

  Returns:
    In [0, G - 1], half of G (G - 1) in sum; NaN for both rollouts of a pair of
    which a comparison is missing, as counts over fewer opponents are not
    comparable.

  Raises:
    ValueError: if a score lies outside [0, 1].
  """
  wins_GG = wins_GG.copy()
  np.fill_diagonal(wins_GG, 0.5)
  for first, second in np.argwhere((wins_GG < 0) | (wins_GG > 1)):
    raise ValueError(
      f"Rollout {first} scores {wins_GG[first, second]} against {second}, but "
      "a win is 1, a tie 0.5 and a loss 0."
    )
  return ((wins_GG + 1 - wins_GG.T) / 2).sum(axis=1) - 0.5


def _order(
  first: Float64[np.ndarray, "P pairs"], second: Float64[np.ndarray, "P pairs"]
) -> Int64[np.ndarray, "P pairs"]:
  """1 where the first is greater, -1 where the second is, 0 where they tie."""
  difference = first - second
  is_apart = np.abs(difference) > rewards.TOLERANCE
  return np.where(is_apart, np.sign(difference), 0.0).astype(np.int64)
