import jax
import numpy as np
import pytest

from hrl_jax.harness import cases, changes, records
from hrl_jax.harness import state as states
from hrl_jax.methods import interfaces
from tests.methods.harnessrl import rules, stubs, world

ADD = changes.Add("criterion", (("t0#4", 0),), "Has z.")


def proposes(**operations):
  return stubs.Roles(lambda case: cases.Proposal(**operations))


def test_an_interface_that_evolves_may_not_follow_a_rule():
  given = interfaces.Rules(sampling=rules.favours(0))
  with pytest.raises(ValueError, match="sampling follow another rule"):
    world.run(rules=given)


def test_a_rule_for_sampling_sets_the_weights_and_levels_stay():
  run = world.run(
    rules=interfaces.Rules(sampling=rules.favours(3)),
    interfaces=("rollout", "rubric"),
  )
  state = run.start()
  for step in range(3):
    state = run.step(state, step)
  # Four groups a step were seen: task 3 weighs 1 + 12.
  assert state.own == {"sampling": 12}
  weights_N = np.array([1, 1, 1, 13, 1, 1])
  plan, _ = run.drawing(64).plan(state, 3, jax.random.key(0))
  found = {slot.task: slot.importance for slot in plan.slots}
  assert found[3] == pytest.approx(weights_N.mean() / 13)
  assert not state.harness.level_N.any()
  assert not any(run.updates(step, "sampling") for step in range(3))
  assert run.metrics[-1]["harness/effective_sample"] == pytest.approx(
    1 / (weights_N.mean() * (1 / weights_N).mean())
  )


def test_a_rule_for_guidance_may_show_members_of_a_group_different_prompts():
  roles = proposes(rollout=(ADD,))
  run = world.run(
    roles,
    world.scripted(z="1" * 8),
    rules=interfaces.Rules(rollout=rules.scaffold("z")),
    interfaces=("sampling", "rubric"),
  )
  state = run.step(run.start(), 0, draws=[1])
  (slot,) = run.plans[0].slots
  assert slot.trained_under == (slot.bare,) * 8
  assert [each == slot.bare for each in slot.sampled_under] == [
    *[False] * 2,
    *[True] * 6,
  ]
  (group,) = run.memory.of(records.Group, kind="train")
  assert [rollout.is_guided for rollout in group.rollouts] == [
    *[True] * 2,
    *[False] * 6,
  ]
  assert [field.kind for field in group.fields] == ["criterion"]
  # Two guided rollouts have z, so it separates.
  (labels,) = run.memory.of(records.Labels)
  assert labels.labels[4].reason == "separates"
  assert not run.updates(0, "rollout")
  assert not run.memory.of(changes.Removal)
  assert (state.harness.field_N3 == states.NONE).all()


def test_a_rule_for_the_rubric_is_what_rollouts_are_graded_by():
  run = world.run(
    proposes(rubric=(changes.Delete("t0#3"),)),
    world.scripted({**world.LETTERS, "q": "11111111"}),
    rules=interfaces.Rules(rubric=rules.replaced("Has a.", "Has q.")),
    interfaces=("sampling", "rollout"),
  )
  state = run.start()
  state = run.step(state, 0, draws=[0])
  state = run.step(state, 1, draws=[0])
  first, second = run.memory.of(records.Group, kind="train")
  assert first.criteria[0] == ("t0#0", 0)
  assert (second.criteria[0], second.rubric_version) == (("t0#0", 1), 1)
  # Has q. is met by all eight: 36 - 12 + 24 of 96.
  assert sum(r.reward for r in second.rollouts) / 8 == 0.5
  assert not any(run.updates(step, "rubric") for step in range(2))
  assert not state.harness.rubric_version_N.any()


def test_a_field_goes_when_a_rule_has_rewritten_its_target():
  run = world.run(
    proposes(rollout=(ADD,)),
    world.scripted(z="1" * 8),
    rules=interfaces.Rules(rubric=rules.replaced("Has z.", "Has y.")),
    interfaces=("rollout",),
  )
  state = run.step(run.start(rollout=(5.0, 90.0)), 0, draws=[0])
  (update,) = run.updates(0, "rollout")
  assert update.decision.is_accepted
  assert run.memory.of(changes.Removal) == [
    changes.Removal(0, "t0", "criterion", "orphan")
  ]
  assert world.task(state, 0).fields == {}
