"""The operation in plain words: all logits at once."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int


def linear_logprobs(
  hidden_FD: Float[Array, "F D"],
  weight_VD: Float[Array, "V D"],
  targets_F: Int[Array, " F"],
  *,
  temperature: float,
) -> tuple[Float[Array, " F"], Float[Array, " F"]]:
  """Log-probability of each target and entropy of each distribution.

    logits = hidden @ weight.T / temperature
    logprob = logits[target] - logsumexp(logits)
    entropy = -sum softmax(logits) log softmax(logits)

  Args:
    hidden_FD: features of the tokens that predict.
    weight_VD: the head.
    targets_F: the ids that are predicted.
    temperature: divides the logits, positive.

  Returns:
    `(logprobs_F, entropies_F)`, float32, in nats.
  """
  logits_FV = jnp.einsum(
    "fd,vd->fv", hidden_FD, weight_VD, preferred_element_type=jnp.float32
  )
  logprobs_FV = jax.nn.log_softmax(logits_FV / temperature, axis=-1)
  entropies_F = -jnp.sum(jnp.exp(logprobs_FV) * logprobs_FV, axis=-1)
  picked_F1 = jnp.take_along_axis(logprobs_FV, targets_F[:, None], axis=-1)
  return picked_F1[:, 0], entropies_F
