import jax
import numpy as np
import pytest

from hrl_jax import base, batch, collect, protocols
from tests import fakes

SAMPLING = base.Sampling(1.0, 1.0, 0, 16, (fakes.STOP_ID,))
KEY = jax.random.key(3)
OCCASION = base.Occasion(step=5, purpose="test")
RUBRIC = (base.Criterion("even", 2.0), base.Criterion("short", -1.0))


def even(criterion, response):
  """Criterion "even" is met by even digits, "short" never."""
  return float(criterion == "even" and int(response) % 2 == 0)


def plan(num_slots, group_size=4, num_groups=None, **knobs):
  prompts = tuple(
    (base.Message("user", f"{index}"),) for index in range(num_slots)
  )
  slots = tuple(
    base.Slot(
      task=index,
      bare=index,
      importance=1.0 + index,
      rubric=RUBRIC,
      sampled_under=(index,) * group_size,
      trained_under=(index,) * group_size,
    )
    for index in range(num_slots)
  )
  return base.Plan(prompts, slots, num_groups or num_slots, **knobs)


def world(answer, score=even):
  return collect.World(
    fakes.FakeEngine(answer), fakes.FakeGrader(score), fakes.FakeTokenizer()
  )


def pack(prompts, rows, *, num_groups, group_size):
  del prompts, group_size
  return (batch.Batch(tuple(rows), None, num_groups),)


def digit(prompt, seed):
  return str(seed % 10)


def test_rollouts_and_rewards_stand_where_they_were_asked_for():
  made = world(digit)
  batches, evidence = collect.collect(
    plan(3), made, KEY, occasion=OCCASION, sampling=SAMPLING, pack=pack
  )
  assert [group.slot for group in evidence.groups] == [0, 1, 2]
  for group in evidence.groups:
    assert [rollout.index for rollout in group.rollouts] == [0, 1, 2, 3]
    for rollout, reward in zip(group.rollouts, group.rewards_G, strict=True):
      assert rollout.text == str(rollout.seed % 10)
      # Weights 2 and -1: an even digit earns 2 / 2.
      assert reward == float(rollout.seed % 2 == 0)
  np.testing.assert_array_equal(evidence.importance_P, [1.0, 2.0, 3.0])
  assert evidence.valid_PG.all()
  (made_batch,) = batches
  rows = made_batch.rows
  assert made_batch.num_groups == 3
  assert [row.rollout for row in rows] == list(range(12))
  assert [row.prompt for row in rows] == [0] * 4 + [1] * 4 + [2] * 4


def test_seeds_differ_and_depend_on_key_slot_and_place_only():
  def seeds(key, num_slots, num_groups):
    made = world(digit)
    collect.gather(
      plan(num_slots, num_groups=num_groups),
      made,
      key,
      occasion=OCCASION,
      sampling=SAMPLING,
    )
    return [request.seed for request in made.engine.requests]

  first = seeds(KEY, 3, 3)
  assert len(set(first)) == 12
  assert seeds(KEY, 3, 3) == first
  assert seeds(KEY, 2, 2) == first[:8]
  assert not set(seeds(jax.random.key(4), 3, 3)) & set(first)


def test_constant_groups_are_replaced_from_the_plan():
  # Tasks 0 and 1 always answer 1; of the further slots 2 and 3 have contrast.
  def answer(prompt, seed):
    return "1" if prompt in "01" else str(seed % 2)

  made = world(answer)
  batches, evidence = collect.collect(
    plan(6, group_size=16, num_groups=2, drop_constant=True, max_rounds=3),
    made,
    KEY,
    occasion=OCCASION,
    sampling=SAMPLING,
    pack=pack,
  )
  assert [(g.slot, g.fate) for g in evidence.groups] == [
    (2, "trained"),
    (3, "trained"),
    (0, "constant"),
    (1, "constant"),
  ]
  assert len(made.engine.requests) == 4 * 16
  # u is that of the draw, whatever was dropped.
  np.testing.assert_array_equal(evidence.importance_P, [3.0, 4.0])
  assert [row.prompt for row in batches[0].rows] == [2] * 16 + [3] * 16


def test_a_plan_without_contrast_ends_with_no_batch():
  # DAPO#22: the run must neither die nor go on for ever.
  made = world(lambda prompt, seed: "1")
  batches, evidence = collect.collect(
    plan(8, num_groups=4, drop_constant=True, max_rounds=2),
    made,
    KEY,
    occasion=OCCASION,
    sampling=SAMPLING,
    pack=pack,
  )
  assert batches == ()
  assert len(evidence.groups) == 8
  assert evidence.rewards_PG.shape == (0, 4)
  assert len(made.engine.requests) == 32


def test_constant_groups_stay_where_the_plan_keeps_them():
  batches, evidence = collect.collect(
    plan(2),
    world(lambda prompt, seed: "2"),
    KEY,
    occasion=OCCASION,
    sampling=SAMPLING,
    pack=pack,
  )
  assert [group.fate for group in evidence.groups] == ["trained"] * 2
  assert len(batches[0].rows) == 8


def test_a_missing_score_masks_its_rollout_and_no_other():
  def score(criterion, response):
    if criterion == "short" and response == "4":
      return np.nan
    return even(criterion, response)

  # Seeds decide the digits: find what each rollout answers.
  made = world(digit, score)
  _, evidence = collect.collect(
    plan(1, group_size=32),
    made,
    KEY,
    occasion=OCCASION,
    sampling=SAMPLING,
    pack=pack,
  )
  (group,) = evidence.groups
  missing = [rollout.text == "4" for rollout in group.rollouts]
  assert any(missing)
  np.testing.assert_array_equal(np.isnan(group.rewards_G), missing)
  np.testing.assert_array_equal(~evidence.valid_PG[0], missing)
  assert group.fate == "trained"


def test_an_aborted_rollout_is_missing_and_said():
  def answer(prompt, seed):
    return None if prompt == "1" else digit(prompt, seed)

  batches, evidence = collect.collect(
    plan(2), world(answer), KEY, occasion=OCCASION, sampling=SAMPLING, pack=pack
  )
  lost = evidence.groups[1]
  assert lost.fate == "thin"
  assert np.isnan(lost.rewards_G).all()
  assert not evidence.valid_PG[1].any()
  assert len(evidence.failures) == 4
  assert "aborted" in evidence.failures[0].reason
  assert [row.prompt for row in batches[0].rows] == [0] * 4
  # A thin group is still one of the P that were drawn (H-102).
  assert evidence.rewards_PG.shape == (2, 4)


def test_no_valid_rollout_at_all_gives_no_batch():
  batches, evidence = collect.collect(
    plan(2),
    world(lambda prompt, seed: None),
    KEY,
    occasion=OCCASION,
    sampling=SAMPLING,
    pack=pack,
  )
  assert batches == ()
  assert len(evidence.groups) == 2


def test_guided_rollouts_name_both_prompts():
  made = plan(2)
  slot = made.slots[0]._replace(
    sampled_under=(1, 0, 0, 0), trained_under=(0, 0, 0, 0)
  )
  made = made._replace(slots=(slot,), num_groups=1)
  faked = world(digit)
  batches, evidence = collect.collect(
    made, faked, KEY, occasion=OCCASION, sampling=SAMPLING, pack=pack
  )
  asked = ["".join(map(chr, r.prompt_ids)) for r in faked.engine.requests]
  assert asked == ["1", "0", "0", "0"]
  assert [r.sampled_under for r in evidence.groups[0].rollouts] == [1, 0, 0, 0]
  assert [row.prompt for row in batches[0].rows] == [0, 0, 0, 0]


def test_submissions_are_graded_as_another_attempt():
  made = world(digit)
  occasion = base.Occasion(3, "regrade")
  submissions = [
    protocols.Submission(4, (base.Message("user", "0"),), response, rubric)
    for response, rubric in (
      ("2", (base.Criterion("even", 1.0), base.Criterion("odd", 1.0))),
      ("3", (base.Criterion("even", -1.0),)),
    )
  ]
  scores, evidence = collect.grade(submissions, made, occasion=occasion)
  assert [each.tolist() for each in scores] == [[1.0, 0.0], [0.0]]
  assert made.grader.attempts == [1, 1]
  assert (evidence.occasion, evidence.groups) == (occasion, ())


def test_a_lost_grading_names_the_task_of_its_submission():
  class Grader(fakes.FakeGrader):
    def grade(self, requests):
      for request in requests:
        lost = base.Failure(request.slot, request.rollout, 0, "no reply")
        yield base.Grade(request.slot, 0, np.array([np.nan]), (lost,))

  made = collect.World(
    fakes.FakeEngine(digit), Grader(even), fakes.FakeTokenizer()
  )
  submission = protocols.Submission(
    4, (base.Message("user", "0"),), "2", (base.Criterion("even", 1.0),)
  )
  scores, evidence = collect.grade([submission], made, occasion=OCCASION)
  assert np.isnan(scores[0]).all()
  (failure,) = evidence.failures
  assert evidence.plan.slots[failure.slot].task == 4


def test_nothing_to_grade_is_no_evidence():
  scores, evidence = collect.grade([], world(digit), occasion=OCCASION)
  assert (scores, evidence.failures) == ((), ())


@pytest.mark.core
def test_the_grader_is_fed_while_others_decode():
  events = []

  class Engine(fakes.FakeEngine):
    def generate(self, requests, sampling):
      for completion in super().generate(requests, sampling):
        events.append("sampled")
        yield completion

  class Grader(fakes.FakeGrader):
    def grade(self, requests):
      for grade in super().grade(requests):
        events.append("graded")
        yield grade

  made = collect.World(Engine(digit), Grader(even), fakes.FakeTokenizer())
  collect.gather(plan(1), made, KEY, occasion=OCCASION, sampling=SAMPLING)
  assert events == ["sampled", "graded"] * 4


def test_failures_come_in_the_order_of_their_places():
  # A fake engine finishes in reverse order, and so does a judge.
  class Grader(fakes.FakeGrader):
    def grade(self, requests):
      for grade in super().grade(requests):
        lost = (
          base.Failure(grade.slot, grade.rollout, 1, "second"),
          base.Failure(grade.slot, grade.rollout, None, "whole"),
        )
        yield grade._replace(failures=lost)

  made = collect.World(
    fakes.FakeEngine(digit), Grader(even), fakes.FakeTokenizer()
  )
  evidence = collect.gather(
    plan(2, group_size=2), made, KEY, occasion=OCCASION, sampling=SAMPLING
  )
  assert [(f.slot, f.rollout, f.reason) for f in evidence.failures] == [
    (slot, rollout, reason)
    for slot in range(2)
    for rollout in range(2)
    for reason in ("whole", "second")
  ]
