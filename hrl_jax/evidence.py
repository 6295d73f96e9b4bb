"""From graded rollouts to groups, and from groups to evidence."""

from collections.abc import Iterator, Sequence

import numpy as np

from hrl_jax import base
from hrl_jax.core import rewards

# By slot and place: the rollout, and its scores once it is graded.
Graded = dict[tuple[int, int], tuple[base.Rollout, np.ndarray | None]]


def groups(
  plan: base.Plan, slots: Sequence[int], graded: Graded
) -> Iterator[base.Group]:
  """Yields the group of each slot, its rewards weighed by the slot's rubric.

  Args:
    plan: whose slots these are.
    slots: indices in the plan.
    graded: every rollout of them.
  """
  for slot in slots:
    rubric = plan.slots[slot].rubric
    size = len(plan.slots[slot].sampled_under)
    members = [graded[slot, index] for index in range(size)]
    missing_C = np.full(len(rubric), np.nan)
    scores_GC = np.stack(
      [missing_C if scores is None else scores for _, scores in members]
    )
    weights_1C = np.array([[criterion.weight for criterion in rubric]])
    rewards_1G, valid_1G = rewards.rubric_rewards(scores_GC[None], weights_1C)
    fate = "trained"
    if rewards.thin(valid_1G, rewards.minimum_valid(size))[0]:
      fate = "thin"
    elif plan.drop_constant and rewards.is_constant(rewards_1G, valid_1G)[0]:
      fate = "constant"
    yield base.Group(
      slot=slot,
      rollouts=tuple(rollout for rollout, _ in members),
      scores_GC=scores_GC,
      rewards_G=rewards_1G[0],
      valid_G=valid_1G[0],
      fate=fate,
    )


def _stacked(values: Sequence[np.ndarray], plan: base.Plan) -> np.ndarray:
  size = len(plan.slots[0].sampled_under) if plan.slots else 0
  return np.array(values, np.float64).reshape(len(values), size)


def evidence(
  occasion: base.Occasion,
  plan: base.Plan,
  kept: Sequence[base.Group],
  dropped: Sequence[base.Group],
  failures: Sequence[base.Failure],
) -> base.Evidence:
  """Puts together what was seen.

  Args:
    occasion: when, and what for.
    plan: whose slots the groups answer.
    kept: the groups of the batch, in plan order.
    dropped: groups without contrast that others took the place of.
    failures: in any order, since a judge answers in any order.
  """
  return base.Evidence(
    occasion=occasion,
    plan=plan,
    groups=(*kept, *dropped),
    rewards_PG=_stacked([group.rewards_G for group in kept], plan),
    valid_PG=_stacked(
      [group.valid_G & (group.fate != "thin") for group in kept], plan
    ).astype(bool),
    importance_P=np.array(
      [plan.slots[group.slot].importance for group in kept], np.float64
    ),
    failures=tuple(sorted(failures, key=_place)),
  )


def _place(failure: base.Failure) -> tuple[int, int, int]:
  criterion = -1 if failure.criterion is None else failure.criterion
  return failure.slot, failure.rollout, criterion
