import numpy as np
import pytest

from hrl_jax.evaluation import statistics


@pytest.mark.core
def test_the_interval_of_two_values_by_hand():
  # Resampled means of (0, 1): 0, 1/2, 1 with chances 1/4, 1/2, 1/4.
  interval = statistics.mean_interval(np.array([0.0, 1.0]))
  assert interval == (0.5, 0.0, 1.0, 2)


def test_the_interval_has_the_width_of_the_normal_one():
  values_N = np.linspace(-1, 1, 400)
  interval = statistics.mean_interval(values_N)
  half = 1.96 * values_N.std() / np.sqrt(400)
  assert interval.mean == pytest.approx(0.0, abs=1e-12)
  assert interval.high - interval.low == pytest.approx(2 * half, rel=0.05)


def test_missing_values_are_left_out():
  interval = statistics.mean_interval(np.array([0.25, np.nan, 0.25]))
  assert interval == (0.25, 0.25, 0.25, 2)
  nothing = statistics.mean_interval(np.full(3, np.nan))
  assert np.isnan(nothing.mean) and nothing.count == 0


def test_the_same_values_give_the_same_interval():
  values_N = np.sqrt(np.arange(50.0))
  first = statistics.mean_interval(values_N)
  assert statistics.mean_interval(values_N) == first
  assert statistics.mean_interval(values_N, seed=1) != first


def test_the_paired_interval_covers_seeds_as_well_as_tasks():
  # No spread between tasks: all of it is between the seeds.
  between_seeds = np.repeat([[0.0], [1.0]], 50, axis=1)
  interval = statistics.paired_interval(between_seeds)
  assert (interval.low, interval.high) == (0.0, 1.0)
  # The same numbers as spread between tasks, averaged over 50 of them.
  between_tasks = np.tile(np.arange(50) % 2, (2, 1)).astype(float)
  interval = statistics.paired_interval(between_tasks)
  assert 0.3 < interval.low < 0.5 < interval.high < 0.7
  assert interval.count == 100


def test_nested_interval_of_one_world_is_that_of_its_seeds():
  values_WS = np.array([[1.0, 2.0, 4.0]])
  nested = statistics.nested_interval(values_WS)
  plain = statistics.mean_interval(values_WS[0])
  assert nested.mean == plain.mean
  # The same percentiles of the same distribution, by other draws.
  assert abs(nested.low - plain.low) < 0.1
  assert abs(nested.high - plain.high) < 0.1


def test_nested_interval_covers_other_worlds():
  # Seeds agree within a world: only the worlds can make the interval wide.
  values_WS = np.repeat([[0.0], [10.0]], 3, axis=1)
  interval = statistics.nested_interval(values_WS)
  assert (interval.mean, interval.low, interval.high) == (5.0, 0.0, 10.0)


def test_nested_interval_leaves_missing_values_out():
  values_WS = np.array([[1.0, np.nan], [3.0, 3.0]])
  interval = statistics.nested_interval(values_WS)
  assert interval.count == 3
  assert interval.mean == pytest.approx(7 / 3)
