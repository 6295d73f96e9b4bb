import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hrl_jax.model import selection

EVERYTHING = selection.Knobs(temperature=1.0, top_p=1.0, top_k=0)
# The largest float32 below 1.
ALMOST_ONE = np.float32(1 - 2.0**-24)


def draw(probabilities_BV, uniforms_B, knobs=EVERYTHING):
  with np.errstate(divide="ignore"):
    logits_BV = np.log(np.asarray(probabilities_BV, np.float64))
  return jax.jit(selection.draw, static_argnums=2)(
    jnp.asarray(logits_BV, jnp.float32),
    jnp.asarray(uniforms_B, jnp.float32),
    knobs,
  )


def draw_evenly(probabilities_V, knobs, number=1000):
  """Draws at `number` evenly spaced uniforms; counts and log-probabilities."""
  uniforms_B = (np.arange(number) + 0.5) / number
  probabilities_BV = np.tile(probabilities_V, (number, 1))
  drawn = draw(probabilities_BV, uniforms_B, knobs)
  return np.bincount(drawn.tokens_B, minlength=len(probabilities_V)), drawn


def random_logits(rows, size, seed=0):
  rng = np.random.default_rng(seed)
  return rng.normal(size=(rows, size)).astype(np.float32) * 3


def kept_by_sorting(logits_V, knobs):
  """The filters as they are defined, in float64: True where a token stays."""
  exponents_V = (logits_V.astype(np.float64) - logits_V.max()) / (
    knobs.temperature
  )
  powers_V = np.exp(exponents_V)
  kept_V = np.ones(len(powers_V), bool)
  if knobs.top_k:
    kept_V = powers_V >= np.sort(powers_V)[-knobs.top_k]
  order = np.argsort(-np.where(kept_V, powers_V, -1))
  mass = np.cumsum(powers_V[order] / powers_V[kept_V].sum())
  last = order[np.searchsorted(mass, knobs.top_p)] if knobs.top_p < 1 else -1
  return kept_V & (powers_V >= (powers_V[last] if last >= 0 else 0))


@pytest.mark.core
@pytest.mark.parametrize("transform", [lambda f: f, jax.jit])
def test_uniforms_pick_tokens_in_vocabulary_order(transform):
  # Cumulative 0.1, 0.3, 0.6, 1.0: a uniform of 0.3 or a little less is token
  # 1, one past it token 2.
  logits_BV = jnp.log(jnp.tile(jnp.array([[0.1, 0.2, 0.3, 0.4]]), (6, 1)))
  uniforms_B = jnp.array([0.0, 0.09, 0.11, 0.29, 0.31, 0.999])
  draw = transform(lambda z, u: selection.draw(z, u, EVERYTHING))
  drawn = draw(logits_BV, uniforms_B)
  np.testing.assert_array_equal(drawn.tokens_B, [0, 0, 1, 1, 2, 3])
  expected_B = np.log([0.1, 0.1, 0.2, 0.2, 0.3, 0.4])
  np.testing.assert_allclose(drawn.logprobs_B, expected_B, rtol=1e-5)
  np.testing.assert_array_equal(drawn.logprobs_B, drawn.drawn_logprobs_B)


def test_a_uniform_on_a_boundary_is_the_next_token():
  # Quarters are exact in float32.
  drawn = selection.draw(
    jnp.zeros((4, 4)), jnp.array([0.0, 0.25, 0.5, 0.75]), EVERYTHING
  )
  np.testing.assert_array_equal(drawn.tokens_B, [0, 1, 2, 3])


@pytest.mark.core
def test_top_p_keeps_the_smallest_set_that_reaches_it_and_renormalises():
  # 0.5 alone is less than 0.7, 0.5 + 0.3 is not: two tokens stay, and are
  # drawn with 5/8 and 3/8.
  counts_V, drawn = draw_evenly(
    [0.05, 0.5, 0.15, 0.3], EVERYTHING._replace(top_p=0.7)
  )
  np.testing.assert_array_equal(counts_V, [0, 625, 0, 375])
  chose_1 = np.asarray(drawn.tokens_B) == 1
  np.testing.assert_allclose(
    drawn.logprobs_B, np.where(chose_1, np.log(0.5), np.log(0.3)), rtol=1e-5
  )
  np.testing.assert_allclose(
    drawn.drawn_logprobs_B,
    np.where(chose_1, np.log(5 / 8), np.log(3 / 8)),
    rtol=1e-5,
  )


def test_a_top_p_below_the_largest_probability_keeps_that_token_only():
  counts_V, _ = draw_evenly([0.3, 0.6, 0.1], EVERYTHING._replace(top_p=0.01))
  np.testing.assert_array_equal(counts_V, [0, 1000, 0])


def test_top_k_keeps_tokens_as_probable_as_the_last_one():
  # The second most probable is one of a pair: three tokens stay.
  counts_V, drawn = draw_evenly(
    [0.2, 0.4, 0.2, 0.15, 0.05], EVERYTHING._replace(top_k=2)
  )
  np.testing.assert_array_equal(counts_V, [250, 500, 250, 0, 0])
  np.testing.assert_allclose(
    np.exp(drawn.drawn_logprobs_B - drawn.logprobs_B), 1 / 0.8, rtol=1e-5
  )


def test_a_top_p_tie_stays():
  # 0.4 + 0.2 reaches 0.6 and so would the other 0.2.
  counts_V, _ = draw_evenly(
    [0.2, 0.4, 0.2, 0.2], EVERYTHING._replace(top_p=0.55)
  )
  np.testing.assert_array_equal(counts_V, [200, 400, 200, 200])


def test_top_p_is_of_what_top_k_left():
  # After top-k 3 the tokens have 4/9, 3/9, 2/9: two of them reach 0.75. Of
  # the whole, 0.4 + 0.3 would not, and three would stay.
  knobs = EVERYTHING._replace(top_k=3, top_p=0.75)
  counts_V, _ = draw_evenly([0.4, 0.3, 0.2, 0.1], knobs, number=700)
  np.testing.assert_array_equal(counts_V, [400, 300, 0, 0])


def test_temperature_comes_before_the_filters():
  # Squared and renormalised by temperature 0.5: 25/38, 9/38, 4/38. Two of
  # them reach 0.85, and have 25/34 and 9/34.
  knobs = EVERYTHING._replace(temperature=0.5, top_p=0.85)
  counts_V, drawn = draw_evenly([0.5, 0.3, 0.2], knobs, number=340)
  np.testing.assert_array_equal(counts_V, [250, 90, 0])
  np.testing.assert_allclose(drawn.logprobs_B[0], np.log(25 / 38), rtol=1e-5)
  np.testing.assert_allclose(
    drawn.drawn_logprobs_B[0], np.log(25 / 34), rtol=1e-5
  )


@pytest.mark.core
@pytest.mark.parametrize(
  "knobs",
  [
    EVERYTHING,
    selection.Knobs(0.7, 1.0, 0),
    selection.Knobs(1.0, 0.9, 0),
    selection.Knobs(1.3, 1.0, 5),
    selection.Knobs(0.7, 0.9, 40),
    selection.Knobs(0.7, 0.999999, 299),
    selection.Knobs(1.0, 0.9, 1000),
  ],
)
def test_draws_are_those_of_sorting_and_a_float64_inverse(knobs):
  # 300 is no multiple of the block, and more than two of them.
  logits_BV = random_logits(64, 300)
  uniforms_B = np.random.default_rng(1).random(64).astype(np.float32)
  drawn = selection.draw(jnp.asarray(logits_BV), jnp.asarray(uniforms_B), knobs)
  limited = knobs._replace(top_k=min(knobs.top_k, 300))
  for row, logits_V in enumerate(logits_BV):
    weights_V = np.exp(logits_V.astype(np.float64) / knobs.temperature)
    kept_V = np.where(kept_by_sorting(logits_V, limited), weights_V, 0)
    ends_V = np.cumsum(kept_V)
    token = np.searchsorted(ends_V, uniforms_B[row] * ends_V[-1], "right")
    assert drawn.tokens_B[row] == token
    np.testing.assert_allclose(
      [drawn.logprobs_B[row], drawn.drawn_logprobs_B[row]],
      np.log(weights_V[token] / np.array([weights_V.sum(), kept_V.sum()])),
      atol=1e-5,
    )


@pytest.mark.parametrize("top_p", [1.0, 0.9])
@pytest.mark.parametrize("place", [0, 127, 128, 299])
def test_a_certain_token_is_drawn_at_any_uniform(place, top_p):
  probabilities_V = np.zeros(300)
  probabilities_V[place] = 1.0
  drawn = draw(
    np.tile(probabilities_V, (3, 1)),
    [0.0, 0.5, ALMOST_ONE],
    EVERYTHING._replace(top_p=top_p),
  )
  np.testing.assert_array_equal(drawn.tokens_B, place)
  np.testing.assert_array_equal(drawn.logprobs_B, 0.0)
  np.testing.assert_array_equal(drawn.drawn_logprobs_B, 0.0)


@pytest.mark.core
@pytest.mark.parametrize("top_p", [1.0, 0.9])
@pytest.mark.parametrize("uniform", [0.0, ALMOST_ONE])
def test_no_uniform_draws_a_token_of_probability_zero(uniform, top_p):
  # Both ends of the vocabulary and of every block of 128 are impossible. In
  # half a percent of the rows the largest uniform lies past the rounded end of
  # the last cumulative sum.
  logits_BV = random_logits(1000, 1000, seed=2)
  impossible_BV = np.random.default_rng(3).random((1000, 1000)) < 0.5
  impossible_BV[:, :130] = impossible_BV[:, -130:] = True
  impossible_BV[:, ::128] = impossible_BV[:, 127::128] = True
  logits_BV[impossible_BV] = -np.inf
  # Possible by its logit, but its exponential is zero in float32.
  logits_BV[:, [3, -3]] = -500.0
  drawn = jax.jit(selection.draw, static_argnums=2)(
    jnp.asarray(logits_BV),
    jnp.full(1000, uniform, jnp.float32),
    EVERYTHING._replace(top_p=top_p),
  )
  chosen_B = logits_BV[np.arange(1000), drawn.tokens_B]
  assert (chosen_B > -100).all()
  assert np.isfinite(drawn.drawn_logprobs_B).all()


def test_a_cumulative_sum_that_rises_over_nothing_is_not_followed():
  # Rounding in another order may lift the sum over a weight of zero: the
  # target 1 is passed there, but belongs to the next token.
  place_B = selection._first_past(
    jnp.array([[1.0], [0.0], [1.0]]),
    jnp.array([[1.0], [1.0000001], [2.0]]),
    jnp.array([1.0]),
  )
  np.testing.assert_array_equal(place_B, [2])


def test_equal_probabilities_are_cut_evenly_over_a_large_vocabulary():
  # 2^15 equal tokens: each uniform i / 2^15 + a little is token i.
  size = 2**15
  tokens_B = np.arange(0, size, 997)
  logits_BV = jnp.zeros((len(tokens_B), size))
  uniforms_B = jnp.asarray((tokens_B + 0.5) / size, jnp.float32)
  drawn = selection.draw(logits_BV, uniforms_B, EVERYTHING)
  np.testing.assert_array_equal(drawn.tokens_B, tokens_B)
  np.testing.assert_allclose(drawn.logprobs_B, -np.log(size), rtol=1e-6)


@pytest.mark.core
@pytest.mark.parametrize("knobs", [EVERYTHING, selection.Knobs(0.7, 0.9, 20)])
def test_a_row_alone_draws_what_it_draws_in_a_batch(knobs):
  logits_BV = jnp.asarray(random_logits(9, 300, seed=4))
  uniforms_B = jax.random.uniform(jax.random.key(0), (9,))
  together = selection.draw(logits_BV, uniforms_B, knobs)
  for row in range(9):
    one = slice(row, row + 1)
    alone = selection.draw(logits_BV[one], uniforms_B[one], knobs)
    assert alone.tokens_B[0] == together.tokens_B[row]
    np.testing.assert_allclose(
      alone.logprobs_B[0], together.logprobs_B[row], atol=1e-6
    )


def test_temperature_zero_takes_the_most_probable_token():
  logits_BV = random_logits(5, 300, seed=5)
  drawn = selection.draw(
    jnp.asarray(logits_BV),
    jnp.full(5, 0.99),
    selection.Knobs(temperature=0.0, top_p=0.5, top_k=3),
  )
  np.testing.assert_array_equal(drawn.tokens_B, logits_BV.argmax(axis=1))
  expected_B = logits_BV.max(axis=1) - np.log(np.exp(logits_BV).sum(axis=1))
  np.testing.assert_allclose(drawn.logprobs_B, expected_B, atol=1e-5)
  np.testing.assert_array_equal(drawn.drawn_logprobs_B, 0.0)
