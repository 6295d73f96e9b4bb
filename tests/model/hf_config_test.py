import dataclasses

import numpy as np
import pytest

from hrl_jax.model import hf_config, specification

LLAMA = specification.DecoderConfig(
  family="llama",
  vocab_size=128_256,
  hidden_size=2048,
  intermediate_size=8192,
  num_layers=16,
  num_heads=32,
  num_kv_heads=8,
  head_dim=64,
  rope_theta=500_000.0,
  norm_eps=1e-5,
  tie_embeddings=True,
  attention_bias=False,
  qk_norm=False,
  max_positions=131_072,
  rope_scaling=specification.Llama3Scaling(32.0, 1.0, 4.0, 8192),
)
QWEN2 = dataclasses.replace(
  LLAMA,
  family="qwen2",
  attention_bias=True,
  tie_embeddings=False,
  rope_scaling=None,
)
# Heads wider than the hidden size divided among them.
QWEN3 = dataclasses.replace(
  LLAMA, family="qwen3", qk_norm=True, head_dim=128, rope_scaling=None
)
CONFIGS = {config.family: config for config in (LLAMA, QWEN2, QWEN3)}

# As published with transformers 4: Llama 3.2 1B, Qwen 2.5 7B, without the
# keys that no program computes with.
LLAMA_FILE = {
  "model_type": "llama",
  "attention_bias": False,
  "head_dim": 64,
  "hidden_act": "silu",
  "hidden_size": 2048,
  "intermediate_size": 8192,
  "max_position_embeddings": 131072,
  "mlp_bias": False,
  "num_attention_heads": 32,
  "num_hidden_layers": 16,
  "num_key_value_heads": 8,
  "rms_norm_eps": 1e-05,
  "rope_scaling": {
    "factor": 32.0,
    "high_freq_factor": 4.0,
    "low_freq_factor": 1.0,
    "original_max_position_embeddings": 8192,
    "rope_type": "llama3",
  },
  "rope_theta": 500000.0,
  "tie_word_embeddings": True,
  "vocab_size": 128256,
}
QWEN2_FILE = {
  "model_type": "qwen2",
  "hidden_act": "silu",
  "hidden_size": 3584,
  "intermediate_size": 18944,
  "max_position_embeddings": 32768,
  "max_window_layers": 28,
  "num_attention_heads": 28,
  "num_hidden_layers": 28,
  "num_key_value_heads": 4,
  "rms_norm_eps": 1e-06,
  "rope_theta": 1000000.0,
  "sliding_window": 131072,
  "tie_word_embeddings": False,
  "use_sliding_window": False,
  "vocab_size": 152064,
}

GGUF = {
  "general.architecture": "llama",
  "llama.block_count": 30,
  "llama.context_length": 8192,
  "llama.embedding_length": 576,
  "llama.feed_forward_length": 1536,
  "llama.attention.head_count": 9,
  "llama.attention.head_count_kv": 3,
  "llama.rope.freq_base": 100000.0,
  "llama.attention.layer_norm_rms_epsilon": float(np.float32(1e-5)),
  "llama.rope.dimension_count": 64,
}
GGUF_SHAPES = {"token_embd.weight": (49152, 576)}


def _without(values, *keys):
  return {key: value for key, value in values.items() if key not in keys}


def test_a_published_llama_is_read():
  assert hf_config.config_from_hf(LLAMA_FILE) == LLAMA


def test_a_published_qwen_is_read():
  config = hf_config.config_from_hf(QWEN2_FILE)
  assert config.head_dim == 128  # 3584 / 28
  assert config.attention_bias and not config.qk_norm
  assert config.rope_theta == 1_000_000.0
  assert not config.tie_embeddings


def test_the_rope_parameters_of_transformers_5_are_read():
  rope = {**LLAMA_FILE["rope_scaling"], "rope_theta": 500000.0}
  file = _without(LLAMA_FILE, "rope_scaling", "rope_theta")
  assert hf_config.config_from_hf({**file, "rope_parameters": rope}) == LLAMA


@pytest.mark.parametrize("name", CONFIGS)
def test_a_config_comes_back_as_it_went(name):
  written = hf_config.config_to_hf(CONFIGS[name], dtype="bfloat16", stop_ids=())
  assert hf_config.config_from_hf(written) == CONFIGS[name]


@pytest.mark.parametrize("name", CONFIGS)
def test_transformers_reads_what_is_written(name):
  transformers = pytest.importorskip("transformers")
  config = CONFIGS[name]
  written = hf_config.config_to_hf(config, dtype="bfloat16", stop_ids=(5, 7))
  theirs = transformers.AutoConfig.for_model(**written)
  assert theirs.rope_parameters["rope_theta"] == config.rope_theta
  assert theirs.num_key_value_heads == config.num_kv_heads
  assert theirs.head_dim == config.head_dim
  assert theirs.rms_norm_eps == config.norm_eps
  assert theirs.tie_word_embeddings == config.tie_embeddings
  assert theirs.eos_token_id == [5, 7]
  assert theirs.bos_token_id is None
  assert str(theirs.dtype) == "torch.bfloat16"
  if config.rope_scaling is not None:
    for key in ("factor", "low_freq_factor", "high_freq_factor"):
      ours = getattr(config.rope_scaling, key)
      assert theirs.rope_parameters[key] == ours
  assert hf_config.config_from_hf(theirs.to_diff_dict()) == config


@pytest.mark.parametrize("key", ["rope_theta", "num_key_value_heads"])
def test_a_number_that_changes_results_is_never_assumed(key):
  with pytest.raises(ValueError, match=f"has {key} = None, a number is needed"):
    hf_config.config_from_hf(_without(LLAMA_FILE, key))


def test_the_head_size_of_qwen3_is_never_assumed():
  file = {**QWEN2_FILE, "model_type": "qwen3"}
  with pytest.raises(ValueError, match="has head_dim = None"):
    hf_config.config_from_hf(file)


@pytest.mark.parametrize(
  ("changes", "message"),
  [
    ({"model_type": "gemma2"}, "model_type = 'gemma2'"),
    ({"model_type": None}, "model_type = None"),
    ({"hidden_act": "gelu"}, "hidden_act = 'gelu'"),
    ({"attention_bias": True}, "attention_bias = True"),
    ({"mlp_bias": True}, "mlp_bias = True"),
    ({"partial_rotary_factor": 0.5}, "partial_rotary_factor = 0.5"),
    ({"quantization_config": {"bits": 4}}, "quantization_config = {'bits': 4}"),
    (
      {"layer_types": ["full_attention", "sliding_attention"]},
      r"layer_types = \['full_attention', 'sliding_attention'\]",
    ),
    (
      {"use_sliding_window": True, "max_window_layers": 20},
      "use_sliding_window = True",
    ),
    (
      {"rope_scaling": {"type": "linear", "factor": 2.0}},
      "rope_type = 'linear'",
    ),
    (
      {"rope_scaling": {"rope_type": "yarn", "factor": 4.0}},
      "rope_type = 'yarn'",
    ),
    (
      {"rope_scaling": {"rope_type": "default", "mrope_section": [1, 2]}},
      r"rope_parameters.mrope_section = \[1, 2\]",
    ),
    (
      {"rope_scaling": {"rope_type": "llama3", "factor": 8.0}},
      "low_freq_factor = None, a number is needed",
    ),
    (
      {"rope_parameters": {"rope_theta": 10000.0}},
      "rope_theta is 1000000.0 and 10000.0",
    ),
    (
      {"rope_parameters": {"full_attention": {"rope_theta": 1e6}}},
      "rope_parameters.full_attention = ",
    ),
  ],
)
def test_what_is_not_computed_is_refused_by_key_and_value(changes, message):
  with pytest.raises(ValueError, match=message):
    hf_config.config_from_hf({**QWEN2_FILE, **changes})


def test_a_window_that_no_layer_uses_is_accepted():
  # Layers from number 28 on would slide; there are 28, numbered from 0.
  unused = {"use_sliding_window": True, "max_window_layers": 28}
  hf_config.config_from_hf({**QWEN2_FILE, **unused})
  types = {"layer_types": ["full_attention"] * 28}
  hf_config.config_from_hf({**QWEN2_FILE, **types})


@pytest.mark.parametrize("switch", ["attention_bias", "qk_norm"])
def test_switches_that_no_program_loads_are_not_written(switch):
  config = dataclasses.replace(LLAMA, **{switch: True})
  with pytest.raises(ValueError, match="A llama checkpoint has attention_bias"):
    hf_config.config_to_hf(config, dtype="float32", stop_ids=())


def test_gguf_metadata_is_read():
  config = hf_config.config_from_gguf(GGUF, GGUF_SHAPES)
  assert config == specification.DecoderConfig(
    family="llama",
    vocab_size=49152,
    hidden_size=576,
    intermediate_size=1536,
    num_layers=30,
    num_heads=9,
    num_kv_heads=3,
    head_dim=64,
    rope_theta=100_000.0,
    norm_eps=1e-5,  # Stored as a float32, 9.999999747378752e-06.
    tie_embeddings=True,
    attention_bias=False,
    qk_norm=False,
    max_positions=8192,
  )


def test_a_gguf_head_unties():
  shapes = {**GGUF_SHAPES, "output.weight": (49152, 576)}
  assert not hf_config.config_from_gguf(GGUF, shapes).tie_embeddings


@pytest.mark.parametrize(
  ("changes", "shapes", "message"),
  [
    ({"general.architecture": "phi3"}, {}, "general.architecture = 'phi3'"),
    ({"llama.rope.freq_base": None}, {}, "llama.rope.freq_base = None"),
    ({"llama.rope.scaling.type": "yarn"}, {}, "scaling.type = 'yarn'"),
    ({"llama.rope.dimension_count": 32, "llama.attention.key_length": 64}, {},
     "llama.rope.dimension_count = 32"),
    ({"llama.attention.sliding_window": 4096}, {}, "sliding_window = 4096"),
    ({"llama.attention.head_count_kv": [3, 9]}, {},
     r"head_count_kv = \[3, 9\], a number"),
    ({}, {"rope_freqs.weight": (32,)}, "rope_freqs.weight = 'a tensor'"),
  ],
)  # fmt: skip
def test_gguf_properties_that_are_not_computed_are_refused(
  changes, shapes, message
):
  with pytest.raises(ValueError, match=message):
    hf_config.config_from_gguf({**GGUF, **changes}, {**GGUF_SHAPES, **shapes})
