import jax
import numpy as np
import pytest

from hrl_jax.harness import calibration, records
from hrl_jax.methods.harnessrl import cold_start
from tests.methods.harnessrl import stubs, world

KNOBS = cold_start.Knobs(
  second_groups=3,
  regraded_groups=4,
  minimum_pairs=2,
  anchor_share=0.5,
  group_size=8,
  chunk=4,
)
BANK = world.bank(6)


class Killed(Exception):
  """Nobody catches it."""


class FailingFile(cold_start.Unkept):
  """Dies at an append, of which some records are written."""

  def __init__(self, at, written=0):
    super().__init__()
    self._left, self._written = at, written

  def append(self, new):
    if not self._left:
      super().append(new[: self._written])
      raise Killed
    self._left -= 1
    super().append(new)


def run(file, journal=None, answers=world.answer, score=world.score, **knobs):
  probe = stubs.Probe(
    world.world(answers, score), [] if journal is None else journal
  )
  return cold_start.run(
    BANK, file, probe, jax.random.key(3), KNOBS._replace(**knobs)
  )


@pytest.fixture(scope="module")
def whole():
  file, journal = cold_start.Unkept(), []
  return run(file, journal), file, journal


def names(log):
  return [each.id for each in log if isinstance(each, records.Group)]


def test_every_task_is_met_once_and_some_twice(whole):
  log, file, journal = whole
  assert list(log) == file.log
  firsts = [f"cold:0:t{place}" for place in range(6)]
  assert names(log)[:6] == firsts
  seconds = [name for name in names(log) if name.startswith("cold:1:")]
  regraded = [name for name in names(log) if name.startswith("regrade:")]
  assert (len(seconds), len(regraded)) == (3, 4)
  assert len(set(names(log))) == len(log) - 1
  # Six, then three, in chunks of four; four groups of eight are regraded.
  plans = [len(e[1].slots) for e in journal if e[0] == "sample"]
  assert plans == [4, 2, 3]
  graded = [e for e in journal if e[0] == "grade"]
  assert [(purpose, len(asked)) for _, purpose, asked in graded] == [
    ("cold 0", 32)
  ]


def test_the_seed_policy_sees_no_guidance_and_is_graded_by_the_seed(whole):
  _, _, journal = whole
  for _, plan, *_ in (e for e in journal if e[0] == "sample"):
    for slot in plan.slots:
      assert plan.prompts[slot.sampled_under[0]] == BANK.tasks[slot.task].prompt
      assert slot.rubric == BANK.tasks[slot.task].rubric
  for _, _, submissions in (e for e in journal if e[0] == "grade"):
    # Every criterion, also those without new words (H-116).
    assert all(len(each.rubric) == 6 for each in submissions)


def test_its_groups_are_records_from_before_the_first_step(whole):
  log, _, _ = whole
  groups = {g.id: g for g in log if isinstance(g, records.Group)}
  for name, group in groups.items():
    assert (group.step, group.rubric_version) == (cold_start.STEP, 0)
    assert (group.importance, group.fields) == (None, ())
    kind = "regrade" if name.startswith("regrade:") else "cold"
    assert group.kind == kind
  # An exact judge says the same again.
  for name, group in groups.items():
    if group.kind == "regrade":
      before = groups[name.removeprefix("regrade:")]
      assert group.rollouts == before.rollouts
  # Another group is not the same rollouts.
  second = next(g for name, g in groups.items() if name.startswith("cold:1"))
  first = groups[f"cold:0:{second.task}"]
  assert [r.text for r in first.rollouts] != [r.text for r in second.rollouts]


def test_the_last_record_is_what_was_found(whole):
  log, _, _ = whole
  found = log[-1]
  assert isinstance(found, records.Calibration)
  assert found.rollout.samples == 3
  assert (found.rubric.samples, found.rubric.lower) == (4, 0.0)
  assert set(found.masses) == {task.id for task in BANK.tasks}


@pytest.mark.parametrize("written", [0, 1, 3])
@pytest.mark.parametrize("at", range(5))
def test_a_killed_cold_start_goes_on_where_it_was(whole, at, written):
  log, _, _ = whole
  journal: list = []
  file = FailingFile(at, written)
  with pytest.raises(Killed):
    run(file, journal)
  kept = names(file.log)
  file._left = -1
  assert run(file, journal) == log
  assert tuple(file.log) == log
  # What was kept whole is not sampled again; of a chunk that was torn, or of
  # which nothing was written, all is.
  sampled = sum(len(e[1].slots) for e in journal if e[0] == "sample")
  lost = {0: 4, 1: 2, 2: 3, 3: 0, 4: 0}[at]
  chunk = {0: 4, 1: 2, 2: 3, 3: 4, 4: 1}[at]
  assert sampled == 9 + (lost if written < chunk else 0)
  assert names(file.log)[: len(kept)] == kept


def test_a_finished_one_is_not_done_again(whole):
  log, file, _ = whole
  journal: list = []
  assert run(file, journal) == log
  assert journal == []


def test_another_runs_records_are_taken_as_they_are(whole):
  log, _, _ = whole

  class Reused(cold_start.Unkept):
    def append(self, new):
      raise AssertionError("Nothing is added to it.")

  reused = Reused()
  reused.log = list(log)
  method = world.run(answers=world.answer)
  method.file.log = reused.log
  state = method.start()
  assert run(reused) == log
  assert method.log == list(log)
  calibrated = log[-1]
  assert state.harness.levels_4.tolist() == list(calibrated.levels)
  assert state.harness.bands_22[0].tolist() == [
    calibrated.rollout.lower,
    calibrated.rollout.upper,
  ]
  anchors = {
    task: tuple(
      entry.version.cid
      for entry in world.task(state, place).rubric.entries
      if entry.is_anchor
    )
    for place, task in enumerate(f"t{n}" for n in range(6))
  }
  assert {t: found for t, found in anchors.items() if found} == (
    calibrated.anchors
  )
  np.testing.assert_array_equal(
    state.harness.mass_N, [calibrated.masses[f"t{n}"] for n in range(6)]
  )


def test_an_empty_band_is_refused_and_what_was_sampled_is_kept():
  # Every group is of one kind, all or nothing, by turns.
  count = iter(range(10_000))

  def answered(prompt, seed):
    return "a b" if next(count) // 8 % 2 else "a s"

  file = cold_start.Unkept()
  with pytest.raises(calibration.CalibrationError) as caught:
    run(file, answers=answered)
  assert "have no criterion that separates" in str(caught.value)
  assert len(file.log) == 6 + 3 + 4


def test_a_null_variation_beyond_the_range_is_told_in_words():
  scripts = [
    world.scripted({"b": "11110000", "s": "1" * 8}),
    world.scripted({"b": "11110000", "z": "1" * 8}),
  ]
  count = iter(range(10_000))

  def answered(prompt, seed):
    # First groups have an s, second groups a z, which is 3 of 12 more.
    return scripts[next(count) >= 6 * 8](prompt, seed)

  file = cold_start.Unkept()
  told = (
    r"rollout band is empty.*null variation of 3 pairs, is 25.00 points .*"
    r"within 6 groups, is 16.67. Use larger groups"
  )
  with pytest.raises(calibration.CalibrationError, match=told):
    run(file, answers=answered)
  assert len(file.log) == 13


def test_a_rollout_without_a_reward_is_not_regraded():
  def judge(criterion, response):
    ungraded = "a" in response and criterion == "Has b."
    return np.nan if ungraded else world.score(criterion, response)

  # Half of each group has an a.
  marks = {"a": "10000000", "c": "11110000", "s": "1" * 8}
  file, journal = cold_start.Unkept(), []
  log = run(file, journal, world.scripted(marks), judge)
  (_, _, submissions) = next(e for e in journal if e[0] == "grade")
  assert len(submissions) == 4 * 7
  regrade = next(g for g in log if g.kind == "regrade")
  assert [r.reward is None for r in regrade.rollouts] == [True] + [False] * 7


def test_a_task_whose_group_is_thin_has_no_mass_and_no_anchor():
  def judge(criterion, response):
    return np.nan if "x" in response else world.score(criterion, response)

  def answered(prompt, seed):
    return "x" if prompt == "task 2" else world.answer(prompt, seed)

  log = run(cold_start.Unkept(), answers=answered, score=judge)
  found = log[-1]
  assert set(found.masses) == {"t0", "t1", "t3", "t4", "t5"}
  assert "t2" not in found.anchors
  assert "cold:0:t2" in names(log)


def test_each_call_has_a_purpose_of_its_own():
  journal: list = []
  run(cold_start.Unkept(), journal, chunk=2)
  purposes = [e[1] for e in journal if e[0] == "grade"]
  assert purposes == ["cold 0", "cold 1"]
