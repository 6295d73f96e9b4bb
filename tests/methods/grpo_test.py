import collections

import jax
import numpy as np
import pytest

from hrl_jax import base
from hrl_jax.methods import drawing, grpo
from tests import fakes

BANK = base.Bank(
  tuple(fakes.task(f"t{i}", f"prompt {i}", ("good", 1.0)) for i in range(5)),
  "hash",
)


def method(**knobs):
  defaults = {
    "num_groups": 8,
    "group_size": 3,
    "drop_constant": False,
    "max_rounds": 1,
  }
  return grpo.make(drawing.Size(**{**defaults, **knobs}))


def plan(made, step):
  state = made.init(BANK)
  return made.plan(state, step, jax.random.key(step))


def test_a_plan_holds_one_slot_per_group_under_the_bare_prompt():
  made, _ = plan(method(), 0)
  assert len(made.slots) == made.num_groups == 8
  assert len(set(made.prompts)) == len(made.prompts) <= 5
  for slot in made.slots:
    assert made.prompts[slot.bare] == BANK.tasks[slot.task].prompt
    assert slot.sampled_under == slot.trained_under == (slot.bare,) * 3
    assert slot.importance == 1.0
    assert slot.rubric == BANK.tasks[slot.task].rubric


def test_replacements_are_planned_ahead():
  made, _ = plan(method(drop_constant=True, max_rounds=3), 0)
  assert (len(made.slots), made.num_groups, made.max_rounds) == (24, 8, 3)
  assert made.drop_constant


@pytest.mark.core
def test_draws_are_uniform_with_replacement():
  made = method(num_groups=2000)
  counts = collections.Counter(slot.task for slot in plan(made, 7)[0].slots)
  # 2,000 draws of 5 tasks: 400 each, standard deviation 18.
  assert len(counts) == 5
  assert all(abs(count - 400) < 5 * 18 for count in counts.values())


def test_the_state_never_changes():
  made = method()
  state = made.init(BANK)
  key = jax.random.key(0)
  planned, after = made.plan(state, 0, key)
  nothing = np.zeros((0, 3))
  evidence = base.Evidence(
    base.Occasion(0, "train"), planned, (), nothing, nothing, np.zeros(0), ()
  )
  after, metrics, _ = made.learn(after, 0, evidence, fakes.NoProbe(), key)
  assert metrics == {}
  after = made.prepare(after, fakes.NoProbe(), key)
  assert after is state
  np.testing.assert_array_equal(state.weights_N, np.ones(5))
