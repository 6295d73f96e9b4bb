import jax
import numpy as np
import pytest
import scipy.stats

from hrl_jax.core import task_sampling

LEVELS = np.array([1.0, 0.61, 0.38, 0.17])


def _end_state() -> np.ndarray:
  # 10,000 tasks as at the end of the paper's run (H-32): 48 % at full weight,
  # 8 % at the lowest, the remainder split.
  return LEVELS.repeat([4800, 2200, 2200, 800])


@pytest.mark.core
def test_probabilities_and_importance_by_hand():
  weights_N = np.array([1.0, 0.5, 0.5])
  np.testing.assert_allclose(
    task_sampling.probabilities(weights_N), [0.5, 0.25, 0.25]
  )
  # u = 1 / (3 p): 2/3, 4/3, 4/3.
  np.testing.assert_allclose(
    task_sampling.importance_weights(weights_N), [2 / 3, 4 / 3, 4 / 3]
  )


@pytest.mark.core
@pytest.mark.parametrize("seed", range(3))
def test_importance_weights_have_mean_one_under_the_draws(seed):
  weights_N = np.random.default_rng(seed).choice(LEVELS, 8600)
  importance_N = task_sampling.importance_weights(weights_N)
  mean = task_sampling.probabilities(weights_N) @ importance_N
  np.testing.assert_allclose(mean, 1.0, rtol=1e-13)


def test_every_task_keeps_its_uniform_share():
  weights_N = _end_state()
  shares_N = task_sampling.probabilities(
    weights_N
  ) * task_sampling.importance_weights(weights_N)
  np.testing.assert_allclose(shares_N, 1 / len(weights_N), rtol=1e-12)


@pytest.mark.core
def test_equal_weights_have_importance_exactly_one():
  # So a harness that never reweights trains bitwise as GRPO does.
  importance_N = task_sampling.importance_weights(np.ones(8600))
  np.testing.assert_array_equal(importance_N, 1.0)


@pytest.mark.core
def test_end_state_of_the_paper():
  weights_N = _end_state()
  # mean w = .48 + .22 * .61 + .22 * .38 + .08 * .17 = 0.7114
  # mean 1/w = .48 + .22 / .61 + .22 / .38 + .08 / .17 = 1.890192
  # share = 1 / (0.7114 * 1.890192) = 0.74367
  size = task_sampling.effective_sample_size(weights_N)
  np.testing.assert_allclose(size, 0.74367, atol=1e-5)
  importance_N = task_sampling.importance_weights(weights_N)
  np.testing.assert_allclose(importance_N.min(), 0.7114, atol=1e-6)
  np.testing.assert_allclose(importance_N.max(), 0.7114 / 0.17, atol=1e-6)


def test_effective_sample_size_is_that_of_the_weighted_draws():
  weights_N = _end_state()
  probabilities_N = task_sampling.probabilities(weights_N)
  importance_N = task_sampling.importance_weights(weights_N)
  expected = 1 / (probabilities_N @ importance_N**2)
  size = task_sampling.effective_sample_size(weights_N)
  np.testing.assert_allclose(size, expected, rtol=1e-12)
  equal = task_sampling.effective_sample_size(np.full(7, 0.38))
  np.testing.assert_allclose(equal, 1.0, rtol=1e-15)


@pytest.mark.core
@pytest.mark.parametrize("seed", range(3))
def test_frequencies_match_the_probabilities(seed):
  weights_N = np.array([1.0, 0.61, 0.38, 0.17, 1.0, 0.17, 0.61])
  num_tasks = 20_000
  tasks_P = task_sampling.draw(jax.random.key(seed), weights_N, num_tasks)
  expected_N = num_tasks * weights_N / weights_N.sum()
  observed_N = np.bincount(tasks_P, minlength=len(weights_N))
  statistic = ((observed_N - expected_N) ** 2 / expected_N).sum()
  assert statistic < scipy.stats.chi2.ppf(0.999, len(weights_N) - 1)


def test_draws_of_a_step_are_independent():
  # Pairs of neighbours over 3 tasks: 9 cells, 4 degrees of freedom.
  weights_N = np.array([1.0, 0.5, 0.25])
  tasks_P = task_sampling.draw(jax.random.key(0), weights_N, 40_000)
  pairs = np.zeros((3, 3))
  np.add.at(pairs, (tasks_P[::2], tasks_P[1::2]), 1)
  _, p_value, _, _ = scipy.stats.chi2_contingency(pairs)
  assert p_value > 0.001


def test_uniform_draws_have_the_expected_duplicates():
  # 512 * 511 / (2 * 8600) = 15.2 pairs a step (H-13), so 20 steps hold 304,
  # with a deviation of about sqrt(304) = 17.
  pairs = 0
  for step in range(20):
    key = jax.random.fold_in(jax.random.key(0), step)
    tasks_P = task_sampling.draw(key, np.ones(8600), 512)
    counts = np.bincount(tasks_P)
    pairs += (counts * (counts - 1) // 2).sum()
  assert abs(pairs - 304) < 4 * 17


@pytest.mark.core
def test_draws_depend_on_the_key_only():
  key = jax.random.fold_in(jax.random.key(3), 40)
  weights_N = _end_state()
  first_P = task_sampling.draw(key, weights_N, 64)
  again_P = task_sampling.draw(key, weights_N.copy(), 64)
  other_P = task_sampling.draw(jax.random.fold_in(key, 1), weights_N, 64)
  np.testing.assert_array_equal(first_P, again_P)
  assert (first_P != other_P).mean() > 0.9


@pytest.mark.core
def test_draws_are_the_same_on_every_machine():
  # Recorded once: a change of these numbers breaks every recorded run.
  tasks_P = task_sampling.draw(jax.random.key(0), _end_state(), 6)
  np.testing.assert_array_equal(tasks_P, [8578, 9156, 2363, 3334, 4054, 1177])


def test_raising_a_weight_moves_no_draw_away_from_it():
  key = jax.random.key(1)
  before_P = task_sampling.draw(key, np.array([0.2, 1.0, 1.0]), 500)
  after_P = task_sampling.draw(key, np.array([0.9, 1.0, 1.0]), 500)
  assert (after_P[before_P == 0] == 0).all()
  assert (after_P == 0).sum() > (before_P == 0).sum()


def test_one_task_is_always_drawn():
  tasks_P = task_sampling.draw(jax.random.key(0), np.array([0.17]), 5)
  np.testing.assert_array_equal(tasks_P, 0)


@pytest.mark.parametrize("weight", [0.0, -1.0, float("nan"), float("inf")])
@pytest.mark.parametrize(
  "function",
  [
    task_sampling.probabilities,
    task_sampling.importance_weights,
    task_sampling.effective_sample_size,
    lambda weights_N: task_sampling.draw(jax.random.key(0), weights_N, 2),
  ],
)
def test_impossible_weight_is_refused(function, weight):
  with pytest.raises(ValueError, match=f"Task 1 has sampling weight {weight}"):
    function(np.array([1.0, weight, 1.0]))


def test_empty_bank_is_refused():
  with pytest.raises(ValueError, match="the bank is empty"):
    task_sampling.probabilities(np.ones(0))
