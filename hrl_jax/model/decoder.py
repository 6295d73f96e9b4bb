"""The decoder as pure functions over a pytree of parameters.

The network is a `flax.nnx` module, split once into a static graph definition
and a pure dict of arrays; equal layers are stacked and run by one scan, so
compile time does not grow with depth. Past `init`, everything is a function of
`(config, params, ...)`:

  hidden_BTD = decoder.hidden(config, params, tokens_BT, layout)
  logits_BTV = decoder.logits(params, hidden_BTD)
"""

import functools
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from jax.typing import DTypeLike
from jaxtyping import Array, Float, Int

from hrl_jax.model import attention, layers, specification

Params = dict[str, Any]

# What the backward pass keeps of a layer. "full" keeps its input and runs the
# layer again; "dots" keeps the outputs of attention and of the weight products
# too and repeats only what is cheap; "none" keeps everything.
REMAT_POLICIES = {
  "full": jax.checkpoint_policies.nothing_saveable,
  "dots": jax.checkpoint_policies.save_from_both_policies(
    jax.checkpoint_policies.dots_with_no_batch_dims_saveable,
    jax.checkpoint_policies.save_only_these_names(layers.MIXED),
  ),
  "none": jax.checkpoint_policies.everything_saveable,
}


class Decoder(nnx.Module):
  """Embedding, L equal blocks, norm, and a head unless it is tied."""

  def __init__(
    self,
    config: specification.DecoderConfig,
    *,
    rngs: nnx.Rngs,
    dtype: DTypeLike,
  ):
    @nnx.split_rngs(splits=config.num_layers)
    @nnx.vmap(in_axes=(0,), out_axes=0)
    def stacked(rngs: nnx.Rngs) -> layers.Block:
      return layers.Block(config, rngs=rngs, dtype=dtype)

    self.embed = nnx.Embed(
      config.vocab_size,
      config.hidden_size,
      dtype=dtype,
      param_dtype=dtype,
      embedding_init=nnx.initializers.normal(0.02),
      rngs=rngs,
    )
    self.layers = stacked(rngs)
    self.norm = layers.RmsNorm(config.hidden_size, config.norm_eps, dtype)
    if not config.tie_embeddings:
      self.head = layers.Linear(
        config.hidden_size, config.vocab_size, rngs=rngs, dtype=dtype
      )


def init(
  config: specification.DecoderConfig,
  key: jax.Array,
  dtype: DTypeLike = jnp.float32,
) -> Params:
  """Random parameters, normal with deviation 0.02; norms start at 1."""
  module = Decoder(config, rngs=nnx.Rngs(params=key), dtype=dtype)
  return nnx.to_pure_dict(nnx.state(module, nnx.Param))


def abstract_params(
  config: specification.DecoderConfig, dtype: DTypeLike = jnp.float32
) -> Params:
  """The shapes and dtypes of the parameters, without any memory."""
  return jax.eval_shape(lambda key: init(config, key, dtype), jax.random.key(0))


def hidden(
  config: specification.DecoderConfig,
  params: Params,
  tokens: Int[Array, "*rest"],
  layout: attention.Layout,
  *,
  remat: str = "none",
) -> Float[Array, "*rest D"]:
  """Features after the last norm, for tokens of any leading shape.

  Args:
    config: sizes of the network.
    params: its parameters; their dtype is the dtype of the computation.
    tokens: ids, `[B, T]` rows or `[F]` flat tokens.
    layout: where the tokens stand and how their queries meet keys.
    remat: what the backward pass keeps, a key of `REMAT_POLICIES`.
  """
  embedding_VD = params["embed"]["embedding"]
  table = layers.rotary_table(layout.positions, config)
  definition = _block_definition(config, embedding_VD.dtype)

  def layer(x, layer_params):
    block = nnx.merge(definition, nnx.State(layer_params))
    return block(x, table, layout.attend), None

  if remat != "none":
    layer = jax.checkpoint(
      layer, policy=REMAT_POLICIES[remat], prevent_cse=False
    )
  x, _ = jax.lax.scan(layer, embedding_VD[tokens], params["layers"])
  return _final_norm(config, params, x)


def _final_norm(
  config: specification.DecoderConfig,
  params: Params,
  x: Float[Array, "*rest D"],
) -> Float[Array, "*rest D"]:
  norm = layers.RmsNorm(config.hidden_size, config.norm_eps, x.dtype)
  norm.scale[...] = params["norm"]["scale"]
  return norm(x)


def head_weight(params: Params) -> Float[Array, "V D"]:
  """The head as `[V, D]`: the embedding where the two are tied."""
  if "head" in params:
    return params["head"]["kernel"].T
  return params["embed"]["embedding"]


def logits(
  params: Params, hidden: Float[Array, "*rest D"]
) -> Float[Array, "*rest V"]:
  """Unnormalised log-probabilities of the next token, float32."""
  return jnp.einsum(
    "...d,vd->...v",
    hidden,
    head_weight(params),
    preferred_element_type=jnp.float32,
  )


@functools.cache
def _block_definition(
  config: specification.DecoderConfig, dtype: DTypeLike
) -> Any:
  def block() -> layers.Block:
    return layers.Block(config, rngs=nnx.Rngs(0), dtype=dtype)

  return nnx.split(nnx.eval_shape(block), nnx.Param)[0]
