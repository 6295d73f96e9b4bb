"""Completions of prompts, drawn token by token from cached keys and values.

A batch is K blocks of R rows. The rows of a block complete the same prompt,
which was run once and is read once a step. A row's uniform for its token t is
`uniform(fold_in(key(seed), t))`, so what a row draws does not depend on the
batch that it is in.

  features_DU, prompts = prefill(config, weights, tokens_UT, lengths_U)
  rows, drawn = begin(...)         the first token
  rows, drawn = decode(...)        further ones, again and again

Between two calls of `decode` finished rows can be dropped and caches be made
longer: `repack`.
"""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, UInt32

from hrl_jax.model import inference, inference_weights, selection, specification


class Rows(NamedTuple):
  """Completions under way.

  Attributes:
    prompts: keys and values of the prompt of each block.
    completions: keys and values of the tokens so far, the newest excepted.
    prompt_lengths_K: tokens of the prompt of each block.
    seeds_KR: of the rows' uniforms.
    tokens_KR: the newest tokens.
    live_KR: False once a row has drawn a stop token, and for empty places.
    step: tokens that a live row has.
  """

  prompts: inference.Cache
  completions: inference.Cache
  prompt_lengths_K: Int[Array, " K"]
  seeds_KR: UInt32[Array, "K R"]
  tokens_KR: Int[Array, "K R"]
  live_KR: Bool[Array, "K R"]
  step: Int[Array, ""]


class Drawn(NamedTuple):
  """The tokens of some steps.

  Attributes:
    tokens_TKR: ids.
    logprobs_TKR: full-vocabulary log-probabilities, see `selection.Draw`.
    drawn_logprobs_TKR: those under the distribution that was drawn from.
    lengths_KR: how many of the T are the row's own, the first ones.
  """

  tokens_TKR: Int[Array, "T K R"]
  logprobs_TKR: Float[Array, "T K R"]
  drawn_logprobs_TKR: Float[Array, "T K R"]
  lengths_KR: Int[Array, "K R"]


prefill = jax.jit(inference.prefill, static_argnames="config")


@functools.partial(jax.jit, static_argnames=("knobs", "capacity"))
def begin(
  weights: inference_weights.Weights,
  features_DU: Float[Array, "D U"],
  prompts: inference.Cache,
  lengths_U: Int[Array, " U"],
  prompt_K: Int[Array, " K"],
  seeds_KR: UInt32[Array, "K R"],
  live_KR: Bool[Array, "K R"],
  stop_ids: Int[Array, " stops"],
  *,
  knobs: selection.Knobs,
  capacity: int,
) -> tuple[Rows, Drawn]:
  """Draws the first token of every row.

  Args:
    weights: of the network.
    features_DU: after each prompt, from `prefill`.
    prompts: keys and values of the prompts, from `prefill`.
    lengths_U: tokens of the prompts.
    prompt_K: the prompt of each block.
    seeds_KR: of the rows.
    live_KR: False for places without a row.
    stop_ids: tokens that end a row.
    knobs: how tokens are drawn.
    capacity: tokens of a completion that the caches have room for.

  Returns:
    The rows, and their first tokens (T = 1).
  """
  num_rows = seeds_KR.shape[1]
  completions = tuple(
    jax.tree.map(lambda x: _empty(x, seeds_KR.shape, capacity), cache)
    for cache in prompts
  )
  rows = Rows(
    prompts=jax.tree.map(lambda x: x[prompt_K], prompts),
    completions=completions,
    prompt_lengths_K=lengths_U[prompt_K],
    seeds_KR=seeds_KR,
    tokens_KR=jnp.zeros_like(prompt_K, shape=seeds_KR.shape),
    live_KR=live_KR,
    step=jnp.int32(0),
  )
  logits_UV = inference.logits(weights, features_DU)
  logits_BV = logits_UV[jnp.repeat(prompt_K, num_rows)]
  return _draw(
    rows, logits_BV, stop_ids, _nothing(1, seeds_KR), rows.step, knobs
  )


@functools.partial(
  jax.jit,
  static_argnames=("config", "knobs", "chunk"),
  donate_argnames="rows",
)
def decode(
  config: specification.DecoderConfig,
  weights: inference_weights.Weights,
  rows: Rows,
  limit: Int[Array, ""],
  stop_ids: Int[Array, " stops"],
  *,
  knobs: selection.Knobs,
  chunk: int,
) -> tuple[Rows, Drawn]:
  """Draws until the rows have `limit` tokens, or the last live one stops.

  Args:
    config: sizes of the network.
    weights: of the network.
    rows: consumed.
    limit: at most `chunk` tokens more, and at most the capacity of the caches.
    stop_ids: tokens that end a row.
    knobs: how tokens are drawn.
    chunk: T of what comes back.

  Returns:
    The rows, whose `step` tells how far it went, and their new tokens.
  """
  first = rows.step

  def unfinished(carry):
    rows, _ = carry
    return (rows.step < limit) & rows.live_KR.any()

  def advance(carry):
    rows, drawn = carry
    features_DKR, completions = inference.extend(
      config,
      weights,
      rows.tokens_KR,
      rows.step - 1,
      rows.prompt_lengths_K,
      rows.prompts,
      rows.completions,
    )
    features_DB = features_DKR.reshape(features_DKR.shape[0], -1)
    logits_BV = inference.logits(weights, features_DB)
    rows = rows._replace(completions=completions)
    return _draw(rows, logits_BV, stop_ids, drawn, rows.step - first, knobs)

  drawn = _nothing(chunk, rows.seeds_KR)
  return jax.lax.while_loop(unfinished, advance, (rows, drawn))


@functools.partial(jax.jit, static_argnames="capacity")
def repack(
  rows: Rows,
  block_K: Int[Array, " K"],
  row_KR: Int[Array, "K R"],
  live_KR: Bool[Array, "K R"],
  *,
  capacity: int,
) -> Rows:
  """Takes some rows into blocks of another number and width.

  Args:
    rows: before.
    block_K: for each new block, an old one that continues the same prompt.
    row_KR: for each new row, the old one, counting through the old blocks.
    live_KR: False for places without a row.
    capacity: tokens of a completion that the caches have room for after it,
      at least as many as before.
  """

  def regrouped(x):
    by_row = x.swapaxes(1, 2).reshape(-1, *x.shape[1:2], *x.shape[3:])
    longer = ((0, 0), (0, 0), (0, 0), (0, capacity - x.shape[3]), (0, 0))
    return jnp.pad(by_row[row_KR].swapaxes(1, 2), longer)

  return Rows(
    prompts=jax.tree.map(lambda x: x[block_K], rows.prompts),
    completions=jax.tree.map(regrouped, rows.completions),
    prompt_lengths_K=rows.prompt_lengths_K[block_K],
    seeds_KR=rows.seeds_KR.reshape(-1)[row_KR],
    tokens_KR=rows.tokens_KR.reshape(-1)[row_KR],
    live_KR=live_KR,
    step=rows.step,
  )


def _draw(
  rows: Rows,
  logits_BV: Float[Array, "B V"],
  stop_ids: Int[Array, " stops"],
  drawn: Drawn,
  place: int | Int[Array, ""],
  knobs: selection.Knobs,
) -> tuple[Rows, Drawn]:
  """Draws one token per row and writes it at `place`."""

  def uniform(seed):
    return jax.random.uniform(
      jax.random.fold_in(jax.random.key(seed), rows.step)
    )

  uniforms_B = jax.vmap(uniform)(rows.seeds_KR.reshape(-1))
  values = [
    values_B.reshape(rows.live_KR.shape)
    for values_B in selection.draw(logits_BV, uniforms_B, knobs)
  ]
  written = [
    jax.lax.dynamic_update_index_in_dim(table_TKR, values_KR, place, axis=0)
    for table_TKR, values_KR in zip(drawn, values, strict=False)
  ]
  tokens_KR = values[0]
  stopped_KR = (tokens_KR[:, :, None] == stop_ids[None, None]).any(axis=2)
  drawn = Drawn(*written, lengths_KR=drawn.lengths_KR + rows.live_KR)
  rows = rows._replace(
    tokens_KR=tokens_KR,
    live_KR=rows.live_KR & ~stopped_KR,
    step=rows.step + 1,
  )
  return rows, drawn


def _nothing(length: int, like_KR: Array) -> Drawn:
  """Room for `length` tokens of every row."""
  shape = (length, *like_KR.shape)
  return Drawn(
    tokens_TKR=jnp.zeros(shape, jnp.int32),
    logprobs_TKR=jnp.zeros(shape, jnp.float32),
    drawn_logprobs_TKR=jnp.zeros(shape, jnp.float32),
    lengths_KR=jnp.zeros(like_KR.shape, jnp.int32),
  )


def _empty(prompts: Array, shape: tuple[int, int], capacity: int) -> Array:
  """A cache of completions beside one of prompts."""
  num_blocks, num_rows = shape
  heads, head_size = prompts.shape[1], prompts.shape[3]
  return jnp.zeros(
    (num_blocks, heads, num_rows, capacity, head_size), prompts.dtype
  )
