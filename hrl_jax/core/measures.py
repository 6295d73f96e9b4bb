"""What is measured along with the loss, in parts that add up.

A micro-batch gives sums and maxima over its completion tokens; those of a
batch are their sum and maximum, whatever the split, and only then divided. A
scan over micro-batches starts from zeros, which contribute nothing.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from hrl_jax.core import token_terms


class Sums(NamedTuple):
  """Sums over the tokens that count; None where there was nothing to measure.

  Attributes:
    tokens: their number.
    clipped: tokens whose ratio was clipped.
    ratio: policy / old.
    kl: k3 estimates of KL(policy || reference), in nats.
    entropy: of the policy, in nats.
    mismatch: |old logprob - sampler logprob|, in nats.
    correction: weights of `token_terms.rollout_correction`.
  """

  tokens: Int[Array, ""]
  clipped: Int[Array, ""]
  ratio: Float[Array, ""]
  kl: Float[Array, ""] | None
  entropy: Float[Array, ""] | None
  mismatch: Float[Array, ""] | None
  correction: Float[Array, ""] | None


class Maxima(NamedTuple):
  """Largest values over the tokens that count; None where not measured.

  Attributes:
    ratio: policy / old.
    mismatch: |old logprob - sampler logprob|, in nats.
  """

  ratio: Float[Array, ""]
  mismatch: Float[Array, ""] | None


class Measures(NamedTuple):
  """What some rows contribute to the metrics."""

  sums: Sums
  maxima: Maxima


def measure(
  logprobs_BT: Float[Array, "B T"],
  old_logprobs_BT: Float[Array, "B T"],
  counts_BT: Bool[Array, "B T"],
  clipped_BT: Bool[Array, "B T"],
  *,
  ref_logprobs_BT: Float[Array, "B T"] | None,
  sampler_logprobs_BT: Float[Array, "B T"] | None,
  entropies_BT: Float[Array, "B T"] | None,
  correction_BT: Float[Array, "B T"] | None,
) -> Measures:
  """Measures some rows, over the tokens in `counts_BT`.

  The mismatch is between trainer and sampler under the same weights, so it is
  taken from the old log-probabilities: the policy's also move with its updates.

  Args:
    logprobs_BT: of the policy in training.
    old_logprobs_BT: of the trainer under the weights that sampled.
    counts_BT: True on tokens to measure.
    clipped_BT: True where the ratio was clipped.
    ref_logprobs_BT: of the reference, None for none.
    sampler_logprobs_BT: of the sampler, None for none.
    entropies_BT: of the policy, None for none.
    correction_BT: weights of the sampler's correction, None for none.
  """

  def total(values_BT):
    return None if values_BT is None else jnp.sum(values_BT, where=counts_BT)

  def largest(values_BT):
    if values_BT is None:
      return None
    return jnp.max(values_BT, where=counts_BT, initial=0.0)

  ratio_BT = token_terms.ratio(logprobs_BT, old_logprobs_BT)
  kl_BT = mismatch_BT = None
  if ref_logprobs_BT is not None:
    kl_BT = token_terms.kl_k3(logprobs_BT, ref_logprobs_BT)
  if sampler_logprobs_BT is not None:
    mismatch_BT = jnp.abs(old_logprobs_BT - sampler_logprobs_BT)
  sums = Sums(
    tokens=jnp.sum(counts_BT),
    clipped=total(clipped_BT),
    ratio=total(ratio_BT),
    kl=total(kl_BT),
    entropy=total(entropies_BT),
    mismatch=total(mismatch_BT),
    correction=total(correction_BT),
  )
  return Measures(sums, Maxima(largest(ratio_BT), largest(mismatch_BT)))


def combine(first: Measures, second: Measures) -> Measures:
  """The measures of the rows of both."""
  return Measures(
    jax.tree.map(jnp.add, first.sums, second.sums),
    jax.tree.map(jnp.maximum, first.maxima, second.maxima),
  )


def finalise(measures: Measures) -> dict[str, Float[Array, ""]]:
  """The metrics of a batch: means over its completion tokens, and maxima.

  Returns:
    Scalars by name: `tokens`, `clip_fraction`, `ratio_mean`, `ratio_max`, and
    what was measured of `kl`, `entropy` (nats per token), `mismatch_mean`,
    `mismatch_max` (nats), `correction_mean`. What was not measured is absent;
    all but `tokens` are NaN if no token counted.
  """
  sums, maxima = measures
  means = {
    "clip_fraction": sums.clipped,
    "ratio_mean": sums.ratio,
    "kl": sums.kl,
    "entropy": sums.entropy,
    "mismatch_mean": sums.mismatch,
    "correction_mean": sums.correction,
  }
  largest = {"ratio_max": maxima.ratio, "mismatch_max": maxima.mismatch}
  metrics = {"tokens": sums.tokens.astype(jnp.float32)}
  for name, value in means.items():
    if value is not None:
      metrics[name] = value / metrics["tokens"]
  for name, value in largest.items():
    if value is not None:
      metrics[name] = jnp.where(sums.tokens > 0, value, jnp.nan)
  return metrics
