import json
import logging

import jax
import numpy as np
import pytest

from hrl_jax import base, collect
from hrl_jax.harness import cases, changes, commits, records, terms
from hrl_jax.methods import drawing, grpo
from tests.methods.harnessrl import same, stubs, world

# Bands that nothing meets: not even no effect at all.
NEVER = {"rollout": (900.0, 901.0), "rubric": (900.0, -1.0)}


def grpo_plan_and_evidence(tasks, step, num_groups=4):
  """As `world.Run.step` makes them, of the other method."""
  made = grpo.make(drawing.Size(num_groups, 8, False, 1))
  plan_key, collect_key, _ = jax.random.split(
    jax.random.fold_in(jax.random.key(0), step), 3
  )
  plan, _ = made.plan(made.init(tasks), step, plan_key)
  outside = world.world()
  return collect.gather(
    plan,
    outside,
    collect_key,
    occasion=base.Occasion(step, "train"),
    sampling=stubs.SAMPLING,
  )


def fields_of(state, place):
  return [*world.task(state, place).fields]


def add(kind="criterion"):
  return changes.Add(kind, (("t0#4", 0),), "Has z.")


def proposes(**operations):
  return stubs.Roles(lambda case: cases.Proposal(**operations))


@pytest.fixture(scope="module")
def whole():
  """A run in which every interface changes, and fields go by every way."""
  run = world.run(pool=("Has q.", "Has r."), num_steps=12, num_groups=6)
  return run, run.whole(12)


def test_the_log_replayed_is_the_live_state_bit_for_bit(whole):
  run, state = whole
  assert {each.code for each in run.memory.of(changes.Removal)} == {"cap"}
  accepted = {
    update.candidate.interface
    for update in run.memory.of(changes.Update)
    if update.decision.is_accepted
  }
  assert accepted == set(terms.INTERFACES)
  same.states(commits.replay(run.tasks, run.log), state.harness)


def test_groups_are_durable_before_anything_is_learnt_from_them(whole):
  run, _ = whole
  steps = []
  for name, what, *_ in run.memory.journal:
    if name == "step":
      steps.append([])
    elif steps:
      steps[-1].append((name, what))
  assert len(steps) == 12
  assert any(name == "sample" for step in steps for name, _ in step)
  for events in steps:
    # All that was drawn, then whatever the evolver asked, then its records;
    # fields that the next step's cap takes away may follow.
    assert events[0] == ("append", [records.Group] * 6)
    written = [what for name, what in events[1:] if name == "append"]
    assert records.Labels in written[0]
    assert all(set(more) == {changes.Removal} for more in written[1:])


def test_every_group_says_which_weights_made_it(whole):
  run, _ = whole
  kinds = set()
  for group in run.memory.of(records.Group):
    kinds.add(group.kind)
    assert group.weights_version == max(group.step, 0)
  assert kinds == {"cold", "train", "probe", "regrade"}


def test_every_record_and_update_names_its_author(whole):
  run, _ = whole
  assert {each.author for each in run.memory.of(records.Labels)} == {"rules"}
  assert {each.candidate.author for each in run.memory.of(changes.Update)} == {
    "rules"
  }


def test_without_interfaces_it_is_grpo_bit_for_bit():
  run = world.run(interfaces=())
  state = run.start()
  for step in range(4):
    state = run.step(state, step)
    same.evidence(run.evidence[step], grpo_plan_and_evidence(run.tasks, step))
  assert not run.memory.of(changes.Update)
  assert not run.calls("sample") and not run.calls("grade")


def test_with_every_candidate_rejected_it_is_grpo_bit_for_bit():
  run = world.run(pool=("Has q.",), interfaces=("rollout", "rubric"))
  state = run.start(**NEVER)
  for step in range(4):
    state = run.step(state, step)
    same.evidence(run.evidence[step], grpo_plan_and_evidence(run.tasks, step))
  measured = {
    update.candidate.interface
    for update in run.memory.of(changes.Update)
    if update.measurement.delta is not None
  }
  assert measured == {"rollout", "rubric"}


def test_what_is_accepted_holds_from_the_next_step_on():
  run = world.run(proposes(rollout=(add(),)), world.scripted(z="1" * 8))
  state = run.start(rollout=(5.0, 90.0))
  state = run.step(state, 0, draws=[0])
  assert fields_of(state, 0) == ["criterion"]
  run.step(state, 1, draws=[0])
  (slot,) = run.plans[1].slots
  assert "<criterion>" in run.plans[1].prompts[slot.sampled_under[0]][0].content
  assert run.plans[1].prompts[slot.bare] == run.tasks.tasks[0].prompt


def test_the_cap_takes_the_oldest_field_at_the_start_of_a_quarter():
  run = world.run(
    proposes(rollout=(add(), add("critique"))),
    world.scripted(z="1" * 8),
    num_steps=8,
  )
  state = run.step(run.start(rollout=(5.0, 90.0)), 0, draws=[0])
  assert fields_of(state, 0) == ["criterion", "critique"]
  written, asked = len(run.log), len(run.calls("sample"))
  for step in range(1, 4):
    _, after = run.method.plan(state, step, jax.random.key(step))
    assert after.harness is state.harness
  # cap(4) of 8 is 1; both are as old, so the one with the higher index goes.
  plan, state = run.method.plan(state, 4, jax.random.key(4))
  assert run.log[written:] == [changes.Removal(4, "t0", "critique", "cap")]
  assert not any("<critique>" in turn.content for (turn,) in plan.prompts)
  assert fields_of(state, 0) == ["criterion"]
  _, state = run.method.plan(state, 6, jax.random.key(6))
  assert fields_of(state, 0) == []
  # Nothing was measured for it.
  assert len(run.calls("sample")) == asked
  same.states(commits.replay(run.tasks, run.log), state.harness)


def test_no_more_fields_are_added_than_the_cap_allows():
  run = world.run(
    proposes(rollout=(add(), add("critique"))),
    world.scripted(z="1" * 8),
    num_steps=8,
  )
  state = run.start(rollout=(5.0, 90.0))
  for step in range(8):
    state = run.step(state, step, draws=[0] if step in (4, 7) else [1])
  codes = [each.decision.code for each in run.updates(4, "rollout")]
  assert codes == ["invalid:cap", "invalid:cap"]


def test_at_cap_zero_blind_criteria_lead_to_secondary_operations_only():
  def propose(case):
    return cases.Proposal(
      rollout=(add(),), rubric=(changes.Reweight("t0#4", 1.0),)
    )

  roles = stubs.Roles(propose)
  run = world.run(roles, world.scripted(z="1" * 8), num_steps=4, rounds=1)
  state = run.step(run.start(), 3, draws=[0])
  (case,) = roles.proposed
  assert (case.cap, case.donations) == (0, {})
  (rollout,) = run.updates(3, "rollout")
  assert rollout.decision.code == "invalid:cap"
  (rubric,) = run.updates(3, "rubric")
  assert not rubric.candidate.is_primary
  assert rubric.decision.is_accepted
  assert not run.calls("sample")
  assert world.task(state, 0).rubric.find("t0#4").raw == 1.0


def test_at_cap_zero_a_task_is_not_asked_about_for_guidance_alone():
  roles = proposes(rollout=(add(),))
  run = world.run(roles, world.scripted(), num_steps=4, interfaces=("rollout",))
  run.step(run.start(), 3, draws=[0])
  assert roles.proposed == []


def test_a_level_lowers_a_tasks_weight_and_raises_its_importance():
  run = world.run()
  state = run.start()
  level_N = state.harness.level_N.copy()
  level_N[2] = 3
  levels_4 = np.array([1.0, 0.6, 0.4, 0.2])
  harness = state.harness.replace(level_N=level_N, levels_4=levels_4)
  plan, _ = run.drawing(64).plan(
    state.replace(harness=harness), 1, jax.random.key(0)
  )
  # The mean weight is (5 + 0.2) / 6.
  found = {slot.task: slot.importance for slot in plan.slots}
  assert found[2] == pytest.approx(5.2 / 6 / 0.2)
  assert found[0] == pytest.approx(5.2 / 6)


def test_a_step_that_makes_the_weights_too_uneven_is_told_once(caplog):
  lower = cases.Proposal(sampling=(changes.Lower(),))
  run = world.run(stubs.Roles(lambda case: lower), has_memory=False)
  state = run.start()
  # 1 / (mean w mean 1/w) = 1 / (5.1/6 * 15/6) = 0.471 with one such weight.
  levels_4 = np.array([1.0, 0.1, 0.1, 0.1])
  state = state.replace(harness=state.harness.replace(levels_4=levels_4))
  with caplog.at_level(logging.WARNING):
    state = run.step(state, 0, draws=[0])
    assert world.task(state, 0).level == 1
    state = run.step(state, 1, draws=[0])
  # Other loggers may be set to say more.
  (record,) = [r for r in caplog.records if r.levelno == logging.WARNING]
  assert "leave 47 % of a step's draws" in record.message
  assert run.metrics[0]["harness/effective_sample"] == pytest.approx(
    1 / (5.1 / 6 * 15 / 6)
  )


def test_texts_go_through_json_and_join_restored_arrays(whole):
  run, state = whole
  check_restored(run, state)


def test_texts_join_arrays_that_have_grown():
  texts = iter(f"Has {letter}." for letter in "efghijkl")

  def propose(case):
    create = changes.Create(next(texts), 1.0)
    return cases.Proposal(rubric=(create,), rollout=(add(),))

  run = world.run(
    stubs.Roles(propose), world.scripted(z="1" * 8), has_critic=False
  )
  state = run.start()
  for step in range(3):
    state = run.step(state, step, draws=[0])
  assert state.harness.criterion_NC.shape == (6, 12)
  check_restored(run, state)


def check_restored(run, state):
  """A new run's state with the arrays of another one, then with its texts."""
  document = json.loads(json.dumps(run.method.text(state)))
  fresh = run.method.init(run.tasks)
  restored = jax.tree.unflatten(
    jax.tree.structure(fresh), jax.tree.leaves(state)
  )
  restored = run.method.with_text(restored, document)
  same.states(restored.harness, state.harness)
  for place in range(len(run.tasks.tasks)):
    assert world.task(restored, place) == world.task(state, place)
