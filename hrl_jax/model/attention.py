"""How queries meet keys: one layout for each way in which tokens are laid out.

  rows                   [B, T] padded rows, causal: the reference
  shared_prompts.layout  [F] flat tokens without padding: the update

Everything else in the network works token by token and sees no layout. Scores
and softmax are float32. (The sampler keeps caches and has a layout of its own,
see `model.inference`.)
"""

import functools
import math
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.typing import DTypeLike
from jaxtyping import Array, Bool, Float, Int

# A score that loses against every real one; finite, so that a query without
# any key (padding) gets some mixture and not NaN.
_MASKED = -1e30


class Layout(NamedTuple):
  """Where tokens stand, and how they meet.

  Attributes:
    positions: the rotary position of each token, in the tokens' shape.
    attend: `(q, k, v) -> mixed`, values mixed in the shape of q.
  """

  positions: Int[Array, "*rest"]
  attend: Callable[[Array, Array, Array], Array]


def rows(mask_BT: Bool[Array, "B T"]) -> Layout:
  """Padded rows, each attending causally to itself.

  Args:
    mask_BT: True on real tokens; padding may stand left or right.

  Returns:
    The layout for tokens `[B, T]`; positions count the real tokens.
  """

  def attend(q, k, v):
    return jax.vmap(causal_row)(q, k, v, mask_BT)

  positions_BT = jnp.maximum(jnp.cumsum(mask_BT, axis=1) - 1, 0)
  return Layout(positions_BT, attend)


def causal_row(
  q_THD: Float[Array, "T H head"],
  k_TKD: Float[Array, "T K head"],
  v_TKD: Float[Array, "T K head"],
  mask_T: Bool[Array, " T"],
) -> Float[Array, "T H head"]:
  """One row over itself, causally, with its padding masked."""
  return row(q_THD, k_TKD, v_TKD, causal(len(mask_T)) & mask_T[None])


def row(
  q_THD: Float[Array, "T H head"],
  k_TKD: Float[Array, "T K head"],
  v_TKD: Float[Array, "T K head"],
  visible_TT: Bool[Array, "T T"],
) -> Float[Array, "T H head"]:
  """One row over itself; a token (left) looks where the mask is True."""
  q = heads_first(q_THD, k_TKD.shape[1])
  k_KTD, v_KTD = (jnp.moveaxis(part, 1, 0) for part in (k_TKD, v_TKD))
  mask = visible_TT[None, :, None, :]
  (weights,) = softmax([scores("ktgd,ksd->ktgs", q, k_KTD, mask)], v_TKD.dtype)
  mixed = jnp.einsum("ktgs,ksd->ktgd", weights, v_KTD)
  return jnp.moveaxis(mixed, 0, 1).reshape(q_THD.shape)


def heads_first(
  q: Float[Array, "*rest H head"], num_kv_heads: int
) -> Float[Array, "K *rest group head"]:
  """Queries under the key head that they share, that axis first.

  With heads first a batched product needs no transpose of its scores.
  """
  grouped = q.reshape(*q.shape[:-2], num_kv_heads, -1, q.shape[-1])
  return jnp.moveaxis(grouped, -3, 0)


def scores(
  equation: str,
  q: Float[Array, "*left head"],
  k: Float[Array, "*right"],
  mask: Bool[Array, "*places"],
) -> Float[Array, "*scores"]:
  """q k / sqrt(head) where the mask is True, a losing score elsewhere."""
  products = jnp.einsum(equation, q, k, preferred_element_type=jnp.float32)
  return jnp.where(mask, products / math.sqrt(q.shape[-1]), _MASKED)


def softmax(
  parts: list[Float[Array, "*_"]], dtype: DTypeLike
) -> list[Float[Array, "*_"]]:
  """One softmax over the last axes of all parts together, cast to `dtype`."""
  highest = functools.reduce(
    jnp.maximum, [part.max(axis=-1, keepdims=True) for part in parts]
  )
  # The softmax does not depend on its shift, so no gradient goes through it.
  highest = jax.lax.stop_gradient(highest)
  powers = [jnp.exp(part - highest) for part in parts]
  total = sum(power.sum(axis=-1, keepdims=True) for power in powers)
  return [(power / total).astype(dtype) for power in powers]


def causal(length: int) -> Bool[Array, "T T"]:
  """True where a token may look: at itself and what came before."""
  return jnp.tril(jnp.ones((length, length), bool))
