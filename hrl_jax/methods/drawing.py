"""Draws of a step: a plan from weights of tasks, guidance and rubrics."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import numpy as np

from hrl_jax import base
from hrl_jax.core import task_sampling


class Size(NamedTuple):
  """How much a step draws.

  Attributes:
    num_groups: P, groups in a batch.
    group_size: G, rollouts of a group.
    drop_constant: whether groups without contrast are replaced (B-2).
    max_rounds: rounds of generation after which a batch stays short; the plan
      holds enough slots for all of them.
  """

  num_groups: int
  group_size: int
  drop_constant: bool
  max_rounds: int


class View(NamedTuple):
  """A task as it is drawn.

  Attributes:
    prompt: of the task, without guidance.
    sampled_under: of each rollout of its group.
    trained_under: likewise (H-25).
    rubric: that grades them.
  """

  prompt: base.Conversation
  sampled_under: tuple[base.Conversation, ...]
  trained_under: tuple[base.Conversation, ...]
  rubric: base.Rubric


def bare(task: base.Task, rubric: base.Rubric, size: int) -> View:
  """A task without guidance."""
  prompts = (task.prompt,) * size
  return View(task.prompt, prompts, prompts, rubric)


def plan(
  key: jax.Array,
  weights_N: np.ndarray,
  view: Callable[[int], View],
  size: Size,
) -> base.Plan:
  """Draws tasks with replacement; each draw is a group of its own (H-13).

  Args:
    key: consumed.
    weights_N: unnormalised draw probabilities of the tasks.
    view: of a task at its place in the bank.
    size: of the step.
  """
  count = size.num_groups * (size.max_rounds if size.drop_constant else 1)
  drawn = task_sampling.draw(key, weights_N, count).tolist()
  importance_N = task_sampling.importance_weights(weights_N)
  views = {task: view(task) for task in dict.fromkeys(drawn)}
  return of_views(
    [(task, views[task], float(importance_N[task])) for task in drawn],
    num_groups=size.num_groups,
    drop_constant=size.drop_constant,
    max_rounds=size.max_rounds if size.drop_constant else 1,
  )


def of_views(
  slots: list[tuple[int, View, float]],
  *,
  num_groups: int,
  drop_constant: bool = False,
  max_rounds: int = 1,
) -> base.Plan:
  """A plan of given slots.

  Args:
    slots: place in the bank, view and importance weight of each.
    num_groups: see `base.Plan`.
    drop_constant: see `base.Plan`.
    max_rounds: see `base.Plan`.
  """
  prompts: dict[base.Conversation, int] = {}

  def index(prompt: base.Conversation) -> int:
    return prompts.setdefault(prompt, len(prompts))

  made = tuple(
    base.Slot(
      task=task,
      bare=index(view.prompt),
      importance=importance,
      rubric=view.rubric,
      sampled_under=tuple(map(index, view.sampled_under)),
      trained_under=tuple(map(index, view.trained_under)),
    )
    for task, view, importance in slots
  )
  return base.Plan(
    prompts=tuple(prompts),
    slots=made,
    num_groups=num_groups,
    drop_constant=drop_constant,
    max_rounds=max_rounds,
  )
