"""A step's evidence, small enough to be written out by hand."""

import numpy as np

from hrl_jax import base


def _completion():
  return base.Completion(
    request=0,
    tokens=np.array([5, 6, 2], np.int32),
    logprobs=np.zeros(3, np.float32),
    drawn_logprobs=np.zeros(3, np.float32),
    finish="stop",
    weights_version=3,
  )


def evidence(text="ok", raw="?", step=7):
  """A guided and a bare rollout of one task, the second not graded whole."""
  bare = (base.Message("user", text),)
  guided = (base.Message("user", text + " Be brief."),)
  rubric = (base.Criterion("Is short.", 2.0), base.Criterion("Rude.", -1.0))
  slot = base.Slot(
    task=1,
    bare=0,
    importance=0.5,
    rubric=rubric,
    sampled_under=(1, 0),
    trained_under=(0, 0),
  )
  rollouts = tuple(
    base.Rollout(
      slot=0,
      index=index,
      sampled_under=slot.sampled_under[index],
      trained_under=0,
      text=text,
      seed=2**32 - 1 - index,
      completion=_completion(),
    )
    for index in range(2)
  )
  group = base.Group(
    slot=0,
    rollouts=rollouts,
    scores_GC=np.array([[1.0, 0.0], [1.0, np.nan]]),
    rewards_G=np.array([1.0, np.nan]),
    valid_G=np.array([True, False]),
    fate="trained",
  )
  failures = (
    base.Failure(slot=0, rollout=1, criterion=1, reason="No verdict.", raw=raw),
    base.Failure(slot=0, rollout=1, criterion=None, reason="Late.", raw=""),
  )
  return base.Evidence(
    occasion=base.Occasion(step, "train"),
    plan=base.Plan(prompts=(bare, guided), slots=(slot,), num_groups=1),
    groups=(group,),
    rewards_PG=group.rewards_G[None],
    valid_PG=group.valid_G[None],
    importance_P=np.array([0.5]),
    failures=failures,
  )


def bank():
  """Two tasks."""
  task = base.Task("t0", "writing", (base.Message("user", "?"),), ())
  return base.Bank((task, task._replace(id="t1")), "hash")
