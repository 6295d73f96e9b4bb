import numpy as np
import pytest

from hrl_jax.harness import cases, changes, records
from tests.methods.harnessrl import stubs, world

ADD = changes.Add("criterion", (("t0#4", 0),), "Has z.")


def adds(case):
  wanted = ADD if case.case.task == "t0" else None
  return cases.Proposal(rollout=(wanted,) if wanted else ())


def judge(criterion, response):
  """Cannot grade a response with an x."""
  if "x" in response.split():
    return np.nan
  return world.score(criterion, response)


def in_turn(*groups):
  """Answers of whole groups, one script after the other."""
  scripts = [world.scripted(letters) for letters in groups]
  count = -1

  def answered(prompt, seed):
    nonlocal count
    count += 1
    return scripts[count // 8 % len(scripts)](prompt, seed)

  return answered


THIN = {**world.LETTERS, "x": "11111000"}
# Five of eight are not graded; four is the least.


def started(roles, answers, **options):
  """A run whose cold start went well, with other answers from now on."""
  run = world.run(roles, world.scripted(), judge, **options)
  state = run.start(rollout=(5.0, 90.0))
  run.world.engine.answer = answers
  return run, state


def test_both_groups_of_a_task_drawn_twice_are_recorded():
  roles = stubs.Roles()
  run, state = started(roles, world.scripted())
  run.step(state, 0, draws=[0, 1, 0])
  groups = run.memory.of(records.Group, kind="train")
  assert sorted((group.id, group.task) for group in groups) == [
    ("train:0:0", "t0"),
    ("train:0:1", "t1"),
    ("train:0:2", "t0"),
  ]
  assert all(group.importance == 1.0 for group in groups)
  # Both are trained on: the evidence of the step is not the evolver's.
  assert run.evidence[0].rewards_PG.shape == (3, 8)


def test_a_task_drawn_twice_is_one_unit_with_its_groups_stacked():
  roles = stubs.Roles()
  run, state = started(
    roles, in_turn({"a": "11110000", "s": "1" * 8}, {"a": "1" * 8})
  )
  run.step(state, 0, draws=[0, 0])
  (labels,) = run.memory.of(records.Labels)
  assert labels.groups == ("train:0:0", "train:0:1")
  (case,) = roles.attributed
  assert len(case.responses) == len(case.rewards) == 16
  by_target = {view.target[0]: view for view in case.criteria}
  # 4 of 8 and 8 of 8, or the other way round: 12 of 16 have an a.
  assert sum(by_target["t0#0"].met) == 12
  assert labels.labels[0].reason == "separates"
  # s is met by one whole group only, so it separates the two together.
  assert sum(by_target["t0#3"].met) == 8
  assert labels.labels[3].reason == "separates"


def test_the_critic_measures_a_task_drawn_twice_against_its_first_group():
  # 3 * 8 of 96 points, and 3 * 4.
  first, second = {"a": "1" * 8}, {"a": "11110000"}
  # The engine answers the last group first.
  run, state = started(stubs.Roles(adds), in_turn(second, first), rounds=1)
  run.step(state, 0, draws=[0, 0])
  (update,) = run.updates(0, "rollout")
  assert update.measurement.before == pytest.approx(25.0)


def test_a_thin_group_is_stored_and_nothing_is_learnt_from_it():
  roles = stubs.Roles(adds)
  run, state = started(roles, world.scripted(THIN))
  after = run.step(state, 0, draws=[0])
  (group,) = run.memory.of(records.Group, kind="train")
  assert sum(rollout.reward is None for rollout in group.rollouts) == 5
  assert run.memory.of(records.Labels) == [
    records.Labels(
      step=0,
      task="t0",
      groups=("train:0:0",),
      labels=(),
      code="thin_group",
      author="fake",
      mass=None,
      is_saturated=False,
    )
  ]
  assert not roles.attributed and not roles.proposed
  assert not run.calls("sample") and not run.calls("grade")
  assert run.metrics[0]["harness/thin_tasks"] == 1
  assert np.isnan(run.metrics[0]["harness/agree"])
  assert after.harness is state.harness


def test_of_two_groups_the_thin_one_is_left_out():
  # The engine answers the second group first: the first is the thin one.
  roles = stubs.Roles(adds)
  run, state = started(roles, in_turn(world.LETTERS, THIN), rounds=1)
  run.step(state, 0, draws=[0, 0])
  assert len(run.memory.of(records.Group, kind="train")) == 2
  (labels,) = run.memory.of(records.Labels)
  assert (labels.code, labels.groups) == ("labelled", ("train:0:1",))
  (case,) = roles.attributed
  assert len(case.responses) == 8
  (update,) = run.updates(0, "rollout")
  # 36 of 96, see `world.LETTERS`.
  assert update.measurement.before == pytest.approx(37.5)
  assert labels.mass == 0.5


def test_a_task_of_which_every_draw_is_thin_is_passed_over():
  def answered(prompt, seed):
    return "x" if prompt == "task 5" else world.answer(prompt, seed)

  roles = stubs.Roles()
  run = world.run(roles, answered, judge)
  state = run.start()
  calibration = run.file.log[-1]
  assert "t5" not in calibration.masses
  assert set(calibration.masses) == {f"t{place}" for place in range(5)}
  for step in range(3):
    state = run.step(state, step, draws=[5, 0])
  codes = [each.code for each in run.memory.of(records.Labels, task="t5")]
  assert codes == ["thin_group"] * 3
  assert {case.task for case in roles.attributed} == {"t0"}
  assert np.isnan(world.task(state, 5).mass)


def test_a_thin_draw_between_does_not_break_a_labels_persistence():
  run, state = started(stubs.Roles(), world.scripted())
  for step, letters in enumerate((world.LETTERS, THIN, world.LETTERS)):
    run.world.engine.answer = world.scripted(letters)
    state = run.step(state, step, draws=[0])
  # Has z. is blind at the first and the third draw.
  first, thin, third = run.memory.of(records.Labels)
  assert thin.labels == ()
  assert [each.labels[4].persistence for each in (first, third)] == [1, 2]


def test_without_a_memory_nothing_is_looked_up():
  run = world.run(
    stubs.Roles(adds),
    world.scripted(z="1" * 8),
    has_critic=False,
    has_memory=False,
    memory=stubs.Forgetful,
  )
  state = run.start()
  for step in range(3):
    state = run.step(state, step, draws=[0, 0, 1])
  assert [each.decision.code for each in run.updates(0, "rollout")] == [
    "no_critic"
  ]
  assert not run.memory.of(changes.Outcome)
  assert np.isnan(run.metrics[-1]["harness/reversals"])


def test_without_a_memory_labels_come_from_the_group_alone():
  roles = stubs.Roles()
  run = world.run(
    roles, world.scripted(), has_memory=False, memory=stubs.Forgetful
  )
  run.step(run.start(), 0, draws=[0])
  (labels,) = run.memory.of(records.Labels)
  assert [each.name for each in labels.labels] == [
    "agree",
    "agree",
    "agree",
    "saturated",
    "blind",
    # A penalty that nobody triggers is met by all (H-61).
    "saturated",
  ]
  assert labels.is_saturated
  (case,) = roles.attributed
  assert (case.history, case.related) == ((), ())
  (proposal,) = roles.proposed
  assert (proposal.updates, proposal.archive) == ((), ())
