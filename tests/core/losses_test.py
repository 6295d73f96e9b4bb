import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, NamedSharding, PartitionSpec

from hrl_jax.core import advantages, losses, measures, token_terms

AGGREGATIONS = pytest.mark.parametrize("aggregation", losses.AGGREGATIONS)
TRANSFORMS = pytest.mark.parametrize("transform", [lambda f: f, jax.jit])

# Three groups of four rollouts of up to six tokens. One rollout is ungraded,
# one completion is a single token.
LENGTHS_B = jnp.array([6, 3, 1, 5, 2, 4, 6, 6, 3, 5, 2, 4])
GROUP_B = jnp.arange(12) // 4
VALID_B = jnp.arange(12) != 5
IMPORTANCE_P = jnp.array([0.7, 1.2, 4.0])
MAX_TOKENS = 8

PLAIN = losses.Objective(
  clip_low=0.2,
  clip_high=0.2,
  dual_clip=None,
  kl_estimator="k3",
  kl_coefficient=0.0,
  entropy_coefficient=0.0,
  correction=None,
)
FULL = losses.Objective(
  clip_low=0.2,
  clip_high=0.28,
  dual_clip=1.5,
  kl_estimator="k3",
  kl_coefficient=0.1,
  entropy_coefficient=0.05,
  correction=token_terms.Correction("tis", "token", 0.0, 1.1),
)


def _weights(aggregation, importance_P):
  weights_B = losses.row_weights(
    LENGTHS_B,
    GROUP_B,
    importance_P,
    VALID_B,
    3,
    aggregation=aggregation,
    max_tokens=MAX_TOKENS,
  )
  return weights_B[:, None]


def _policy(logits_BTV, tokens_BT):
  """Log-probability of the tokens, and entropy at each."""
  logprobs_BTV = jax.nn.log_softmax(logits_BTV)
  logprobs_BT = jnp.take_along_axis(logprobs_BTV, tokens_BT[:, :, None], 2)
  entropies_BT = -jnp.sum(jnp.exp(logprobs_BTV) * logprobs_BTV, axis=2)
  return logprobs_BT[:, :, 0], entropies_BT


@functools.cache
def _batch(aggregation="sequence_mean_token_mean"):
  """Random logits, tokens, and what is known of the rows."""
  keys = jax.random.split(jax.random.key(0), 6)
  logits_BTV = jax.random.normal(keys[0], (12, 6, 5))
  tokens_BT = jax.random.randint(keys[1], (12, 6), 0, 5)
  logprobs_BT, _ = _policy(logits_BTV, tokens_BT)
  rewards_PG = jax.random.normal(keys[2], (3, 4))
  advantages_PG = advantages.group_normalized(
    rewards_PG, VALID_B.reshape(3, 4), ddof=0
  )
  old_BT, ref_BT, noise_BT = (
    scale * jax.random.normal(key, (12, 6))
    for scale, key in zip((0.3, 0.5, 0.1), keys[3:], strict=True)
  )
  sampled = losses.Sampled(
    completion_mask_BT=jnp.arange(6)[None] < LENGTHS_B[:, None],
    advantages_B1=advantages_PG.reshape(12, 1),
    weights_B1=_weights(aggregation, IMPORTANCE_P),
    old_logprobs_BT=logprobs_BT + old_BT,
    ref_logprobs_BT=logprobs_BT + ref_BT,
    sampler_logprobs_BT=logprobs_BT + old_BT + noise_BT,
  )
  return logits_BTV, tokens_BT, sampled


def _loss(logits_BTV, tokens_BT, sampled, objective):
  logprobs_BT, entropies_BT = _policy(logits_BTV, tokens_BT)
  return losses.grpo(logprobs_BT, entropies_BT, sampled, objective=objective)


def _loss_and_gradient(logits_BTV, tokens_BT, sampled, objective):
  return jax.value_and_grad(_loss, has_aux=True)(
    logits_BTV, tokens_BT, sampled, objective
  )


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
    objective=PLAIN._replace(kl_coefficient=0.1, entropy_coefficient=0.01),
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


def _reference_loss(torch, logits_BTV, batch, aggregation, objective):
  """H-24 read aloud, one token at a time."""
  _, tokens_BT, sampled = jax.tree.map(np.asarray, batch)
  lengths_B, group_B, valid_B = map(np.asarray, (LENGTHS_B, GROUP_B, VALID_B))
  gap_BT = sampled.old_logprobs_BT - sampled.sampler_logprobs_BT
  logprobs_BTV = torch.log_softmax(logits_BTV, dim=2)
  loss = torch.zeros((), dtype=torch.float64)
  for b in np.flatnonzero(valid_B):
    advantage, length = float(sampled.advantages_B1[b, 0]), int(lengths_B[b])
    members = int((valid_B & (group_B == group_B[b])).sum())
    share = (
      float(IMPORTANCE_P[group_B[b]])
      * {
        "sequence_mean_token_mean": 1 / 3 / members / length,
        "sequence_mean_token_sum_norm": 1 / 3 / members / MAX_TOKENS,
        "token_mean": 1 / int(lengths_B[valid_B].sum()),
      }[aggregation]
    )
    for t in range(length):
      logprob = logprobs_BTV[b, t, int(tokens_BT[b, t])]
      ratio = torch.exp(logprob - float(sampled.old_logprobs_BT[b, t]))
      low, high = 1 - objective.clip_low, 1 + objective.clip_high
      term = torch.minimum(
        ratio * advantage, torch.clamp(ratio, low, high) * advantage
      )
      if objective.dual_clip is not None and advantage < 0:
        term = torch.clamp(term, min=objective.dual_clip * advantage)
      if objective.correction is not None:
        kind, level, low, high = objective.correction
        gap = gap_BT[b, t] if level == "token" else gap_BT[b, :length].sum()
        weight = float(np.exp(gap))
        if kind == "tis":
          weight = min(weight, high)
        term = term * (weight if low <= weight <= high else 0.0)
      d = logprob - float(sampled.ref_logprobs_BT[b, t])
      kl = {"k1": d, "k2": d**2 / 2, "k3": torch.exp(-d) - 1 + d}
      term = term - objective.kl_coefficient * kl[objective.kl_estimator]
      row_V = logprobs_BTV[b, t]
      entropy = -(torch.exp(row_V) * row_V).sum()
      loss = loss - share * (term + objective.entropy_coefficient * entropy)
  return loss


@pytest.mark.parametrize(
  ("aggregation", "objective"),
  [
    ("sequence_mean_token_mean", PLAIN),
    ("sequence_mean_token_mean", FULL),
    ("sequence_mean_token_sum_norm", FULL._replace(kl_estimator="k2")),
    ("token_mean", FULL._replace(dual_clip=None, kl_estimator="k1")),
    (
      "token_mean",
      FULL._replace(
        correction=token_terms.Correction("mis", "token", 0.95, 1.1)
      ),
    ),
    (
      "sequence_mean_token_mean",
      FULL._replace(
        correction=token_terms.Correction("mis", "sequence", 0.9, 1.2)
      ),
    ),
    (
      "sequence_mean_token_mean",
      FULL._replace(
        correction=token_terms.Correction("tis", "sequence", 0.0, 1.05)
      ),
    ),
  ],
)
def test_loss_and_gradient_match_torch(aggregation, objective):
  torch = pytest.importorskip("torch")
  batch = _batch(aggregation)
  (loss, _), gradient_BTV = jax.jit(
    functools.partial(_loss_and_gradient, objective=objective)
  )(*batch)
  logits_BTV = torch.tensor(
    np.asarray(batch[0]), dtype=torch.float64, requires_grad=True
  )
  expected = _reference_loss(torch, logits_BTV, batch, aggregation, objective)
  expected.backward()
  np.testing.assert_allclose(loss, expected.item(), rtol=1e-5)
  np.testing.assert_allclose(
    gradient_BTV, logits_BTV.grad.numpy(), rtol=1e-5, atol=1e-6
  )


@pytest.mark.core
@AGGREGATIONS
def test_micro_batches_add_up_to_one_batch(aggregation):
  logits_BTV, tokens_BT, sampled = _batch(aggregation)
  step = functools.partial(_loss_and_gradient, objective=FULL)
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
  logits_BTV, tokens_BT, sampled = _batch()
  logprobs_BT, entropies_BT = _policy(logits_BTV, tokens_BT)
  counts_BT = sampled.completion_mask_BT & VALID_B[:, None]

  def loss(logprobs_BT, entropies_BT, sampled):
    return losses.grpo(logprobs_BT, entropies_BT, sampled, objective=FULL)

  step = transform(jax.value_and_grad(loss, (0, 1), has_aux=True))
  clean = step(logprobs_BT, entropies_BT, sampled)
  for garbage in (jnp.nan, jnp.inf, -jnp.inf):

    def spoil(x_BT, garbage=garbage):
      return jnp.where(counts_BT, x_BT, garbage)

    spoiled = sampled._replace(
      old_logprobs_BT=spoil(sampled.old_logprobs_BT),
      ref_logprobs_BT=spoil(sampled.ref_logprobs_BT),
      sampler_logprobs_BT=spoil(sampled.sampler_logprobs_BT),
      advantages_B1=jnp.where(VALID_B[:, None], sampled.advantages_B1, garbage),
    )
    dirty = step(spoil(logprobs_BT), spoil(entropies_BT), spoiled)
    jax.tree.map(np.testing.assert_array_equal, dirty, clean)
  _, (gradient_BT, _) = clean
  np.testing.assert_array_equal(gradient_BT[~counts_BT], 0.0)
  assert (gradient_BT[counts_BT] != 0).mean() > 0.5


@pytest.mark.core
def test_nan_in_a_completion_is_not_hidden():
  logits_BTV, tokens_BT, sampled = _batch()
  (loss, _), _ = _loss_and_gradient(
    logits_BTV.at[0, 0].set(jnp.nan), tokens_BT, sampled, FULL
  )
  assert jnp.isnan(loss)


@pytest.mark.core
def test_without_old_logprobs_every_ratio_is_one():
  logits_BTV, tokens_BT, sampled = _batch()
  logprobs_BT, _ = _policy(logits_BTV, tokens_BT)
  sampled = sampled._replace(old_logprobs_BT=None)

  def loss(logprobs_BT):
    return losses.grpo(logprobs_BT, None, sampled, objective=PLAIN)

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
  logits_BTV, tokens_BT, sampled = _batch()
  old_BT, _ = _policy(logits_BTV, tokens_BT)
  sampled = sampled._replace(old_logprobs_BT=old_BT)
  (before, first), gradient_BTV = _loss_and_gradient(
    logits_BTV, tokens_BT, sampled, PLAIN
  )
  after, second = _loss(
    logits_BTV - 0.1 * gradient_BTV, tokens_BT, sampled, PLAIN
  )
  assert measures.finalise(first)["ratio_max"] == 1.0
  assert measures.finalise(second)["ratio_max"] > 1.0
  assert after < before


@pytest.mark.core
@AGGREGATIONS
def test_group_without_advantage_has_no_gradient(aggregation):
  logits_BTV, tokens_BT, sampled = _batch(aggregation)
  sampled = sampled._replace(
    advantages_B1=jnp.where(GROUP_B[:, None] == 1, 0.0, sampled.advantages_B1)
  )
  _, gradient_BTV = _loss_and_gradient(logits_BTV, tokens_BT, sampled, PLAIN)
  np.testing.assert_array_equal(gradient_BTV[4:8], 0.0)
  assert jnp.abs(gradient_BTV[:4]).max() > 0


@pytest.mark.core
def test_correction_weighs_the_policy_term_alone():
  # All tokens are masked as mismatched: what is left is the KL.
  logits_BTV, tokens_BT, sampled = _batch()
  sampled = sampled._replace(sampler_logprobs_BT=sampled.old_logprobs_BT - 3.0)
  masking = token_terms.Correction("mis", "token", 0.5, 2.0)
  objective = PLAIN._replace(kl_coefficient=0.1, correction=masking)
  masked, measured = _loss(logits_BTV, tokens_BT, sampled, objective)
  only_kl, _ = _loss(
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
  logits_BTV, tokens_BT, sampled = _batch()
  once_B1 = _weights("sequence_mean_token_mean", jnp.ones(3))
  more_B1 = _weights("sequence_mean_token_mean", jnp.array([1.0, 2.0, 0.5]))
  _, once_BTV = _loss_and_gradient(
    logits_BTV, tokens_BT, sampled._replace(weights_B1=once_B1), FULL
  )
  _, more_BTV = _loss_and_gradient(
    logits_BTV, tokens_BT, sampled._replace(weights_B1=more_B1), FULL
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
  batch = _batch()
  step = jax.jit(functools.partial(_loss_and_gradient, objective=FULL))
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
    ("correction", FULL.correction, "sampler_logprobs_BT"),
  ],
)
def test_term_without_what_it_needs_is_refused(knob, value, name):
  logits_BTV, tokens_BT, sampled = _batch()
  logprobs_BT, _ = _policy(logits_BTV, tokens_BT)
  bare = sampled._replace(ref_logprobs_BT=None, sampler_logprobs_BT=None)
  with pytest.raises(ValueError, match=f"{knob}=.*needs {name}, got None"):
    losses.grpo(
      logprobs_BT, None, bare, objective=PLAIN._replace(**{knob: value})
    )
