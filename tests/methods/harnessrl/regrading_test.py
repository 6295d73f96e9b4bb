import numpy as np
import pytest

from hrl_jax.harness import cases, changes, records
from tests.methods.harnessrl import stubs, world


def proposes(*operations):
  return stubs.Roles(lambda case: cases.Proposal(rubric=operations), hacked)


def hacked(case):
  """Suspects a, so that anything may be done about the rubric."""
  quotes = tuple(records.Quote(place, "a") for place in (0, 1))
  suspicion = cases.Suspicion(("t0#0", 0), "length_gaming", quotes, 0.9)
  return cases.Attribution((suspicion,))


def measured(*operations, score=world.score, rubric=(0.0, 90.0), answers=None):
  """The run and its update, with those operations at step 0."""
  run = world.run(proposes(*operations), world.scripted(), score, rounds=1)
  state = run.start(rubric=rubric)
  if answers:
    run.world.engine.answer = answers
  state = run.step(state, 0, draws=[0])
  (update,) = run.updates(0, "rubric")
  return run, state, update


def graded(run):
  """Responses that were graded, with the words that they were graded by."""
  return [
    (each.response, [criterion.text for criterion in each.rubric])
    for _, _, submissions in run.calls("grade")
    for each in submissions
  ]


def test_only_new_words_are_graded_and_the_rest_keeps_its_scores():
  rewrite = changes.Rewrite("t0#0", "Has c.!")
  run, state, update = measured(
    rewrite, score=lambda text, said: world.score(text.strip("!"), said)
  )
  (group,) = run.memory.of(records.Group, kind="train")
  assert graded(run) == [(r.text, ["Has c.!"]) for r in group.rollouts]
  # Two more rollouts have a c than have an a: 3 * 2 of 96 more.
  assert update.measurement == changes.Measurement(
    status="ok",
    reason="regraded",
    before=pytest.approx(100 * 36 / 96),
    after=pytest.approx(100 * 42 / 96),
    delta=pytest.approx(100 * 6 / 96),
    valid=8,
    weights_version=0,
    gradings=8,
  )
  (regrade,) = run.memory.of(records.Group, id="regrade:0:t0:rubric:0")
  assert regrade.criteria[0] == ("t0#0", 1)
  assert [r.scores[0] for r in regrade.rollouts] == [1.0] * 6 + [0.0] * 2
  assert [r.scores[1:] for r in regrade.rollouts] == [
    r.scores[1:] for r in group.rollouts
  ]
  assert world.task(state, 0).rubric.find("t0#0").version.version == 1


def test_weights_and_deletions_need_no_grading():
  run, _, update = measured(
    changes.Reweight("t0#0", 1.0), changes.Delete("t0#1")
  )
  assert graded(run) == []
  # a, c, s and z weigh 1, 2, 1 and 4 of 8, which scale to 12 by 1.5:
  # (4 * 1 + 6 * 2 + 8 * 1) * 1.5 of 96.
  assert update.measurement.after == pytest.approx(100 * 36 / 96)
  assert update.measurement.delta == pytest.approx(0.0)
  assert update.measurement.gradings == 0
  assert not run.memory.of(records.Group, kind="regrade", step=0)


def test_new_criteria_are_graded_in_the_order_of_the_rubric():
  run, _, update = measured(
    changes.Split("t0#0", ("Has q.", "Has b. and so on"), (1.0, 2.0)),
    changes.Merge(("t0#1", "t0#2"), "Has s. or so"),
    score=lambda text, said: world.score(text[:6], said),
  )
  assert graded(run)[0][1] == ["Has q.", "Has b. and so on", "Has s. or so"]
  assert update.measurement.gradings == 24
  # q 1 is met by none, b 2 by two, s by all: with weights 2 + 2 and its own 1.
  # z weighs 4: 1 + 2 + 4 + 1 + 4 are 12 as before.
  assert update.measurement.after == pytest.approx(
    100 * (2 * 2 + 4 * 8 + 1 * 8) / 96
  )
  (regrade,) = run.memory.of(records.Group, id="regrade:0:t0:rubric:0")
  assert [target for target, _ in regrade.criteria] == [
    "t0#3",
    "t0#4",
    "t0#5",
    "t0#6",
    "t0#7",
    "t0#8",
  ]


def test_rollouts_without_a_reward_are_left_out_on_both_sides():
  own = world.scripted()
  first = iter([None] * 2)  # Of the last two rollouts.
  run, _, update = measured(
    changes.Rewrite("t0#0", "Has q."),
    answers=lambda prompt, seed: next(first, own(prompt, seed)),
  )
  assert len(graded(run)) == 6
  assert update.measurement.valid == 6
  # The two that are lost have an s only; the other six 34 of 72, 12 for a.
  assert update.measurement.before == pytest.approx(100 * 34 / 72)
  assert update.measurement.after == pytest.approx(100 * 22 / 72)


def test_rollouts_that_cannot_be_graded_anew_do_not_count_before_either():
  def judge(text, said):
    # Of the eight, the first two also have a b.
    return (
      np.nan if text == "Has q." and "b" in said else world.score(text, said)
    )

  _, _, update = measured(changes.Rewrite("t0#0", "Has q."), score=judge)
  assert update.measurement.valid == 6
  # Of the other six: a twice, c four times, s six times: 20 of 72.
  assert update.measurement.before == pytest.approx(100 * 20 / 72)
  assert update.measurement.after == pytest.approx(100 * 14 / 72)


def test_a_judge_that_fails_leaves_a_candidate_unmeasured():
  def judge(text, said):
    # Two of eight have a b; four are the least.
    failed = text == "Has q." and "b" not in said
    return np.nan if failed else world.score(text, said)

  _, state, update = measured(changes.Rewrite("t0#0", "Has q."), score=judge)
  assert update.measurement == changes.Measurement(
    status="none", reason="thin_group", gradings=8
  )
  assert update.decision.code == "unmeasured:thin_group"
  assert not state.harness.rubric_version_N.any()


def test_gradings_of_a_rejected_rubric_leave_no_record():
  # The next wording of the lineage would have the same name.
  run, _, update = measured(
    changes.Rewrite("t0#0", "Has q."), rubric=(80.0, 90.0)
  )
  assert update.decision.code == "below"
  assert (update.made, update.retired) == ((), ())
  assert len(graded(run)) == 8
  assert not run.memory.of(records.Group, kind="regrade", step=0)


def test_an_accepted_rubric_says_what_it_made_and_retired():
  _, state, update = measured(
    changes.Rewrite("t0#0", "Has q."),
    changes.Create("Has r.", 2.0),
    changes.Delete("t0#3"),
  )
  assert [(v.target, v.text, v.step) for v in update.made] == [
    (("t0#0", 1), "Has q.", 0),
    (("t0#6", 0), "Has r.", 0),
  ]
  assert update.retired == (("t0#0", 0), ("t0#3", 0))
  assert [
    entry.version.text for entry in world.task(state, 0).rubric.entries
  ] == ["Has q.", "Has b.", "Has c.", "Has z.", "Has d.", "Has r."]


def test_all_regrades_of_a_round_are_one_call():
  def propose(case):
    cid = f"{case.case.task}#3"
    return cases.Proposal(rubric=(changes.Rewrite(cid, "Has q."),))

  # s is full at every draw: saturated at the third.
  run = world.run(stubs.Roles(propose), world.scripted(), rounds=1)
  state = run.start()
  for step in range(2):
    state = run.step(state, step, draws=[0, 1])
  (call,) = run.calls("grade")
  assert call[1] == "regrade 0"
  assert len(call[2]) == 16
