"""How queries meet keys: one layout for each way in which tokens are laid out.

  rows                   [B, T] padded rows, causal: the reference, and prefill
  continued              [U, R] one new token of each completion of U prompts,
                         over the prompt's cache and its own (decoding)
  shared_prompts.layout  [F] flat tokens without padding (the update)

Everything else in the network works token by token and sees no layout. A
layout's `attend(q, k, v, cache)` returns mixed values of the shape of q, and a
cache. Scores and softmax are float32.
"""

import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

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
    attend: `(q, k, v, cache) -> (mixed, cache)`.
  """

  positions: Int[Array, "*rest"]
  attend: Callable[..., tuple[Array, Any]]


class KeysValues(NamedTuple):
  """Keys and values of rows, `[B, T, K, head]`; stacked over layers outside."""

  keys: Array
  values: Array


def rows(mask_BT: Bool[Array, "B T"], *, keep_cache: bool = False) -> Layout:
  """Padded rows, each attending causally to itself.

  Args:
    mask_BT: True on real tokens; padding may stand left or right.
    keep_cache: whether `attend` hands back the row's keys and values.

  Returns:
    The layout for tokens `[B, T]`; positions count the real tokens.
  """

  def attend(q, k, v, cache):
    del cache
    mixed = jax.vmap(causal_row)(q, k, v, mask_BT)
    return mixed, KeysValues(k, v) if keep_cache else None

  positions_BT = jnp.maximum(jnp.cumsum(mask_BT, axis=1) - 1, 0)
  return Layout(positions_BT, attend)


def causal_row(
  q_THD: Float[Array, "T H head"],
  k_TKD: Float[Array, "T K head"],
  v_TKD: Float[Array, "T K head"],
  mask_T: Bool[Array, " T"],
) -> Float[Array, "T H head"]:
  """One row over itself, causally, with its padding masked."""
  q = heads_first(q_THD, k_TKD.shape[1])
  k_KTD, v_KTD = (jnp.moveaxis(part, 1, 0) for part in (k_TKD, v_TKD))
  mask = (causal(len(mask_T)) & mask_T[None])[None, :, None, :]
  (weights,) = softmax([scores("ktgd,ksd->ktgs", q, k_KTD, mask)], v_TKD.dtype)
  mixed = jnp.einsum("ktgs,ksd->ktgd", weights, v_KTD)
  return jnp.moveaxis(mixed, 0, 1).reshape(q_THD.shape)


def continued(
  positions_UR: Int[Array, "U R"],
  prompt_mask_UT: Bool[Array, "U Tp"],
  step: Int[Array, ""],
) -> Layout:
  """One new token of each of R completions of U prompts.

  Args:
    positions_UR: rotary positions of the new tokens.
    prompt_mask_UT: True on real prompt tokens.
    step: how many tokens the completions already have; the same for all.

  Returns:
    The layout for tokens `[U, R]`. Its cache is `(prompt, own)`: the prompts'
    `KeysValues` `[U, Tp, K, head]` and the completions', `[U, R, T, K, head]`,
    which comes back with the new token written at `step`.
  """
  prompt_mask = prompt_mask_UT[:, None, None, None, :]

  def attend(q, k, v, cache):
    prompt, own = cache
    own = KeysValues(
      jax.lax.dynamic_update_index_in_dim(own.keys, k, step, axis=2),
      jax.lax.dynamic_update_index_in_dim(own.values, v, step, axis=2),
    )
    past = (jnp.arange(own.keys.shape[2]) <= step)[None, None, None, None, :]
    grouped = q.reshape(*k.shape[:-1], -1, q.shape[-1])
    over_prompt, over_own = softmax(
      [
        scores("urkgd,uskd->urkgs", grouped, prompt.keys, prompt_mask),
        scores("urkgd,urskd->urkgs", grouped, own.keys, past),
      ],
      v.dtype,
    )
    mixed = jnp.einsum("urkgs,uskd->urkgd", over_prompt, prompt.values)
    mixed += jnp.einsum("urkgs,urskd->urkgd", over_own, own.values)
    return mixed.reshape(q.shape), (prompt, own)

  return Layout(positions_UR, attend)


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
