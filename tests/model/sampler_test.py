import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hrl_jax.model import (
  inference,
  inference_weights,
  sampler,
  selection,
)
from tests import tiny

VOCABULARY = 150
EVERYTHING = selection.Knobs(temperature=1.0, top_p=1.0, top_k=0)
FILTERED = selection.Knobs(temperature=0.7, top_p=0.9, top_k=0)
# As many as the stop tokens of the test that has some: one compilation.
NO_STOPS = jnp.full(50, -1)
CAPACITY = 20
CHUNK = 4


LLAMA = dataclasses.replace(tiny.DECODER, vocab_size=VOCABULARY)
FAMILIES = {
  "llama": LLAMA,
  "qwen2": dataclasses.replace(
    LLAMA,
    family="qwen2",
    attention_bias=True,
    tie_embeddings=False,
    num_kv_heads=1,
  ),
  "qwen3": dataclasses.replace(
    LLAMA, family="qwen3", qk_norm=True, num_kv_heads=4
  ),
}


@functools.cache
def weights_of(config):
  return jax.jit(inference_weights.convert, static_argnums=1)(
    tiny.params(config), jnp.float32
  )


def full_logits(config, prompt, completion):
  return tiny.logits(config, tiny.params(config), prompt, completion)


def padded(prompts, length=12):
  tokens_UT = np.full((len(prompts), length), 7, np.int32)
  for place, prompt in enumerate(prompts):
    tokens_UT[place, : len(prompt)] = prompt
  return jnp.asarray(tokens_UT), jnp.asarray([len(each) for each in prompts])


PROMPTS = ((3, 1, 4, 1, 5), (9, 2), (6, 5, 3, 5, 8, 9, 7, 9, 3, 2, 3))
# Four blocks of two: the first prompt has three rows, the second two, the
# third one.
PROMPT_K = np.array([0, 0, 1, 2])
LIVE_KR = np.array([[1, 1], [1, 0], [1, 1], [1, 0]], bool)
SEEDS_KR = np.arange(2**31, 2**31 + 8, dtype=np.uint32).reshape(4, 2)


def begin(config, knobs, capacity, stop_ids=NO_STOPS):
  tokens_UT, lengths_U = padded(PROMPTS)
  features_DU, cache = sampler.prefill(
    config, weights_of(config), tokens_UT, lengths_U
  )
  return sampler.begin(
    weights_of(config),
    features_DU,
    cache,
    lengths_U,
    PROMPT_K,
    SEEDS_KR,
    LIVE_KR,
    stop_ids,
    knobs=knobs,
    capacity=capacity,
  )


def decode(config, rows, limit, knobs, stop_ids=NO_STOPS):
  return sampler.decode(
    config,
    weights_of(config),
    rows,
    jnp.int32(limit),
    stop_ids,
    knobs=knobs,
    chunk=CHUNK,
  )


def complete(config, knobs, num_tokens, stop_ids=NO_STOPS):
  """Samples in chunks; the three arrays of each real row."""
  rows, drawn = begin(config, knobs, CAPACITY, stop_ids)
  pieces = [jax.device_get(drawn)]
  while int(rows.step) < num_tokens and np.any(rows.live_KR):
    limit = min(int(rows.step) + CHUNK, num_tokens)
    rows, drawn = decode(config, rows, limit, knobs, stop_ids)
    pieces.append(jax.device_get(drawn))
  completions = {}
  for block, row in zip(*np.nonzero(LIVE_KR), strict=True):
    parts = [own_part(piece, block, row) for piece in pieces]
    completions[block, row] = [
      np.concatenate(part) for part in zip(*parts, strict=True)
    ]
  return completions, int(rows.step)


def own_part(drawn, block, row):
  length = drawn.lengths_KR[block, row]
  return [table_TKR[:length, block, row] for table_TKR in drawn[:3]]


def prompt_of(block):
  return PROMPTS[PROMPT_K[block]]


@pytest.mark.core
@pytest.mark.parametrize("family", FAMILIES)
def test_cached_decoding_equals_the_full_forward_pass(family):
  config = FAMILIES[family]
  completions, step = complete(config, EVERYTHING, 11)
  assert step == 11
  assert len(completions) == 6
  for (block, _), (tokens, logprobs, drawn_logprobs) in completions.items():
    assert len(tokens) == 11
    logits_TV = full_logits(config, prompt_of(block), tokens)
    expected = jax.nn.log_softmax(logits_TV)[jnp.arange(11), tokens]
    np.testing.assert_allclose(logprobs, expected, atol=1e-5)
    np.testing.assert_array_equal(drawn_logprobs, logprobs)


@functools.partial(jax.jit, static_argnums=1)
def uniforms(seed, number):
  key = jax.random.key(seed)
  return jnp.stack(
    [jax.random.uniform(jax.random.fold_in(key, t)) for t in range(number)]
  )


draw = jax.jit(selection.draw, static_argnums=2)


@pytest.mark.core
def test_every_token_is_drawn_at_the_uniform_of_its_seed_and_position():
  config = FAMILIES["llama"]
  completions, _ = complete(config, FILTERED, 9)
  for (block, row), (tokens, logprobs, drawn_logprobs) in completions.items():
    uniforms_T = uniforms(SEEDS_KR[block, row], 9)
    logits_TV = full_logits(config, prompt_of(block), tokens)
    expected = draw(logits_TV, uniforms_T, FILTERED)
    np.testing.assert_array_equal(tokens, expected.tokens_B)
    np.testing.assert_allclose(logprobs, expected.logprobs_B, atol=1e-5)
    np.testing.assert_allclose(
      drawn_logprobs, expected.drawn_logprobs_B, atol=1e-5
    )


@pytest.mark.core
def test_logprobs_are_full_vocabulary_at_the_temperature_even_with_top_p():
  # A trainer that compares them with its own sees a ratio of 1 before its
  # first update, at temperature 0.7 and top-p 0.9; against what was drawn
  # from it would not.
  config = FAMILIES["llama"]
  completions, _ = complete(config, FILTERED, 9)
  differences = []
  for (block, _), (tokens, logprobs, drawn_logprobs) in completions.items():
    logits_TV = full_logits(config, prompt_of(block), tokens)
    own = jax.nn.log_softmax(logits_TV / 0.7)[jnp.arange(9), tokens]
    np.testing.assert_allclose(np.exp(own - logprobs), 1.0, atol=1e-5)
    differences.append(drawn_logprobs - logprobs)
  assert np.min(differences) > 0
  # The nucleus has at least 0.9 of the mass.
  assert np.max(differences) < -np.log(0.9) + 1e-5


def test_greedy_tokens_are_the_argmax_of_the_full_forward_pass():
  config = FAMILIES["qwen2"]
  knobs = selection.Knobs(temperature=0.0, top_p=1.0, top_k=0)
  completions, _ = complete(config, knobs, 9)
  for (block, _), (tokens, *_) in completions.items():
    logits_TV = full_logits(config, prompt_of(block), tokens)
    np.testing.assert_array_equal(tokens, logits_TV.argmax(axis=1))


@pytest.mark.parametrize(
  "knobs",
  [selection.Knobs(0.7, 1.0, 0), selection.Knobs(1.0, 0.9, 0),
   selection.Knobs(1.0, 1.0, 5)],
)  # fmt: skip
def test_frequencies_are_those_of_the_exact_distribution(knobs):
  # Chi-square of 4,000 first tokens; its mean is the degrees of freedom n and
  # its deviation sqrt(2 n). The seeds are fixed, so the outcome is too.
  config = FAMILIES["llama"]
  number = 4000
  tokens_UT, lengths_U = padded(PROMPTS[:1])
  features_DU, cache = sampler.prefill(
    config, weights_of(config), tokens_UT, lengths_U
  )
  rows, _ = sampler.begin(
    weights_of(config),
    features_DU,
    cache,
    lengths_U,
    jnp.array([0]),
    jnp.arange(number, dtype=jnp.uint32)[None],
    jnp.ones((1, number), bool),
    NO_STOPS,
    knobs=knobs,
    capacity=1,
  )
  logits_V = np.asarray(full_logits(config, PROMPTS[0], (0,))[0], np.float64)
  powers_V = np.exp((logits_V - logits_V.max()) / knobs.temperature)
  ordered_V = np.sort(powers_V)[::-1]
  if knobs.top_k:
    powers_V[powers_V < ordered_V[knobs.top_k - 1]] = 0
  reached = np.cumsum(ordered_V) >= knobs.top_p * ordered_V.sum()
  if knobs.top_p < 1:
    powers_V[powers_V < ordered_V[reached.argmax()]] = 0
  expected_V = number * powers_V / powers_V.sum()
  counts_V = np.bincount(rows.tokens_KR[0], minlength=VOCABULARY)
  assert counts_V[expected_V == 0].sum() == 0
  common_V = expected_V >= 5
  rest = expected_V[~common_V].sum()
  statistic = np.sum((counts_V - expected_V)[common_V] ** 2
                     / expected_V[common_V])  # fmt: skip
  degrees = common_V.sum() - (rest == 0)
  statistic += (counts_V[~common_V].sum() - rest) ** 2 / max(rest, 1)
  assert degrees >= 4
  assert statistic < degrees + 3.5 * np.sqrt(2 * degrees)


@pytest.mark.core
def test_a_row_ends_with_its_stop_token_and_the_loop_with_the_last_row():
  config = FAMILIES["llama"]
  free, _ = complete(config, EVERYTHING, 20)
  # Enough stop tokens that every row meets one before its 20th token.
  stop_ids = jnp.arange(0, VOCABULARY, 3)
  stopped, step = complete(config, EVERYTHING, 20, stop_ids)
  lengths = []
  for place, (tokens, logprobs, _) in stopped.items():
    is_stop = free[place][0] % 3 == 0
    length = is_stop.argmax() + 1
    assert is_stop.any()
    np.testing.assert_array_equal(tokens, free[place][0][:length])
    np.testing.assert_allclose(logprobs, free[place][1][:length], atol=1e-5)
    lengths.append(length)
  assert len(set(lengths)) > 2
  assert step == max(lengths) < 20


def test_repacked_rows_go_on_as_they_would_have():
  config = FAMILIES["llama"]
  expected, _ = complete(config, FILTERED, 9)
  rows, first = begin(config, FILTERED, 5)
  rows, second = decode(config, rows, 5, FILTERED)
  # Row 1 of block 2 and row 0 of block 1 are left: two blocks of one.
  rows = sampler.repack(
    rows,
    np.array([2, 1]),
    np.array([[2 * 2 + 1], [1 * 2 + 0]]),
    np.ones((2, 1), bool),
    capacity=9,
  )
  rows, third = decode(config, rows, 9, FILTERED)
  first, second, third = jax.device_get((first, second, third))
  for new, old in ((0, (2, 1)), (1, (1, 0))):
    parts = [own_part(first, *old), own_part(second, *old)]
    parts.append(own_part(third, new, 0))
    tokens, logprobs, _ = map(np.concatenate, zip(*parts, strict=True))
    np.testing.assert_array_equal(tokens, expected[old][0])
    np.testing.assert_allclose(logprobs, expected[old][1], atol=1e-5)


def test_bfloat16_weights_are_computed_with_in_bfloat16():
  config = FAMILIES["llama"]
  weights = jax.jit(inference_weights.convert, static_argnums=1)(
    tiny.params(config), jnp.bfloat16
  )
  assert {x.dtype for x in jax.tree.leaves(weights)} == {jnp.dtype("bfloat16")}
  features_DU, cache = sampler.prefill(config, weights, *padded(PROMPTS))
  assert features_DU.dtype == cache[0].keys.dtype == jnp.bfloat16
  logits_UV = inference.logits(weights, features_DU)
  assert logits_UV.dtype == jnp.float32
  for logits_V, prompt in zip(logits_UV, PROMPTS, strict=True):
    expected_V = full_logits(config, prompt, (0,))[0]
    assert jnp.corrcoef(logits_V, expected_V)[0, 1] > 0.99
