"""Names and layouts of weights: ours, Hugging Face's, GGUF's.

One table, `TABLE`, says for each leaf of the parameters what it is called in a
safetensors checkpoint and in a GGUF file. What differs besides the name:

* a checkpoint has one tensor per layer, we stack them, `[L, ...]`;
* a linear layer is stored `[out, in]`, we multiply by a kernel `[in, out]`;
* GGUF files of architecture `llama` turn neighbouring features (2i, 2i + 1) by
  a rotary angle and store the rows of q and k in that order. Here, as in
  transformers, the two of a pair lie half a head apart.

Arrays in, arrays out: files are opened in `hrl_jax.checkpoint.hf`.
"""

import functools
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from flax import traverse_util
from jax.typing import DTypeLike

from hrl_jax.model import decoder, specification

Params = dict[str, Any]


class Weight(NamedTuple):
  """One leaf of the parameters and its names elsewhere.

  Attributes:
    path: of the leaf in the parameters. Under "layers/" it is stacked; a
      "kernel" is stored transposed.
    hf: name in a safetensors checkpoint, `{}` for the layer.
    gguf: name in a GGUF file, `{}` for the layer.
  """

  path: str
  hf: str
  gguf: str


_LAYER_TABLE = (
  ("attention_norm/scale", "input_layernorm.weight", "attn_norm.weight"),
  ("attention/q/kernel", "self_attn.q_proj.weight", "attn_q.weight"),
  ("attention/q/bias", "self_attn.q_proj.bias", "attn_q.bias"),
  ("attention/k/kernel", "self_attn.k_proj.weight", "attn_k.weight"),
  ("attention/k/bias", "self_attn.k_proj.bias", "attn_k.bias"),
  ("attention/v/kernel", "self_attn.v_proj.weight", "attn_v.weight"),
  ("attention/v/bias", "self_attn.v_proj.bias", "attn_v.bias"),
  ("attention/o/kernel", "self_attn.o_proj.weight", "attn_output.weight"),
  ("attention/q_norm/scale", "self_attn.q_norm.weight", "attn_q_norm.weight"),
  ("attention/k_norm/scale", "self_attn.k_norm.weight", "attn_k_norm.weight"),
  ("mlp_norm/scale", "post_attention_layernorm.weight", "ffn_norm.weight"),
  ("mlp/gate/kernel", "mlp.gate_proj.weight", "ffn_gate.weight"),
  ("mlp/up/kernel", "mlp.up_proj.weight", "ffn_up.weight"),
  ("mlp/down/kernel", "mlp.down_proj.weight", "ffn_down.weight"),
)

_EMBEDDING = Weight(
  "embed/embedding", "model.embed_tokens.weight", "token_embd.weight"
)
_HEAD = Weight("head/kernel", "lm_head.weight", "output.weight")

TABLE = (
  _EMBEDDING,
  *(
    Weight(f"layers/{path}", f"model.layers.{{}}.{hf}", f"blk.{{}}.{gguf}")
    for path, hf, gguf in _LAYER_TABLE
  ),
  Weight("norm/scale", "model.norm.weight", "output_norm.weight"),
  _HEAD,
)

# Rotary frequencies that old checkpoints store: a function of the config.
_COMPUTED_BUFFER = "rotary_emb.inv_freq"


def from_hf(
  tensors: Mapping[str, np.ndarray],
  config: specification.DecoderConfig,
  dtype: DTypeLike | None = None,
) -> Params:
  """The parameters of a safetensors checkpoint, as host arrays.

  Each tensor is taken from the mapping once and copied into its stack, so a
  mapping that reads on access holds one tensor besides the parameters. A head
  may be stored although it is tied, if it equals the embedding.

  Args:
    tensors: arrays by Hugging Face name.
    config: sizes that the arrays must have.
    dtype: of the parameters; None keeps the dtype of each first tensor.

  Returns:
    A tree like `decoder.abstract_params(config)`.

  Raises:
    ValueError: naming weights that are unknown, missing or misshapen, and a
      stored head that differs from the embedding it is tied to.
  """
  return _assemble(
    tensors, config, dtype, lambda row: row.hf, lambda array, row: array
  )


def from_gguf(
  tensors: Mapping[str, np.ndarray],
  config: specification.DecoderConfig,
  dtype: DTypeLike | None = None,
) -> Params:
  """The parameters of a dequantised GGUF file; otherwise as `from_hf`."""
  rotated_heads = {}
  if config.family == "llama":
    rotated_heads = {
      "layers/attention/q/kernel": config.num_heads,
      "layers/attention/k/kernel": config.num_kv_heads,
    }

  def reordered(array: np.ndarray, row: Weight) -> np.ndarray:
    if row.path not in rotated_heads:
      return array
    return _halves_apart(array, rotated_heads[row.path])

  return _assemble(tensors, config, dtype, lambda row: row.gguf, reordered)


def named_tensors(
  params: Params, config: specification.DecoderConfig
) -> Iterator[tuple[str, np.ndarray]]:
  """Yields name and array of each tensor of a safetensors checkpoint.

  One leaf at a time comes to the host; what is yielded are views of it, not
  contiguous where they are transposed.

  Raises:
    ValueError: naming leaves that are unknown, missing or misshapen.
  """
  leaves = traverse_util.flatten_dict(params, sep="/")
  _check_leaves(leaves, config)
  for row in rows(config):
    leaf = np.asarray(leaves[row.path])
    arrays = leaf if _is_stacked(row) else [leaf]
    for name, array in zip(_names(row.hf, row, config), arrays, strict=True):
      yield name, array.T if _is_transposed(row) else array


def to_hf(
  params: Params, config: specification.DecoderConfig
) -> dict[str, np.ndarray]:
  """All tensors of a safetensors checkpoint, by name; see `named_tensors`."""
  return dict(named_tensors(params, config))


def hf_shapes(
  config: specification.DecoderConfig,
) -> dict[str, tuple[int, ...]]:
  """The shape of each tensor of a checkpoint, in the order of `to_hf`."""
  return {
    name: _stored_shape(row, _leaf_shapes(config))
    for row in rows(config)
    for name in _names(row.hf, row, config)
  }


def rows(config: specification.DecoderConfig) -> tuple[Weight, ...]:
  """The rows of `TABLE` whose leaf a decoder of this config has."""
  return tuple(row for row in TABLE if row.path in _leaf_shapes(config))


def _assemble(
  tensors: Mapping[str, np.ndarray],
  config: specification.DecoderConfig,
  dtype: DTypeLike | None,
  name_of: Callable[[Weight], str],
  reordered: Callable[[np.ndarray, Weight], np.ndarray],
) -> Params:
  names = {row: _names(name_of(row), row, config) for row in rows(config)}
  extra_head = _check_names(tensors, config, names, name_of(_HEAD))
  shapes = _leaf_shapes(config)
  leaves = {}
  misshapen = []
  for row in names:
    leaf = None
    for layer, name in enumerate(names[row]):
      array, shape = tensors[name], _stored_shape(row, shapes)
      if array.shape != shape:
        misshapen.append(f"{name} {array.shape} instead of {shape}")
        continue
      if leaf is None:
        leaf = np.empty(shapes[row.path], dtype or array.dtype)
      array = reordered(array, row)
      place = leaf[layer] if _is_stacked(row) else leaf
      place[...] = array.T if _is_transposed(row) else array
    leaves[row.path] = leaf
  _refuse({"misshapen": misshapen})
  if extra_head:
    _check_tied(extra_head, tensors[extra_head], leaves[_EMBEDDING.path])
  return traverse_util.unflatten_dict(leaves, sep="/")


def _check_names(
  tensors: Mapping[str, np.ndarray],
  config: specification.DecoderConfig,
  names: Mapping[Weight, Sequence[str]],
  head: str,
) -> str | None:
  # Returns the name of a head that is stored although it is tied.
  stored = {name for name in tensors if not name.endswith(_COMPUTED_BUFFER)}
  expected = set(itertools.chain.from_iterable(names.values()))
  extra_head = head if config.tie_embeddings and head in stored else None
  _refuse(
    {
      "missing": sorted(expected - stored),
      "unknown": sorted(stored - expected - {extra_head}),
    }
  )
  return extra_head


def _check_tied(
  name: str, head_VD: np.ndarray, embedding_VD: np.ndarray
) -> None:
  if not np.array_equal(head_VD.astype(embedding_VD.dtype), embedding_VD):
    raise ValueError(
      f"{name} is stored, differs from the embedding, and the config ties the "
      "two (tie_word_embeddings = true): one of them would be lost. Set "
      "tie_word_embeddings to false in config.json, or remove the tensor."
    )


def _check_leaves(
  leaves: Mapping[str, Any], config: specification.DecoderConfig
) -> None:
  shapes = _leaf_shapes(config)
  _refuse(
    {
      "missing": sorted(shapes.keys() - leaves.keys()),
      "unknown": sorted(leaves.keys() - shapes.keys()),
      "misshapen": [
        f"{path} {leaf.shape} instead of {shapes[path]}"
        for path, leaf in leaves.items()
        if path in shapes and leaf.shape != shapes[path]
      ],
    }
  )


def _refuse(problems: Mapping[str, Sequence[str]]) -> None:
  listed = [
    f"{len(names)} {problem} ({', '.join(names[:5])}"
    f"{', ...' if len(names) > 5 else ''})"
    for problem, names in problems.items()
    if names
  ]
  if listed:
    raise ValueError(
      f"The weights do not fit the config: {'; '.join(listed)}. Check that "
      "config and weights are of the same model and complete."
    )


def _halves_apart(array: np.ndarray, heads: int) -> np.ndarray:
  # Rows [heads, half, 2] -> [heads, 2, half].
  paired = array.reshape(heads, -1, 2, *array.shape[1:])
  return paired.swapaxes(1, 2).reshape(array.shape)


@functools.cache
def _leaf_shapes(
  config: specification.DecoderConfig,
) -> dict[str, tuple[int, ...]]:
  leaves = traverse_util.flatten_dict(decoder.abstract_params(config), sep="/")
  return {path: leaf.shape for path, leaf in leaves.items()}


def _names(
  pattern: str, row: Weight, config: specification.DecoderConfig
) -> list[str]:
  if not _is_stacked(row):
    return [pattern]
  return [pattern.format(layer) for layer in range(config.num_layers)]


def _stored_shape(
  row: Weight, shapes: Mapping[str, tuple[int, ...]]
) -> tuple[int, ...]:
  shape = shapes[row.path]
  shape = shape[1:] if _is_stacked(row) else shape
  return shape[::-1] if _is_transposed(row) else shape


def _is_stacked(row: Weight) -> bool:
  return row.path.startswith("layers/")


def _is_transposed(row: Weight) -> bool:
  return row.path.endswith("/kernel")
