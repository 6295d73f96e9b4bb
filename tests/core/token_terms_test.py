import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hrl_jax.core import token_terms

TRANSFORMS = pytest.mark.parametrize("transform", [lambda f: f, jax.jit])


def _objective(
  logprobs_BT, old_BT, advantages_B1, *, low=0.2, high=0.3, dual_clip=None
):
  return token_terms.policy_terms(
    logprobs_BT,
    old_BT,
    advantages_B1,
    clip_low=low,
    clip_high=high,
    dual_clip=dual_clip,
  )


def _at_ratios(ratios, advantage, **knobs):
  """Objective, clipped and gradient of tokens with these ratios."""
  logprobs_BT = jnp.log(jnp.array([ratios]))
  old_BT = jnp.zeros_like(logprobs_BT)
  advantages_B1 = jnp.array([[advantage]])
  objective_BT, clipped_BT = _objective(
    logprobs_BT, old_BT, advantages_B1, **knobs
  )
  gradient_BT = jax.grad(
    lambda x_BT: _objective(x_BT, old_BT, advantages_B1, **knobs)[0].sum()
  )(logprobs_BT)
  return objective_BT[0], clipped_BT[0], gradient_BT[0]


@pytest.mark.core
def test_objective_by_hand_for_a_positive_advantage():
  # Range [0.8, 1.3]: 2 * 0.5, below the range yet the smaller; 2 * 1; 2 * 1.3
  # in place of 2 * 1.5 and 2 * 4. The gradient of ratio A is ratio A.
  objective, clipped, gradient = _at_ratios([0.5, 1.0, 1.5, 4.0], 2.0)
  np.testing.assert_allclose(objective, [1.0, 2.0, 2.6, 2.6], rtol=1e-6)
  np.testing.assert_array_equal(clipped, [False, False, True, True])
  np.testing.assert_allclose(gradient, [1.0, 2.0, 0.0, 0.0], rtol=1e-6)
  np.testing.assert_array_equal(gradient[2:], 0.0)


@pytest.mark.core
def test_objective_by_hand_for_a_negative_advantage():
  # -2 * 0.8 in place of -2 * 0.5; -2 * 1; -2 * 1.5; -2 * 4: no upper bound.
  objective, clipped, gradient = _at_ratios([0.5, 1.0, 1.5, 4.0], -2.0)
  np.testing.assert_allclose(objective, [-1.6, -2.0, -3.0, -8.0], rtol=1e-6)
  np.testing.assert_array_equal(clipped, [True, False, False, False])
  np.testing.assert_allclose(gradient, [0.0, -2.0, -3.0, -8.0], rtol=1e-6)
  np.testing.assert_array_equal(gradient[0], 0.0)


@pytest.mark.core
def test_dual_clip_by_hand():
  # c = 3 bounds -2 * 4 by -2 * 3, and nothing else.
  objective, clipped, gradient = _at_ratios(
    [0.5, 1.0, 1.5, 4.0], -2.0, dual_clip=3.0
  )
  np.testing.assert_allclose(objective, [-1.6, -2.0, -3.0, -6.0], rtol=1e-6)
  np.testing.assert_array_equal(clipped, [True, False, False, True])
  np.testing.assert_allclose(gradient, [0.0, -2.0, -3.0, 0.0], rtol=1e-6)
  with_a_gain = _at_ratios([0.5, 1.0, 1.5, 4.0], 2.0, dual_clip=3.0)
  without = _at_ratios([0.5, 1.0, 1.5, 4.0], 2.0)
  jax.tree.map(np.testing.assert_array_equal, with_a_gain, without)


@TRANSFORMS
@pytest.mark.parametrize("dual_clip", [None, 2.0])
def test_objective_is_that_of_the_paper(transform, dual_clip):
  generator = np.random.default_rng(0)
  log_ratio_BT = generator.normal(0, 1, (6, 50)).astype(np.float32)
  advantages_B1 = generator.normal(0, 1, (6, 1)).astype(np.float32)
  ratio_BT = np.exp(log_ratio_BT)
  expected_BT = np.minimum(
    ratio_BT * advantages_B1, np.clip(ratio_BT, 0.8, 1.3) * advantages_B1
  )
  if dual_clip is not None:
    bound_BT = np.maximum(expected_BT, dual_clip * advantages_B1)
    expected_BT = np.where(advantages_B1 < 0, bound_BT, expected_BT)
  actual_BT, clipped_BT = transform(
    lambda *arrays: _objective(*arrays, dual_clip=dual_clip)
  )(
    jnp.asarray(log_ratio_BT),
    jnp.zeros_like(log_ratio_BT),
    jnp.asarray(advantages_B1),
  )
  np.testing.assert_allclose(actual_BT, expected_BT, rtol=1e-5)
  moved_BT = np.abs(expected_BT - ratio_BT * advantages_B1) > 1e-6
  np.testing.assert_array_equal(clipped_BT, moved_BT)


@pytest.mark.core
def test_first_pass_has_ratio_one_and_gradient_of_the_advantage():
  logprobs_BT = -jax.random.exponential(jax.random.key(0), (3, 5))
  advantages_B1 = jnp.array([[2.0], [0.0], [-0.5]])

  def total(x_BT):
    # The old log-probabilities are the same tracer, and still a constant.
    return _objective(x_BT, x_BT, advantages_B1)[0].sum()

  np.testing.assert_array_equal(
    token_terms.ratio(logprobs_BT, logprobs_BT), 1.0
  )
  np.testing.assert_allclose(
    jax.grad(total)(logprobs_BT),
    jnp.broadcast_to(advantages_B1, (3, 5)),
    rtol=1e-6,
  )


@pytest.mark.parametrize("advantage", [1.0, -1.0])
@pytest.mark.parametrize("gap", [-1000.0, -90.0, 90.0, 1000.0, float("inf")])
def test_extreme_ratio_overflows_nothing(advantage, gap):
  logprobs_BT, old_BT = jnp.array([[gap]]), jnp.zeros((1, 1))
  value, gradient_BT = jax.value_and_grad(
    lambda x_BT: _objective(x_BT, old_BT, jnp.array([[advantage]]))[0].sum()
  )(logprobs_BT)
  assert jnp.isfinite(value)
  assert jnp.isfinite(gradient_BT**2).all()


def test_nan_is_not_hidden():
  objective_BT, _ = _objective(
    jnp.array([[jnp.nan]]), jnp.zeros((1, 1)), jnp.ones((1, 1))
  )
  assert jnp.isnan(objective_BT).all()


@pytest.mark.parametrize("dual_clip", [1.0, 0.5])
def test_dual_clip_of_at_most_one_is_refused(dual_clip):
  with pytest.raises(ValueError, match=f"dual_clip={dual_clip}"):
    _at_ratios([1.0], 1.0, dual_clip=dual_clip)


@pytest.mark.core
def test_kl_estimates_by_hand():
  # policy 1/2, reference 1/4: log(policy / reference) = log 2, r = 1/2.
  logprobs_BT = jnp.log(jnp.array([[0.5]]))
  ref_BT = jnp.log(jnp.array([[0.25]]))
  log2 = np.log(2)
  expected = {"k1": log2, "k2": log2**2 / 2, "k3": -0.5 + log2}
  for name, estimate in token_terms.KL_ESTIMATORS.items():
    np.testing.assert_allclose(
      estimate(logprobs_BT, ref_BT), [[expected[name]]], rtol=1e-6
    )


def _expectations(estimate, logits_V, ref_V):
  """Exact mean over the policy of an estimate, and of its gradient."""
  policy_V = jax.nn.softmax(logits_V)

  def of_each_token(x_V):
    return estimate(jax.nn.log_softmax(x_V)[None], ref_V[None])[0]

  gradients_VV = jax.jacobian(of_each_token)(logits_V)
  return policy_V @ of_each_token(logits_V), policy_V @ gradients_VV


def _two_categoricals():
  logits_V = jax.random.normal(jax.random.key(0), (7,))
  ref_V = jax.nn.log_softmax(jax.random.normal(jax.random.key(1), (7,)))
  return logits_V, ref_V


def _kl(first_V, second_V):
  return jnp.exp(first_V) @ (first_V - second_V)


@pytest.mark.core
def test_k1_and_k3_are_unbiased_and_k2_is_not():
  logits_V, ref_V = _two_categoricals()
  kl = _kl(jax.nn.log_softmax(logits_V), ref_V)
  means = {
    name: _expectations(estimate, logits_V, ref_V)[0]
    for name, estimate in token_terms.KL_ESTIMATORS.items()
  }
  np.testing.assert_allclose(means["k1"], kl, rtol=1e-5)
  np.testing.assert_allclose(means["k3"], kl, rtol=1e-5)
  assert abs(means["k2"] - kl) > 0.05 * kl


def test_gradients_of_the_estimates_are_what_their_docstrings_say():
  logits_V, ref_V = _two_categoricals()
  gradients = {
    name: _expectations(estimate, logits_V, ref_V)[1]
    for name, estimate in token_terms.KL_ESTIMATORS.items()
  }
  of_policy_V = jax.grad(lambda x_V: _kl(jax.nn.log_softmax(x_V), ref_V))
  of_reference_V = jax.grad(lambda x_V: _kl(ref_V, jax.nn.log_softmax(x_V)))
  close = dict(rtol=1e-4, atol=1e-6)
  np.testing.assert_allclose(gradients["k1"], 0.0, atol=1e-6)
  np.testing.assert_allclose(gradients["k2"], of_policy_V(logits_V), **close)
  np.testing.assert_allclose(gradients["k3"], of_reference_V(logits_V), **close)


@pytest.mark.core
@TRANSFORMS
def test_k3_is_never_negative(transform):
  sizes = np.geomspace(1e-12, 1e3, 20_001, dtype=np.float32)
  gap_BT = jnp.asarray(np.stack([sizes, -sizes]))
  k3_BT = transform(token_terms.kl_k3)(gap_BT, jnp.zeros_like(gap_BT))
  assert (k3_BT >= 0).all()
  assert jnp.isfinite(k3_BT).all()


def test_k3_keeps_its_digits_near_zero():
  # x^2 / 2 where exp(x) - 1 - x in float32 would be noise.
  gap_BT = jnp.array([[1e-3, -1e-3, 2e-3]])
  k3_BT = token_terms.kl_k3(gap_BT, jnp.zeros_like(gap_BT))
  exact_BT = np.expm1(-np.float64(gap_BT)) + np.float64(gap_BT)
  np.testing.assert_allclose(k3_BT, exact_BT, rtol=1e-3)


def _weights(gap_BT, mask_BT, **knobs):
  gap_BT = jnp.asarray(gap_BT)
  return token_terms.rollout_correction(
    gap_BT, jnp.zeros_like(gap_BT), jnp.asarray(mask_BT), **knobs
  )


@pytest.mark.core
@TRANSFORMS
def test_corrections_by_hand(transform):
  # Ratios of trainer to sampler; the last token is padding.
  gap_BT = jnp.log(jnp.array([[0.4, 1.0, 1.5, 4.0, 3.0]]))
  mask_BT = jnp.array([[True, True, True, True, False]])

  def weights(kind, level, low, high):
    return transform(
      lambda gap_BT: _weights(
        gap_BT, mask_BT, kind=kind, level=level, low=low, high=high
      )
    )(gap_BT)[0]

  close = dict(rtol=1e-6)
  np.testing.assert_allclose(
    weights("tis", "token", 0.0, 2.0), [0.4, 1.0, 1.5, 2.0, 0.0], **close
  )
  np.testing.assert_allclose(
    weights("mis", "token", 0.5, 2.0), [0.0, 1.0, 1.5, 0.0, 0.0], **close
  )
  # The product of the row is 0.4 * 1.5 * 4 = 2.4.
  np.testing.assert_allclose(
    weights("tis", "sequence", 0.0, 3.0), [2.4] * 4 + [0.0], **close
  )
  np.testing.assert_allclose(
    weights("tis", "sequence", 0.0, 2.0), [2.0] * 4 + [0.0], **close
  )
  np.testing.assert_allclose(
    weights("mis", "sequence", 0.5, 3.0), [2.4] * 4 + [0.0], **close
  )
  np.testing.assert_array_equal(weights("mis", "sequence", 0.5, 2.0), 0.0)


def test_correction_of_equal_logprobs_is_one():
  for level in ("token", "sequence"):
    weights_BT = _weights(
      jnp.zeros((2, 3)),
      jnp.ones((2, 3), bool),
      kind="mis",
      level=level,
      low=0.5,
      high=2.0,
    )
    np.testing.assert_array_equal(weights_BT, 1.0)


@pytest.mark.parametrize("kind", ["tis", "mis"])
@pytest.mark.parametrize("level", ["token", "sequence"])
def test_correction_survives_extremes_and_garbage(kind, level):
  gap_BT = [[500.0, 500.0, jnp.nan], [-500.0, jnp.inf, jnp.inf]]
  mask_BT = [[True, True, False], [True, False, False]]
  weights_BT = _weights(
    gap_BT, mask_BT, kind=kind, level=level, low=0.0, high=2.0
  )
  top = 2.0 if kind == "tis" else 0.0
  np.testing.assert_allclose(
    weights_BT, [[top, top, 0.0], [0.0, 0.0, 0.0]], atol=1e-8
  )


@pytest.mark.core
@pytest.mark.parametrize("level", ["token", "sequence"])
def test_correction_has_no_gradient(level):
  gradient_BT = jax.grad(
    lambda gap_BT: _weights(
      gap_BT,
      jnp.ones((2, 3), bool),
      kind="tis",
      level=level,
      low=0.0,
      high=2.0,
    ).sum()
  )(jnp.full((2, 3), 0.1))
  np.testing.assert_array_equal(gradient_BT, 0.0)


@pytest.mark.parametrize(
  ("knobs", "message"),
  [
    (dict(kind="is", level="token", low=0.0), "'is' by 'token'"),
    (dict(kind="tis", level="row", low=0.0), "'tis' by 'row'"),
    (dict(kind="tis", level="token", low=0.5), "no lower bound, got low=0.5"),
  ],
)
def test_impossible_correction_is_refused(knobs, message):
  with pytest.raises(ValueError, match=message):
    _weights(jnp.zeros((1, 1)), jnp.ones((1, 1), bool), high=2.0, **knobs)
