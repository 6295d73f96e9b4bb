"""A cold start without models: the simulator of H-17.

The number of criteria of a task is lognormal with median 10 and the mean 12.9
of H-1; weights are 1 to 5, of which 10.7 % are penalties. A task draws the
spread of its pass probabilities, Beta(a, a) with a = 0.15 exp(N(0, 1)), once
for all of its criteria: were it drawn for each, tasks would hardly differ in
discriminative mass. A grading turns 0.6 % of the verdicts over.
"""

from typing import NamedTuple

import numpy as np

from hrl_jax.core import rewards

MINIMUM = 4


class ColdStart(NamedTuple):
  """Gradings `[P, G, C]` of the groups of P tasks; padding has weight 0.

  Attributes:
    weights_PC: of the seed rubrics.
    first_PGC: scores of the first group.
    regraded_PGC: of the first group, graded again.
    second_PGC: of an independent second group.
  """

  weights_PC: np.ndarray
  first_PGC: np.ndarray
  regraded_PGC: np.ndarray
  second_PGC: np.ndarray


def cold_start(
  generator: np.random.Generator,
  num_tasks: int,
  *,
  group_size: int = 8,
  flips: float = 0.006,
) -> ColdStart:
  spread = np.sqrt(2 * np.log(1.29))
  drawn_P = 10 * np.exp(spread * generator.standard_normal(num_tasks))
  count_P = np.maximum(np.rint(drawn_P).astype(int), 2)
  is_real_PC = np.arange(count_P.max()) < count_P[:, None]
  shape_PC = is_real_PC.shape
  weights_PC = generator.integers(1, 6, shape_PC).astype(float)
  weights_PC *= np.where(generator.random(shape_PC) < 0.107, -1, 1)
  weights_PC *= is_real_PC
  # A task without positive weight is not eligible (H-100).
  has_none_P = ~(weights_PC > 0).any(axis=1)
  weights_PC[has_none_P, 0] *= -1
  a_P1 = 0.15 * np.exp(generator.standard_normal((num_tasks, 1)))
  chance_P1C = generator.beta(a_P1, a_P1, shape_PC)[:, None]

  def rollouts():
    shape = (num_tasks, group_size, shape_PC[1])
    return generator.random(shape) < chance_P1C

  def graded(truth_PGC):
    turned_PGC = generator.random(truth_PGC.shape) < flips
    scores_PGC = (truth_PGC ^ turned_PGC).astype(float)
    return np.where(is_real_PC[:, None], scores_PGC, np.nan)

  truth_PGC = rollouts()
  return ColdStart(
    weights_PC, graded(truth_PGC), graded(truth_PGC), graded(rollouts())
  )


def rewards_of(start: ColdStart, scores_PGC: np.ndarray) -> np.ndarray:
  return rewards.rubric_rewards(scores_PGC, start.weights_PC)[0]


def points(start: ColdStart, scores_PGC: np.ndarray) -> np.ndarray:
  return 100 * rewards_of(start, scores_PGC).mean(axis=1)


def ranges(start: ColdStart) -> np.ndarray:
  return 100 * np.ptp(rewards_of(start, start.first_PGC), axis=1)
