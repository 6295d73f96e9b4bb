import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hrl_jax.core import rewards

NAN = float("nan")


@pytest.mark.core
def test_rewards_by_hand():
  scores_PGC = np.array(
    [[[1.0, 0.0, 0.0], [1.0, 1.0, 1.0], [0.0, 0.5, 1.0], [1.0, 1.0, 0.0]]]
  )
  weights_PC = np.array([[3.0, 1.0, -2.0]])
  rewards_PG, valid_PG = rewards.rubric_rewards(scores_PGC, weights_PC)
  # Over 3 + 1 = 4: 3; 3 + 1 - 2; 0.5 - 2, which is not clipped; 3 + 1.
  np.testing.assert_allclose(rewards_PG, [[0.75, 0.5, -0.375, 1.0]])
  assert valid_PG.all()
  assert rewards_PG.dtype == np.float64


@pytest.mark.core
def test_missing_score_makes_the_reward_missing():
  # The second is met in full but for a penalty nobody could judge: read as
  # "not met", that would be a reward of 1.
  scores_PGC = np.array([[[1.0, 0.0], [1.0, NAN], [NAN, 1.0]]])
  rewards_PG, valid_PG = rewards.rubric_rewards(
    scores_PGC, np.array([[2.0, -1.0]])
  )
  np.testing.assert_array_equal(rewards_PG, [[1.0, NAN, NAN]])
  np.testing.assert_array_equal(valid_PG, [[True, False, False]])


@pytest.mark.parametrize("filler", [NAN, 0.0, 1.0, -7.0])
def test_scores_of_padding_are_ignored(filler):
  scores_PGC = np.array([[[1.0, filler, 0.0, filler]]])
  weights_PC = np.array([[1.0, 0.0, 3.0, 0.0]])
  rewards_PG, valid_PG = rewards.rubric_rewards(scores_PGC, weights_PC)
  np.testing.assert_array_equal(rewards_PG, [[0.25]])
  assert valid_PG.all()


def test_padding_changes_no_bit():
  generator = np.random.default_rng(0)
  scores_PGC = generator.random((50, 8, 13))
  weights_PC = generator.uniform(0.1, 5.0, (50, 13))
  narrow_PG, _ = rewards.rubric_rewards(scores_PGC, weights_PC)
  wide_PG, _ = rewards.rubric_rewards(
    np.pad(scores_PGC, ((0, 0), (0, 0), (2, 40)), constant_values=NAN),
    np.pad(weights_PC, ((0, 0), (2, 40))),
  )
  np.testing.assert_array_equal(wide_PG, narrow_PG)


def test_scale_of_the_weights_does_not_matter():
  scores_PGC = np.random.default_rng(0).random((3, 4, 5))
  weights_PC = np.array([[1.0, 2.0, 5.0, -1.0, 4.0]]).repeat(3, axis=0)
  small_PG, _ = rewards.rubric_rewards(scores_PGC, weights_PC)
  large_PG, _ = rewards.rubric_rewards(scores_PGC, 100 / 12 * weights_PC)
  np.testing.assert_allclose(large_PG, small_PG, rtol=1e-14)


@pytest.mark.parametrize("weights_C", [[-1.0, 0.0], [0.0, 0.0], [-2.0, -3.0]])
def test_rubric_without_positive_weight_is_refused(weights_C):
  weights_PC = np.array([[1.0, -1.0], weights_C])
  with pytest.raises(ValueError, match="row 1 has no positive weight"):
    rewards.rubric_rewards(np.ones((2, 3, 2)), weights_PC)


def test_rubric_without_criteria_is_refused():
  with pytest.raises(ValueError, match="row 0 has no positive weight"):
    rewards.rubric_rewards(np.ones((1, 2, 0)), np.ones((1, 0)))


def test_weight_that_is_not_finite_is_refused():
  with pytest.raises(ValueError, match="row 0 has a weight that is not finite"):
    rewards.rubric_rewards(np.ones((1, 2, 2)), np.array([[1.0, NAN]]))


@pytest.mark.parametrize("score", [1.5, -0.1, float("inf")])
def test_score_out_of_range_is_refused(score):
  scores_PGC = np.ones((2, 2, 2))
  scores_PGC[1, 0, 1] = score
  with pytest.raises(
    ValueError, match=r"row 1, rollout 0, criterion 1 lies outside \[0, 1\]"
  ):
    rewards.rubric_rewards(scores_PGC, np.ones((2, 2)))


@pytest.mark.core
@pytest.mark.parametrize("asarray", [np.asarray, jnp.asarray])
def test_constant_means_within_the_tolerance(asarray):
  rewards_PG = asarray(
    [[0.3, 0.3, 0.3], [0.3, 0.3 + 5e-7, 0.3], [0.3, 0.3 + 2e-6, 0.3]]
  )
  constant_P = rewards.is_constant(rewards_PG, asarray(np.ones((3, 3), bool)))
  np.testing.assert_array_equal(constant_P, [True, True, False])


@pytest.mark.parametrize("transform", [lambda f: f, jax.jit])
def test_only_valid_rewards_can_differ(transform):
  rewards_PG = jnp.array([[0.5, NAN, 0.5], [0.5, 0.9, NAN], [NAN, NAN, NAN]])
  valid_PG = jnp.array(
    [[True, False, True], [True, False, False], [False, False, False]]
  )
  constant_P = transform(rewards.is_constant)(rewards_PG, valid_PG)
  np.testing.assert_array_equal(constant_P, [True, True, True])


@pytest.mark.parametrize(
  ("group_size", "minimum"), [(2, 2), (3, 2), (4, 2), (5, 3), (8, 4), (16, 8)]
)
def test_minimum_valid_by_hand(group_size, minimum):
  assert rewards.minimum_valid(group_size) == minimum


def test_thin_group_has_fewer_than_the_minimum():
  valid_PG = np.arange(8) < np.array([[0], [3], [4], [8]])
  np.testing.assert_array_equal(
    rewards.thin(valid_PG, rewards.minimum_valid(8)),
    [True, True, False, False],
  )
