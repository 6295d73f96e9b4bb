import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hrl_jax.core import losses
from tests.core import toy

_row_weights = jax.jit(
  losses.row_weights, static_argnames=("aggregation", "max_tokens")
)


def _weights(aggregation, **changes):
  arrays = dict(
    lengths_B=toy.LENGTHS_B,
    group_B=toy.GROUP_B,
    importance_P=toy.IMPORTANCE_P,
    valid_B=toy.VALID_B,
    num_groups=3,
    max_tokens=toy.MAX_TOKENS,
  )
  return _row_weights(aggregation=aggregation, **arrays | changes)


@pytest.mark.core
def test_row_weights_by_hand():
  # Two groups, u = 1/2 and 2. Group 0: rows of 4, 2 and 1 tokens, the last
  # ungraded. Group 1: one rollout of 3 tokens.
  weights = functools.partial(
    losses.row_weights,
    jnp.array([4, 2, 1, 3]),
    jnp.array([0, 0, 0, 1]),
    jnp.array([0.5, 2.0]),
    jnp.array([True, True, False, True]),
    2,
    max_tokens=10,
  )
  expected = {
    # u / (2 |V| T): .5 / (2 * 2 * 4), .5 / (2 * 2 * 2), 0, 2 / (2 * 1 * 3).
    "sequence_mean_token_mean": [1 / 32, 1 / 16, 0, 1 / 3],
    # u / (2 |V| 10): .5 / 40, .5 / 40, 0, 2 / 20.
    "sequence_mean_token_sum_norm": [1 / 80, 1 / 80, 0, 1 / 10],
    # u over 4 + 2 + 3 tokens.
    "token_mean": [0.5 / 9, 0.5 / 9, 0, 2 / 9],
  }
  assert set(expected) == set(losses.AGGREGATIONS)
  for aggregation, expected_B in expected.items():
    np.testing.assert_allclose(
      weights(aggregation=aggregation), expected_B, rtol=1e-6
    )


@pytest.mark.core
def test_divisor_is_the_number_of_groups_drawn():
  # Never the sum of u, nor the groups that have a valid rollout: a term of 1
  # everywhere gives the mean of u over all three groups, 0 for the lost one.
  valid_B = toy.GROUP_B != 1
  weights_B = _weights("sequence_mean_token_mean", valid_B=valid_B)
  loss = jnp.sum(weights_B * toy.LENGTHS_B)
  np.testing.assert_allclose(loss, (0.7 + 0.0 + 4.0) / 3, rtol=1e-6)


@toy.AGGREGATIONS
def test_weights_are_proportional_to_importance(aggregation):
  np.testing.assert_allclose(
    _weights(aggregation),
    toy.IMPORTANCE_P[toy.GROUP_B]
    * _weights(aggregation, importance_P=jnp.ones(3)),
    rtol=1e-6,
  )


@pytest.mark.core
@toy.AGGREGATIONS
def test_rows_without_a_token_or_not_valid_weigh_nothing(aggregation):
  # Row 1 has lost its tokens; of the rest of its group, nobody may notice but
  # that V shrinks, as if the row were not there.
  lengths_B = toy.LENGTHS_B.at[1].set(0)
  weights_B = _weights(aggregation, lengths_B=lengths_B)
  absent_B = _weights(aggregation, valid_B=toy.VALID_B.at[1].set(False))
  assert weights_B[1] == 0.0 and weights_B[5] == 0.0
  np.testing.assert_array_equal(weights_B, absent_B)
  nothing_B = _weights(aggregation, lengths_B=jnp.zeros_like(toy.LENGTHS_B))
  np.testing.assert_array_equal(nothing_B, 0.0)


@pytest.mark.core
@toy.AGGREGATIONS
def test_padding_rows_change_nothing(aggregation):
  padded_B = _row_weights(
    jnp.append(toy.LENGTHS_B, jnp.array([0, 9])),
    jnp.append(toy.GROUP_B, jnp.array([0, 77])),
    toy.IMPORTANCE_P,
    jnp.append(toy.VALID_B, jnp.array([True, False])),
    3,
    aggregation=aggregation,
    max_tokens=toy.MAX_TOKENS,
    rollout_B=jnp.append(jnp.arange(12), jnp.array([0, 0])),
  )
  np.testing.assert_array_equal(padded_B[:12], _weights(aggregation))
  np.testing.assert_array_equal(padded_B[12:], 0.0)


@pytest.mark.core
@toy.AGGREGATIONS
def test_rows_of_one_rollout_share_its_weight(aggregation):
  # Rollouts of 3 + 2, 4 and 1 tokens, as four rows and as three.
  knobs = dict(aggregation=aggregation, max_tokens=toy.MAX_TOKENS)
  parts_B = _row_weights(
    jnp.array([3, 4, 2, 1]),
    jnp.array([0, 0, 0, 1]),
    jnp.array([0.5, 2.0]),
    jnp.ones(4, bool),
    2,
    rollout_B=jnp.array([900, 3, 900, 41]),
    **knobs,
  )
  whole_B = _row_weights(
    jnp.array([5, 4, 1]),
    jnp.array([0, 0, 1]),
    jnp.array([0.5, 2.0]),
    jnp.ones(3, bool),
    2,
    **knobs,
  )
  np.testing.assert_array_equal(parts_B, whole_B[jnp.array([0, 1, 0, 2])])


@pytest.mark.core
def test_two_draws_of_a_task_count_as_two_groups():
  # A task drawn twice, beside another: P is 3, and each draw brings its u.
  weights_B = losses.row_weights(
    jnp.array([2, 2, 2, 2, 2, 2]),
    jnp.array([0, 0, 1, 1, 2, 2]),
    jnp.array([0.5, 0.5, 2.0]),
    jnp.ones(6, bool),
    3,
    aggregation="sequence_mean_token_mean",
    max_tokens=2,
  )
  np.testing.assert_allclose(weights_B[:4], 0.5 / (3 * 2 * 2), rtol=1e-6)
  np.testing.assert_allclose(weights_B[4:], 2.0 / (3 * 2 * 2), rtol=1e-6)


def test_a_large_batch_does_not_overflow():
  # 512 * 8 * 1,000,000 passes 2^31.
  weights_B = losses.row_weights(
    jnp.full(8, 1_000_000),
    jnp.zeros(8, int),
    jnp.ones(1),
    jnp.ones(8, bool),
    512,
    aggregation="sequence_mean_token_mean",
    max_tokens=1_000_000,
  )
  np.testing.assert_allclose(weights_B, 1 / (512 * 8 * 1e6), rtol=1e-6)


def test_unknown_aggregation_is_refused():
  with pytest.raises(ValueError, match=r"'mean'.*token_mean"):
    _weights("mean")
