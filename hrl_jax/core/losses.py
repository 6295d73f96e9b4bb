"""The loss of a batch of rows.

  loss = - sum_BT weight_B1 ( correction_BT min(ratio A, clip(ratio) A)
                              - kl_coefficient kl_BT
                              + entropy_coefficient entropy_BT )

over completion tokens. Every average of the field is such a weight per row,
computed once over the whole batch. Loss, gradient and measures of
micro-batches then add up to those of their batch, however its rows are split.

With u_p the importance weight of group p, P the number of groups, V_p its
valid rollouts that have a token and T_j the completion tokens of rollout j,

  sequence_mean_token_mean      u_p / (P |V_p| T_j)          the GRPO paper
  sequence_mean_token_sum_norm  u_p / (P |V_p| max_tokens)   Dr. GRPO
  token_mean                    u_p / (sum of all T_j)       DAPO

u_p weighs the whole term of its group, KL included, and enters no divisor:
dividing by a sum of u would bias the loss again (H-24). For `token_mean` this
means that the divisor counts the tokens that were drawn, unweighted.

What stands outside the completion mask, or in a row of weight zero, may be
anything, NaN included. It is replaced before the arithmetic: to mask only the
result leaves 0 * NaN in the gradient, see
https://docs.jax.dev/en/latest/faq.html#gradients-contain-nan-where-using-where
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from hrl_jax.core import measures, token_terms

AGGREGATIONS = (
  "sequence_mean_token_mean",
  "sequence_mean_token_sum_norm",
  "token_mean",
)


class Sampled(NamedTuple):
  """What is known of some rows when the policy is trained on them.

  Attributes:
    completion_mask_BT: True on completion tokens.
    advantages_B1: of each row's rollout.
    weights_B1: of `row_weights` over the whole batch.
    old_logprobs_BT: of the trainer under the weights that sampled; None means
      the policy's own: one update per batch, every ratio 1 (H-27).
    ref_logprobs_BT: of the frozen reference, None for none.
    sampler_logprobs_BT: of the sampler, None if it reports none.
  """

  completion_mask_BT: Bool[Array, "B T"]
  advantages_B1: Float[Array, "B 1"]
  weights_B1: Float[Array, "B 1"]
  old_logprobs_BT: Float[Array, "B T"] | None = None
  ref_logprobs_BT: Float[Array, "B T"] | None = None
  sampler_logprobs_BT: Float[Array, "B T"] | None = None


class Objective(NamedTuple):
  """The knobs of the loss.

  Attributes:
    clip_low: the ratio is clipped below 1 - clip_low.
    clip_high: the ratio is clipped above 1 + clip_high.
    dual_clip: largest ratio under a negative advantage, None for any.
    kl_estimator: a key of `token_terms.KL_ESTIMATORS`.
    kl_coefficient: beta, weight of the KL to the reference.
    entropy_coefficient: weight of the entropy bonus.
    correction: of the sampler mismatch, None for none.
  """

  clip_low: float
  clip_high: float
  dual_clip: float | None
  kl_estimator: str
  kl_coefficient: float
  entropy_coefficient: float
  correction: token_terms.Correction | None


def row_weights(
  lengths_B: Int[Array, " B"],
  group_B: Int[Array, " B"],
  importance_P: Float[Array, " P"],
  valid_B: Bool[Array, " B"],
  num_groups: int | Int[Array, ""],
  *,
  aggregation: str,
  max_tokens: int,
  rollout_B: Int[Array, " B"] | None = None,
) -> Float[Array, " B"]:
  """The weight of each row's tokens in the loss of the whole batch.

  Rows of one rollout share its weight: T_j is their total, and the rollout
  counts once in |V_p|.

  Args:
    lengths_B: completion tokens of each row.
    group_B: index of each row's group in `importance_P`. Two draws of one task
      are two groups.
    importance_P: u of each group (H-30).
    valid_B: False in rows that must not count: ungraded, of a thin group,
      padding, or cut short where those are masked (H-111).
    num_groups: the divisor P, groups without a valid rollout included.
    aggregation: one of `AGGREGATIONS`; H-24 is `sequence_mean_token_mean`.
    max_tokens: longest possible completion, the same in every step; read by
      `sequence_mean_token_sum_norm` only.
    rollout_B: any label that rows share if and only if they are of the same
      rollout; None where every row is a rollout of its own.

  Returns:
    Weights, zero in rows that are not valid or have no token.

  Raises:
    ValueError: if there is no such aggregation.
  """
  if aggregation not in AGGREGATIONS:
    raise ValueError(
      f"There is no aggregation {aggregation!r}. Choose one of "
      f"{', '.join(AGGREGATIONS)}."
    )
  counts_B = valid_B & (lengths_B > 0)
  lengths_B = jnp.where(counts_B, lengths_B, 0)
  if aggregation == "token_mean":
    divisor_B = jnp.broadcast_to(lengths_B.sum(), lengths_B.shape)
  else:
    rollouts_P, tokens_B = _count(
      lengths_B, group_B, rollout_B, importance_P.shape[0]
    )
    if aggregation == "sequence_mean_token_sum_norm":
      tokens_B = max_tokens
    # In float32: as integers the product could pass 2**31.
    divisor_B = jnp.float32(num_groups) * rollouts_P[group_B] * tokens_B
  weights_B = importance_P[group_B] / jnp.where(counts_B, divisor_B, 1)
  return jnp.where(counts_B, weights_B, 0.0)


def grpo(
  logprobs_BT: Float[Array, "B T"],
  entropies_BT: Float[Array, "B T"] | None,
  sampled: Sampled,
  *,
  objective: Objective,
) -> tuple[Float[Array, ""], measures.Measures]:
  """The part that some rows have in the loss of their batch (H-24).

  The correction weighs the policy term alone, as in the field's trainers: KL
  and entropy hold the policy on every token it visited, also where the
  correction mistrusts the advantage's direction. What can be measured is
  measured, in the loss or not: k3 and the mismatch wherever they are defined.

  Args:
    logprobs_BT: of the policy in training, see `token_terms`.
    entropies_BT: of the policy at each token, in nats; None if not computed.
    sampled: all else about the rows, constants.
    objective: the knobs.

  Returns:
    The loss of these rows, and their measures.

  Raises:
    ValueError: if a term is asked for and what it needs is None.
  """
  _check_inputs(entropies_BT, sampled, objective)
  counts_BT = sampled.completion_mask_BT & (sampled.weights_B1 > 0)
  policy_BT, old_BT, ref_BT, sampler_BT, entropies_BT = (
    None if values_BT is None else jnp.where(counts_BT, values_BT, 0.0)
    for values_BT in (
      logprobs_BT,
      sampled.old_logprobs_BT,
      sampled.ref_logprobs_BT,
      sampled.sampler_logprobs_BT,
      entropies_BT,
    )
  )
  old_BT = jax.lax.stop_gradient(policy_BT if old_BT is None else old_BT)
  terms_BT, clipped_BT, correction_BT = _policy_terms(
    policy_BT, old_BT, sampler_BT, counts_BT, sampled.advantages_B1, objective
  )
  if objective.kl_coefficient:
    estimate = token_terms.KL_ESTIMATORS[objective.kl_estimator]
    terms_BT -= objective.kl_coefficient * estimate(policy_BT, ref_BT)
  if objective.entropy_coefficient:
    terms_BT += objective.entropy_coefficient * entropies_BT
  weighted_BT = sampled.weights_B1 * jnp.where(counts_BT, terms_BT, 0.0)
  return -jnp.sum(weighted_BT), measures.measure(
    policy_BT,
    old_BT,
    counts_BT,
    clipped_BT,
    ref_logprobs_BT=ref_BT,
    sampler_logprobs_BT=sampler_BT,
    entropies_BT=entropies_BT,
    correction_BT=correction_BT,
  )


def _policy_terms(
  logprobs_BT: Float[Array, "B T"],
  old_logprobs_BT: Float[Array, "B T"],
  sampler_logprobs_BT: Float[Array, "B T"] | None,
  counts_BT: Bool[Array, "B T"],
  advantages_B1: Float[Array, "B 1"],
  objective: Objective,
) -> tuple[Float[Array, "B T"], Bool[Array, "B T"], Float[Array, "B T"] | None]:
  """The corrected policy term, where it was clipped, and the correction."""
  terms_BT, clipped_BT = token_terms.policy_terms(
    logprobs_BT,
    old_logprobs_BT,
    advantages_B1,
    clip_low=objective.clip_low,
    clip_high=objective.clip_high,
    dual_clip=objective.dual_clip,
  )
  if objective.correction is None:
    return terms_BT, clipped_BT, None
  correction_BT = token_terms.rollout_correction(
    old_logprobs_BT,
    sampler_logprobs_BT,
    counts_BT,
    **objective.correction._asdict(),
  )
  return terms_BT * correction_BT, clipped_BT, correction_BT


def _count(
  lengths_B: Int[Array, " B"],
  group_B: Int[Array, " B"],
  rollout_B: Int[Array, " B"] | None,
  num_groups: int,
) -> tuple[Int[Array, " P"], Int[Array, " B"]]:
  """Rollouts that have a token, per group, and tokens of each row's rollout."""
  rows = lengths_B.shape[0]
  if rollout_B is None:
    rollout_B = jnp.arange(rows)
  # Labels may exceed the number of rows; from here on they do not.
  _, rollout_B = jnp.unique(rollout_B, return_inverse=True, size=rows)
  tokens_B = jax.ops.segment_sum(lengths_B, rollout_B, rows)
  # A rollout without a token belongs to a group past the end, which the sum
  # drops.
  group_of_rollout_B = jax.ops.segment_min(
    jnp.where(lengths_B > 0, group_B, num_groups), rollout_B, rows
  )
  rollouts_P = jax.ops.segment_sum(
    jnp.ones_like(group_B), group_of_rollout_B, num_groups
  )
  return rollouts_P, tokens_B[rollout_B]


def _check_inputs(
  entropies_BT: Float[Array, "B T"] | None,
  sampled: Sampled,
  objective: Objective,
) -> None:
  for knob, value, name, array in (
    (
      "kl_coefficient",
      objective.kl_coefficient,
      "ref_logprobs_BT",
      sampled.ref_logprobs_BT,
    ),
    (
      "entropy_coefficient",
      objective.entropy_coefficient,
      "entropies_BT",
      entropies_BT,
    ),
    (
      "correction",
      objective.correction,
      "sampler_logprobs_BT",
      sampled.sampler_logprobs_BT,
    ),
  ):
    if value and array is None:
      raise ValueError(
        f"{knob}={value} asks for a term of the loss that needs {name}, got "
        "None. Hand it over, or switch the term off."
      )
