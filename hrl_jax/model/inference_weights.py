"""The layout of the weights that `model.inference` computes with.

A weight is `[out, in]`; layers are not stacked; weights that read the same
features are fused, query|key|value and gate|up.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.typing import DTypeLike
from jaxtyping import Array

from hrl_jax.model import decoder


class Layer(NamedTuple):
  """Weights of one layer; None where the network has none."""

  attention_norm: Array
  queries_keys_values: Array
  bias: Array | None
  query_norm: Array | None
  key_norm: Array | None
  mix: Array
  mlp_norm: Array
  gate_up: Array
  down: Array


class Weights(NamedTuple):
  """All weights.

  Attributes:
    embedding_VD: one row per token.
    layers: from first to last.
    norm_D: scale of the last norm.
    head_VD: None where the embedding is the head.
  """

  embedding_VD: Array
  layers: tuple[Layer, ...]
  norm_D: Array
  head_VD: Array | None


def convert(params: decoder.Params, dtype: DTypeLike) -> Weights:
  """The parameters of `decoder.init`, copied into this layout.

  Jit it: nothing of the result shares a buffer with `params`, whoever donates
  those later.
  """
  params = jax.tree.map(lambda x: jnp.array(x, dtype, copy=True), params)
  num_layers = params["layers"]["attention_norm"]["scale"].shape[0]
  head_VD = decoder.head_weight(params) if "head" in params else None
  return Weights(
    embedding_VD=params["embed"]["embedding"],
    layers=tuple(
      _layer(jax.tree.map(lambda x, index=index: x[index], params["layers"]))
      for index in range(num_layers)
    ),
    norm_D=params["norm"]["scale"],
    head_VD=head_VD,
  )


def _layer(params: decoder.Params) -> Layer:
  """One layer's weights from the parameters of one block."""
  mixer, mlp = params["attention"], params["mlp"]

  def joined(parts: dict[str, Any], names: tuple[str, ...], leaf: str) -> Array:
    return jnp.concatenate([parts[name][leaf].T for name in names])

  qkv = ("q", "k", "v")
  has_bias, has_norm = "bias" in mixer["q"], "q_norm" in mixer
  return Layer(
    attention_norm=params["attention_norm"]["scale"],
    queries_keys_values=joined(mixer, qkv, "kernel"),
    bias=joined(mixer, qkv, "bias") if has_bias else None,
    query_norm=mixer["q_norm"]["scale"] if has_norm else None,
    key_norm=mixer["k_norm"]["scale"] if has_norm else None,
    mix=mixer["o"]["kernel"].T,
    mlp_norm=params["mlp_norm"]["scale"],
    gate_up=joined(mlp, ("gate", "up"), "kernel"),
    down=mlp["down"]["kernel"].T,
  )
