"""The layers of a decoder: norm, rotary positions, attention, MLP, block.

A layer works on tokens of any leading shape: `[B, T, D]` rows or `[F, D]` flat
tokens without padding. What differs between training, prefill and decoding is
only how queries meet keys, and that is handed in as `attend` (see
`model.attention`).
"""

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
from flax import nnx
from jax import ad_checkpoint
from jax.typing import DTypeLike
from jaxtyping import Array, Float, Int

from hrl_jax.model import specification
from kernels.dense import dense

Attend = Callable[[Array, Array, Array], Array]
Rotary = tuple[Array, Array]

# The name under which a remat policy may keep the outputs of attention.
MIXED = "mixed"


class RmsNorm(nnx.Module):
  """x / sqrt(mean(x^2) + eps) * scale over the last axis, in float32.

  See "Root Mean Square Layer Normalization" by Zhang and Sennrich
  (https://arxiv.org/abs/1910.07467).
  """

  def __init__(self, size: int, epsilon: float, dtype: DTypeLike):
    self.scale = nnx.Param(jnp.ones((size,), dtype))
    self.epsilon = epsilon

  def __call__(self, x: Float[Array, "*rest D"]) -> Float[Array, "*rest D"]:
    """Returns the normalised features in the dtype of `x`."""
    x32 = x.astype(jnp.float32)
    mean_square = jnp.mean(x32 * x32, axis=-1, keepdims=True)
    normal = (x32 * jax.lax.rsqrt(mean_square + self.epsilon)).astype(x.dtype)
    return normal * jnp.broadcast_to(self.scale[...], x.shape)


def rotary_table(
  positions: Int[Array, "*rest"], config: specification.DecoderConfig
) -> tuple[Float[Array, "*rest half"], Float[Array, "*rest half"]]:
  """Cosines and sines of the rotary angles of each position, float32.

  Angles are taken in float32: bfloat16 rounds position 257 to 256, and the
  fastest frequency turns a whole radian between the two.

  See "RoFormer" by Su et al. (https://arxiv.org/abs/2104.09864).
  """
  exponents = jnp.arange(0, config.head_dim, 2, dtype=jnp.float32)
  frequencies = config.rope_theta ** -(exponents / config.head_dim)
  if config.rope_scaling is not None:
    frequencies = _llama3_scaled(frequencies, config.rope_scaling)
  angles = jnp.multiply.outer(positions.astype(jnp.float32), frequencies)
  return jnp.cos(angles), jnp.sin(angles)


def rotate(
  x: Float[Array, "*rest H head"],
  table: tuple[Float[Array, "*rest half"], Float[Array, "*rest half"]],
) -> Float[Array, "*rest H head"]:
  """Turns each pair (x[i], x[i + head / 2]) by its angle."""
  cosine, sine = (part[..., None, :] for part in table)
  first, second = jnp.split(x.astype(jnp.float32), 2, axis=-1)
  turned = jnp.concatenate(
    [first * cosine - second * sine, second * cosine + first * sine], axis=-1
  )
  return turned.astype(x.dtype)


class Linear(nnx.Module):
  """x @ kernel + bias over the last axis; normal kernel, deviation 0.02."""

  def __init__(
    self,
    size_in: int,
    size_out: int,
    *,
    use_bias: bool = False,
    rngs: nnx.Rngs,
    dtype: DTypeLike,
  ):
    initial = nnx.initializers.normal(0.02)
    self.kernel = nnx.Param(initial(rngs.params(), (size_in, size_out), dtype))
    if use_bias:
      self.bias = nnx.Param(jnp.zeros((size_out,), dtype))
    self.use_bias = use_bias

  def __call__(self, x: Float[Array, "*rest D"]) -> Float[Array, "*rest E"]:
    """Returns the features that come out."""
    y = dense(x, self.kernel[...])
    return y + jnp.broadcast_to(self.bias[...], y.shape) if self.use_bias else y


class Attention(nnx.Module):
  """Grouped-query attention; the meeting of queries and keys is handed in."""

  def __init__(
    self,
    config: specification.DecoderConfig,
    *,
    rngs: nnx.Rngs,
    dtype: DTypeLike,
  ):
    linear = functools.partial(Linear, rngs=rngs, dtype=dtype)
    query_size = config.num_heads * config.head_dim
    key_size = config.num_kv_heads * config.head_dim
    bias = config.attention_bias
    self.q = linear(config.hidden_size, query_size, use_bias=bias)
    self.k = linear(config.hidden_size, key_size, use_bias=bias)
    self.v = linear(config.hidden_size, key_size, use_bias=bias)
    self.o = linear(query_size, config.hidden_size)
    if config.qk_norm:
      self.q_norm = RmsNorm(config.head_dim, config.norm_eps, dtype)
      self.k_norm = RmsNorm(config.head_dim, config.norm_eps, dtype)
    self.config = config

  def __call__(
    self, x: Float[Array, "*rest D"], table: Rotary, attend: Attend
  ) -> Float[Array, "*rest D"]:
    """Returns the mixed features."""
    config = self.config
    heads = (*x.shape[:-1], -1, config.head_dim)
    q, k, v = (part(x).reshape(heads) for part in (self.q, self.k, self.v))
    if config.qk_norm:
      q, k = self.q_norm(q), self.k_norm(k)
    q, k = rotate(q, table), rotate(k, table)
    mixed = attend(q, k, v)
    mixed = ad_checkpoint.checkpoint_name(mixed, MIXED)
    return self.o(mixed.reshape(*x.shape[:-1], -1))


class Mlp(nnx.Module):
  """The gated feed-forward layer, down(silu(gate(x)) * up(x)).

  See "GLU Variants Improve Transformer" by Shazeer
  (https://arxiv.org/abs/2002.05202).
  """

  def __init__(
    self,
    config: specification.DecoderConfig,
    *,
    rngs: nnx.Rngs,
    dtype: DTypeLike,
  ):
    linear = functools.partial(Linear, rngs=rngs, dtype=dtype)
    self.gate = linear(config.hidden_size, config.intermediate_size)
    self.up = linear(config.hidden_size, config.intermediate_size)
    self.down = linear(config.intermediate_size, config.hidden_size)

  def __call__(self, x: Float[Array, "*rest D"]) -> Float[Array, "*rest D"]:
    """Returns features of the same shape."""
    return self.down(jax.nn.silu(self.gate(x)) * self.up(x))


class Block(nnx.Module):
  """One layer: x += attention(norm(x)); x += mlp(norm(x))."""

  def __init__(
    self,
    config: specification.DecoderConfig,
    *,
    rngs: nnx.Rngs,
    dtype: DTypeLike,
  ):
    size, epsilon = config.hidden_size, config.norm_eps
    self.attention_norm = RmsNorm(size, epsilon, dtype)
    self.attention = Attention(config, rngs=rngs, dtype=dtype)
    self.mlp_norm = RmsNorm(size, epsilon, dtype)
    self.mlp = Mlp(config, rngs=rngs, dtype=dtype)

  def __call__(
    self, x: Float[Array, "*rest D"], table: Rotary, attend: Attend
  ) -> Float[Array, "*rest D"]:
    """Returns the features after the block."""
    x = x + self.attention(self.attention_norm(x), table, attend)
    return x + self.mlp(self.mlp_norm(x))


def _llama3_scaled(
  frequencies: Float[Array, " half"], scaling: specification.Llama3Scaling
) -> Float[Array, " half"]:
  # Llama 3.1: long wavelengths are stretched by `factor`, short ones kept,
  # those between the two bounds blended.
  turns = scaling.original_max_positions * frequencies / (2 * jnp.pi)
  blend = (turns - scaling.low_freq_factor) / (
    scaling.high_freq_factor - scaling.low_freq_factor
  )
  blend = jnp.clip(blend, 0.0, 1.0)
  return blend * frequencies + (1 - blend) * frequencies / scaling.factor
