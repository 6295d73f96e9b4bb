import pytest

from hrl_jax.harness import cases, changes, records
from tests.methods.harnessrl import stubs, world

ADD = changes.Add("criterion", (("t0#4", 0),), "Has z.")
EVERY = cases.Proposal(
  sampling=(changes.Lower(),),
  rollout=(ADD,),
  rubric=(changes.Create("Has q.", 1.0),),
)


def test_without_a_critic_what_is_valid_is_accepted_unmeasured_in_one_round():
  wrong = cases.Proposal(rubric=(changes.Delete("t0#77"),))
  roles = stubs.Roles(lambda case: EVERY if case.case.task == "t0" else wrong)
  run = world.run(roles, world.scripted(), has_critic=False, rounds=2)
  state = run.start()
  state = run.step(state, 0, draws=[0, 1])
  codes = {
    u.candidate.id: u.decision.code for u in run.memory.of(changes.Update)
  }
  assert codes == {
    "0:t0:rubric:0": "no_critic",
    "0:t0:rollout:0": "no_critic",
    "0:t0:sampling:0": "invalid:unsaturated",
    "0:t1:rubric:0": "invalid:unknown",
  }
  (rubric,) = [u for u in run.updates(0, "rubric") if u.candidate.task == "t0"]
  assert rubric.measurement == changes.Measurement("none", "no_critic")
  assert [version.text for version in rubric.made] == ["Has q."]
  assert not run.calls("sample") and not run.calls("grade")
  assert [*world.task(state, 0).fields] == ["criterion"]
  assert len(world.task(state, 0).rubric.entries) == 7


@pytest.mark.parametrize("has_critic", [True, False])
def test_a_level_costs_nothing_and_is_measured_by_the_recorded_mass(has_critic):
  lower = cases.Proposal(sampling=(changes.Lower(),))
  run = world.run(
    stubs.Roles(lambda case: lower), world.scripted(), has_critic=has_critic
  )
  state = run.start()
  for step in range(2):
    state = run.step(state, step, draws=[0])
  run.world.engine.answer = world.scripted({"a": "11110000", "s": "1" * 8})
  state = run.step(state, 2, draws=[0])
  update = run.updates(2, "sampling")[-1]
  assert update.measurement == changes.Measurement(
    status="ok",
    reason="mass",
    after=pytest.approx(1 / 6),
    valid=8,
    weights_version=2,
  )
  assert update.decision == changes.Decision(True, "measured")
  assert not run.calls("sample") and not run.calls("grade")
  task = world.task(state, 0)
  # Its next fall is measured from here.
  assert (task.level, task.mass) == (1, pytest.approx(1 / 6))
  state = run.step(state, 3, draws=[0])
  assert world.task(state, 0).level == 1
  assert run.updates(3, "sampling")[-1].decision.code == "invalid:unsaturated"


def test_the_lowest_level_is_the_end():
  lower = cases.Proposal(sampling=(changes.Lower(),))
  run = world.run(
    stubs.Roles(lambda case: lower), world.scripted(), has_memory=False
  )
  state = run.start()
  for step in range(5):
    state = run.step(state, step, draws=[0])
  codes = [run.updates(s, "sampling")[0].decision.code for s in range(5)]
  assert codes == ["measured"] * 3 + ["invalid:lowest"] * 2
  assert world.task(state, 0).level == 3


def test_interfaces_are_measured_apart_against_the_harness_as_it_was():
  run = world.run(
    stubs.Roles(lambda case: EVERY), world.scripted(z="1" * 8), rounds=1
  )
  state = run.start(rollout=(5.0, 90.0), rubric=(0.0, 90.0))
  state = run.step(state, 0, draws=[0])
  assert all(
    update.decision.is_accepted
    for name in ("rubric", "rollout")
    for update in run.updates(0, name)
  )
  # The fresh group was graded by the rubric without the new criterion.
  (probe,) = run.memory.of(records.Group, kind="probe")
  assert (len(probe.criteria), probe.rubric_version) == (6, 0)
  # The regraded one is the recorded group, without a field.
  (regrade,) = run.memory.of(records.Group, id="regrade:0:t0:rubric:0")
  assert regrade.fields == ()
  assert not any(rollout.is_guided for rollout in regrade.rollouts)
