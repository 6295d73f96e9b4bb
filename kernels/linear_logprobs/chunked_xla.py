"""The operation chunk by chunk, in XLA, for every platform.

Forward keeps the log-normaliser and the entropy of each token; backward makes
the logits of a chunk again and contracts them at once. With g and e the
cotangents of logprob and entropy, p the softmax and H the entropy,

  d logits = (g (onehot(target) - p) - e p (log p + H)) / temperature.
"""

import functools

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from kernels.dense.api import weight_gradient


@functools.partial(jax.custom_vjp, nondiff_argnums=(3, 4))
def linear_logprobs(
  hidden_FD: Float[Array, "F D"],
  weight_VD: Float[Array, "V D"],
  targets_F: Int[Array, " F"],
  temperature: float,
  chunk: int,
) -> tuple[Float[Array, " F"], Float[Array, " F"]]:
  """As the reference; `chunk` tokens have logits in memory at a time."""
  logprobs_F, entropies_F, _ = _forward(
    hidden_FD, weight_VD, targets_F, temperature, chunk
  )
  return logprobs_F, entropies_F


def _forward(hidden_FD, weight_VD, targets_F, temperature, chunk):
  def one_chunk(inputs):
    hidden_CD, targets_C = inputs
    logits_CV = _logits(hidden_CD, weight_VD, temperature)
    # Entropy from shifted logits: their mean and the log of the total are
    # small where the entropy is, so no digits cancel.
    highest_C1 = logits_CV.max(axis=-1, keepdims=True)
    shifted_CV = logits_CV - highest_C1
    powers_CV = jnp.exp(shifted_CV)
    total_C = powers_CV.sum(axis=-1)
    log_total_C = jnp.log(total_C)
    mean_C = jnp.sum(powers_CV * shifted_CV, axis=-1) / total_C
    picked_C1 = jnp.take_along_axis(shifted_CV, targets_C[:, None], axis=-1)
    normaliser_C = highest_C1[:, 0] + log_total_C
    return picked_C1[:, 0] - log_total_C, log_total_C - mean_C, normaliser_C

  chunks = _split((hidden_FD, targets_F), chunk)
  return _join(jax.lax.map(one_chunk, chunks), hidden_FD.shape[0])


def _forward_rule(hidden_FD, weight_VD, targets_F, temperature, chunk):
  logprobs_F, entropies_F, normaliser_F = _forward(
    hidden_FD, weight_VD, targets_F, temperature, chunk
  )
  residuals = (hidden_FD, weight_VD, targets_F, entropies_F, normaliser_F)
  return (logprobs_F, entropies_F), residuals


def _backward_rule(temperature, chunk, residuals, cotangents):
  hidden_FD, weight_VD, targets_F, entropies_F, normaliser_F = residuals
  vocabulary_1V = jnp.arange(weight_VD.shape[0])[None, :]

  def one_chunk(weight_gradient_DV, inputs):
    hidden_CD, targets_C, entropies_C, normaliser_C, g_C, e_C = inputs
    logprobs_CV = (
      _logits(hidden_CD, weight_VD, temperature) - normaliser_C[:, None]
    )
    probabilities_CV = jnp.exp(logprobs_CV)
    onehot_CV = vocabulary_1V == targets_C[:, None]
    gradient_CV = g_C[:, None] * (onehot_CV - probabilities_CV)
    gradient_CV -= (
      e_C[:, None] * probabilities_CV * (logprobs_CV + entropies_C[:, None])
    )
    gradient_CV = (gradient_CV / temperature).astype(hidden_FD.dtype)
    weight_gradient_DV += weight_gradient(hidden_CD, gradient_CV)
    return weight_gradient_DV, gradient_CV @ weight_VD

  inputs = (hidden_FD, targets_F, entropies_F, normaliser_F, *cotangents)
  weight_gradient_DV, hidden_gradient = jax.lax.scan(
    one_chunk,
    jnp.zeros(weight_VD.shape[::-1], jnp.float32),
    _split(inputs, chunk),
  )
  (hidden_gradient_FD,) = _join((hidden_gradient,), hidden_FD.shape[0])
  return (
    hidden_gradient_FD.astype(hidden_FD.dtype),
    weight_gradient_DV.T.astype(weight_VD.dtype),
    None,
  )


linear_logprobs.defvjp(_forward_rule, _backward_rule)


def _logits(
  hidden_CD: Float[Array, "C D"],
  weight_VD: Float[Array, "V D"],
  temperature: float,
) -> Float[Array, "C V"]:
  logits_CV = jnp.einsum(
    "cd,vd->cv", hidden_CD, weight_VD, preferred_element_type=jnp.float32
  )
  return logits_CV / temperature


def _split(arrays: tuple[Array, ...], chunk: int) -> tuple[Array, ...]:
  """Cuts the leading axis into chunks, the last one padded with zeros."""
  size = arrays[0].shape[0]
  padding = -size % chunk

  def cut(array):
    widths = [(0, padding)] + [(0, 0)] * (array.ndim - 1)
    return jnp.pad(array, widths).reshape(-1, chunk, *array.shape[1:])

  return tuple(cut(array) for array in arrays)


def _join(arrays: tuple[Array, ...], size: int) -> tuple[Array, ...]:
  return tuple(array.reshape(-1, *array.shape[2:])[:size] for array in arrays)
