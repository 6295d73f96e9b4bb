import pytest

from hrl_jax.harness import cases, changes, records
from tests.methods.harnessrl import stubs, world

ADD = changes.Add("criterion", (("t0#4", 0),), "Has z.")


def adds(case):
  """A field for z in every task; a critique for d too in task 1."""
  task = case.case.task
  z, d = (f"{task}#4", 0), (f"{task}#5", 0)
  if task != "t1":
    return cases.Proposal(rollout=(changes.Add("criterion", (z,), "Has z."),))
  targets = tuple(t for t in (z, d) if t in blind(case))
  return cases.Proposal(rollout=(changes.Add("criterion", targets, "Has z."),))


def blind(case):
  return {label.target for label in case.labels if label.name == "blind"}


def sampled(run):
  """The plans of the fresh groups of the last step."""
  return [plan for _, plan in run.calls("sample")]


def test_an_add_is_measured_on_a_fresh_group_under_its_fields():
  run = world.run(stubs.Roles(adds), world.scripted(z="11111100"), rounds=1)
  state = run.start(rollout=(5.0, 90.0))
  after = run.step(state, 0, draws=[0])
  (plan,) = sampled(run)
  (slot,) = plan.slots
  assert "<criterion>" in plan.prompts[slot.sampled_under[0]][0].content
  assert plan.prompts[slot.bare] == run.tasks.tasks[0].prompt
  assert slot.rubric == run.plans[0].slots[0].rubric
  (update,) = run.updates(0, "rollout")
  measurement = update.measurement
  assert (measurement.status, measurement.reason) == ("ok", "sampled")
  # 36 of 96 without a field; six of eight have a z, 4 each, with it.
  assert measurement.before == pytest.approx(100 * 36 / 96)
  assert measurement.after == pytest.approx(100 * 60 / 96)
  assert measurement.delta == pytest.approx(25.0)
  assert (measurement.valid, measurement.weights_version) == (8, 0)
  assert (measurement.rollouts, measurement.gradings) == (8, 48)
  assert measurement.target_met is None
  assert update.decision == changes.Decision(True, "within", 5.0, 90.0)
  assert [*world.task(after, 0).fields] == ["criterion"]


def test_a_probe_is_a_record_with_its_fields_and_is_not_trained_on():
  run = world.run(stubs.Roles(adds), world.scripted(z="1" * 8), rounds=1)
  run.step(run.start(rollout=(900.0, 901.0)), 2, draws=[0])
  (probe,) = run.memory.of(records.Group, kind="probe")
  assert (probe.id, probe.task) == ("probe:2:t0:rollout:0", "t0")
  assert (probe.step, probe.weights_version) == (2, 2)
  assert [field.text for field in probe.fields] == ["Has z."]
  assert all(rollout.is_guided for rollout in probe.rollouts)
  assert probe.importance is None
  # The batch has one group, of the bare prompt.
  assert run.evidence[0].rewards_PG.shape == (1, 8)
  assert probe.id not in run.memory.of(records.Labels)[0].groups


def guided_once(propose, **options):
  """A run of which t0 got a field for z at step 0, and drops it at step 1."""

  def both(case):
    if case.case.step == 0:
      return cases.Proposal(rollout=(ADD,))
    return propose(case)

  run = world.run(stubs.Roles(both), world.scripted(z="1" * 8), **options)
  state = run.step(run.start(rollout=(5.0, 90.0)), 0, draws=[0])
  return run, state


def drops(case):
  return cases.Proposal(rollout=(changes.Drop("criterion"),))


def test_a_field_stays_if_nothing_meets_its_target_without_it():
  run, state = guided_once(drops, rounds=1)
  # Without z but with everything else the mean falls by 70.8 - 62.5 only.
  letters = {
    "a": "1" * 8,
    "b": "11111111",
    "c": "11111111",
    "s": "1" * 4 + "0" * 4,
  }
  run.world.engine.answer = world.scripted(letters, z="1" * 8)
  state = run.step(state, 1, draws=[0])
  (update,) = run.updates(1, "rollout")
  (plan,) = sampled(run)
  assert plan.prompts[plan.slots[0].sampled_under[0]] == (
    run.tasks.tasks[0].prompt
  )
  assert update.measurement.delta == pytest.approx(-100 * 32 / 96)
  assert update.measurement.target_met is False
  assert update.decision.code == "below"
  assert [*world.task(state, 0).fields] == ["criterion"]


def test_reward_alone_does_not_withdraw_a_field():
  run, state = guided_once(drops, rounds=1)
  # Guided rollouts have z alone: 32. Others have a and s instead: 32.
  run.world.engine.answer = lambda prompt, seed: "z" if "<" in prompt else "a s"
  state = run.step(state, 1, draws=[0])
  (update,) = run.updates(1, "rollout")
  assert update.measurement.delta == pytest.approx(0.0)
  assert update.decision.code == "target_unmet"
  assert [*world.task(state, 0).fields] == ["criterion"]


def test_a_field_goes_once_its_target_is_met_without_it():
  run, state = guided_once(drops)
  letters = {**world.LETTERS, "z": "10000000"}
  run.world.engine.answer = world.scripted(letters, z="11000000")
  state = run.step(state, 1, draws=[0])
  (update,) = run.updates(1, "rollout")
  # One z less than the recorded group: 4 of 96, within the tolerance of 5.
  assert update.measurement.delta == pytest.approx(-100 * 4 / 96)
  assert update.measurement.target_met is True
  assert update.decision.is_accepted
  assert world.task(state, 0).fields == {}


def test_a_field_may_be_replaced_while_its_target_is_blind():
  def replaces(case):
    critique = changes.Add("criterion", (("t0#4", 0),), "Has z. Now!")
    return cases.Proposal(rollout=(changes.Drop("criterion"), critique))

  run, state = guided_once(replaces, rounds=1)
  run.world.engine.answer = world.scripted(
    world.LETTERS  # Its words do not help any more.
  )
  run.step(state, 1, draws=[0])
  (update,) = run.updates(1, "rollout")
  assert update.measurement.delta == 0.0
  # It is an add: it has to raise the mean.
  assert update.decision.code == "below"


def test_the_budget_is_a_share_of_the_draws_largest_potential_first():
  # Two groups may be sampled for six draws of three tasks; d weighs 1 more
  # than z alone, and of equal ones the first drawn comes first.
  run = world.run(stubs.Roles(adds), probe_share=0.34)
  letters = {**world.LETTERS, "d": "1" * 8}
  run.world.engine.answer = world.scripted(letters)
  state = run.start(rollout=(5.0, 90.0))
  run.step(state, 0, draws=[2, 0, 1, 2, 0, 1])
  found = {
    update.candidate.task: update
    for update in run.updates(0, "rollout")
    if update.candidate.round == 0
  }
  potentials = {
    task: update.candidate.potential for task, update in found.items()
  }
  assert potentials == pytest.approx(
    {"t0": 400 / 12, "t2": 400 / 12, "t1": 500 / 12}
  )
  reasons = {task: update.measurement.reason for task, update in found.items()}
  assert reasons == {"t1": "sampled", "t2": "sampled", "t0": "no_budget"}
  assert found["t0"].decision.code == "unmeasured:no_budget"
  # Nothing is left for a second round, and t0 is not asked about again.
  second = [c for c in run.evolver.roles.proposed if c.rejections]
  assert {case.case.task for case in second} == {"t1", "t2"}
  assert sum(len(plan.slots) for plan in sampled(run)) == 2
  # t0 in the first round, the other two in the second.
  assert run.metrics[0]["harness/no_budget"] == 3


def test_a_second_round_has_what_the_first_has_left():
  run = world.run(stubs.Roles(adds), world.scripted(), probe_share=1.5)
  run.step(run.start(rollout=(5.0, 90.0)), 0, draws=[0, 2])
  # Three groups: two in the first round, one in the second.
  assert [len(plan.slots) for plan in sampled(run)] == [2, 1]
  rounds = [
    (u.candidate.task, u.candidate.round, u.measurement.reason)
    for u in run.updates(0, "rollout")
  ]
  assert rounds == [
    ("t0", 0, "sampled"),
    ("t0", 1, "sampled"),
    ("t2", 0, "sampled"),
    ("t2", 1, "no_budget"),
  ]
  first, second = (
    run.memory.of(records.Group, id=f"probe:0:t0:rollout:{n}")[0]
    for n in (0, 1)
  )
  assert first != second


def test_without_a_budget_nothing_is_measured():
  run = world.run(stubs.Roles(adds), world.scripted(), probe_share=0.0)
  run.step(run.start(), 0, draws=[0])
  (update,) = run.updates(0, "rollout")
  assert update.decision.code == "unmeasured:no_budget"
  assert not run.calls("sample")


def test_a_pair_of_fresh_groups_takes_the_recorded_one_s_place():
  run = world.run(
    stubs.Roles(adds), world.scripted(), paired_probe=True, rounds=1
  )
  state = run.start(rollout=(5.0, 90.0))
  # The recorded groups are worse than a fresh one would be.
  answers = [world.scripted({"s": "1" * 8}), world.scripted(z="1" * 8)]
  count = iter(range(1000))
  run.world.engine.answer = lambda prompt, seed: answers[next(count) >= 16](
    prompt, seed
  )
  run.step(state, 0, draws=[0, 0])
  (update,) = run.updates(0, "rollout")
  assert update.measurement.before == pytest.approx(100 * 36 / 96)
  assert update.measurement.after == pytest.approx(100 * 68 / 96)
  assert update.measurement.rollouts == 16
  with_it, without = run.memory.of(records.Group, kind="probe")
  assert without.id == "probe:0:t0:rollout:0:without"
  assert (len(with_it.fields), len(without.fields)) == (1, 0)
  assert not any(rollout.is_guided for rollout in without.rollouts)


def test_a_pair_costs_twice():
  run = world.run(
    stubs.Roles(adds), world.scripted(), paired_probe=True, rounds=1
  )
  # Three groups do for one pair.
  run.step(run.start(), 0, draws=[0, 2, 2])
  reasons = [u.measurement.reason for u in run.updates(0, "rollout")]
  assert reasons == ["sampled", "no_budget"]


def test_an_engine_that_aborts_leaves_a_candidate_unmeasured():
  run = world.run(stubs.Roles(adds), rounds=1)
  own = world.scripted()
  state = run.start()
  run.world.engine.answer = lambda prompt, seed: (
    None if "<" in prompt else own(prompt, seed)
  )
  after = run.step(state, 0, draws=[0])
  (update,) = run.updates(0, "rollout")
  assert update.measurement == changes.Measurement(
    status="none", reason="thin_group", gradings=48, rollouts=8
  )
  assert update.decision.code == "unmeasured:thin_group"
  assert len(run.memory.of(records.Group, kind="probe")) == 1
  assert after.harness is state.harness
