import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from hrl_jax.core import packing, shared_prompts
from hrl_jax.model import decoder, policy
from tests import tiny

CONFIG = dataclasses.replace(
  tiny.DECODER, family="qwen3", qk_norm=True, vocab_size=61, num_layers=3
)
# Prompt 1 has two rows, prompt 0 five (more than a block), prompt 2 one.
PROMPT_LENGTHS = (7, 3, 12)
ROWS = ((0, 5), (1, 9), (0, 1), (0, 11), (2, 4), (0, 3), (1, 2), (0, 8))


def example(seed=0):
  rng = np.random.default_rng(seed)
  prompts = [tuple(rng.integers(0, 61, n).tolist()) for n in PROMPT_LENGTHS]
  rows = [
    packing.Row(
      prompt=prompt,
      tokens=rng.integers(0, 61, length).astype(np.int32),
      sampler_logprobs=rng.normal(size=length).astype(np.float32),
      rollout=index,
    )
    for index, (prompt, length) in enumerate(ROWS)
  ]
  return prompts, rows


def by_rollout(batch, values_MBT):
  """Values of the real tokens, keyed by rollout."""
  found = {}
  for mask_BT, values_BT, rollout_B in zip(
    batch.rows.mask_MBT, values_MBT, batch.rows.rollout_MB, strict=True
  ):
    for mask_T, values_T, rollout in zip(
      mask_BT, values_BT, rollout_B, strict=True
    ):
      if mask_T.any():
        assert rollout not in found
        found[int(rollout)] = np.asarray(values_T)[mask_T]
  return found


def summed_loss(config, params, batch, remat="none"):
  """A sum over real tokens with a different coefficient for each rollout."""

  batch = jax.tree.map(jnp.asarray, batch)

  def one(layout, rows):
    logprobs_BT, entropies_BT = policy.row_logprobs(
      config, params, layout, temperature=0.7, head_chunk=8, remat=remat
    )
    coefficients_B1 = jnp.cos(1.0 + rows.rollout_MB)[:, None]
    terms_BT = coefficients_B1 * (logprobs_BT + 0.3 * entropies_BT)
    loss = jnp.sum(jnp.where(rows.mask_MBT, terms_BT, 0.0))
    return loss, (logprobs_BT, entropies_BT)

  losses, parts = zip(
    *(
      one(
        jax.tree.map(lambda array, m=m: array[m], batch.layout),
        jax.tree.map(lambda array, m=m: array[m], batch.rows),
      )
      for m in range(batch.rows.mask_MBT.shape[0])
    ),
    strict=True,
  )
  return sum(losses), parts


def forms(micro_batch_tokens):
  prompts, rows = example()
  shared = shared_prompts.pack(
    prompts,
    rows,
    num_groups=8,
    block_rows=4,
    micro_batch_tokens=micro_batch_tokens,
    buckets_per_octave=8,
  )
  reference = packing.one_row(
    prompts, rows, num_groups=8, micro_batch_tokens=10_000, buckets_per_octave=8
  )
  return shared, reference


def assert_same(config, params, micro_batch_tokens, remat, tolerance):
  """Of both forms: values, loss (1e-5) and gradient (share of its norm)."""
  shared, reference = forms(micro_batch_tokens)
  gradient = jax.jit(
    jax.value_and_grad(summed_loss, argnums=1, has_aux=True),
    static_argnums=(0, 3),
  )
  (loss, parts), grads = gradient(config, params, shared, remat)
  (expected, expected_parts), expected_grads = gradient(
    config, params, reference, "none"
  )
  assert abs(float(loss - expected)) <= 1e-5 * abs(float(expected))
  difference = optax.tree.norm(optax.tree.sub(grads, expected_grads))
  assert difference <= tolerance * optax.tree.norm(expected_grads)
  for index in (0, 1):
    actual = by_rollout(shared, [part[index] for part in parts])
    wanted = by_rollout(reference, [part[index] for part in expected_parts])
    assert actual.keys() == wanted.keys() == set(range(len(ROWS)))
    for rollout, values in wanted.items():
      np.testing.assert_allclose(
        actual[rollout], values, rtol=tolerance, atol=tolerance
      )


@pytest.mark.core
@pytest.mark.parametrize(
  ("micro_batch_tokens", "remat"),
  [(10_000, "none"), (10_000, "dots"), (10_000, "full"), (30, "dots")],
)
def test_shared_prompts_equal_one_row(micro_batch_tokens, remat):
  assert_same(CONFIG, tiny.params(CONFIG), micro_batch_tokens, remat, 1e-5)


def test_shared_prompts_equal_one_row_on_smollm2(smollm2):
  assert_same(*smollm2, 10_000, "dots", 1e-4)


def test_logprobs_are_those_of_the_whole_softmax():
  # Independent of the head kernel and of packing: one unpadded row at a time.
  params = tiny.params(CONFIG, 1)
  prompts, rows = example()
  shared, _ = forms(10_000)
  _, parts = summed_loss(CONFIG, params, shared)
  actual = by_rollout(shared, [part[0] for part in parts])
  for row in rows[:3]:
    tokens = np.concatenate([prompts[row.prompt], row.tokens])[None]
    hidden = decoder.hidden(
      CONFIG,
      params,
      jnp.asarray(tokens),
      policy.attention.rows(jnp.ones(tokens.shape, bool)),
    )
    logprobs = jax.nn.log_softmax(decoder.logits(params, hidden) / 0.7)[0]
    start = len(prompts[row.prompt])
    expected = [
      logprobs[start + t - 1, token] for t, token in enumerate(row.tokens)
    ]
    np.testing.assert_allclose(actual[row.rollout], expected, atol=1e-5)


def test_logprobs_are_the_same_on_one_device_and_on_eight():
  # tunix PR#718: wrong log-probabilities under data parallelism.
  params = tiny.params(CONFIG)
  _, reference = forms(10_000)
  layout = jax.tree.map(lambda array: jnp.asarray(array[0]), reference.layout)
  logprobs = jax.jit(
    lambda params, layout: policy.row_logprobs(
      CONFIG, params, layout, temperature=1.0, head_chunk=16, remat="dots"
    )[0]
  )
  mesh = jax.make_mesh(
    (8,), ("data",), axis_types=(jax.sharding.AxisType.Auto,)
  )
  by_rows = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("data"))
  everywhere = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec())
  sharded = logprobs(
    jax.device_put(params, everywhere), jax.device_put(layout, by_rows)
  )
  np.testing.assert_allclose(logprobs(params, layout), sharded, atol=1e-5)
