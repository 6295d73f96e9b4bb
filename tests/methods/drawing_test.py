import jax
import numpy as np
import pytest

from hrl_jax import base
from hrl_jax.methods import drawing
from tests import fakes

pytestmark = pytest.mark.core

TASKS = tuple(
  fakes.task(f"t{i}", f"prompt {i}", ("good", 1.0)) for i in range(3)
)


def guided(place):
  """Half of a group sees guidance and is trained without it."""
  prompt = TASKS[place].prompt
  tip = (base.Message("user", f"tip {place}"),)
  return drawing.View(
    prompt, (tip, prompt), (prompt, prompt), TASKS[place].rubric
  )


def size(**knobs):
  defaults = {
    "num_groups": 4,
    "group_size": 2,
    "drop_constant": False,
    "max_rounds": 3,
  }
  return drawing.Size(**{**defaults, **knobs})


def test_each_rollout_names_both_of_its_prompts():
  plan = drawing.of_views([(1, guided(1), 2.5)], num_groups=1)
  (slot,) = plan.slots
  assert plan.prompts[slot.bare] == TASKS[1].prompt
  assert [plan.prompts[i][0].content for i in slot.sampled_under] == [
    "tip 1",
    "prompt 1",
  ]
  assert slot.trained_under == (slot.bare, slot.bare)
  assert (slot.task, slot.importance) == (1, 2.5)
  assert slot.rubric == TASKS[1].rubric


def test_prompts_are_listed_once():
  slots = [(place, guided(place), 1.0) for place in (0, 1, 0)]
  plan = drawing.of_views(slots, num_groups=3)
  assert len(plan.prompts) == len(set(plan.prompts)) == 4
  assert plan.slots[0] == plan.slots[2]


def test_importance_is_the_mean_weight_over_a_tasks_own():
  weights_N = np.array([1.0, 0.5, 0.3])
  plan = drawing.plan(jax.random.key(0), weights_N, guided, size(num_groups=50))
  # The mean weight is 0.6: u is 0.6, 1.2 and 2.
  found = {slot.task: slot.importance for slot in plan.slots}
  assert found == pytest.approx({0: 0.6, 1: 1.2, 2: 2.0})


def test_a_task_is_looked_at_once_however_often_it_is_drawn():
  asked = []

  def view(place):
    asked.append(place)
    return guided(place)

  plan = drawing.plan(jax.random.key(0), np.ones(3), view, size(num_groups=30))
  assert len(plan.slots) == 30
  assert sorted(asked) == [0, 1, 2]


@pytest.mark.parametrize(
  ("drops", "slots", "rounds"), [(False, 4, 1), (True, 12, 3)]
)
def test_only_a_plan_that_drops_groups_has_slots_to_spare(drops, slots, rounds):
  plan = drawing.plan(
    jax.random.key(0), np.ones(3), guided, size(drop_constant=drops)
  )
  assert (len(plan.slots), plan.max_rounds) == (slots, rounds)
  assert (plan.num_groups, plan.drop_constant) == (4, drops)


def test_the_same_key_draws_the_same_tasks():
  def drawn(seed):
    plan = drawing.plan(
      jax.random.key(seed), np.ones(3), guided, size(num_groups=20)
    )
    return [slot.task for slot in plan.slots]

  assert drawn(1) == drawn(1) != drawn(2)


def test_bare_is_the_task_as_it_is():
  view = drawing.bare(TASKS[0], TASKS[0].rubric, 3)
  assert view.sampled_under == view.trained_under == (TASKS[0].prompt,) * 3
