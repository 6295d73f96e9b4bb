import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hrl_jax.evaluation import pairs

pytestmark = pytest.mark.core

NAN = float("nan")


def classes(rewards, oracle, valid=None, **others):
  rewards_PG = np.array([rewards], float)
  valid_PG = ~np.isnan(rewards_PG) if valid is None else np.array([valid])
  found = pairs.pair_classes(
    rewards_PG, valid_PG, np.array([oracle], float), **others
  )
  return tuple(int(each[0]) for each in found)


def test_pairs_by_hand():
  # Rewards a = b = 0.2, c = d = 0.8 and e = 0.5; oracle a < b < c = d = e.
  # blind: ab. saturated: cd. agree: ac ad ae bc bd be. oracle tied: ce de.
  found = classes([0.2, 0.2, 0.8, 0.8, 0.5], [1, 2, 3, 3, 3])
  assert found == (1, 1, 6, 0, 2)
  # The oracle turned round, and a above e.
  found = classes([0.2, 0.2, 0.8, 0.8, 0.5], [5, 4, 3, 3, 3])
  assert found == (1, 1, 0, 6, 2)


@pytest.mark.parametrize(
  ("reward", "expected"),
  [
    (-0.3, (1, 0, 0, 0, 0)),
    (0.499, (1, 0, 0, 0, 0)),
    (0.5, (0, 1, 0, 0, 0)),
    # Five tenths as a judge's floats have it.
    (0.1 + 0.1 + 0.1 + 0.1 + 0.1 - 1e-12, (0, 1, 0, 0, 0)),
    (1.0, (0, 1, 0, 0, 0)),
  ],
)
def test_threshold_of_a_tie(reward, expected):
  assert classes([reward, reward], [0, 1]) == expected


def test_threshold_is_an_argument():
  assert classes([0.5, 0.5], [0, 1], threshold=0.6) == (1, 0, 0, 0, 0)


def test_ties_are_those_of_the_rewards():
  assert classes([0.3, 0.3 + 5e-7], [0, 1]) == (1, 0, 0, 0, 0)
  assert classes([0.3, 0.3 + 2e-6], [0, 1]) == (0, 0, 1, 0, 0)
  assert classes([0.3, 0.4], [1.0, 1.0 + 5e-7]) == (0, 0, 0, 0, 1)


def test_rollout_without_reward_or_oracle_is_in_no_pair():
  whole = classes([0.1, 0.2, 0.2], [1, 2, 3])
  assert classes([0.1, NAN, 0.2, 0.2], [1, 9, 2, 3]) == whole
  assert classes([0.1, 0.9, 0.2, 0.2], [1, NAN, 2, 3]) == whole
  # Not valid, whatever the number says.
  valid = [True, False, True, True]
  assert classes([0.1, 0.9, 0.2, 0.2], [1, 9, 2, 3], valid) == whole


def test_group_without_pairs_has_no_shares():
  rewards_PG = np.array([[0.1, NAN], [0.1, 0.2]])
  counts = pairs.pair_classes(
    rewards_PG, ~np.isnan(rewards_PG), np.array([[0.0, 1.0], [0.0, 1.0]])
  )
  np.testing.assert_array_equal(counts.total, [0, 1])
  found = pairs.shares(counts)
  np.testing.assert_array_equal(found.agree, [NAN, 1.0])
  np.testing.assert_array_equal(found.spurious, [NAN, 0.0])
  single = pairs.pair_classes(
    np.ones((1, 1)), np.ones((1, 1), bool), np.ones((1, 1))
  )
  assert np.isnan(pairs.shares(single).blind).all()


def test_shares_by_hand():
  # 1 blind, 1 saturated, 2 agree, 3 wrong way and 1 oracle tied of 8.
  counts = pairs.Counts(*(np.array([each]) for each in (1, 1, 2, 3, 1)))
  found = pairs.shares(counts)
  expected = pairs.Shares(
    blind=0.125,
    saturated=0.125,
    spurious=0.5,
    agree=0.25,
    wrong_way=0.375,
    oracle_tied=0.125,
  )
  np.testing.assert_allclose(np.concatenate(found), expected)


def test_pooled_weighs_groups_by_their_pairs():
  counts = pairs.Counts(
    blind=np.array([1, 0]),
    saturated=np.array([0, 0]),
    agree=np.array([0, 28]),
    wrong_way=np.array([0, 0]),
    oracle_tied=np.array([0, 0]),
  )
  found = pairs.shares(pairs.pooled(counts))
  np.testing.assert_allclose(found.blind, [1 / 29])


def reference(rewards_G, valid_G, oracle_G):
  """H-120 in words, over rewards and oracle values without near ties."""
  counts = dict.fromkeys(pairs.Counts._fields, 0)
  size = len(rewards_G)
  for i in range(size):
    for j in range(i):
      if not (valid_G[i] and valid_G[j]):
        continue
      if rewards_G[i] == rewards_G[j]:
        name = "blind" if rewards_G[i] < 0.5 else "saturated"
      elif oracle_G[i] == oracle_G[j]:
        name = "oracle_tied"
      elif (rewards_G[i] > rewards_G[j]) == (oracle_G[i] > oracle_G[j]):
        name = "agree"
      else:
        name = "wrong_way"
      counts[name] += 1
  return counts


@given(st.integers(0, 2**32 - 1))
def test_counts_are_those_of_a_slow_reference(seed):
  generator = np.random.default_rng(seed)
  rewards_PG = generator.integers(-1, 5, (3, 8)) / 4
  oracle_PG = generator.integers(0, 8, (3, 8)) / 2
  valid_PG = generator.random((3, 8)) < 0.9
  found = pairs.pair_classes(rewards_PG, valid_PG, oracle_PG)
  for row in range(3):
    expected = reference(rewards_PG[row], valid_PG[row], oracle_PG[row])
    assert {k: int(v[row]) for k, v in found._asdict().items()} == expected
  count_P = valid_PG.sum(axis=1)
  np.testing.assert_array_equal(found.total, count_P * (count_P - 1) // 2)


def test_whole_group_of_eight_has_28_pairs():
  rewards_G = np.arange(8) / 8
  assert sum(classes(rewards_G, np.arange(8))) == 28
  assert classes(rewards_G, np.arange(8)) == (0, 0, 28, 0, 0)
  assert classes(rewards_G, -np.arange(8)) == (0, 0, 0, 28, 0)


def test_win_counts_by_hand():
  # Against the one in the column, where the one in the row is shown first.
  wins_GG = np.array(
    [
      [NAN, 1.0, 0.5],
      [0.0, NAN, 1.0],
      [0.5, 1.0, NAN],
    ]
  )
  # 0 and 1: 1 and 1 - 0, on average 1 for 0. 0 and 2: 0.5 and 0.5.
  # 1 and 2: each wins where it is shown first: 0.5.
  np.testing.assert_allclose(pairs.oracle_ranking(wins_GG), [1.5, 0.5, 1.0])


def test_judge_who_prefers_the_first_ranks_nobody():
  counts_G = pairs.oracle_ranking(np.ones((8, 8)))
  np.testing.assert_array_equal(counts_G, np.full(8, 3.5))


@given(st.integers(0, 2**32 - 1))
def test_win_counts_share_out_the_pairs(seed):
  generator = np.random.default_rng(seed)
  wins_GG = generator.choice([0.0, 0.5, 1.0], (8, 8))
  counts_G = pairs.oracle_ranking(wins_GG)
  assert counts_G.sum() == 28
  order = generator.permutation(8)
  permuted_G = pairs.oracle_ranking(wins_GG[np.ix_(order, order)])
  np.testing.assert_array_equal(permuted_G, counts_G[order])


def test_missing_comparison_leaves_both_rollouts_without_a_count():
  wins_GG = np.full((3, 3), 0.5)
  wins_GG[0, 2] = NAN
  counts_G = pairs.oracle_ranking(wins_GG)
  np.testing.assert_array_equal(counts_G, [NAN, 1.0, NAN])


@pytest.mark.parametrize("score", [-0.5, 2.0])
def test_score_out_of_range_is_refused(score):
  wins_GG = np.full((3, 3), 0.5)
  wins_GG[2, 1] = score
  with pytest.raises(ValueError, match=f"Rollout 2 scores {score} against 1"):
    pairs.oracle_ranking(wins_GG)
