"""Three small groups, a policy that is a table of logits, and its loss."""

import functools

import jax
import jax.numpy as jnp
import pytest

from hrl_jax.core import advantages, losses, token_terms

AGGREGATIONS = pytest.mark.parametrize("aggregation", losses.AGGREGATIONS)

# Three groups of four rollouts of up to six tokens. One rollout is ungraded,
# one completion is a single token.
LENGTHS_B = jnp.array([6, 3, 1, 5, 2, 4, 6, 6, 3, 5, 2, 4])
GROUP_B = jnp.arange(12) // 4
VALID_B = jnp.arange(12) != 5
IMPORTANCE_P = jnp.array([0.7, 1.2, 4.0])
MAX_TOKENS = 8

PLAIN = losses.Objective(
  clip_low=0.2,
  clip_high=0.2,
  dual_clip=None,
  kl_estimator="k3",
  kl_coefficient=0.0,
  entropy_coefficient=0.0,
  correction=None,
)
FULL = losses.Objective(
  clip_low=0.2,
  clip_high=0.28,
  dual_clip=1.5,
  kl_estimator="k3",
  kl_coefficient=0.1,
  entropy_coefficient=0.05,
  correction=token_terms.Correction("tis", "token", 0.0, 1.1),
)


def weights(aggregation, importance_P):
  weights_B = losses.row_weights(
    LENGTHS_B,
    GROUP_B,
    importance_P,
    VALID_B,
    3,
    aggregation=aggregation,
    max_tokens=MAX_TOKENS,
  )
  return weights_B[:, None]


def policy(logits_BTV, tokens_BT):
  """Log-probability of the tokens, and entropy at each."""
  logprobs_BTV = jax.nn.log_softmax(logits_BTV)
  logprobs_BT = jnp.take_along_axis(logprobs_BTV, tokens_BT[:, :, None], 2)
  entropies_BT = -jnp.sum(jnp.exp(logprobs_BTV) * logprobs_BTV, axis=2)
  return logprobs_BT[:, :, 0], entropies_BT


@functools.cache
def batch(aggregation="sequence_mean_token_mean"):
  """Random logits, tokens, and what is known of the rows."""
  keys = jax.random.split(jax.random.key(0), 6)
  logits_BTV = jax.random.normal(keys[0], (12, 6, 5))
  tokens_BT = jax.random.randint(keys[1], (12, 6), 0, 5)
  logprobs_BT, _ = policy(logits_BTV, tokens_BT)
  rewards_PG = jax.random.normal(keys[2], (3, 4))
  advantages_PG = advantages.group_normalized(
    rewards_PG, VALID_B.reshape(3, 4), ddof=0
  )
  old_BT, ref_BT, noise_BT = (
    scale * jax.random.normal(key, (12, 6))
    for scale, key in zip((0.3, 0.5, 0.1), keys[3:], strict=True)
  )
  sampled = losses.Sampled(
    completion_mask_BT=jnp.arange(6)[None] < LENGTHS_B[:, None],
    advantages_B1=advantages_PG.reshape(12, 1),
    weights_B1=weights(aggregation, IMPORTANCE_P),
    old_logprobs_BT=logprobs_BT + old_BT,
    ref_logprobs_BT=logprobs_BT + ref_BT,
    sampler_logprobs_BT=logprobs_BT + old_BT + noise_BT,
  )
  return logits_BTV, tokens_BT, sampled


def loss(logits_BTV, tokens_BT, sampled, objective):
  logprobs_BT, entropies_BT = policy(logits_BTV, tokens_BT)
  return losses.grpo(logprobs_BT, entropies_BT, sampled, objective=objective)


def loss_and_gradient(logits_BTV, tokens_BT, sampled, objective):
  return jax.value_and_grad(loss, has_aux=True)(
    logits_BTV, tokens_BT, sampled, objective
  )
