import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hrl_jax.core import advantages, rewards

REWARDS_PG = jnp.array([[1.0, 2.0, 3.0], [0.0, 0.0, 6.0]])
VALID_PG = jnp.ones((2, 3), bool)

VARIANTS = {
  "population": advantages.estimator("group_normalized", ddof=0),
  "sample": advantages.estimator("group_normalized", ddof=1),
  "centred": advantages.estimator("group_centred", ddof=0),
  "leave_one_out": advantages.estimator("leave_one_out", ddof=0),
}
EAGER = pytest.mark.parametrize(
  "estimator", VARIANTS.values(), ids=VARIANTS.keys()
)
EAGER_AND_JITTED = pytest.mark.parametrize(
  "estimator",
  [*VARIANTS.values(), *map(jax.jit, VARIANTS.values())],
  ids=[*VARIANTS, *(f"{name}_jitted" for name in VARIANTS)],
)


@pytest.mark.core
def test_leave_one_out_by_hand():
  # Row 0: 1 - (2 + 3) / 2, 2 - (1 + 3) / 2, 3 - (1 + 2) / 2.
  expected_PG = [[-1.5, 0.0, 1.5], [-3.0, -3.0, 6.0]]
  actual_PG = advantages.leave_one_out(REWARDS_PG, VALID_PG)
  np.testing.assert_allclose(actual_PG, expected_PG, rtol=1e-6)


@pytest.mark.core
def test_group_centred_by_hand():
  # Both means are 2.
  expected_PG = [[-1.0, 0.0, 1.0], [-2.0, -2.0, 4.0]]
  actual_PG = advantages.group_centred(REWARDS_PG, VALID_PG)
  np.testing.assert_allclose(actual_PG, expected_PG, rtol=1e-6)


@pytest.mark.core
def test_group_normalized_by_hand():
  # Row 1: squares 4, 4 and 16. Population: sqrt(24 / 3) = 2 sqrt(2). Sample:
  # sqrt(24 / 2) = 2 sqrt(3).
  population_PG = advantages.group_normalized(REWARDS_PG, VALID_PG, ddof=0)
  sample_PG = advantages.group_normalized(REWARDS_PG, VALID_PG, ddof=1)
  root2, root3 = 2**0.5, 3**0.5
  np.testing.assert_allclose(
    population_PG[1], [-1 / root2, -1 / root2, root2], rtol=1e-5
  )
  np.testing.assert_allclose(
    sample_PG[1], [-1 / root3, -1 / root3, 2 / root3], rtol=1e-5
  )


@pytest.mark.parametrize("ddof", [0, 1])
def test_group_normalized_matches_numpy(ddof):
  rewards_PG = np.random.default_rng(0).normal(size=(4, 8)).astype(np.float32)
  centred_PG = rewards_PG - rewards_PG.mean(axis=1, keepdims=True)
  std_P1 = rewards_PG.std(axis=1, keepdims=True, ddof=ddof)
  actual_PG = advantages.group_normalized(
    jnp.asarray(rewards_PG), jnp.ones((4, 8), bool), ddof=ddof, epsilon=0.01
  )
  np.testing.assert_allclose(
    actual_PG, centred_PG / (std_P1 + 0.01), rtol=1e-5, atol=1e-6
  )


@pytest.mark.parametrize("passes", range(1, 8))
def test_mean_size_on_binary_groups_is_known(passes):
  # k of 8 pass. RLOO: 2 k (8 - k) / 56 (K-2). Sample deviation: sqrt(7/8) 2
  # sqrt(k/8 (1 - k/8)).
  rewards_PG = (jnp.arange(8) < passes).astype(jnp.float32)[None]
  valid_PG = jnp.ones((1, 8), bool)
  share = passes / 8
  rloo_PG = advantages.leave_one_out(rewards_PG, valid_PG)
  sample_PG = advantages.group_normalized(rewards_PG, valid_PG, ddof=1)
  np.testing.assert_allclose(
    jnp.abs(rloo_PG).mean(), 2 * passes * (8 - passes) / 56, rtol=1e-5
  )
  np.testing.assert_allclose(
    jnp.abs(sample_PG).mean(),
    (7 / 8) ** 0.5 * 2 * (share * (1 - share)) ** 0.5,
    rtol=1e-5,
  )


@EAGER_AND_JITTED
def test_each_group_sums_to_zero(estimator):
  advantages_PG = estimator(REWARDS_PG, VALID_PG)
  np.testing.assert_allclose(advantages_PG.sum(axis=1), 0.0, atol=1e-5)
  assert jnp.abs(advantages_PG).max() > 0.5


@pytest.mark.core
@EAGER_AND_JITTED
def test_ungraded_rollout_changes_nothing(estimator):
  valid_PG = jnp.array([[True, True, False, True]])
  with_nan_PG = estimator(jnp.array([[1.0, 2.0, jnp.nan, 4.0]]), valid_PG)
  without_PG = estimator(jnp.array([[1.0, 2.0, 4.0]]), jnp.ones((1, 3), bool))
  np.testing.assert_allclose(
    with_nan_PG[:, jnp.array([0, 1, 3])], without_PG, rtol=1e-6
  )
  assert with_nan_PG[0, 2] == 0.0


@EAGER
def test_ungraded_rollout_leaves_other_groups_bitwise_unchanged(estimator):
  rewards_PG = jax.random.normal(jax.random.key(0), (4, 8))
  valid_PG = jnp.ones((4, 8), bool)
  all_PG = estimator(rewards_PG, valid_PG)
  lost_PG = estimator(
    rewards_PG.at[1, 5].set(jnp.nan), valid_PG.at[1, 5].set(False)
  )
  others = jnp.array([0, 2, 3])
  np.testing.assert_array_equal(lost_PG[others], all_PG[others])
  assert jnp.isfinite(lost_PG).all()


@pytest.mark.core
@EAGER_AND_JITTED
@pytest.mark.parametrize("noise", [0.0, 3e-8, 4e-7])
def test_group_without_contrast_gets_exactly_nothing(estimator, noise):
  # The float32 mean of five rewards of 0.3 is not 0.3.
  rewards_PG = jnp.full((2, 5), 0.3, jnp.float32)
  rewards_PG += noise * jnp.array([[1.0, -1.0, 0.0, 1.0, -1.0]])
  advantages_PG = estimator(rewards_PG, jnp.ones((2, 5), bool))
  np.testing.assert_array_equal(advantages_PG, 0.0)


@EAGER
def test_contrast_just_above_the_tolerance_counts(estimator):
  rewards_PG = jnp.array([[0.0, 2 * rewards.TOLERANCE]])
  advantages_PG = estimator(rewards_PG, jnp.ones((1, 2), bool))
  assert (advantages_PG[0, 1] > 0) and (advantages_PG[0, 0] < 0)


@EAGER
@pytest.mark.parametrize("count", [0, 1])
def test_fewer_than_two_valid_rollouts_get_nothing(estimator, count):
  rewards_PG = jnp.array([[0.7, jnp.nan, jnp.nan]])
  valid_PG = jnp.arange(3)[None] < count
  advantages_PG = estimator(rewards_PG, valid_PG)
  np.testing.assert_array_equal(advantages_PG, 0.0)


@EAGER
def test_order_in_the_group_does_not_matter(estimator):
  order = jnp.array([2, 0, 1])
  np.testing.assert_allclose(
    estimator(REWARDS_PG[:, order], VALID_PG),
    estimator(REWARDS_PG, VALID_PG)[:, order],
    rtol=1e-6,
  )


@pytest.mark.core
def test_draws_of_one_task_are_groups_of_their_own():
  # One task drawn twice: had the draws been merged into one group, the second,
  # constant draw would get an advantage.
  rewards_PG = jnp.array([[0.0, 1.0], [1.0, 1.0]])
  advantages_PG = advantages.group_centred(rewards_PG, jnp.ones((2, 2), bool))
  np.testing.assert_array_equal(advantages_PG, [[-0.5, 0.5], [0.0, 0.0]])


@EAGER
def test_group_of_one_is_refused(estimator):
  with pytest.raises(ValueError, match="at least 2 rollouts"):
    estimator(jnp.ones((3, 1)), jnp.ones((3, 1), bool))


def test_other_ddof_is_refused():
  with pytest.raises(ValueError, match="ddof=2"):
    advantages.group_normalized(REWARDS_PG, VALID_PG, ddof=2)


def test_unknown_estimator_is_refused():
  with pytest.raises(ValueError, match=r"'gae'.*group_normalized"):
    advantages.estimator("gae", ddof=0)


@pytest.mark.parametrize("name", advantages.ESTIMATORS)
def test_knobs_are_bound(name):
  estimator = advantages.estimator(name, ddof=1, epsilon=0.5)
  knobs = dict(ddof=1, epsilon=0.5) if name == "group_normalized" else {}
  np.testing.assert_array_equal(
    estimator(REWARDS_PG, VALID_PG),
    advantages.ESTIMATORS[name](REWARDS_PG, VALID_PG, **knobs),
  )


def test_wrong_rank_is_refused():
  with pytest.raises(Exception, match="rewards_PG"):
    advantages.leave_one_out(jnp.ones(3), jnp.ones(3, bool))
