"""The decoder as it is sampled from: same network, another layout.

Decoding reads every weight for a handful of tokens, and on a CPU its speed is
that of products of a large matrix with a narrow one. So features come first
and tokens last, `[D, ...]`, and a weight `[out, in]` stands on the left of its
product: the narrow operand is then the one that the matrix product repacks,
not the weights (16 tokens of SmolLM2-135M on two cores: 1.8 times as fast as
tokens first). Layers are not stacked, because a scan would copy each layer's
weights out of the stack at every step; what reads the same features is fused,
query|key|value and gate|up.

Tokens have two axes: `[U, T]` prompts, or `[K, R]` the new tokens of K blocks
of R completions, each block continuing one prompt whose keys and values it
reads once.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from hrl_jax.model import inference_weights, layers, specification

# A score that loses against every real one; finite, so that a query without
# any key (padding) gets some mixture and not NaN.
_MASKED = -1e30


class KeysValues(NamedTuple):
  """What a layer keeps of its tokens.

  Prompts `[A, kv heads, T, head]`, completions `[A, kv heads, B, T, head]`:
  the tokens of one head next to each other, so that nothing is moved before
  queries meet them.
  """

  keys: Array
  values: Array


Cache = tuple[KeysValues, ...]  # of each layer


def prefill(
  config: specification.DecoderConfig,
  weights: inference_weights.Weights,
  tokens_UT: Int[Array, "U T"],
  lengths_U: Int[Array, " U"],
) -> tuple[Float[Array, "D U"], Cache]:
  """Runs prompts, padded on the right.

  Returns:
    Features after the last norm of each prompt's last token, and the prompts'
    keys and values `[U, kv heads, T, head]`; what they hold past a prompt's
    length is to be masked.
  """
  length = tokens_UT.shape[1]
  causal = jnp.tril(jnp.ones((length, length), bool))

  def attend(q, k, v, cache):
    del cache
    scores = _scores("uhtgd,uhsd->uhtgs", q, k)
    scores = jnp.where(causal[None, None, :, None], scores, _MASKED)
    shares = jax.nn.softmax(scores, axis=-1).astype(v.dtype)
    mixed = jnp.einsum("uhtgs,uhsd->uhtgd", shares, v)
    return mixed, KeysValues(k, v)

  positions_UT = jnp.broadcast_to(jnp.arange(length), tokens_UT.shape)
  x_DUT, cache = _run(
    config,
    weights,
    tokens_UT,
    positions_UT,
    attend,
    (None,) * len(weights.layers),
  )
  last_1U1 = (lengths_U - 1)[None, :, None]
  last_DU1 = jnp.take_along_axis(x_DUT, last_1U1, axis=2)
  return _norm(last_DU1, weights.norm_D, config.norm_eps)[:, :, 0], cache


def extend(
  config: specification.DecoderConfig,
  weights: inference_weights.Weights,
  tokens_KR: Int[Array, "K R"],
  step: Int[Array, ""],
  prompt_lengths_K: Int[Array, " K"],
  prompts: Cache,
  completions: Cache,
) -> tuple[Float[Array, "D K R"], Cache]:
  """Runs the newest token of each completion.

  Args:
    config: sizes of the network.
    weights: its weights.
    tokens_KR: the tokens.
    step: their place in the completions, from 0, the same for all.
    prompt_lengths_K: tokens of the prompt that each block continues.
    prompts: keys and values of those prompts, `[K, kv heads, Tp, head]`.
    completions: of the completions, `[K, kv heads, R, T, head]`, T > step.

  Returns:
    Features after the last norm, and the completions' keys and values with
    the new tokens' at `step`.
  """
  size = prompts[0].keys.shape[2]
  in_prompt = _is_key(size, prompt_lengths_K)
  in_completion = _is_key(completions[0].keys.shape[3], step[None] + 1)

  def attend(q, k, v, cache):
    prompt, own = cache
    own = KeysValues(
      jax.lax.dynamic_update_index_in_dim(own.keys, k, step, axis=3),
      jax.lax.dynamic_update_index_in_dim(own.values, v, step, axis=3),
    )
    prompt_scores = _scores("khrgd,khsd->khrgs", q, prompt.keys)
    # Keys on the left and queries on the right, for the reason above; the
    # barrier keeps XLA from turning the product round again.
    own_scores = _scores("khrsd,khrgd->khrsg", own.keys, q)
    own_scores = jax.lax.optimization_barrier(own_scores).swapaxes(3, 4)
    scores = jnp.concatenate(
      [
        jnp.where(in_prompt, prompt_scores, _MASKED),
        jnp.where(in_completion, own_scores, _MASKED),
      ],
      axis=-1,
    )
    shares = jax.nn.softmax(scores, axis=-1).astype(v.dtype)
    mixed = jnp.einsum("khrgs,khsd->khrgd", shares[..., :size], prompt.values)
    mixed += jnp.einsum("khrgs,khrsd->khrgd", shares[..., size:], own.values)
    return mixed, own

  positions_KR = jnp.broadcast_to(
    (prompt_lengths_K + step)[:, None], tokens_KR.shape
  )
  x_DKR, completions = _run(
    config,
    weights,
    tokens_KR,
    positions_KR,
    attend,
    tuple(zip(prompts, completions, strict=True)),
  )
  return _norm(x_DKR, weights.norm_D, config.norm_eps), completions


def logits(
  weights: inference_weights.Weights, features_DB: Float[Array, "D B"]
) -> Float[Array, "B V"]:
  """Unnormalised log-probabilities of the next token, float32."""
  head_VD = weights.embedding_VD if weights.head_VD is None else weights.head_VD
  logits_VB = jnp.einsum(
    "vd,db->vb", head_VD, features_DB, preferred_element_type=jnp.float32
  )
  # The barrier keeps XLA from turning the product round: eight times as slow
  # at 16 rows.
  return jax.lax.optimization_barrier(logits_VB).T


def _run(
  config: specification.DecoderConfig,
  weights: inference_weights.Weights,
  tokens_AB: Int[Array, "A B"],
  positions_AB: Int[Array, "A B"],
  attend: Callable[..., tuple[Array, Any]],
  caches: tuple[Any, ...],
) -> tuple[Float[Array, "D A B"], Cache]:
  """All layers, for tokens of two axes; `attend` says what those are.

  `attend(q, k, v, cache)` gets `[A, kv heads, B, group, head]` queries and
  `[A, kv heads, B, head]` keys and values, and returns mixed values of the
  shape of the queries, and the layer's new cache.
  """
  cosine, sine = layers.rotary_table(positions_AB, config)
  table = (jnp.moveaxis(cosine, -1, 0), jnp.moveaxis(sine, -1, 0))
  x_DAB = jnp.moveaxis(weights.embedding_VD[tokens_AB], -1, 0)
  kept = []
  for layer, cache in zip(weights.layers, caches, strict=True):
    normal_DAB = _norm(x_DAB, layer.attention_norm, config.norm_eps)
    q, k, v = _queries_keys_values(config, layer, normal_DAB, table)
    mixed, cache = attend(q, k, v, cache)
    kept.append(cache)
    mixed = mixed.transpose(1, 3, 4, 0, 2).reshape(-1, *x_DAB.shape[1:])
    x_DAB += _product(layer.mix, mixed)
    normal_DAB = _norm(x_DAB, layer.mlp_norm, config.norm_eps)
    gate, up = jnp.split(_product(layer.gate_up, normal_DAB), 2)
    x_DAB += _product(layer.down, jax.nn.silu(gate) * up)
  return x_DAB, tuple(kept)


def _queries_keys_values(
  config: specification.DecoderConfig,
  layer: inference_weights.Layer,
  x_DAB: Float[Array, "D A B"],
  table: tuple[Float[Array, "half A B"], Float[Array, "half A B"]],
) -> tuple[Array, Array, Array]:
  joint = _product(layer.queries_keys_values, x_DAB)
  if layer.bias is not None:
    joint += layer.bias[:, None, None]
  joint = joint.reshape(-1, config.head_dim, *x_DAB.shape[1:])
  ends = (config.num_heads, config.num_heads + config.num_kv_heads)
  q, k, v = jnp.split(joint, ends)
  if config.qk_norm:
    q = _norm(q, layer.query_norm, config.norm_eps)
    k = _norm(k, layer.key_norm, config.norm_eps)
  q, k = _rotate(q, table), _rotate(k, table)
  q = q.reshape(config.num_kv_heads, -1, *q.shape[1:]).transpose(3, 0, 4, 1, 2)
  return q, k.transpose(2, 0, 3, 1), v.transpose(2, 0, 3, 1)


def _product(
  weight: Float[Array, "out D"], x_DAB: Float[Array, "D A B"]
) -> Float[Array, "out A B"]:
  return jnp.einsum("nd,dab->nab", weight, x_DAB)


def _norm(
  x: Float[Array, "*heads D A B"], scale_D: Float[Array, " D"], epsilon: float
) -> Float[Array, "*heads D A B"]:
  """`layers.RmsNorm` over the axis of features."""
  x32 = x.astype(jnp.float32)
  mean_square = jnp.mean(x32 * x32, axis=-3, keepdims=True)
  normal = (x32 * jax.lax.rsqrt(mean_square + epsilon)).astype(x.dtype)
  return normal * jnp.broadcast_to(scale_D[:, None, None], x.shape)


def _rotate(
  x: Float[Array, "H head A B"],
  table: tuple[Float[Array, "half A B"], Float[Array, "half A B"]],
) -> Float[Array, "H head A B"]:
  """`layers.rotate` over the second axis."""
  cosine, sine = (part[None] for part in table)
  first, second = jnp.split(x.astype(jnp.float32), 2, axis=1)
  turned = jnp.concatenate(
    [first * cosine - second * sine, second * cosine + first * sine], axis=1
  )
  return turned.astype(x.dtype)


def _is_key(
  size: int, lengths_A: Int[Array, " A"]
) -> Bool[Array, "A 1 1 1 size"]:
  places = jnp.arange(size)[None, None, None, None]
  return places < lengths_A[:, None, None, None, None]


def _scores(equation: str, q: Array, k: Array) -> Array:
  scores = jnp.einsum(equation, q, k, preferred_element_type=jnp.float32)
  return scores / math.sqrt(q.shape[-1])
