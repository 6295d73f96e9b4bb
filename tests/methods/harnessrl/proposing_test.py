from hrl_jax.harness import cases, changes, records, terms
from tests.methods.harnessrl import stubs, world

Z = ("t0#4", 0)
ADD = changes.Add("criterion", (Z,), "Has z.")
NEVER = {"rollout": (900.0, 901.0), "rubric": (900.0, -1.0)}


def at(step, propose):
  """Proposes at one step only."""
  return lambda case: (
    propose(case) if case.case.step == step else cases.Proposal()
  )


def every(case):
  """A change of each interface; those of the first round are rejected."""
  return cases.Proposal(
    sampling=(changes.Lower(),),
    rollout=(ADD,),
    rubric=(changes.Reweight("t0#3", 2.0),),
    evidence=("cold:0:t0",),
    rationale="because",
  )


def third_step(roles, **options):
  """A run up to step 2, at which t0 is saturated and has a blind criterion."""
  bands = options.pop("bands", {})
  run = world.run(roles, world.scripted(), **options)
  state = run.start(**bands)
  for step in range(3):
    if step == 2:
      run.world.engine.answer = world.scripted({"a": "11110000", "s": "1" * 8})
    state = run.step(state, step, draws=[0])
  return run, state


def test_a_candidate_says_what_it_is_and_what_it_rests_on():
  run, _ = third_step(stubs.Roles(at(2, every)), bands=NEVER, rounds=1)
  found = {name: run.updates(2, name)[0].candidate for name in terms.INTERFACES}
  for name, candidate in found.items():
    assert candidate.id == f"2:t0:{name}:0"
    assert (candidate.step, candidate.task, candidate.round) == (2, "t0", 0)
    assert (candidate.author, candidate.rationale) == ("fake", "because")
    assert candidate.evidence == ("cold:0:t0",)
    assert candidate.rubric_version == 0
  assert found["rollout"].operations == (ADD,)
  # In points of 100 / 12 each: z weighs 4, s weighs 1, a level nothing.
  assert found["rollout"].potential == 400 / 12
  assert round(found["rubric"].potential, 9) == round(100 / 12, 9)
  assert found["sampling"].potential == 0.0
  # Other tasks have the same criteria.
  assert found["rollout"].is_grounded and found["rubric"].is_grounded
  assert not found["sampling"].is_grounded
  assert found["rollout"].is_primary
  assert not found["rubric"].is_primary


def test_the_proposer_is_shown_where_the_task_stands():
  roles = stubs.Roles()
  third_step(roles, pool=("Has q.",), num_steps=4)
  case = roles.proposed[-1]
  assert case.is_saturated
  assert (case.level, case.cap, case.fields) == (0, 1, {})
  assert case.interfaces == terms.INTERFACES
  assert (case.lowest, case.highest, case.most) == (1.0, 4.0, 20)
  assert case.writes and case.rejections == ()
  assert case.pool == ("Has q.",)
  assert [*case.donations] == [Z]
  assert [label.name for label in case.labels] == [
    "agree",
    "agree",
    "agree",
    "saturated",
    "blind",
    "saturated",
  ]


def test_rejected_candidates_return_once_with_measurement_and_band():
  roles = stubs.Roles(at(2, every))
  run, _ = third_step(roles, bands=NEVER)
  first, second = [case for case in roles.proposed if case.case.step == 2]
  assert first.rejections == ()
  # The sampling candidate was accepted: its interface is not open again.
  rollout, rubric = sorted(
    second.rejections, key=lambda each: each.candidate.interface
  )
  assert set(second.interfaces) == {"rollout", "rubric"}
  assert rollout.candidate.id == "2:t0:rollout:0"
  assert rollout.measurement.delta is not None
  assert (rollout.decision.code, rollout.decision.lower) == ("below", 900.0)
  assert (rubric.decision.code, rubric.decision.upper) == ("above", -1.0)
  # What is proposed for a closed interface all the same is not looked at.
  ids = [u.candidate.id for u in run.memory.of(changes.Update)]
  assert ids == [
    "2:t0:rubric:0",
    "2:t0:rubric:1",
    "2:t0:rollout:0",
    "2:t0:rollout:1",
    "2:t0:sampling:0",
  ]


def test_there_are_as_many_rounds_as_are_asked_for():
  for rounds in (1, 3):
    run, _ = third_step(
      stubs.Roles(at(2, every)), bands=NEVER, rounds=rounds, probe_share=9.0
    )
    found = [u.candidate.round for u in run.updates(2, "rollout")]
    assert found == [*range(rounds)]


def test_an_accepted_candidate_does_not_return():
  roles = stubs.Roles(at(0, lambda case: cases.Proposal(rollout=(ADD,))))
  run = world.run(roles, world.scripted(z="1" * 8))
  run.step(run.start(rollout=(5.0, 90.0)), 0, draws=[0])
  assert len(roles.proposed) == 1


def test_invalid_candidates_cost_no_call_and_return_with_the_reason():
  operations = cases.Proposal(
    rollout=(changes.Drop("critique"),),
    rubric=(changes.Delete("t0#77"),),
    sampling=(changes.Lower(),),
  )
  roles = stubs.Roles(lambda case: operations)
  run = world.run(roles, world.scripted())
  state = run.start()
  after = run.step(state, 0, draws=[0])
  assert after.harness is state.harness
  assert not run.calls("sample") and not run.calls("grade")
  codes = {
    update.candidate.interface: update.decision.code
    for update in run.memory.of(changes.Update)
  }
  assert codes == {
    "rollout": "invalid:unmounted",
    "rubric": "invalid:unknown",
    "sampling": "invalid:unsaturated",
  }
  _, second = roles.proposed
  assert {each.measurement.reason for each in second.rejections} == {
    "<critique> is not mounted",
    "the rubric has no criterion 't0#77'",
    "the task is not saturated",
  }
  assert {each.measurement.status for each in second.rejections} == {"none"}


def test_what_could_not_be_read_stays_in_the_log():
  roles = stubs.Roles(
    lambda case: cases.Proposal(
      problems=(f"round {len(case.rejections)}",), rubric=every(case).rubric
    ),
    lambda case: cases.Attribution(problems=("first of all",)),
  )
  run = world.run(roles, world.scripted())
  run.step(run.start(**NEVER), 0, draws=[0])
  (labels,) = run.memory.of(records.Labels)
  assert labels.problems == ("first of all", "round 0", "round 1")
  assert run.metrics[0]["harness/problems"] == 3


def test_only_open_interfaces_are_proposed_for():
  for interface in terms.INTERFACES:
    roles = stubs.Roles(at(2, every))
    run, _ = third_step(roles, interfaces=(interface,), rounds=1)
    found = {u.candidate.interface for u in run.memory.of(changes.Update)}
    assert found == {interface}
    assert all(case.interfaces == (interface,) for case in roles.proposed)
    # Donors are looked for only where they may be shown.
    has_donors = any(case.donations for case in roles.proposed)
    assert has_donors == (interface == "rollout")


def test_lineages_that_left_the_rubric_may_be_restored():
  def propose(case):
    operations = {
      0: changes.Rewrite("t0#4", "Has y."),
      1: changes.Delete("t0#4"),
    }
    made = operations.get(case.case.step)
    return cases.Proposal(rubric=(made,) if made else ())

  roles = stubs.Roles(propose)
  run = world.run(roles, world.scripted(), rounds=1)
  state = run.start(rubric=(0.0, 90.0))
  for step in range(3):
    state = run.step(state, step, draws=[0])
  # A lineage with other words is still there; its last words may come back.
  first, second, third = (case.archive for case in roles.proposed)
  assert first == second == ()
  (gone,) = third
  assert (gone.target, gone.text) == (("t0#4", 1), "Has y.")
