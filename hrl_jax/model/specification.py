"""What a decoder is: the sizes and switches of the Llama and Qwen families."""

import dataclasses
from typing import Literal, NamedTuple


class Llama3Scaling(NamedTuple):
  """Stretching of slow rotary frequencies, as Llama 3.1 does it.

  Attributes:
    factor: by which long wavelengths are stretched.
    low_freq_factor: at most this many turns in the original context: slow.
    high_freq_factor: at least this many turns: fast, left alone.
    original_max_positions: context length before stretching, in tokens.
  """

  factor: float
  low_freq_factor: float
  high_freq_factor: float
  original_max_positions: int


@dataclasses.dataclass(frozen=True)
class DecoderConfig:
  """Sizes of a decoder; hashable, so a static argument of a jitted function.

  Attributes:
    family: whose names and switches a checkpoint of it carries.
    vocab_size: rows of the embedding, V.
    hidden_size: features of the residual stream, D.
    intermediate_size: features inside the MLP.
    num_layers: L.
    num_heads: query heads, H.
    num_kv_heads: key and value heads; divides `num_heads`.
    head_dim: features of a head; even.
    rope_theta: base of the rotary frequencies.
    norm_eps: added to the mean square in every norm.
    tie_embeddings: whether the head is the embedding.
    attention_bias: whether q, k and v have biases (Qwen2).
    qk_norm: whether queries and keys are normalised per head (Qwen3).
    max_positions: longest row the checkpoint was made for, in tokens.
    rope_scaling: None, or Llama 3's stretching.
  """

  family: Literal["llama", "qwen2", "qwen3"]
  vocab_size: int
  hidden_size: int
  intermediate_size: int
  num_layers: int
  num_heads: int
  num_kv_heads: int
  head_dim: int
  rope_theta: float
  norm_eps: float
  tie_embeddings: bool
  attention_bias: bool
  qk_norm: bool
  max_positions: int
  rope_scaling: Llama3Scaling | None = None

  def __post_init__(self):
    if self.num_heads % self.num_kv_heads:
      raise ValueError(
        "Query heads share key heads evenly: num_heads must be a multiple of "
        f"num_kv_heads, got {self.num_heads} and {self.num_kv_heads}. Check "
        "the checkpoint's config."
      )
    if self.head_dim % 2:
      raise ValueError(
        "Rotary positions turn pairs of features: head_dim must be even, got "
        f"{self.head_dim}. Check the checkpoint's config."
      )
