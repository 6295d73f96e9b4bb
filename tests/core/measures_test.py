import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hrl_jax.core import measures


def _measured(**changes):
  # Ratios 1, 2 and, not counted, 9; KL of the second 1 - log 2 on the other
  # side of k3: log r = log 2.
  arrays = dict(
    logprobs_BT=jnp.log(jnp.array([[0.4, 0.4, 0.9]])),
    old_logprobs_BT=jnp.log(jnp.array([[0.4, 0.2, 0.1]])),
    counts_BT=jnp.array([[True, True, False]]),
    clipped_BT=jnp.array([[False, True, True]]),
    ref_logprobs_BT=jnp.log(jnp.array([[0.4, 0.8, 0.1]])),
    sampler_logprobs_BT=jnp.log(jnp.array([[0.4, 0.4, 0.9]])),
    entropies_BT=jnp.array([[1.0, 2.0, 9.0]]),
    correction_BT=jnp.array([[1.0, 0.5, 0.0]]),
  )
  return measures.measure(**arrays | changes)


@pytest.mark.core
@pytest.mark.parametrize("transform", [lambda f: f, jax.jit])
def test_metrics_by_hand(transform):
  metrics = transform(lambda: measures.finalise(_measured()))()
  expected = {
    "tokens": 2.0,
    "clip_fraction": 0.5,
    "ratio_mean": 1.5,
    "ratio_max": 2.0,
    "kl": (0 + 1 - np.log(2)) / 2,  # r = 2: (r - 1) - log r
    "entropy": 1.5,
    "mismatch_mean": np.log(2) / 2,
    "mismatch_max": np.log(2),
    "correction_mean": 0.75,
  }
  assert metrics.keys() == expected.keys()
  for name, value in expected.items():
    np.testing.assert_allclose(metrics[name], value, rtol=1e-6, err_msg=name)


@pytest.mark.core
def test_what_is_not_measured_is_absent():
  measured = _measured(
    ref_logprobs_BT=None,
    sampler_logprobs_BT=None,
    entropies_BT=None,
    correction_BT=None,
  )
  both = measures.combine(measured, measured)
  assert measures.finalise(both).keys() == {
    "tokens",
    "clip_fraction",
    "ratio_mean",
    "ratio_max",
  }


@pytest.mark.core
def test_sums_add_and_maxima_do_not():
  calm = _measured(counts_BT=jnp.array([[True, False, False]]))
  both = measures.finalise(measures.combine(calm, _measured()))
  assert both["tokens"] == 3.0
  np.testing.assert_allclose(both["ratio_mean"], (1 + 1 + 2) / 3, rtol=1e-6)
  np.testing.assert_allclose(both["ratio_max"], 2.0, rtol=1e-6)


def test_zeros_contribute_nothing():
  measured = _measured()
  zeros = jax.tree.map(jnp.zeros_like, measured)
  both = measures.combine(zeros, measured)
  jax.tree.map(np.testing.assert_array_equal, both, measured)


def test_without_a_token_the_metrics_are_missing():
  metrics = measures.finalise(_measured(counts_BT=jnp.zeros((1, 3), bool)))
  assert metrics.pop("tokens") == 0.0
  assert all(jnp.isnan(value) for value in metrics.values())
