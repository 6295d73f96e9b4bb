import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hrl_jax import base, protocols
from hrl_jax.rollout import jax_engine
from tests import tiny

CONFIG = dataclasses.replace(tiny.DECODER, vocab_size=150, max_positions=128)
SAMPLING = base.Sampling(
  temperature=1.0, top_p=0.95, top_k=0, max_tokens=40, stop_ids=(5, 60)
)
PROMPTS = ((3, 1, 4, 1, 5), (9, 2), tuple(range(20, 41)))
# Three completions of the first prompt, one of the second, two of the third,
# not in the order of the prompts.
REQUESTS = tuple(
  base.Request(PROMPTS[prompt], seed)
  for prompt, seed in ((0, 7), (2, 2**32 - 1), (0, 8), (1, 7), (2, 0), (0, 9))
)


@functools.cache
def loaded_engine(max_rows=64):
  engine = jax_engine.JaxEngine(CONFIG, jnp.float32, max_rows=max_rows)
  engine.load(tiny.params(CONFIG), version=3)
  return engine


def complete(requests, sampling=SAMPLING, engine=None):
  """The completions in the order of their requests."""
  engine = engine or loaded_engine()
  completions = list(engine.generate(requests, sampling))
  completions.sort(key=lambda completion: completion.request)
  assert [each.request for each in completions] == list(range(len(requests)))
  return completions


@functools.cache
def reference():
  return complete(REQUESTS)


def assert_same(actual, expected):
  np.testing.assert_array_equal(actual.tokens, expected.tokens)
  np.testing.assert_allclose(actual.logprobs, expected.logprobs, atol=1e-4)
  np.testing.assert_allclose(
    actual.drawn_logprobs, expected.drawn_logprobs, atol=1e-4
  )
  assert actual.finish == expected.finish


def full_logprobs(params, prompt, tokens, temperature):
  logits_TV = tiny.logits(CONFIG, params, prompt, tokens)
  logprobs_TV = jax.nn.log_softmax(logits_TV / temperature)
  return np.asarray(logprobs_TV)[np.arange(len(tokens)), tokens]


def test_the_engine_is_one():
  assert isinstance(loaded_engine(), protocols.Engine)


@pytest.mark.core
def test_logprobs_are_those_of_the_full_forward_pass():
  for request, completion in zip(REQUESTS, reference(), strict=True):
    expected = full_logprobs(
      tiny.params(CONFIG), request.prompt_ids, completion.tokens, 1.0
    )
    np.testing.assert_allclose(completion.logprobs, expected, atol=1e-5)
    # The nucleus has at least 0.95 of the mass, and not all of it.
    ratios = np.exp(completion.logprobs - completion.drawn_logprobs)
    assert (ratios > 0.95 - 1e-5).all()
    assert (ratios < 1).any()


@pytest.mark.core
def test_completions_have_their_types_version_and_finish():
  stopped = 0
  for completion in reference():
    assert completion.tokens.dtype == np.int32
    assert completion.logprobs.dtype == np.float32
    assert completion.drawn_logprobs.dtype == np.float32
    assert completion.weights_version == 3
    is_stop = np.isin(completion.tokens, SAMPLING.stop_ids)
    assert not is_stop[:-1].any()
    if completion.finish == "stop":
      assert is_stop[-1]
      stopped += 1
    else:
      assert completion.finish == "length"
      assert len(completion.tokens) == 40
  assert 0 < stopped < len(REQUESTS)


@pytest.mark.core
def test_order_of_the_requests_does_not_matter():
  order = [4, 2, 5, 0, 3, 1]
  shuffled = complete([REQUESTS[index] for index in order])
  for index, completion in zip(order, shuffled, strict=True):
    assert_same(completion, reference()[index])


def test_a_request_alone_is_completed_as_in_a_batch():
  for index in (1, 3):
    (alone,) = complete([REQUESTS[index]])
    assert_same(alone, reference()[index])


def test_batches_of_few_rows_give_what_one_of_many_gives():
  completions = complete(REQUESTS, engine=loaded_engine(max_rows=2))
  for completion, expected in zip(completions, reference(), strict=True):
    assert_same(completion, expected)


def test_equal_requests_have_equal_completions():
  first, second = complete([REQUESTS[0], REQUESTS[0]])
  np.testing.assert_array_equal(first.tokens, second.tokens)
  np.testing.assert_array_equal(first.logprobs, second.logprobs)


def test_rows_go_on_when_others_have_finished_and_caches_have_grown(
  monkeypatch,
):
  # Caches have room for 32 tokens at first, and rows finish one by one.
  monkeypatch.setattr(jax_engine, "_FIRST_CAPACITY", 32)
  repack, sizes = jax_engine.sampler.repack, []

  def watched_repack(rows, *arguments, capacity):
    sizes.append(rows.live_KR.shape)
    rows = repack(rows, *arguments, capacity=capacity)
    sizes.append((*rows.live_KR.shape, capacity))
    return rows

  monkeypatch.setattr(jax_engine.sampler, "repack", watched_repack)
  requests = [base.Request(PROMPTS[n % 2], n) for n in range(36, 60)]
  sampling = SAMPLING._replace(max_tokens=64, stop_ids=tuple(range(0, 150, 20)))
  completions = complete(requests, sampling)
  # At most half were left after 16 tokens; then the caches were full.
  assert sizes == [(2, 12), (3, 4, 32), (3, 4), (3, 2, 64)]
  for request, completion in zip(requests, completions, strict=True):
    expected = full_logprobs(
      tiny.params(CONFIG), request.prompt_ids, completion.tokens, 1.0
    )
    np.testing.assert_allclose(completion.logprobs, expected, atol=1e-5)
  longest = max(completions, key=lambda completion: len(completion.tokens))
  (alone,) = complete([requests[longest.request]], sampling)
  assert_same(longest, alone)


def test_a_completion_is_handed_out_while_others_still_decode():
  first = next(loaded_engine().generate(REQUESTS, SAMPLING))
  shortest = min(len(completion.tokens) for completion in reference())
  assert len(first.tokens) <= 16
  assert shortest <= 16


@pytest.mark.parametrize("max_tokens", [1, 2, 17])
def test_completions_are_cut_at_max_tokens(max_tokens):
  completions = complete(REQUESTS, SAMPLING._replace(max_tokens=max_tokens))
  for completion, whole in zip(completions, reference(), strict=True):
    tokens = whole.tokens[:max_tokens]
    np.testing.assert_array_equal(completion.tokens, tokens)
    was_cut = tokens[-1] not in SAMPLING.stop_ids
    assert completion.finish == ("length" if was_cut else "stop")


@pytest.mark.core
def test_temperature_divides_the_logits_of_the_reported_logprobs():
  sampling = base.Sampling(
    temperature=0.7, top_p=1.0, top_k=0, max_tokens=16, stop_ids=()
  )
  for request, completion in zip(
    REQUESTS, complete(REQUESTS, sampling), strict=True
  ):
    expected = full_logprobs(
      tiny.params(CONFIG), request.prompt_ids, completion.tokens, 0.7
    )
    np.testing.assert_allclose(completion.logprobs, expected, atol=1e-5)
    np.testing.assert_array_equal(
      completion.drawn_logprobs, completion.logprobs
    )


@pytest.mark.core
def test_weights_may_be_donated_after_they_were_loaded():
  engine = jax_engine.JaxEngine(CONFIG, jnp.float32)
  params = jax.tree.map(jnp.copy, tiny.params(CONFIG))
  engine.load(params, version=3)
  # Donated buffers are reused for the result, which is something else.
  overwritten = jax.jit(
    lambda params: jax.tree.map(lambda x: x * 0 + 1e6, params),
    donate_argnums=0,
  )(params)
  jax.block_until_ready(overwritten)
  assert all(leaf.is_deleted() for leaf in jax.tree.leaves(params))
  for completion, expected in zip(
    complete(REQUESTS, engine=engine), reference(), strict=True
  ):
    assert_same(completion, expected)


@pytest.mark.core
def test_new_weights_and_their_version_hold_from_the_next_generate_on():
  engine = jax_engine.JaxEngine(CONFIG, jnp.float32)
  engine.load(tiny.params(CONFIG), version=3)
  under_way = engine.generate(REQUESTS, SAMPLING)
  first = next(under_way)
  other_params = tiny.params(CONFIG, 5)
  engine.load(other_params, version=4)
  for completion in [first, *under_way]:
    assert_same(completion, reference()[completion.request])
    assert completion.weights_version == 3
  for completion in engine.generate(REQUESTS, SAMPLING):
    assert completion.weights_version == 4
    expected = full_logprobs(
      other_params,
      REQUESTS[completion.request].prompt_ids,
      completion.tokens,
      1.0,
    )
    np.testing.assert_allclose(completion.logprobs, expected, atol=1e-5)


def test_parameters_that_are_sharded_are_gathered():
  mesh = jax.make_mesh((2,), ("fsdp",))
  spec = jax.sharding.PartitionSpec("fsdp")
  params = tiny.params(CONFIG)
  embedding = params["embed"]["embedding"]
  params["embed"]["embedding"] = jax.device_put(
    embedding, jax.sharding.NamedSharding(mesh, spec)
  )
  engine = jax_engine.JaxEngine(CONFIG, jnp.float32)
  engine.load(params, version=3)
  for completion, expected in zip(
    complete(REQUESTS, engine=engine), reference(), strict=True
  ):
    assert_same(completion, expected)


def test_generating_before_loading_is_refused():
  engine = jax_engine.JaxEngine(CONFIG, jnp.float32)
  with pytest.raises(RuntimeError, match="no weights"):
    engine.generate(REQUESTS, SAMPLING)


@pytest.mark.parametrize(
  ("request_", "complaint"),
  [
    (base.Request((), 0), "Request 1 has an empty prompt"),
    (
      base.Request((1,) * 89, 0),
      "Request 1 has a prompt of 89 tokens; .* 40 that is more than the 128",
    ),
    (base.Request((1, 150), 0), "Request 1 has token ids from 1 to 150"),
    (base.Request((1, -1), 0), "Request 1 has token ids from -1 to 1"),
    (base.Request((1,), 2**32), "Request 1 has seed 4294967296"),
    (base.Request((1,), -1), "Request 1 has seed -1"),
  ],
)
def test_a_request_that_cannot_be_completed_is_named(request_, complaint):
  with pytest.raises(ValueError, match=complaint):
    loaded_engine().generate([REQUESTS[0], request_], SAMPLING)


@pytest.mark.parametrize(
  ("change", "complaint"),
  [
    ({"temperature": -0.1}, "temperature >= 0"),
    ({"temperature": float("nan")}, "temperature >= 0"),
    ({"top_p": 0.0}, r"top_p in \(0, 1\]"),
    ({"top_p": 1.1}, r"top_p in \(0, 1\]"),
    ({"top_k": -1}, "top_k >= 0"),
    ({"max_tokens": 0}, "max_tokens >= 1"),
  ],
)
def test_sampling_without_meaning_is_refused(change, complaint):
  with pytest.raises(ValueError, match=complaint):
    loaded_engine().generate(REQUESTS, SAMPLING._replace(**change))


def test_weights_that_are_not_finite_are_reported():
  engine = jax_engine.JaxEngine(CONFIG, jnp.float32)
  params = tiny.params(CONFIG)
  params["norm"]["scale"] = params["norm"]["scale"] * jnp.nan
  engine.load(params, version=9)
  with pytest.raises(FloatingPointError, match="weights version 9"):
    list(engine.generate(REQUESTS[:1], SAMPLING))


def test_no_requests_give_no_completions():
  assert list(loaded_engine().generate([], SAMPLING)) == []
