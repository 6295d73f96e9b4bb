"""Means with intervals that say how far a comparison can be trusted."""

from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Float

_RESAMPLES = 10_000


class Interval(NamedTuple):
  """A mean and its 95 % bootstrap interval.

  Attributes:
    mean: of the values.
    low: 2.5th percentile of the resampled means.
    high: 97.5th percentile.
    count: values that entered.
  """

  mean: float
  low: float
  high: float
  count: int


def mean_interval(
  values_N: Float[np.ndarray, " N"], *, seed: int = 0
) -> Interval:
  """The mean over tasks, with a percentile bootstrap over tasks.

  Missing values (NaN) are left out and not counted. One value has an interval
  without width, which says nothing; no value gives NaN throughout.

  See "Bootstrap Methods" by Efron (https://doi.org/10.1214/aos/1176344552).

  Args:
    values_N: one value per task; for a paired comparison the differences.
    seed: of the resampling; the same values give the same interval.
  """
  values_N = values_N[~np.isnan(values_N)]
  count = len(values_N)
  if not count:
    return Interval(np.nan, np.nan, np.nan, 0)
  draws = jax.random.randint(
    jax.random.key(seed), (_RESAMPLES, count), 0, count
  )
  means = values_N[np.asarray(draws)].mean(axis=1)
  low, high = np.percentile(means, [2.5, 97.5])
  return Interval(float(values_N.mean()), float(low), float(high), count)


def paired_interval(
  differences_SN: Float[np.ndarray, "seeds N"], *, seed: int = 0
) -> Interval:
  """The mean difference, with a bootstrap over seeds and tasks together.

  Seeds and tasks are both drawn anew, each task with all of a drawn seed's
  values: so the interval covers other seeds as well as other tasks.

  Args:
    differences_SN: after minus before, or one method minus another, on the
      same tasks; a missing one is NaN.
    seed: of the resampling.
  """
  num_seeds, num_tasks = differences_SN.shape
  seed_key, task_key = jax.random.split(jax.random.key(seed))
  seeds = jax.random.randint(seed_key, (_RESAMPLES, num_seeds), 0, num_seeds)
  tasks = jax.random.randint(task_key, (_RESAMPLES, num_tasks), 0, num_tasks)
  per_seed = np.asarray(seeds)[:, :, None]
  per_task = np.asarray(tasks)[:, None, :]
  means = np.nanmean(differences_SN[per_seed, per_task], axis=(1, 2))
  low, high = np.percentile(means, [2.5, 97.5])
  return Interval(
    float(np.nanmean(differences_SN)),
    float(low),
    float(high),
    int(np.count_nonzero(~np.isnan(differences_SN))),
  )


def nested_interval(
  values_WS: Float[np.ndarray, "worlds seeds"], *, seed: int = 0
) -> Interval:
  """The mean with a bootstrap over worlds, and over seeds within each.

  Worlds are drawn anew first, then the seeds of each drawn world by
  themselves: a conclusion is to hold in other worlds, not only with other seeds
  in these. With one of either, that level adds no width.

  Args:
    values_WS: such as paired differences; a missing one is NaN.
    seed: of the resampling.
  """
  num_worlds, num_seeds = values_WS.shape
  world_key, seed_key = jax.random.split(jax.random.key(seed))
  worlds = jax.random.randint(
    world_key, (_RESAMPLES, num_worlds), 0, num_worlds
  )
  seeds = jax.random.randint(
    seed_key, (_RESAMPLES, num_worlds, num_seeds), 0, num_seeds
  )
  drawn = values_WS[np.asarray(worlds)[:, :, None], np.asarray(seeds)]
  counts = np.count_nonzero(~np.isnan(drawn), axis=(1, 2))
  # A draw of missing values only says nothing.
  means = np.nansum(drawn, axis=(1, 2))[counts > 0] / counts[counts > 0]
  low, high = np.percentile(means, [2.5, 97.5])
  return Interval(
    float(np.nanmean(values_WS)),
    float(low),
    float(high),
    int(np.count_nonzero(~np.isnan(values_WS))),
  )
