import pytest

from hrl_jax.harness import cases, changes
from tests.methods.harnessrl import stubs, world

Z = ("t0#4", 0)
ADD = changes.Add("criterion", (Z,), "Has z.")


def at_step(step, **operations):
  """Proposes operations for t0 at one step."""

  def propose(case):
    if (case.case.step, case.case.task) == (step, "t0"):
      return cases.Proposal(**operations)
    return cases.Proposal()

  return propose


def first_of(*proposals):
  def propose(case):
    answers = [each(case) for each in proposals]
    return next((a for a in answers if a != cases.Proposal()), answers[0])

  return propose


def story(propose, scripts, draws, **options):
  """A run whose answers change with the step."""
  run = world.run(stubs.Roles(propose), world.scripted(), **options)
  state = run.start(rollout=(5.0, 90.0), rubric=(0.0, 90.0))
  for step, (answers, places) in enumerate(zip(scripts, draws, strict=True)):
    run.world.engine.answer = answers
    state = run.step(state, step, draws=places)
  return run


def test_outcomes_are_looked_at_at_the_next_two_draws():
  run = story(
    at_step(0, rollout=(ADD,)),
    [
      world.scripted(z="1" * 8),
      world.scripted(z="1" * 8),
      world.scripted(),
      world.scripted({"a": "11110000"}, z="1" * 8),
      world.scripted(z="1" * 8),
    ],
    [[0], [0, 0], [1], [0], [0]],
  )
  first, second = run.memory.of(changes.Outcome)
  assert first.candidate == second.candidate == "0:t0:rollout:0"
  assert (first.step, first.draw) == (1, 1)
  assert (second.step, second.draw) == (3, 2)
  # At step 1 everybody has a z of 4 too: 36 + 32 of 96 instead of 36. z does
  # not separate, so 3 of 6 do as before.
  assert first.labels == ((Z, "agree"),)
  assert first.points_delta == pytest.approx(100 * 32 / 96)
  assert first.mass_delta == 0.0
  # At step 3 only a and z are met: 12 + 32, and a alone separates.
  assert second.points_delta == pytest.approx(100 * (44 - 36) / 96)
  assert second.mass_delta == pytest.approx(1 / 6 - 3 / 6)


def test_a_rejected_candidate_has_no_outcome():
  run = story(at_step(0, rollout=(ADD,)), [world.scripted()] * 2, [[0], [0]])
  (first, *_) = run.updates(0, "rollout")
  assert first.decision.code == "below"
  assert not run.memory.of(changes.Outcome)


def test_a_thin_draw_counts_but_says_nothing():
  run = world.run(stubs.Roles(at_step(0, rollout=(ADD,))))
  run.world.engine.answer = world.scripted(z="1" * 8)
  state = run.step(run.start(rollout=(5.0, 90.0)), 0, draws=[0])
  run.world.engine.answer = lambda prompt, seed: None
  run.step(state, 1, draws=[0])
  assert run.memory.of(changes.Outcome) == [
    changes.Outcome("0:t0:rollout:0", "t0", 1, 1, (), None, None)
  ]


def test_the_targets_are_those_of_what_was_done():
  create = changes.Create("Has q.", 1.0)
  run = story(
    first_of(
      at_step(0, rollout=(ADD,)),
      at_step(
        1,
        rollout=(changes.Drop("criterion"),),
        rubric=(create, changes.Reweight("t0#3", 2.0), changes.Delete("t0#5")),
      ),
    ),
    [world.scripted(z="1" * 8)] * 2 + [world.scripted()],
    [[0], [0], [0]],
    has_critic=False,
  )
  labels = {
    each.candidate: dict(each.labels)
    for each in run.memory.of(changes.Outcome, step=2)
  }
  # A wording that was made, and one whose weight was set; the deleted one is
  # not there any more. Without its field z is out of reach again.
  assert labels["1:t0:rubric:0"] == {
    ("t0#6", 0): "agree",
    ("t0#3", 0): "saturated",
  }
  assert labels["1:t0:rollout:0"] == {Z: "blind"}
