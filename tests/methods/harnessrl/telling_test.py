import pytest

from hrl_jax.harness import cases, changes, retrieval
from hrl_jax.methods.harnessrl import telling
from tests.methods.harnessrl import stubs, world

ADD = changes.Add("criterion", (("t0#4", 0),), "Has z.")


@pytest.mark.core
@pytest.mark.parametrize(
  ("operation", "words"),
  [
    (changes.Lower(), "draw the task less often"),
    (ADD, "mount <criterion> for t0#4"),
    (changes.Drop("critique"), "withdraw <critique>"),
    (changes.Create("Has q.", 2.0), "create (+2): Has q."),
    (changes.Create("Has q.", -2.0, "t#1"), "restore t#1 (-2): Has q."),
    (changes.Rewrite("t#1", "Has q."), "rewrite t#1: Has q."),
    (changes.Delete("t#1"), "delete t#1"),
    (changes.Reweight("t#1", 0.5), "reweight t#1 to +0.5"),
    (changes.Merge(("t#1", "t#2"), "Has q."), "merge t#1, t#2: Has q."),
    (changes.Split("t#1", ("A.", "B.")), "split t#1: A. | B."),
  ],
)
def test_operations_in_words(operation, words):
  assert telling.operation(operation) == words


@pytest.mark.core
def test_an_outcome_in_words():
  known = changes.Outcome("c", "t", 5, 2, ((("t#1", 3), "blind"),), -0.25, 4.0)
  assert telling.outcome(known) == (
    "by draw 2 after it: t#1@3 blind, mass -0.25, +4.0 points"
  )
  unknown = changes.Outcome("c", "t", 5, 1, (), None, None)
  assert telling.outcome(unknown) == "by draw 1 after it: not known"


def at_zero(case):
  wanted = (case.case.step, case.case.task) == (0, "t0")
  return cases.Proposal(rollout=(ADD,) if wanted else ())


def told(steps, **options):
  """What is told of t0 at its last draw, after a run that draws it only."""
  roles = stubs.Roles(at_zero)
  run = world.run(roles, world.scripted(z="1" * 8), **options)
  state = run.start(rollout=(5.0, 90.0))
  for step in steps:
    state = run.step(state, step, draws=[0])
  return run, roles.attributed[-1]


def test_a_story_is_told_in_order_with_what_became_of_it():
  _, case = told([0, 1, 4, 5], num_steps=5)
  assert case.history[0] == (
    "first policy: 37.5 points; t0#0@0:4/8 t0#1@0:2/8 t0#2@0:6/8 t0#3@0:8/8 "
    "t0#4@0:0/8 t0#5@0:8/8"
  )
  assert [line.partition(":")[0] for line in case.history] == [
    "first policy",
    "first policy",
    "step 0",
    "step 0",
    "step 1",
    "step 4",
    "step 4",
  ]
  group, update, _, cap, last = case.history[2:]
  assert group.startswith("step 0: 37.5 points; t0#0@0:4/8(agree)")
  assert "t0#4@0:0/8(blind)" in group
  assert update == (
    "step 0: mount <criterion> for t0#4. +33.3 points, accepted (within); "
    "by draw 1 after it: t0#4@0 agree, mass +0.00, +33.3 points; "
    "by draw 2 after it: t0#4@0 blind, mass +0.00, +0.0 points"
  )
  assert cap == "step 4: <criterion> went (cap)"
  assert last.startswith("step 4: 37.5 points; ")
  assert case.history[4].startswith("step 1: 70.8 points, with criterion; ")


def test_only_groups_that_matter_are_told():
  # z is met at steps 0 to 5 and not from step 6 on: the cold start, the change
  # and the last four of the draws before step 12.
  run = world.run(stubs.Roles(), world.scripted())
  state = run.start()
  for step in range(13):
    z = {"z": "1" * 8} if step < 6 else {}
    run.world.engine.answer = world.scripted({**world.LETTERS, **z})
    state = run.step(state, step, draws=[0])
  case = run.evolver.roles.attributed[-1]
  assert [line.partition(":")[0] for line in case.history] == [
    "first policy",
    "step 0",
    "step 6",
    *(f"step {step}" for step in range(8, 12)),
  ]


def test_a_thin_group_is_told_as_such():
  roles = stubs.Roles()
  run = world.run(roles, world.scripted())
  state = run.start()
  run.world.engine.answer = lambda prompt, seed: None
  state = run.step(state, 0, draws=[0])
  run.world.engine.answer = world.scripted()
  run.step(state, 1, draws=[0])
  (case,) = roles.attributed
  assert "step 0: too few graded rollouts" in case.history


def test_related_criteria_come_with_what_is_known_of_them():
  roles = stubs.Roles(at_zero)
  run = world.run(roles, world.scripted(z="1" * 8), tasks=3)
  state = run.start(rollout=(5.0, 90.0))
  state = run.step(state, 0, draws=[0])
  run.step(state, 1, draws=[0, 1])
  case = next(
    case for case in roles.attributed if case.step == 1 and case.task == "t1"
  )
  related = {view.target: view for view in case.related}
  z = related["t0#4", 0]
  assert (z.to, z.text, z.similarity) == (("t1#4", 0), "Has z.", 1.0)
  # At step 1 every rollout of t0 is guided and has a z.
  assert z.passes == (8, 8)
  assert z.labels == ("blind",)
  assert z.positive == "a b c s z"
  # None of the newest group fails it: the newest that has one is of step 0.
  assert z.negative == "a b c s"
  assert z.updates == (
    "mount <criterion> for t0#4. +33.3 points, accepted (within)",
  )
  other = related["t2#4", 0]
  assert (other.passes, other.labels) == ((0, 8), ())
  assert (other.positive, other.negative) == (None, "a b c s")
  assert other.updates == ()


def test_criteria_that_are_asked_about_come_first_and_few_enough():
  roles = stubs.Roles()
  run = world.run(roles, world.scripted(), related_shown=16)
  run.step(run.start(), 0, draws=[0])
  # Six criteria, each with one hit in four of the five other tasks: of these
  # 24, sixteen are shown. Asked about are a, b, c (separating) and z (blind).
  (case,) = roles.attributed
  assert len(case.related) == 16
  assert {view.to[0] for view in case.related} == {
    "t0#0",
    "t0#1",
    "t0#2",
    "t0#4",
  }
  run = world.run(roles := stubs.Roles(), world.scripted(), related_shown=18)
  run.step(run.start(), 0, draws=[0])
  assert len(roles.attributed[0].related) == 18


def test_a_related_lineage_is_shown_once():
  criteria = (("Has a.", 2.0), ("Has b.", 2.0), ("Has c.", 2.0))
  roles = stubs.Roles()
  run = world.run(roles, world.scripted(), criteria=criteria)
  # One criterion of another task is related to all three.
  run.memory.related = lambda queries: [
    (retrieval.Hit(("t1#0", 0), "t1", "Has a.", similarity),)
    for similarity in (0.85, 0.95, 0.9)
  ]
  run.step(run.start(), 0, draws=[0])
  (view,) = roles.attributed[0].related
  assert (view.to, view.similarity) == (("t0#1", 0), 0.95)
