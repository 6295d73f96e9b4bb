"""What checked criteria say, and what judged ones say, apart.

A checker is exact and a judge is not: where the score of a run rises only in
its judged part, the policy may have learnt to please the judge.
"""

import numpy as np
from jaxtyping import Float

from hrl_jax import base
from hrl_jax.core import rewards


def by_grader(
  evidence: base.Evidence,
) -> dict[str, Float[np.ndarray, "P G"]]:
  """Rewards of the batch's groups by their checked and judged criteria alone.

  Each is the reward of H-20 of a rubric that has only those criteria. It needs
  no score of the others: a rollout that the judge lost keeps its checked one.

  Returns:
    "checked" and "judged", NaN where a score is missing and where a rubric has
    no such criterion of positive weight.
  """
  groups = evidence.groups[: len(evidence.rewards_PG)]
  parts = {}
  for name, judged in (("checked", False), ("judged", True)):
    rows = [_rewards(evidence.plan, group, judged=judged) for group in groups]
    shape = evidence.rewards_PG.shape
    parts[name] = np.array(rows, np.float64).reshape(shape)
  return parts


def _rewards(
  plan: base.Plan, group: base.Group, *, judged: bool
) -> Float[np.ndarray, " G"]:
  weights_C = np.array(
    [
      criterion.weight if (criterion.checker is None) == judged else 0.0
      for criterion in plan.slots[group.slot].rubric
    ]
  )
  if not (weights_C > 0).any():
    return np.full(len(group.rollouts), np.nan)
  rewards_1G, _ = rewards.rubric_rewards(group.scores_GC[None], weights_C[None])
  return rewards_1G[0]
