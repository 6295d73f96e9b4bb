"""Draws of tasks, and the weights that keep their objective uniform.

Task i is drawn with probability p_i = w_i / sum w. Each draw carries the
importance weight u_i = 1 / (N p_i) = mean(w) / w_i of prioritised experience
replay, with exponent 1 and without its division by the largest (B-10), so
E_p[u] = 1 and every task keeps its expected share of the loss (H-30, H-31).

Everything is float64 numpy on the host, but for the random bits of a JAX key:
integers, the same ones on every device.

See "Prioritized Experience Replay" by Schaul et al.
(https://arxiv.org/abs/1511.05952).
"""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float64, Int64, Key


def probabilities(
  weights_N: Float64[np.ndarray, " N"],
) -> Float64[np.ndarray, " N"]:
  """The probability with which each task is drawn, p = w / sum w.

  Raises:
    ValueError: if a weight is not positive and finite.
  """
  _check_weights(weights_N)
  return weights_N / weights_N.sum()


def importance_weights(
  weights_N: Float64[np.ndarray, " N"],
) -> Float64[np.ndarray, " N"]:
  """The importance weight of each task, u = 1 / (N p) = mean(w) / w.

  Equal weights give ones. A task never drawn would need an infinite one,
  which is why zero weights are refused.

  Raises:
    ValueError: if a weight is not positive and finite.
  """
  _check_weights(weights_N)
  return weights_N.mean() / weights_N


def effective_sample_size(weights_N: Float64[np.ndarray, " N"]) -> float:
  """The share of its draws that importance weighting leaves a step (H-32).

    E_p[u]^2 / E_p[u^2] = 1 / (mean(w) mean(1 / w))

  in (0, 1], with 1 for equal weights. P draws are worth P times this many
  uniform ones.

  Raises:
    ValueError: if a weight is not positive and finite.
  """
  _check_weights(weights_N)
  return float(1.0 / (weights_N.mean() * (1.0 / weights_N).mean()))


def draw(
  key: Key[Array, ""], weights_N: Float64[np.ndarray, " N"], num_tasks: int
) -> Int64[np.ndarray, " P"]:
  """Draws tasks with replacement, task i with probability w_i / sum w.

  That probability holds to within 2^-32. The draw depends on nothing but its
  arguments: with `fold_in(seed, step)` as the key, a resumed run draws the same
  tasks (H-36). A task may come more than once; each draw is a group of its own
  (H-13). Costs one pass over the bank.

  Args:
    key: consumed.
    weights_N: unnormalised, positive.
    num_tasks: the number of draws, P.

  Returns:
    Indices into the bank, in order of drawing.

  Raises:
    ValueError: if a weight is not positive and finite.
  """
  _check_weights(weights_N)
  bits = jax.random.bits(key, (num_tasks,), jnp.uint32)
  # With 32 bits of 53 the product below stays under the total, however it
  # rounds: no draw falls off the end.
  uniform_P = jax.device_get(bits) / 2.0**32
  cumulative_N = np.cumsum(weights_N)
  return np.searchsorted(
    cumulative_N, uniform_P * cumulative_N[-1], side="right"
  )


def _check_weights(weights_N: Float64[np.ndarray, " N"]) -> None:
  if not weights_N.size:
    raise ValueError("There is no task to draw: the bank is empty.")
  for task in np.flatnonzero(~((weights_N > 0) & np.isfinite(weights_N))):
    raise ValueError(
      f"Task {task} has sampling weight {weights_N[task]}, but a weight must "
      "be positive and finite: a task that is never drawn has no importance "
      "weight. Lower it to the smallest level instead."
    )
