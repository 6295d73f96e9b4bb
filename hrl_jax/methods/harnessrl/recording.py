"""From what a step saw to records of the log."""

from collections.abc import Iterable, Sequence

import numpy as np

from hrl_jax import base
from hrl_jax.core import rewards
from hrl_jax.harness import records, rubrics, terms


def group(
  seen: base.Group,
  *,
  id: str,
  kind: str,
  step: int,
  task: str,
  rubric: rubrics.TaskRubric,
  fields: Iterable[terms.Field],
  is_guided: Sequence[bool],
  importance: float | None,
) -> records.Group:
  """The record of a graded group.

  Args:
    seen: the group; its scores are by the rubric's criteria, in order.
    id: unique in the log.
    kind: see `records.Group`.
    step: updates before it.
    task: id.
    rubric: that graded it.
    fields: guidance of its guided rollouts.
    is_guided: of each rollout.
    importance: u of the draw, None where it was not drawn.
  """
  return records.Group(
    id=id,
    kind=kind,
    step=step,
    slot=seen.slot,
    task=task,
    weights_version=seen.rollouts[0].completion.weights_version,
    rubric_version=rubric.version,
    criteria=tuple(entry.version.target for entry in rubric.entries),
    weights=rubric.weights(),
    fields=tuple(fields),
    rollouts=tuple(
      records.Rollout(
        text=rollout.text,
        tokens=len(rollout.completion.tokens),
        finish=rollout.completion.finish,
        reward=_number(reward),
        scores=tuple(map(_number, scores_C.tolist())),
        is_guided=guided,
      )
      for rollout, reward, scores_C, guided in zip(
        seen.rollouts,
        seen.rewards_G.tolist(),
        seen.scores_GC,
        is_guided,
        strict=True,
      )
    ),
    importance=importance,
    minimum_valid=rewards.minimum_valid(len(seen.rollouts)),
  )


def regraded(
  before: records.Group,
  scores_GC: np.ndarray,
  rubric: rubrics.TaskRubric,
  *,
  id: str,
) -> records.Group:
  """The record of the same rollouts under another rubric.

  Args:
    before: the recorded group.
    scores_GC: by the new rubric, NaN where missing.
    rubric: the new one.
    id: unique in the log.
  """
  weights_1C = np.array([rubric.weights()])
  rewards_1G, _ = rewards.rubric_rewards(scores_GC[None], weights_1C)
  return records.Group(
    id=id,
    kind="regrade",
    step=before.step,
    slot=before.slot,
    task=before.task,
    weights_version=before.weights_version,
    rubric_version=rubric.version,
    criteria=tuple(entry.version.target for entry in rubric.entries),
    weights=rubric.weights(),
    fields=before.fields,
    rollouts=tuple(
      records.Rollout(
        text=rollout.text,
        tokens=rollout.tokens,
        finish=rollout.finish,
        reward=_number(reward),
        scores=tuple(map(_number, scores_C)),
        is_guided=rollout.is_guided,
      )
      for rollout, reward, scores_C in zip(
        before.rollouts,
        rewards_1G[0].tolist(),
        scores_GC.tolist(),
        strict=True,
      )
    ),
    importance=None,
    minimum_valid=before.minimum_valid,
  )


def rewards_of(group: records.Group) -> np.ndarray:
  """`[G]` float64 rewards, NaN where not valid."""
  return np.array(
    [np.nan if r.reward is None else r.reward for r in group.rollouts]
  )


def scores_of(group: records.Group) -> np.ndarray:
  """`[G, C]` float64 scores, NaN where missing."""
  return np.array(
    [
      [np.nan if score is None else score for score in rollout.scores]
      for rollout in group.rollouts
    ]
  )


def _number(value: float) -> float | None:
  return None if np.isnan(value) else float(value)
