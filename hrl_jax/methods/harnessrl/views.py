"""A task of the harness as it is drawn or probed: prompts and rubric."""

from collections.abc import Mapping

from hrl_jax import base
from hrl_jax.harness import guidance, rubrics, terms
from hrl_jax.methods import drawing, interfaces


def cap(step: int, num_steps: int) -> int:
  """How many fields a task may have mounted (H-38).

  3 - #{q in 1, 2, 3 : step >= q num_steps / 4}: three at first, one less with
  each quarter of the training, none in the last.
  """
  return 3 - sum(4 * step >= quarter * num_steps for quarter in (1, 2, 3))


def prompts(
  task: base.Task,
  fields: Mapping[terms.FieldKind, terms.Field],
  *,
  group_size: int,
  condition_on: str,
) -> interfaces.Prompts:
  """The prompts of a group whose rollouts all see the same fields.

  Args:
    task: of the bank.
    fields: mounted ones.
    group_size: G.
    condition_on: "guided" trains under the prompt that was sampled under,
      "bare" under the task's own (H-25).
  """
  texts = {kind: field.text for kind, field in fields.items()}
  guided = guidance.render(task.prompt, texts)
  trained = guided if condition_on == "guided" else task.prompt
  return interfaces.Prompts(
    sampled_under=(guided,) * group_size,
    trained_under=(trained,) * group_size,
    fields=fields,
  )


def view(
  task: base.Task, seen: interfaces.Prompts, rubric: rubrics.TaskRubric
) -> drawing.View:
  """The task for a group that sees these prompts."""
  return drawing.View(
    prompt=task.prompt,
    sampled_under=seen.sampled_under,
    trained_under=seen.trained_under,
    rubric=rubric.criteria(),
  )
