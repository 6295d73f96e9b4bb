"""Group-relative advantages.

A group is the G rollouts sampled for one draw of a task; a task drawn twice in
a step has two groups. Every estimator sees only the rewards of that group, so
no value network is needed. A rollout that could not be graded is not valid: it
gets no advantage and counts in no mean. A group without contrast, or with
fewer than two valid rollouts, gets advantages of exactly zero (H-23).

The estimators share one signature once their knobs are bound:

  estimator = advantages.estimator("group_normalized", ddof=0)
  advantages_PG = estimator(rewards_PG, valid_PG)
"""

import functools
from collections.abc import Callable

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from hrl_jax.core import rewards

Estimator = Callable[
  [Float[Array, "P G"], Bool[Array, "P G"]], Float[Array, "P G"]
]


def group_normalized(
  rewards_PG: Float[Array, "P G"],
  valid_PG: Bool[Array, "P G"],
  *,
  ddof: int,
  epsilon: float = 1e-6,
) -> Float[Array, "P G"]:
  """Centres each group on its mean and divides by its standard deviation.

    advantage = (reward - mean) / (std + epsilon)

  The GRPO paper takes the population deviation (`ddof=0`), verl, TRL and Tunix
  the sample one (`ddof=1`). Dividing gives a group with little contrast the
  same say as one with much; `group_centred` does not.

  See "DeepSeekMath" by Shao et al. (https://arxiv.org/abs/2402.03300).

  Args:
    rewards_PG: one scalar reward per rollout.
    valid_PG: False where the rollout could not be graded.
    ddof: 0 divides the squares by the number of valid rollouts, 1 by one less.
    epsilon: added to the standard deviation, in reward units.

  Returns:
    Advantages, in standard deviations of the group; each row sums to zero.

  Raises:
    ValueError: if groups have fewer than two members, or ddof is not 0 or 1.
  """
  if ddof not in (0, 1):
    raise ValueError(
      f"ddof={ddof} names no standard deviation of a group. Take 0 "
      "(population, the GRPO paper) or 1 (sample, most trainers)."
    )
  centred_PG = group_centred(rewards_PG, valid_PG)
  freedom_P1 = jnp.maximum(_count(valid_PG) - ddof, 1)
  variance_P1 = jnp.sum(centred_PG**2, axis=1, keepdims=True) / freedom_P1
  return centred_PG / (jnp.sqrt(variance_P1) + epsilon)


def group_centred(
  rewards_PG: Float[Array, "P G"], valid_PG: Bool[Array, "P G"]
) -> Float[Array, "P G"]:
  """Centres each group on its mean and leaves the scale alone.

  This is the advantage of Dr. GRPO: groups that are nearly solved or nearly
  hopeless are not blown up to the size of the others.

  See "Understanding R1-Zero-Like Training" by Liu et al.
  (https://arxiv.org/abs/2503.20783).

  Args:
    rewards_PG: one scalar reward per rollout.
    valid_PG: False where the rollout could not be graded.

  Returns:
    Advantages, in reward units; each row sums to zero.

  Raises:
    ValueError: if groups have fewer than two members.
  """
  _check_group_size(rewards_PG)
  # An advantage of rounding noise, divided by a deviation of rounding noise
  # or by epsilon, would be a large one.
  counts_PG = valid_PG & ~rewards.is_constant(rewards_PG, valid_PG)[:, None]
  total_P1 = jnp.sum(rewards_PG, axis=1, where=counts_PG, keepdims=True)
  mean_P1 = total_P1 / jnp.maximum(_count(counts_PG), 1)
  return jnp.where(counts_PG, rewards_PG - mean_P1, 0.0)


def leave_one_out(
  rewards_PG: Float[Array, "P G"], valid_PG: Bool[Array, "P G"]
) -> Float[Array, "P G"]:
  """Subtracts from each reward the mean reward of the others (RLOO, B-11).

    advantage = reward - mean of the others = n / (n - 1) (reward - mean)

  with n the valid rollouts of the group; a rollout that is alone gets zero.

  See "Back to Basics" by Ahmadian et al. (https://arxiv.org/abs/2402.14740).

  Args:
    rewards_PG: one scalar reward per rollout.
    valid_PG: False where the rollout could not be graded.

  Returns:
    Advantages, in reward units; each row sums to zero.

  Raises:
    ValueError: if groups have fewer than two members.
  """
  count_P1 = _count(valid_PG)
  scale_P1 = count_P1 / jnp.maximum(count_P1 - 1, 1)
  return scale_P1 * group_centred(rewards_PG, valid_PG)


ESTIMATORS: dict[str, Callable[..., Float[Array, "P G"]]] = {
  "group_normalized": group_normalized,
  "group_centred": group_centred,
  "leave_one_out": leave_one_out,
}


def estimator(name: str, *, ddof: int, epsilon: float = 1e-6) -> Estimator:
  """Looks up an estimator and binds the knobs that it has.

  Args:
    name: a key of `ESTIMATORS`.
    ddof: of the standard deviation; only `group_normalized` has one.
    epsilon: added to the standard deviation.

  Returns:
    A function of `rewards_PG` and `valid_PG`.

  Raises:
    ValueError: if there is no such estimator.
  """
  if name not in ESTIMATORS:
    raise ValueError(
      f"There is no advantage estimator {name!r}. Choose one of "
      f"{', '.join(ESTIMATORS)}."
    )
  if name == "group_normalized":
    return functools.partial(group_normalized, ddof=ddof, epsilon=epsilon)
  return ESTIMATORS[name]


def _count(valid_PG: Bool[Array, "P G"]) -> Int[Array, "P 1"]:
  return jnp.sum(valid_PG, axis=1, keepdims=True)


def _check_group_size(rewards_PG: Float[Array, "P G"]) -> None:
  if rewards_PG.shape[1] < 2:
    raise ValueError(
      "A group-relative advantage needs at least 2 rollouts per task, got "
      f"rewards of shape {rewards_PG.shape}. Raise config.group_size."
    )
