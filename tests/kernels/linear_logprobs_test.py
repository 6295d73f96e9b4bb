import jax
import jax.numpy as jnp
import numpy as np
import pytest

from kernels.linear_logprobs import linear_logprobs, linear_logprobs_reference

F, D, V = 13, 6, 37


def example(seed=0):
  keys = jax.random.split(jax.random.key(seed), 3)
  return (
    jax.random.normal(keys[0], (F, D)),
    2.0 * jax.random.normal(keys[1], (V, D)),
    jax.random.randint(keys[2], (F,), 0, V),
  )


def test_reference_by_hand():
  # Logits (0, log 3) / 1: probabilities 1/4 and 3/4.
  hidden_FD = jnp.array([[1.0]])
  weight_VD = jnp.array([[0.0], [jnp.log(3.0)]])
  logprobs_F, entropies_F = linear_logprobs_reference(
    hidden_FD, weight_VD, jnp.array([1]), temperature=1.0
  )
  np.testing.assert_allclose(logprobs_F, [np.log(0.75)], rtol=1e-6)
  entropy = 0.25 * np.log(4) + 0.75 * np.log(4 / 3)
  np.testing.assert_allclose(entropies_F, [entropy], rtol=1e-6)


@pytest.mark.core
@pytest.mark.parametrize("chunk", [1, 4, 13, 100])
@pytest.mark.parametrize("temperature", [1.0, 0.6])
def test_chunks_equal_the_reference_forward_and_backward(chunk, temperature):
  hidden_FD, weight_VD, targets_F = example()
  coefficients_F = jnp.cos(jnp.arange(F))

  def loss(function, **knobs):
    def value(hidden_FD, weight_VD):
      logprobs_F, entropies_F = function(
        hidden_FD, weight_VD, targets_F, temperature=temperature, **knobs
      )
      terms_F = coefficients_F * (logprobs_F + 0.7 * entropies_F**2)
      return terms_F.sum(), (logprobs_F, entropies_F)

    return jax.value_and_grad(value, argnums=(0, 1), has_aux=True)

  actual = loss(linear_logprobs, chunk=chunk)(hidden_FD, weight_VD)
  expected = loss(linear_logprobs_reference)(hidden_FD, weight_VD)
  jax.tree.map(
    lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5),
    actual,
    expected,
  )


def test_large_logits_do_not_overflow():
  hidden_FD, weight_VD, targets_F = example()
  logprobs_F, entropies_F = linear_logprobs(
    1e4 * hidden_FD, weight_VD, targets_F, temperature=1.0, chunk=4
  )
  assert np.isfinite(logprobs_F).all() and np.isfinite(entropies_F).all()


def test_logits_of_one_chunk_only_are_in_memory():
  hidden_FD = jnp.ones((64, D))
  weight_VD = jnp.ones((50_000, D))
  targets_F = jnp.zeros(64, jnp.int32)

  def loss(hidden_FD, weight_VD):
    logprobs_F, _ = linear_logprobs(
      hidden_FD, weight_VD, targets_F, temperature=1.0, chunk=2
    )
    return logprobs_F.sum()

  compiled = (
    jax.jit(jax.grad(loss, (0, 1))).lower(hidden_FD, weight_VD).compile()
  )
  logits_of_all = 64 * 50_000 * 4
  assert compiled.memory_analysis().temp_size_in_bytes < logits_of_all / 2


@pytest.mark.parametrize(
  ("temperature", "chunk", "message"),
  [(0.0, 4, "positive temperature"), (1.0, 0, "at least 1 token")],
)
def test_wrong_knobs_are_refused(temperature, chunk, message):
  with pytest.raises(ValueError, match=message):
    linear_logprobs(*example(), temperature=temperature, chunk=chunk)
