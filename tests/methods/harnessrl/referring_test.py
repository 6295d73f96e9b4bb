import numpy as np
import pytest

from hrl_jax.harness import cases, changes, records, retrieval
from tests.methods.harnessrl import stubs, world

Z = ("t0#4", 0)
REFERENCE = changes.Add("reference", (Z,), "")


def refers(task="t0", step=0, target=Z):
  """Proposes a reference field for one criterion at one step."""

  def propose(case):
    if (case.case.task, case.case.step) != (task, step):
      return cases.Proposal()
    add = changes.Add("reference", (target,), "written by the proposer")
    return cases.Proposal(rollout=(add,))

  return propose


def hits(*names, similarity=0.9):
  """A memory in which these criteria are related to "Has z."."""

  def related(queries):
    found = tuple(
      retrieval.Hit((name, 0), name.partition("#")[0], "?", similarity)
      for name in names
    )
    return [found if query.text == "Has z." else () for query in queries]

  return related


class Alike(stubs.Memory):
  """Finds any two texts as alike as it is told."""

  cosine = 1.0

  def similarities(self, text, others):
    return [self.cosine for _ in others]


def mounted(run, state, step=0, draws=(0,)):
  """The reference field that was proposed at a step."""
  run.step(state, step, draws=draws)
  (update, *_) = run.updates(step, "rollout")
  (add,) = update.candidate.operations
  return add, update


def graded(run):
  """What donors were graded by: a response and a criterion each."""
  return [
    (each.response, [criterion.text for criterion in each.rubric])
    for _, purpose, submissions in run.calls("grade")
    if purpose.startswith("donors")
    for each in submissions
  ]


def test_a_response_to_another_task_is_graded_by_this_tasks_criterion():
  # Rollouts of t1 have a z.
  def answered(prompt, seed):
    return "a z" if prompt.startswith("task 1") else own(prompt, seed)

  own = world.scripted()
  run = world.run(stubs.Roles(refers()), answered, rounds=1)
  run.memory.related = hits("t1#4")
  add, _ = mounted(run, run.start(), draws=[0])
  assert graded(run) == [("a z", ["Has z."])]
  positive, negative = add.donors
  assert (positive.task, positive.sign) == ("t1", "positive")
  assert (positive.target, positive.similarity) == (("t1#4", 0), 0.9)
  assert (negative.task, negative.sign) == ("t0", "negative")
  # The best own response is the first; it would be the fourth choice, and what
  # is never shown as a good one may still be shown as one that falls short.
  assert add.text == (
    "A good answer to another task, about t1:\na z\n"
    "An answer that falls short:\na b c s"
  )
  assert run.metrics[0]["harness/donor_gradings"] == 1


def test_a_donor_that_fails_or_cannot_be_graded_is_passed_over():
  def judge(criterion, response):
    failed = criterion == "Has z." and response == "a b c s"
    return (
      np.nan if failed and judge.is_down else world.score(criterion, response)
    )

  for is_down in (False, True):
    judge.is_down = False
    run = world.run(stubs.Roles(refers()), world.scripted(), judge, rounds=1)
    # These are met, but by responses without a z; two of them are tried.
    run.memory.related = hits("t1#3", "t2#3", "t3#3")
    state = run.start()
    letters = {"a": "00001111", "b": "11110000", "s": "11110000"}
    run.world.engine.answer = world.scripted(letters)
    judge.is_down = is_down
    add, _ = mounted(run, state)
    assert graded(run) == [("a b c s", ["Has z."])] * 2
    # Left is the best own response, which is above the median of 25 points:
    # four have an a, the others b and s.
    assert {donor.task for donor in add.donors} == {"t0"}


def test_a_response_is_good_for_a_penalty_where_its_behaviour_is_absent():
  def answered(prompt, seed):
    return own(prompt, seed) + ("" if prompt.startswith("task 1") else " d")

  own = world.scripted()
  penalty = ("t0#5", 0)
  run = world.run(stubs.Roles(refers(target=penalty)), answered, rounds=1)
  run.memory.related = lambda queries: [
    (retrieval.Hit(("t1#5", 0), "t1", "?", 0.9),)
    if query.text == "Has d."
    else ()
    for query in queries
  ]
  add, _ = mounted(run, run.start())
  assert graded(run) == [("a b c s", ["Has d."])]
  assert add.donors[0].task == "t1"


def test_an_own_response_to_the_same_words_needs_no_grading():
  def propose(case):
    if case.case.step == 0:
      add = changes.Add("criterion", (Z,), "Has z.")
      return cases.Proposal(rollout=(add,))
    return refers(step=1)(case)

  run = world.run(stubs.Roles(propose), world.scripted(z="11000000"), rounds=1)
  run.memory.related = hits("t1#3")
  # The add is measured and rejected: its probe has seen a z.
  state = run.step(run.start(rollout=(900.0, 901.0)), 0, draws=[0])
  add, _ = mounted(run, state, step=1)
  assert graded(run) == []
  assert add.donors[0].group == "probe:0:t0:rollout:0"
  assert add.donors[0].similarity is None
  assert add.text.startswith("A good answer:\na b c s z\n")


def test_an_own_response_to_earlier_words_counts_if_they_mean_the_same():
  def propose(case):
    if case.case.step == 0:
      rewrite = changes.Rewrite("t0#0", "Has y.")
      return cases.Proposal(rubric=(rewrite,))
    return refers(step=1, target=("t0#0", 1))(case)

  def attribute(case):
    if case.step:
      return cases.Attribution()
    quotes = tuple(records.Quote(place, "a") for place in (0, 1))
    suspicion = cases.Suspicion(("t0#0", 0), "length_gaming", quotes, 0.9)
    return cases.Attribution((suspicion,))

  for cosine, expected in ((0.9, [("a b c s", ["Has y."])]), (0.5, [])):
    roles = stubs.Roles(propose, attribute)
    run = world.run(roles, world.scripted(), rounds=1, memory=Alike)
    run.memory.related = hits()
    run.memory.cosine = cosine
    state = run.step(run.start(rubric=(1.0, 90.0)), 0, draws=[0])
    (update,) = run.updates(0, "rubric")
    assert update.decision.is_accepted
    add, _ = mounted(run, state, step=1)
    # The regrade that admitted the new words is their first record (H-55).
    (labels,) = run.memory.of(records.Labels, step=1)
    assert labels.labels[0].target == ("t0#0", 1)
    assert labels.labels[0].name == "blind"
    assert graded(run) == expected
    # It has no y: the best own response is shown instead.
    assert add.donors[0].similarity is None


def test_the_proposers_own_text_and_long_responses_are_not_shown():
  run = world.run(
    stubs.Roles(refers()), world.scripted(), rounds=1, donor_tokens=2
  )
  run.memory.related = hits()
  add, _ = mounted(run, run.start())
  # Of "a b c s" and of the second, which says the same, so the third: "a c s".
  assert "written by the proposer" not in add.text
  assert add.text.startswith("A good answer:\na b")


@pytest.mark.parametrize("has_memory", [True, False])
def test_a_reference_without_a_response_to_learn_from_is_refused(has_memory):
  run = world.run(
    stubs.Roles(refers()), world.scripted(), rounds=1, has_memory=has_memory
  )
  run.memory.related = hits()
  state = run.start()
  # All are alike, so none is above the median.
  run.world.engine.answer = world.scripted({"s": "1" * 8})
  add, update = mounted(run, state)
  assert update.decision.code == "invalid:donor"
  assert [donor.sign for donor in add.donors] == ["negative"]
  assert not run.calls("sample")


def test_without_a_memory_the_group_itself_is_all_there_is():
  run = world.run(
    stubs.Roles(refers()),
    world.scripted(),
    rounds=1,
    has_memory=False,
    memory=stubs.Forgetful,
  )
  add, _ = mounted(run, run.start())
  assert {donor.group for donor in add.donors} == {"train:0:0"}


def test_the_same_text_is_not_shown_as_good_and_as_falling_short():
  run = world.run(stubs.Roles(refers()), world.scripted(), rounds=1)
  run.memory.related = hits()
  state = run.start()
  # Two rollouts are above the median of nothing, and say the same.
  run.world.engine.answer = world.scripted({"a": "11000000"})
  add, _ = mounted(run, state)
  assert add.text == "A good answer:\na"
  assert [donor.sign for donor in add.donors] == ["positive"]
