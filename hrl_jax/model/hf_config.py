"""What a checkpoint says about itself, as a `DecoderConfig` and back.

Sources are the dict of a `config.json` (of transformers 4 or 5) and the
metadata of a GGUF file. A property that the decoder does not compute is
refused, never ignored; a number that changes results is read, never assumed.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from hrl_jax.model import specification


class Family(NamedTuple):
  """What the name of an architecture implies.

  Attributes:
    architecture: class name that a `config.json` states.
    attention_bias: whether q, k and v have biases.
    qk_norm: whether queries and keys are normalised per head.
  """

  architecture: str
  attention_bias: bool
  qk_norm: bool


FAMILIES = {
  "llama": Family("LlamaForCausalLM", attention_bias=False, qk_norm=False),
  "qwen2": Family("Qwen2ForCausalLM", attention_bias=True, qk_norm=False),
  "qwen3": Family("Qwen3ForCausalLM", attention_bias=False, qk_norm=True),
}

# The only value of each key that the decoder computes. Absent means the same:
# so does every configuration class of these families.
_COMPUTED = {
  "hidden_act": "silu",
  "attention_bias": False,
  "mlp_bias": False,
  "partial_rotary_factor": 1.0,
  "quantization_config": None,
}

_LLAMA3_KEYS = (
  "factor",
  "low_freq_factor",
  "high_freq_factor",
  "original_max_position_embeddings",
)


def config_from_hf(hf: Mapping[str, Any]) -> specification.DecoderConfig:
  """The decoder of a `config.json`.

  Reads rotary settings from `rope_parameters` (transformers 5) and from
  `rope_theta` and `rope_scaling` (transformers 4); they must agree where both
  are there.

  Raises:
    ValueError: naming key and value where something is missing, contradictory
      or not computed by the decoder.
  """
  name = _family_name("model_type", hf.get("model_type"))
  for key, computed in _COMPUTED.items():
    if hf.get(key) not in (None, computed):
      _refuse(key, hf[key], repr(computed))
  _refuse_sliding_window(hf)
  theta, scaling = _rope(hf)
  num_heads = _number(hf, "num_attention_heads")
  head_dim = hf.get("head_dim")
  if head_dim is None:
    if name == "qwen3":
      _number(hf, "head_dim")
    head_dim = _number(hf, "hidden_size") // num_heads
  return specification.DecoderConfig(
    family=name,
    vocab_size=_number(hf, "vocab_size"),
    hidden_size=_number(hf, "hidden_size"),
    intermediate_size=_number(hf, "intermediate_size"),
    num_layers=_number(hf, "num_hidden_layers"),
    num_heads=num_heads,
    num_kv_heads=_number(hf, "num_key_value_heads"),
    head_dim=head_dim,
    rope_theta=float(theta),
    norm_eps=_number(hf, "rms_norm_eps"),
    tie_embeddings=bool(hf.get("tie_word_embeddings", False)),
    attention_bias=FAMILIES[name].attention_bias,
    qk_norm=FAMILIES[name].qk_norm,
    max_positions=_number(hf, "max_position_embeddings"),
    rope_scaling=scaling,
  )


def config_to_hf(
  config: specification.DecoderConfig,
  *,
  dtype: str,
  stop_ids: Sequence[int],
) -> dict[str, Any]:
  """The `config.json` of a decoder, for transformers 4 and 5 and vLLM.

  Rotary settings are written in both forms. Ids that the Llama class would
  otherwise assume (1 begins, 2 ends a text) are written out.

  Args:
    config: the decoder.
    dtype: of the stored weights, such as "bfloat16".
    stop_ids: tokens that end a completion.

  Raises:
    ValueError: if the family has no class for these switches.
  """
  family = FAMILIES[config.family]
  switches = (config.attention_bias, config.qk_norm)
  if switches != (family.attention_bias, family.qk_norm):
    raise ValueError(
      f"A {config.family} checkpoint has attention_bias = "
      f"{family.attention_bias} and qk_norm = {family.qk_norm}, got "
      f"{switches}: no program would load it. Choose another family."
    )
  rope = {"rope_type": "default", "rope_theta": config.rope_theta}
  scaling = None
  if config.rope_scaling is not None:
    values = zip(_LLAMA3_KEYS, config.rope_scaling, strict=True)
    scaling = {"rope_type": "llama3", **dict(values)}
    rope |= scaling
  return {
    "architectures": [family.architecture],
    "model_type": config.family,
    "vocab_size": config.vocab_size,
    "hidden_size": config.hidden_size,
    "intermediate_size": config.intermediate_size,
    "num_hidden_layers": config.num_layers,
    "num_attention_heads": config.num_heads,
    "num_key_value_heads": config.num_kv_heads,
    "head_dim": config.head_dim,
    "hidden_act": "silu",
    "rms_norm_eps": config.norm_eps,
    "max_position_embeddings": config.max_positions,
    "tie_word_embeddings": config.tie_embeddings,
    "rope_parameters": rope,
    "rope_theta": config.rope_theta,
    "rope_scaling": scaling,
    "attention_bias": False,
    "mlp_bias": False,
    "use_sliding_window": False,
    "attention_dropout": 0.0,
    "dtype": dtype,
    "torch_dtype": dtype,
    "bos_token_id": None,
    "eos_token_id": list(stop_ids),
    "pad_token_id": None,
  }


def config_from_gguf(
  metadata: Mapping[str, Any], shapes: Mapping[str, tuple[int, ...]]
) -> specification.DecoderConfig:
  """The decoder of a GGUF file.

  Args:
    metadata: the key-value pairs of the file.
    shapes: shape of each tensor by name, `[out, in]`: a file without
      `output.weight` is tied, and the embedding's rows are the vocabulary.

  Raises:
    ValueError: naming key and value where something is missing or not
      computed by the decoder.
  """
  name = _family_name(
    "general.architecture", metadata.get("general.architecture")
  )
  _refuse_gguf_rope(metadata, shapes, name)
  num_heads = _number(metadata, f"{name}.attention.head_count")
  hidden_size = _number(metadata, f"{name}.embedding_length")
  head_dim = metadata.get(
    f"{name}.attention.key_length",
    metadata.get(f"{name}.rope.dimension_count", hidden_size // num_heads),
  )
  for key in ("attention.value_length", "rope.dimension_count"):
    if metadata.get(f"{name}.{key}", head_dim) != head_dim:
      _refuse(f"{name}.{key}", metadata[f"{name}.{key}"], f"{head_dim}")
  epsilon = _number(metadata, f"{name}.attention.layer_norm_rms_epsilon")
  return specification.DecoderConfig(
    family=name,
    vocab_size=shapes["token_embd.weight"][0],
    hidden_size=hidden_size,
    intermediate_size=_number(metadata, f"{name}.feed_forward_length"),
    num_layers=_number(metadata, f"{name}.block_count"),
    num_heads=num_heads,
    num_kv_heads=_number(metadata, f"{name}.attention.head_count_kv"),
    head_dim=head_dim,
    rope_theta=_shortest(_number(metadata, f"{name}.rope.freq_base")),
    norm_eps=_shortest(epsilon),
    tie_embeddings="output.weight" not in shapes,
    attention_bias=FAMILIES[name].attention_bias,
    qk_norm=FAMILIES[name].qk_norm,
    max_positions=_number(metadata, f"{name}.context_length"),
  )


def _rope(
  hf: Mapping[str, Any],
) -> tuple[float, specification.Llama3Scaling | None]:
  rope: dict[str, Any] = {}
  top_level = {
    key: hf[key] for key in ("rope_theta",) if hf.get(key) is not None
  }
  sources = (top_level, hf.get("rope_parameters"), hf.get("rope_scaling"))
  for source in sources:
    for key, value in (source or {}).items():
      key = "rope_type" if key == "type" else key
      if rope.setdefault(key, value) != value:
        raise ValueError(
          f"The checkpoint's config contradicts itself: {key} is "
          f"{rope[key]!r} and {value!r}. Correct rope_theta, rope_parameters "
          "and rope_scaling in config.json."
        )
  theta = _number(rope, "rope_theta")
  rope_type = rope.get("rope_type", "default")
  if rope_type not in ("default", "llama3"):
    _refuse("rope_type", rope_type, "'default' and 'llama3'")
  known = {"rope_theta", "rope_type", "partial_rotary_factor"}
  if rope_type == "llama3":
    known |= set(_LLAMA3_KEYS)
  for key in rope.keys() - known:
    _refuse(f"rope_parameters.{key}", rope[key], f"{sorted(known)} only")
  if rope.get("partial_rotary_factor", 1.0) != 1.0:
    _refuse("partial_rotary_factor", rope["partial_rotary_factor"], "1.0")
  if rope_type == "default":
    return theta, None
  numbers = [_number(rope, key) for key in _LLAMA3_KEYS]
  return theta, specification.Llama3Scaling(*numbers)


def _refuse_sliding_window(hf: Mapping[str, Any]) -> None:
  layer_types = hf.get("layer_types")
  if layer_types is not None:
    if set(layer_types) - {"full_attention"}:
      _refuse("layer_types", layer_types, "'full_attention' in every layer")
    return
  first_layer = hf.get("max_window_layers", 0)
  if (
    hf.get("use_sliding_window")
    and hf.get("sliding_window") is not None
    and first_layer < _number(hf, "num_hidden_layers")
  ):
    _refuse("use_sliding_window", True, "full attention in every layer")


def _refuse_gguf_rope(
  metadata: Mapping[str, Any], shapes: Mapping[str, Any], name: str
) -> None:
  scaling = f"{name}.rope.scaling.type"
  if metadata.get(scaling, "none") != "none":
    _refuse(scaling, metadata[scaling], "'none' in GGUF files")
  window = f"{name}.attention.sliding_window"
  if metadata.get(window):
    _refuse(window, metadata[window], "full attention in every layer")
  if "rope_freqs.weight" in shapes:
    _refuse(
      "rope_freqs.weight",
      "a tensor",
      "unscaled rotary frequencies in GGUF files; use the safetensors form",
    )


def _family_name(key: str, value: Any) -> str:
  if value not in FAMILIES:
    _refuse(key, value, " and ".join(map(repr, FAMILIES)))
  return value


def _number(values: Mapping[str, Any], key: str) -> Any:
  value = values.get(key)
  if isinstance(value, bool) or not isinstance(value, int | float):
    raise ValueError(
      f"The checkpoint's config has {key} = {value!r}, a number is needed: it "
      "changes results, so no default is assumed. Add it to the config."
    )
  return value


def _shortest(value: float) -> float:
  # GGUF stores float32: 1e-5 comes back as 9.999999747378752e-06. The
  # shortest decimal of the same float32 is what was meant.
  return float(str(np.float32(value)))


def _refuse(key: str, value: Any, computed: str) -> None:
  raise ValueError(
    f"The checkpoint's config has {key} = {value!r}; the decoder computes "
    f"{computed}. Choose a checkpoint without it: going on would silently "
    "change its results."
  )
