import pytest

from hrl_jax.harness import guidance, rubrics, terms
from hrl_jax.methods.harnessrl import views
from tests.methods.harnessrl import world

pytestmark = pytest.mark.core

TASK = world.bank(1).tasks[0]


def field(kind, text):
  return terms.Field(kind, (("t0#4", 0),), text, (), 3)


def test_the_papers_cap_falls_at_125_250_and_375():
  caps = [views.cap(step, 500) for step in range(500)]
  falls = [step for step in range(1, 500) if caps[step] < caps[step - 1]]
  assert falls == [125, 250, 375]
  # Figure 6: two fields at step 55, one critique at 260.
  assert (caps[0], caps[55], caps[260], caps[499]) == (3, 3, 1, 0)


@pytest.mark.parametrize(
  ("steps", "caps"),
  [
    # t >= q T / 4 with T = 6: from 1.5, 3 and 4.5 on.
    (6, [3, 3, 2, 1, 1, 0]),
    (7, [3, 3, 2, 2, 1, 1, 0]),
    (4, [3, 2, 1, 0]),
    (2, [3, 1]),
    (1, [3]),
  ],
)
def test_the_cap_of_steps_that_do_not_divide_by_four(steps, caps):
  assert [views.cap(step, steps) for step in range(steps)] == caps


def test_fields_are_mounted_on_every_rollout_in_the_papers_order():
  fields = {
    "critique": field("critique", "Was short."),
    "criterion": field("criterion", "Has z."),
  }
  prompts = views.prompts(TASK, fields, group_size=3, condition_on="guided")
  assert prompts.sampled_under == prompts.trained_under
  assert len(prompts.sampled_under) == 3
  (turn,) = prompts.sampled_under[0]
  assert turn.content == (
    "task 0\n\n<criterion>\nHas z.\n</criterion>\n<critique>\nWas short.\n"
    f"</critique>\n{guidance.CLOSING}"
  )
  assert prompts.fields == fields


def test_bare_training_conditions_on_the_task_alone():
  fields = {"criterion": field("criterion", "Has z.")}
  prompts = views.prompts(TASK, fields, group_size=2, condition_on="bare")
  assert prompts.trained_under == (TASK.prompt, TASK.prompt)
  assert TASK.prompt not in prompts.sampled_under


def test_a_view_has_the_rubric_of_the_harness_and_the_tasks_own_prompt():
  prompts = views.prompts(TASK, {}, group_size=2, condition_on="guided")
  view = views.view(TASK, prompts, rubrics.seed(TASK))
  assert view.prompt == TASK.prompt
  assert view.sampled_under == view.trained_under == (TASK.prompt,) * 2
  assert view.rubric == TASK.rubric
