"""The next token from logits: temperature, top-k, top-p and one uniform.

A token is drawn by inverting the cumulative distribution at one uniform per
row, so that a row's draw depends on nothing but its logits and its uniform.
Filters come in the order temperature, top-k, top-p on the renormalised rest,
and are found by searching for the least probable token that stays, not by
sorting the vocabulary.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

# Tokens per block of the two-level inverse; a divisor of the usual vocabulary
# sizes, which then need no padding.
_BLOCK = 128


class Knobs(NamedTuple):
  """How a token is drawn; static.

  Attributes:
    temperature: divides the logits; 0 takes the most probable token and
      ignores uniforms and filters.
    top_p: in (0, 1], 1 keeps all.
    top_k: 0 keeps all.
  """

  temperature: float
  top_p: float
  top_k: int


class Draw(NamedTuple):
  """One token for each row.

  Attributes:
    tokens_B: the ids.
    logprobs_B: full-vocabulary log-probability at the sampling temperature,
      what the trainer compares with (H-26); at temperature 1 if greedy.
    drawn_logprobs_B: log-probability under the distribution that was drawn
      from, renormalised after the filters; 0 if greedy.
  """

  tokens_B: Int[Array, " B"]
  logprobs_B: Float[Array, " B"]
  drawn_logprobs_B: Float[Array, " B"]


def draw(
  logits_BV: Float[Array, "B V"], uniforms_B: Float[Array, " B"], knobs: Knobs
) -> Draw:
  """Draws one token per row.

  Top-k keeps the k most probable tokens, top-p the smallest set of most
  probable ones whose mass reaches `top_p`; tokens as probable as the last one
  that is kept stay too.

  Args:
    logits_BV: unnormalised log-probabilities; -inf for a token that cannot be.
    uniforms_B: in [0, 1).
    knobs: temperature and filters.

  Returns:
    Tokens with a positive probability after the filters, and their
    log-probabilities before and after them.
  """
  temperature, top_p, top_k = knobs
  logits_BV = logits_BV.astype(jnp.float32)
  highest_B1 = logits_BV.max(axis=1, keepdims=True)
  if temperature == 0:
    tokens_B = logits_BV.argmax(axis=1).astype(jnp.int32)
    logprobs_B = -jnp.log(jnp.exp(logits_BV - highest_B1).sum(axis=1))
    return Draw(tokens_B, logprobs_B, jnp.zeros_like(logprobs_B))
  if top_p == 1 and top_k == 0:
    tokens_B, chosen_B, mass_B = _invert(
      logits_BV, highest_B1, uniforms_B, temperature
    )
    logprobs_B = chosen_B - jnp.log(mass_B)
    return Draw(tokens_B, logprobs_B, logprobs_B)
  lowest_B, total_B = jax.lax.map(
    lambda logits_V: _lowest_kept(logits_V, knobs), logits_BV, batch_size=8
  )
  kept_BV = jnp.where(logits_BV >= lowest_B[:, None], logits_BV, -jnp.inf)
  tokens_B, chosen_B, mass_B = _invert(
    kept_BV, highest_B1, uniforms_B, temperature
  )
  return Draw(tokens_B, chosen_B - jnp.log(total_B), chosen_B - jnp.log(mass_B))


def _invert(
  logits_BV: Float[Array, "B V"],
  highest_B1: Float[Array, "B 1"],
  uniforms_B: Float[Array, " B"],
  temperature: float,
) -> tuple[Int[Array, " B"], Float[Array, " B"], Float[Array, " B"]]:
  """Inverts the cumulative sum of exp((logit - highest) / temperature).

  First among the sums of blocks, then inside the block: the vocabulary is read
  once, and no cumulative sum over it is written.

  Returns:
    The tokens, their exponents, and the sum of the whole row.
  """
  # The vocabulary first, as the head's product leaves it.
  logits_VB, highest_1B = logits_BV.T, highest_B1.T
  padding = ((0, -len(logits_VB) % _BLOCK), (0, 0))
  blocks = jnp.pad(logits_VB, padding, constant_values=-jnp.inf)
  blocks = blocks.reshape(-1, _BLOCK, logits_VB.shape[1])
  sums = jnp.exp((blocks - highest_1B[None]) / temperature).sum(axis=1)
  ends = jnp.cumsum(sums, axis=0)
  mass_B = ends[-1]
  target_B = uniforms_B * mass_B
  block_B = _first_past(sums, ends, target_B)
  start_1B = jnp.take_along_axis(ends - sums, block_B[None], axis=0)
  # Exponentials are taken again in the block that was hit: to keep them all
  # they would have to be written out.
  block = jnp.take_along_axis(blocks, block_B[None, None], axis=0)[0]
  exponents = (block - highest_1B) / temperature
  powers = jnp.exp(exponents)
  ends = jnp.cumsum(powers, axis=0)
  place_B = _first_past(powers, ends, target_B - start_1B[0])
  tokens_B = (block_B * _BLOCK + place_B).astype(jnp.int32)
  chosen_1B = jnp.take_along_axis(exponents, place_B[None], axis=0)
  return tokens_B, chosen_1B[0], mass_B


def _first_past(
  weights: Float[Array, "n B"],
  ends: Float[Array, "n B"],
  target_B: Float[Array, " B"],
) -> Int[Array, " B"]:
  """The first place of positive weight whose cumulative sum passes the target.

  Sums are rounded, so a target close to the whole may pass no place at all:
  then the last place of positive weight. Nor need rounded cumulative sums stay
  level over a weight of zero, so the weight itself is asked.
  """
  positive = weights > 0
  passed = positive & (ends > target_B[None])
  last_B = len(weights) - 1 - jnp.argmax(positive[::-1], axis=0)
  return jnp.where(passed.any(axis=0), jnp.argmax(passed, axis=0), last_B)


def _lowest_kept(
  logits_V: Float[Array, " V"], knobs: Knobs
) -> tuple[Float[Array, ""], Float[Array, ""]]:
  """The logit of the least probable token kept, and the mass of the row.

  For a few rows at a time, because they stay in the cache of a core while the
  search passes over them again and again. The answer is a logit and not a
  probability: whether a token stays must not depend on the last bit of an
  exponential that is taken again elsewhere.
  """
  temperature, top_p, top_k = knobs
  powers_V = jnp.exp((logits_V - logits_V.max()) / temperature)
  kept_V = powers_V
  if 0 < top_k < logits_V.shape[0]:
    need, least = jnp.float32(top_k), jnp.float32(0)
    bound = _bound(powers_V, jnp.ones_like, need, least)
    kept_V = jnp.where(powers_V >= bound, powers_V, 0)
  if top_p < 1:
    mass = kept_V.sum()
    # Tokens below this weigh at most half of what may be left out.
    least = (1 - top_p) * mass / (2 * len(logits_V))
    bound = _bound(kept_V, jnp.asarray, top_p * mass, least)
    kept_V = jnp.where(kept_V >= bound, kept_V, 0)
  lowest = jnp.min(logits_V, initial=jnp.inf, where=kept_V > 0)
  return lowest, powers_V.sum()


def _bound(
  powers_V: Float[Array, " V"],
  weigh: Callable[[Array], Array],
  need: Float[Array, ""],
  least: Float[Array, ""],
) -> Float[Array, ""]:
  """A bound that parts the least tokens that weigh `need` from the others.

  Bisects the bit pattern, which is ordered as the float is where that is
  positive, and reaches any float in 31 halvings. Half of them will do: once
  the sums at the two ends of the bracket say that it holds one token only,
  nothing is left to decide.

  Args:
    powers_V: exp(logit - highest logit): in [0, 1], the largest 1.
    weigh: what a token adds, given its power: the power, or 1.
    need: the weight to be reached, at most that of all tokens.
    least: a bound that is known to be low enough.
  """
  weights_V = weigh(powers_V)

  def is_open(bracket):
    low, high, weight_low, weight_high = bracket
    one_token = weight_low - weight_high < 1.5 * weigh(_float(low))
    return (high - low > 1) & ~one_token

  def halve(bracket):
    low, high, weight_low, weight_high = bracket
    middle = low + (high - low) // 2
    weight = jnp.sum(jnp.where(powers_V >= _float(middle), weights_V, 0))
    return jax.lax.cond(
      weight >= need,
      lambda: (middle, high, weight, weight_high),
      lambda: (low, middle, weight_low, weight),
    )

  # The weight above `least` is not taken: that of all tokens will do, as long
  # as the bracket is wide.
  low, *_ = jax.lax.while_loop(
    is_open,
    halve,
    (
      _bits(least),
      _bits(jnp.float32(1)) + 1,
      weights_V.sum(),
      jnp.zeros_like(need),
    ),
  )
  return _float(low)


def _bits(x: Float[Array, ""]) -> Int[Array, ""]:
  return jax.lax.bitcast_convert_type(x, jnp.int32)


def _float(bits: Int[Array, ""]) -> Float[Array, ""]:
  return jax.lax.bitcast_convert_type(bits, jnp.float32)
