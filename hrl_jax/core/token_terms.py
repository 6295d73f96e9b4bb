"""What each token of a batch adds to the loss, before any averaging.

Log-probabilities are natural logarithms in float32, over the full vocabulary
and at the sampling temperature: the caller has divided the logits by it, and
the sampler's are the same quantity, not renormalised after top-p (H-26).
"""

from collections.abc import Callable
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

# Where exp of a log ratio is taken, the log ratio is held within this many
# nats, so that neither the value nor the square of a gradient overflows
# float32. No clip range or cap in use reaches a ratio of 4.8e8.
MAX_LOG_RATIO = 20.0


class Correction(NamedTuple):
  """How the sampler's mismatch is corrected; see `rollout_correction`.

  Attributes:
    kind: "tis" truncates the weights, "mis" masks them.
    level: "token" weighs each token, "sequence" a row as a whole.
    low: weights below are masked; 0 for "tis".
    high: weights above are truncated or masked.
  """

  kind: Literal["tis", "mis"]
  level: Literal["token", "sequence"]
  low: float
  high: float


def kl_k1(
  logprobs_BT: Float[Array, "B T"], ref_logprobs_BT: Float[Array, "B T"]
) -> Float[Array, "B T"]:
  """Schulman's k1 estimate of KL(policy || reference), per token, in nats.

  k1 = log(policy / reference): unbiased, of either sign. As a term of a loss
  it does nothing: the mean of its gradient is zero. It is there to measure.
  """
  return logprobs_BT - ref_logprobs_BT


def kl_k2(
  logprobs_BT: Float[Array, "B T"], ref_logprobs_BT: Float[Array, "B T"]
) -> Float[Array, "B T"]:
  """Schulman's k2 estimate of KL(policy || reference), per token, in nats.

  k2 = log(policy / reference)^2 / 2: never negative, biased by the third
  order, yet the mean of its gradient is that of KL(policy || reference).
  """
  return jnp.square(logprobs_BT - ref_logprobs_BT) / 2


def kl_k3(
  logprobs_BT: Float[Array, "B T"], ref_logprobs_BT: Float[Array, "B T"]
) -> Float[Array, "B T"]:
  """Schulman's k3 estimate of KL(policy || reference), per token, in nats.

  With r = reference / policy, k3 = (r - 1) - log r: unbiased, never negative.
  The mean of its gradient is that of KL(reference || policy). log r is held
  within `MAX_LOG_RATIO`; a token beyond adds no gradient.

  See http://joschu.net/blog/kl-approx.html.
  """
  log_ratio_BT = _held(ref_logprobs_BT - logprobs_BT)
  # Not exp(x) - 1: near 0 that loses all digits, and the sign.
  return jnp.expm1(log_ratio_BT) - log_ratio_BT


KL_ESTIMATORS: dict[str, Callable[..., Float[Array, "B T"]]] = {
  "k1": kl_k1,
  "k2": kl_k2,
  "k3": kl_k3,
}


def ratio(
  logprobs_BT: Float[Array, "B T"], old_logprobs_BT: Float[Array, "B T"]
) -> Float[Array, "B T"]:
  """How much likelier a token has become, policy / old, per token.

  The old log-probabilities are constants. The log ratio is held within
  `MAX_LOG_RATIO`; a token beyond has no gradient.
  """
  old_logprobs_BT = jax.lax.stop_gradient(old_logprobs_BT)
  return jnp.exp(_held(logprobs_BT - old_logprobs_BT))


def policy_terms(
  logprobs_BT: Float[Array, "B T"],
  old_logprobs_BT: Float[Array, "B T"],
  advantages_B1: Float[Array, "B 1"],
  *,
  clip_low: float,
  clip_high: float,
  dual_clip: float | None,
) -> tuple[Float[Array, "B T"], Bool[Array, "B T"]]:
  """The clipped objective of PPO, per token, to be maximised.

    min(ratio A, clip(ratio, 1 - clip_low, 1 + clip_high) A)

  A negative advantage has no bound on the side where the ratio is large;
  `dual_clip` = c sets it: max(., c A) for A < 0. A clipped token has a
  gradient of exactly zero.

  See "Proximal Policy Optimization Algorithms" by Schulman et al.
  (https://arxiv.org/abs/1707.06347); for c "Mastering Complex Control in MOBA
  Games" by Ye et al. (https://arxiv.org/abs/1912.09729).

  Args:
    logprobs_BT: of the policy in training.
    old_logprobs_BT: of the policy that sampled, a constant.
    advantages_B1: of each row.
    clip_low: how far below 1 the ratio still counts.
    clip_high: how far above.
    dual_clip: largest ratio under a negative advantage, above 1, or None.

  Returns:
    The objective, and where the ratio was clipped.

  Raises:
    ValueError: if `dual_clip` is not above 1.
  """
  if dual_clip is not None and dual_clip <= 1:
    raise ValueError(
      f"dual_clip={dual_clip} would clip ratios that have not moved. Set it "
      "above 1 (3 is usual), or to None."
    )
  ratio_BT = ratio(logprobs_BT, old_logprobs_BT)
  over_BT = (advantages_B1 > 0) & (ratio_BT > 1 + clip_high)
  under_BT = (advantages_B1 < 0) & (ratio_BT < 1 - clip_low)
  bound_BT = jnp.where(over_BT, 1 + clip_high, 1 - clip_low)
  clipped_BT = over_BT | under_BT
  if dual_clip is not None:
    beyond_BT = (advantages_B1 < 0) & (ratio_BT > dual_clip)
    bound_BT = jnp.where(beyond_BT, dual_clip, bound_BT)
    clipped_BT |= beyond_BT
  return jnp.where(clipped_BT, bound_BT, ratio_BT) * advantages_B1, clipped_BT


def rollout_correction(
  logprobs_BT: Float[Array, "B T"],
  sampler_logprobs_BT: Float[Array, "B T"],
  completion_mask_BT: Bool[Array, "B T"],
  *,
  kind: str,
  level: str,
  low: float,
  high: float,
) -> Float[Array, "B T"]:
  """Importance weights from the sampler's numerics to the trainer's.

  Sampler and trainer run the same weights through other kernels, so their
  log-probabilities differ. With w = trainer / sampler, of the token or, at
  sequence level, the product over all completion tokens of the row,

    tis: min(w, high)                     truncated importance sampling
    mis: w if low <= w <= high else 0     masked importance sampling

  See "Your Efficient RL Framework Secretly Brings You Off-Policy RL Training"
  by Yao et al. (https://fengyao.notion.site/off-policy-rl) and, for "mis",
  IcePop by Zhao et al. (https://ringtech.notion.site/icepop).

  Args:
    logprobs_BT: of the trainer, under the weights that sampled.
    sampler_logprobs_BT: of the sampler.
    completion_mask_BT: True on completion tokens; the rest is ignored.
    kind: "tis" or "mis".
    level: "token" or "sequence".
    low: lower bound of w, 0 for "tis", which has none.
    high: upper bound of w.

  Returns:
    Weights without gradient, zero outside the completion mask.

  Raises:
    ValueError: if there is no such kind or level, or "tis" has a lower bound.
  """
  if kind not in ("tis", "mis") or level not in ("token", "sequence"):
    raise ValueError(
      f"There is no rollout correction {kind!r} by {level!r}. Choose 'tis' or "
      "'mis', by 'token' or 'sequence'."
    )
  if kind == "tis" and low != 0:
    raise ValueError(
      f"Truncation has no lower bound, got low={low}. Set it to 0, or choose "
      "'mis' to mask what lies below it."
    )
  gap_BT = jnp.where(completion_mask_BT, logprobs_BT - sampler_logprobs_BT, 0.0)
  if level == "sequence":
    gap_B1 = jnp.sum(gap_BT, axis=1, keepdims=True)
    gap_BT = jnp.broadcast_to(gap_B1, gap_BT.shape)
  weights_BT = jnp.exp(_held(gap_BT))
  if kind == "tis":
    weights_BT = jnp.minimum(weights_BT, high)
  else:
    inside_BT = (weights_BT >= low) & (weights_BT <= high)
    weights_BT = jnp.where(inside_BT, weights_BT, 0.0)
  weights_BT = jnp.where(completion_mask_BT, weights_BT, 0.0)
  return jax.lax.stop_gradient(weights_BT)


def _held(log_ratio_BT: Float[Array, "B T"]) -> Float[Array, "B T"]:
  return jnp.clip(log_ratio_BT, -MAX_LOG_RATIO, MAX_LOG_RATIO)
