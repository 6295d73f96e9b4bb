from hrl_jax.harness import cases, changes, commits, records
from tests.methods.harnessrl import same, stubs, world

Z = ("t0#4", 0)
ADD = changes.Add("criterion", (Z,), "Has z.")


def test_a_step_in_which_nothing_is_proposed_is_written_down():
  run = world.run(stubs.Roles(), world.scripted())
  state = run.start()
  written = len(run.log)
  after = run.step(state, 0, draws=[0, 1])
  assert after.harness is state.harness
  assert [type(record) for record in run.log[written:]] == [
    records.Group,
    records.Group,
    records.Labels,
    records.Labels,
  ]


def test_updates_are_committed_rubric_first_and_orphans_are_swept_up():
  lower = (changes.Lower(),)

  def propose(case):
    if case.case.step < 2:
      return cases.Proposal()
    return cases.Proposal(
      sampling=lower,
      rollout=(ADD,),
      rubric=(changes.Rewrite("t0#4", "Has y."),),
    )

  run = world.run(stubs.Roles(propose), world.scripted(), rounds=1)
  state = run.start(rollout=(5.0, 90.0), rubric=(0.0, 90.0))
  for step in range(2):
    state = run.step(state, step, draws=[0])
  letters = {"a": "11110000", "s": "1" * 8}
  run.world.engine.answer = world.scripted(letters, z="1" * 8)
  written = len(run.log)
  state = run.step(state, 2, draws=[0])
  assert [type(record) for record in run.log[written:]] == [
    records.Group,  # That was drawn.
    records.Labels,
    records.Group,  # The probe, and the regrade.
    records.Group,
    changes.Update,
    changes.Update,
    changes.Update,
    changes.Removal,
  ]
  updates = run.log[written + 4 : written + 7]
  assert [update.candidate.interface for update in updates] == [
    "rubric",
    "rollout",
    "sampling",
  ]
  assert all(update.decision.is_accepted for update in updates)
  # The field was for words that the same step has changed.
  assert run.log[-1] == changes.Removal(2, "t0", "criterion", "orphan")
  task = world.task(state, 0)
  assert task.fields == {}
  assert (task.level, task.rubric.version) == (1, 1)
  assert run.metrics[-1]["harness/orphans"] == 1
  same.states(commits.replay(run.tasks, run.log), state.harness)


def test_a_field_goes_when_its_target_is_deleted_later():
  def propose(case):
    if case.case.step == 0:
      return cases.Proposal(rollout=(ADD,))
    return cases.Proposal(rubric=(changes.Delete("t0#4"),))

  def hacked(case):
    quotes = tuple(records.Quote(place, "a") for place in (0, 1))
    suspicion = cases.Suspicion(("t0#0", 0), "length_gaming", quotes, 0.9)
    return cases.Attribution((suspicion,))

  run = world.run(
    stubs.Roles(propose, hacked), world.scripted(z="1" * 8), rounds=1
  )
  state = run.start(rollout=(5.0, 90.0), rubric=(0.0, 90.0))
  for step in range(2):
    state = run.step(state, step, draws=[0])
  assert run.memory.of(changes.Removal) == [
    changes.Removal(1, "t0", "criterion", "orphan")
  ]
  assert world.task(state, 0).fields == {}


def test_a_task_of_the_bank_that_is_not_drawn_stays_as_it_is():
  run = world.run(pool=("Has q.",), num_groups=6)
  state = run.start()
  before = [world.task(state, place) for place in range(6)]
  state = run.step(state, 0, draws=[0, 3])
  assert run.memory.of(changes.Update)
  for place in (1, 2, 4, 5):
    assert world.task(state, place) == before[place]


def test_the_same_step_from_the_same_state_ends_the_same():
  one, other = (world.run(pool=("Has q.",)) for _ in range(2))
  same.states(one.whole(3).harness, other.whole(3).harness)
  assert one.log == other.log


def test_answers_of_no_use_change_nothing():
  def propose(case):
    return cases.Proposal(
      sampling=(changes.Lower(),),
      rollout=(
        changes.Add("criterion", (("nobody#1", 0),), "x"),
        changes.Drop("critique"),
      ),
      rubric=(changes.Rewrite("t0#4", ""), changes.Merge((), "x")),
      problems=("half a JSON",),
    )

  run = world.run(stubs.Roles(propose), world.scripted())
  state = run.start()
  after = run.step(state, 0, draws=[0])
  assert after.harness is state.harness
  assert not run.calls("sample") and not run.calls("grade")
  assert {u.decision.code for u in run.memory.of(changes.Update)} == {
    "invalid:unsaturated",
    "invalid:unrouted",
    "invalid:text",
  }
