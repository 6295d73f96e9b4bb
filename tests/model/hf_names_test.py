import collections
import dataclasses

import gguf
import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from flax import traverse_util

from hrl_jax.model import decoder, hf_names
from tests import tiny

LLAMA = dataclasses.replace(
  tiny.DECODER,
  vocab_size=11,
  hidden_size=8,
  intermediate_size=12,
  num_layers=3,
  head_dim=4,
)


def _family(name, tie_embeddings):
  return dataclasses.replace(
    LLAMA,
    family=name,
    tie_embeddings=tie_embeddings,
    attention_bias=name == "qwen2",
    qk_norm=name == "qwen3",
  )


CONFIGS = {
  f"{name}-{'tied' if tied else 'untied'}": _family(name, tied)
  for name in ("llama", "qwen2", "qwen3")
  for tied in (True, False)
}


@pytest.fixture(params=CONFIGS, scope="module")
def config(request):
  return CONFIGS[request.param]


class CountingReads(collections.abc.Mapping):
  def __init__(self, tensors):
    self.tensors = tensors
    self.reads = collections.Counter()

  def __getitem__(self, name):
    self.reads[name] += 1
    return self.tensors[name]

  def __iter__(self):
    return iter(self.tensors)

  def __len__(self):
    return len(self.tensors)


def test_parameters_come_back_as_they_went(config):
  params = tiny.arrays(config)
  back = hf_names.from_hf(hf_names.to_hf(params, config), config)
  assert jax.tree.structure(back) == jax.tree.structure(params)
  jax.tree.map(np.testing.assert_array_equal, back, params)


def test_every_leaf_has_a_row_of_the_table(config):
  leaves = traverse_util.flatten_dict(decoder.abstract_params(config), sep="/")
  assert {row.path for row in hf_names.rows(config)} == set(leaves)


def test_names_are_those_of_published_files():
  config = dataclasses.replace(
    CONFIGS["qwen3-untied"], num_layers=1, attention_bias=True
  )
  shapes = hf_names.hf_shapes(config)
  layer = {name.removeprefix("model.layers.0.") for name in shapes}
  assert layer == {
    "model.embed_tokens.weight",
    "input_layernorm.weight",
    "self_attn.q_proj.weight",
    "self_attn.q_proj.bias",
    "self_attn.k_proj.weight",
    "self_attn.k_proj.bias",
    "self_attn.v_proj.weight",
    "self_attn.v_proj.bias",
    "self_attn.o_proj.weight",
    "self_attn.q_norm.weight",
    "self_attn.k_norm.weight",
    "post_attention_layernorm.weight",
    "mlp.gate_proj.weight",
    "mlp.up_proj.weight",
    "mlp.down_proj.weight",
    "model.norm.weight",
    "lm_head.weight",
  }


def test_gguf_names_are_those_of_the_format():
  # The package that defines the format knows the Hugging Face names too.
  config = dataclasses.replace(
    CONFIGS["qwen3-untied"], num_layers=3, attention_bias=True
  )
  names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.QWEN3, 3)
  for row in hf_names.rows(config):
    expected = names.get_name(
      row.hf.format(2), try_suffixes=(".weight", ".bias")
    )
    assert row.gguf.format(2) == expected


def test_kernels_are_stored_transposed_and_by_layer():
  params = tiny.arrays(CONFIGS["qwen2-untied"])
  tensors = hf_names.to_hf(params, CONFIGS["qwen2-untied"])
  attention, mlp = params["layers"]["attention"], params["layers"]["mlp"]
  for name, expected in {
    "model.layers.1.mlp.down_proj.weight": mlp["down"]["kernel"][1].T,
    "model.layers.2.self_attn.k_proj.weight": attention["k"]["kernel"][2].T,
    "model.layers.0.self_attn.q_proj.bias": attention["q"]["bias"][0],
    "model.embed_tokens.weight": params["embed"]["embedding"],
    "lm_head.weight": params["head"]["kernel"].T,
    "model.norm.weight": params["norm"]["scale"],
  }.items():
    np.testing.assert_array_equal(tensors[name], expected)


def test_shapes_are_those_of_the_tensors_in_their_order(config):
  tensors = hf_names.to_hf(tiny.arrays(config), config)
  shapes = [(name, array.shape) for name, array in tensors.items()]
  assert list(hf_names.hf_shapes(config).items()) == shapes


def test_each_tensor_is_read_once():
  tensors = CountingReads(hf_names.to_hf(tiny.arrays(LLAMA), LLAMA))
  hf_names.from_hf(tensors, LLAMA)
  assert tensors.reads.keys() == tensors.tensors.keys()
  # The type checker of the tests looks at the first item too.
  del tensors.reads["model.embed_tokens.weight"]
  assert set(tensors.reads.values()) == {1}


def test_parameters_take_the_dtype_that_is_asked_for():
  params = hf_names.from_hf(
    hf_names.to_hf(tiny.arrays(LLAMA), LLAMA), LLAMA, jnp.bfloat16
  )
  assert {leaf.dtype for leaf in jax.tree.leaves(params)} == {
    np.dtype(ml_dtypes.bfloat16)
  }


def test_missing_and_unknown_weights_are_named():
  tensors = hf_names.to_hf(tiny.arrays(LLAMA), LLAMA)
  for layer in range(3):
    del tensors[f"model.layers.{layer}.mlp.up_proj.weight"]
    del tensors[f"model.layers.{layer}.mlp.down_proj.weight"]
  tensors["model.layers.0.self_attn.q_proj.bias"] = np.zeros(16)
  with pytest.raises(ValueError) as error:
    hf_names.from_hf(tensors, LLAMA)
  message = str(error.value)
  assert "6 missing (model.layers.0.mlp.down_proj.weight, " in message
  assert message.count("down_proj") + message.count("up_proj") == 5
  assert ", ...)" in message
  assert "1 unknown (model.layers.0.self_attn.q_proj.bias)" in message


def test_a_layer_too_many_is_unknown():
  deeper = dataclasses.replace(LLAMA, num_layers=4)
  tensors = hf_names.to_hf(tiny.arrays(deeper), deeper)
  with pytest.raises(ValueError, match=r"9 unknown \(model.layers.3.input_lay"):
    hf_names.from_hf(tensors, LLAMA)


def test_misshapen_weights_are_named_with_both_shapes():
  tensors = hf_names.to_hf(tiny.arrays(LLAMA), LLAMA)
  name = "model.layers.2.self_attn.k_proj.weight"
  # [8, 8] is right; a transposed gate is [8, 12] instead of [12, 8].
  tensors[name] = np.zeros((16, 8))
  gate = "model.layers.0.mlp.gate_proj.weight"
  tensors[gate] = tensors[gate].T
  with pytest.raises(ValueError) as error:
    hf_names.from_hf(tensors, LLAMA)
  assert f"{name} (16, 8) instead of (8, 8)" in str(error.value)
  assert f"{gate} (8, 12) instead of (12, 8)" in str(error.value)


def test_a_stored_tied_head_must_equal_the_embedding():
  tensors = hf_names.to_hf(tiny.arrays(LLAMA), LLAMA)
  tensors["lm_head.weight"] = tensors["model.embed_tokens.weight"].copy()
  assert "head" not in hf_names.from_hf(tensors, LLAMA)
  tensors["lm_head.weight"][3, 2] += 1.0
  with pytest.raises(ValueError, match=r"lm_head.weight is stored, differs"):
    hf_names.from_hf(tensors, LLAMA)


def test_an_untied_head_must_be_there():
  tensors = hf_names.to_hf(tiny.arrays(LLAMA), LLAMA)
  with pytest.raises(ValueError, match=r"1 missing \(lm_head.weight\)"):
    hf_names.from_hf(tensors, CONFIGS["llama-untied"])


def test_stored_rotary_frequencies_are_left_out():
  tensors = hf_names.to_hf(tiny.arrays(LLAMA), LLAMA)
  tensors["model.layers.0.self_attn.rotary_emb.inv_freq"] = np.ones(2)
  tensors["model.rotary_emb.inv_freq"] = np.ones(2)
  hf_names.from_hf(tensors, LLAMA)


def test_parameters_of_another_config_are_not_written():
  with pytest.raises(ValueError, match=r"1 missing \(head/kernel\)"):
    hf_names.to_hf(tiny.arrays(LLAMA), CONFIGS["llama-untied"])
  wider = dataclasses.replace(LLAMA, vocab_size=12)
  with pytest.raises(
    ValueError, match=r"embed/embedding \(11, 8\) instead of \(12, 8\)"
  ):
    hf_names.to_hf(tiny.arrays(LLAMA), wider)


def _gguf_tensors(params, config):
  """The tensors as GGUF names them, rows in our order."""
  tensors = hf_names.to_hf(params, config)
  return {
    row.gguf.format(layer): tensors[row.hf.format(layer)]
    for row in hf_names.rows(config)
    for layer in range(config.num_layers)
  }


def test_gguf_rows_of_llama_are_put_back_in_order():
  # Per head of 4 rows a, b, c, d the rotary pairs are (a, c) and (b, d), and
  # the file stores pairs side by side: a, c, b, d.
  params = tiny.arrays(LLAMA)
  tensors = _gguf_tensors(params, LLAMA)
  head = np.array([0, 2, 1, 3])
  stored = dict(tensors)
  for layer in range(3):
    for name, heads in (("attn_q", 4), ("attn_k", 2)):
      rows = np.concatenate([head + 4 * i for i in range(heads)])
      key = f"blk.{layer}.{name}.weight"
      stored[key] = tensors[key][rows]
  back = hf_names.from_gguf(stored, LLAMA)
  jax.tree.map(np.testing.assert_array_equal, back, params)


@pytest.mark.parametrize("name", ["qwen2-tied", "qwen3-untied"])
def test_gguf_rows_of_qwen_are_in_order(name):
  params = tiny.arrays(CONFIGS[name])
  tensors = _gguf_tensors(params, CONFIGS[name])
  back = hf_names.from_gguf(tensors, CONFIGS[name])
  jax.tree.map(np.testing.assert_array_equal, back, params)


def test_gguf_errors_name_weights_as_the_file_does():
  tensors = _gguf_tensors(tiny.arrays(LLAMA), LLAMA)
  del tensors["blk.2.ffn_gate.weight"]
  tensors["rope_freqs.weight"] = np.ones(2)
  with pytest.raises(
    ValueError, match=r"blk.2.ffn_gate.weight.*unknown \(rope_freqs.weight"
  ):
    hf_names.from_gguf(tensors, LLAMA)
