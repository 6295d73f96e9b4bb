import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, NamedSharding, PartitionSpec

from hrl_jax.core import losses, measures, token_terms
from tests.core import toy

TRANSFORMS = pytest.mark.parametrize("transform", [lambda f: f, jax.jit])


@pytest.mark.core
def test_loss_by_hand():
  # One row of two tokens and weight 1/2, A = 2, ratios 1 and 2 (clipped to
  # 1.2), policy = reference on the first and twice it on the second:
  # k3 = 0 and -1/2 + log 2. Entropies 1 and 3.
  logprobs_BT = jnp.log(jnp.array([[0.5, 0.5]]))
  sampled = losses.Sampled(
    completion_mask_BT=jnp.ones((1, 2), bool),
    advantages_B1=jnp.array([[2.0]]),
    weights_B1=jnp.array([[0.5]]),
    old_logprobs_BT=jnp.log(jnp.array([[0.5, 0.25]])),
    ref_logprobs_BT=jnp.log(jnp.array([[0.5, 0.25]])),
  )
  loss, measured = losses.grpo(
    logprobs_BT,
    jnp.array([[1.0, 3.0]]),
    sampled,
    objective=toy.PLAIN._replace(kl_coefficient=0.1, entropy_coefficient=0.01),
  )
  kl = np.log(2) - 0.5
  expected = -0.5 * (2.0 + 2.4 - 0.1 * kl + 0.01 * 4)
  np.testing.assert_allclose(loss, expected, rtol=1e-6)
  metrics = measures.finalise(measured)
  assert metrics.keys().isdisjoint({"mismatch_mean", "correction_mean"})
  assert (metrics["tokens"], metrics["clip_fraction"]) == (2.0, 0.5)
  np.testing.assert_allclose(metrics["ratio_mean"], 1.5, rtol=1e-6)
  np.testing.assert_allclose(metrics["ratio_max"], 2.0, rtol=1e-6)
  np.testing.assert_allclose(metrics["kl"], kl / 2, rtol=1e-6)
  np.testing.assert_allclose(metrics["entropy"], 2.0, rtol=1e-6)


@pytest.mark.core
@toy.AGGREGATIONS
def test_micro_batches_add_up_to_one_batch(aggregation):
  logits_BTV, tokens_BT, sampled = toy.batch(aggregation)
  step = functools.partial(toy.loss_and_gradient, objective=toy.FULL)
  whole = (logits_BTV, tokens_BT, sampled)
  order = jax.random.permutation(jax.random.key(7), 12)
  parts = jax.tree.map(lambda x: x[order].reshape(4, 3, *x.shape[1:]), whole)

  @jax.jit
  def accumulated(parts):
    first = jax.tree.map(lambda x: x[0], parts)
    shapes = jax.eval_shape(step, *first)
    (_, zeros), _ = jax.tree.map(jnp.zeros_like, shapes)

    def add(carry, part):
      (loss, measured), gradient_BTV = step(*part)
      return (
        carry[0] + loss,
        measures.combine(carry[1], measured),
      ), gradient_BTV

    return jax.lax.scan(add, (jnp.zeros(()), zeros), parts)

  (loss, measured), gradients_MBTV = accumulated(parts)
  (expected_loss, expected), expected_BTV = jax.jit(step)(*whole)
  gradient_BTV = gradients_MBTV.reshape(12, 6, 5)
  np.testing.assert_allclose(loss, expected_loss, rtol=1e-5)
  np.testing.assert_allclose(
    gradient_BTV, expected_BTV[order], rtol=1e-5, atol=1e-7
  )
  metrics = measures.finalise(measured)
  for name, value in measures.finalise(expected).items():
    np.testing.assert_allclose(metrics[name], value, rtol=1e-5, err_msg=name)


@pytest.mark.core
@TRANSFORMS
def test_garbage_in_padding_poisons_nothing(transform):
  logits_BTV, tokens_BT, sampled = toy.batch()
  logprobs_BT, entropies_BT = toy.policy(logits_BTV, tokens_BT)
  counts_BT = sampled.completion_mask_BT & toy.VALID_B[:, None]

  def loss(logprobs_BT, entropies_BT, sampled):
    return losses.grpo(logprobs_BT, entropies_BT, sampled, objective=toy.FULL)

  step = transform(jax.value_and_grad(loss, (0, 1), has_aux=True))
  clean = step(logprobs_BT, entropies_BT, sampled)
  for garbage in (jnp.nan, jnp.inf, -jnp.inf):

    def spoil(x_BT, garbage=garbage):
      return jnp.where(counts_BT, x_BT, garbage)

    spoiled = sampled._replace(
      old_logprobs_BT=spoil(sampled.old_logprobs_BT),
      ref_logprobs_BT=spoil(sampled.ref_logprobs_BT),
      sampler_logprobs_BT=spoil(sampled.sampler_logprobs_BT),
      advantages_B1=jnp.where(
        toy.VALID_B[:, None], sampled.advantages_B1, garbage
      ),
    )
    dirty = step(spoil(logprobs_BT), spoil(entropies_BT), spoiled)
    jax.tree.map(np.testing.assert_array_equal, dirty, clean)
  _, (gradient_BT, _) = clean
  np.testing.assert_array_equal(gradient_BT[~counts_BT], 0.0)
  assert (gradient_BT[counts_BT] != 0).mean() > 0.5


@pytest.mark.core
def test_nan_in_a_completion_is_not_hidden():
  logits_BTV, tokens_BT, sampled = toy.batch()
  (loss, _), _ = toy.loss_and_gradient(
    logits_BTV.at[0, 0].set(jnp.nan), tokens_BT, sampled, toy.FULL
  )
  assert jnp.isnan(loss)


@pytest.mark.core
def test_without_old_logprobs_every_ratio_is_one():
  logits_BTV, tokens_BT, sampled = toy.batch()
  logprobs_BT, _ = toy.policy(logits_BTV, tokens_BT)
  sampled = sampled._replace(old_logprobs_BT=None)

  def loss(logprobs_BT):
    return losses.grpo(logprobs_BT, None, sampled, objective=toy.PLAIN)

  (_, measured), gradient_BT = jax.value_and_grad(loss, has_aux=True)(
    logprobs_BT
  )
  metrics = measures.finalise(measured)
  assert metrics["ratio_max"] == metrics["ratio_mean"] == 1.0
  assert metrics["clip_fraction"] == 0.0
  # On-policy, the gradient is that of - sum weight A logprob.
  expected_BT = -sampled.weights_B1 * sampled.advantages_B1
  np.testing.assert_allclose(
    gradient_BT,
    jnp.where(sampled.completion_mask_BT, expected_BT, 0.0),
    rtol=1e-6,
  )


def test_after_an_update_the_ratio_leaves_one():
  logits_BTV, tokens_BT, sampled = toy.batch()
  old_BT, _ = toy.policy(logits_BTV, tokens_BT)
  sampled = sampled._replace(old_logprobs_BT=old_BT)
  (before, first), gradient_BTV = toy.loss_and_gradient(
    logits_BTV, tokens_BT, sampled, toy.PLAIN
  )
  after, second = toy.loss(
    logits_BTV - 0.1 * gradient_BTV, tokens_BT, sampled, toy.PLAIN
  )
  assert measures.finalise(first)["ratio_max"] == 1.0
  assert measures.finalise(second)["ratio_max"] > 1.0
  assert after < before


@pytest.mark.core
@toy.AGGREGATIONS
def test_group_without_advantage_has_no_gradient(aggregation):
  logits_BTV, tokens_BT, sampled = toy.batch(aggregation)
  sampled = sampled._replace(
    advantages_B1=jnp.where(
      toy.GROUP_B[:, None] == 1, 0.0, sampled.advantages_B1
    )
  )
  _, gradient_BTV = toy.loss_and_gradient(
    logits_BTV, tokens_BT, sampled, toy.PLAIN
  )
  np.testing.assert_array_equal(gradient_BTV[4:8], 0.0)
  assert jnp.abs(gradient_BTV[:4]).max() > 0


@pytest.mark.core
def test_correction_weighs_the_policy_term_alone():
  # All tokens are masked as mismatched: what is left is the KL.
  logits_BTV, tokens_BT, sampled = toy.batch()
  sampled = sampled._replace(sampler_logprobs_BT=sampled.old_logprobs_BT - 3.0)
  masking = token_terms.Correction("mis", "token", 0.5, 2.0)
  objective = toy.PLAIN._replace(kl_coefficient=0.1, correction=masking)
  masked, measured = toy.loss(logits_BTV, tokens_BT, sampled, objective)
  only_kl, _ = toy.loss(
    logits_BTV,
    tokens_BT,
    sampled._replace(advantages_B1=jnp.zeros((12, 1))),
    objective._replace(correction=None),
  )
  np.testing.assert_allclose(masked, only_kl, rtol=1e-6)
  assert masked > 0
  metrics = measures.finalise(measured)
  assert metrics["correction_mean"] == 0.0
  np.testing.assert_allclose(metrics["mismatch_mean"], 3.0, rtol=1e-5)


def test_importance_weighs_the_whole_term_of_its_group():
  # KL and entropy included; by a power of two, so to the last bit.
  logits_BTV, tokens_BT, sampled = toy.batch()
  once_B1 = toy.weights("sequence_mean_token_mean", jnp.ones(3))
  more_B1 = toy.weights("sequence_mean_token_mean", jnp.array([1.0, 2.0, 0.5]))
  _, once_BTV = toy.loss_and_gradient(
    logits_BTV, tokens_BT, sampled._replace(weights_B1=once_B1), toy.FULL
  )
  _, more_BTV = toy.loss_and_gradient(
    logits_BTV, tokens_BT, sampled._replace(weights_B1=more_B1), toy.FULL
  )
  np.testing.assert_array_equal(more_BTV[:4], once_BTV[:4])
  np.testing.assert_array_equal(more_BTV[4:8], 2 * once_BTV[4:8])
  np.testing.assert_array_equal(more_BTV[8:], 0.5 * once_BTV[8:])


def test_sharded_rows_give_the_same_loss_and_gradient():
  if jax.device_count() < 4:
    pytest.skip("needs four devices")
  mesh = jax.make_mesh(
    (4,), ("data",), axis_types=(AxisType.Auto,), devices=jax.devices()[:4]
  )
  rows = NamedSharding(mesh, PartitionSpec("data"))
  batch = toy.batch()
  step = jax.jit(functools.partial(toy.loss_and_gradient, objective=toy.FULL))
  (loss, measured), gradient_BTV = step(*jax.device_put(batch, rows))
  (expected_loss, expected), expected_BTV = step(*batch)
  assert len(gradient_BTV.sharding.device_set) == 4
  np.testing.assert_allclose(loss, expected_loss, rtol=1e-5)
  np.testing.assert_allclose(gradient_BTV, expected_BTV, rtol=1e-5, atol=1e-7)
  jax.tree.map(
    functools.partial(np.testing.assert_allclose, rtol=1e-5), measured, expected
  )


@pytest.mark.parametrize(
  ("knob", "value", "name"),
  [
    ("kl_coefficient", 0.1, "ref_logprobs_BT"),
    ("entropy_coefficient", 0.1, "entropies_BT"),
    ("correction", toy.FULL.correction, "sampler_logprobs_BT"),
  ],
)
def test_term_without_what_it_needs_is_refused(knob, value, name):
  logits_BTV, tokens_BT, sampled = toy.batch()
  logprobs_BT, _ = toy.policy(logits_BTV, tokens_BT)
  bare = sampled._replace(ref_logprobs_BT=None, sampler_logprobs_BT=None)
  with pytest.raises(ValueError, match=f"{knob}=.*needs {name}, got None"):
    losses.grpo(
      logprobs_BT, None, bare, objective=toy.PLAIN._replace(**{knob: value})
    )
