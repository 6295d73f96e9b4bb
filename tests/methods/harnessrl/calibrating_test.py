import jax
import numpy as np
import pytest

from hrl_jax.harness import calibration, records, rubrics
from hrl_jax.methods.harnessrl import calibrating, recording
from tests.methods.harnessrl import world

TASK = world.bank(1).tasks[0]
SEED = rubrics.seed(TASK)


def group(number, *patterns, rewards=None, id=None):
  """A cold group by the letters of each rollout; "!" is not graded."""
  rollouts = []
  for said in patterns:
    scores = tuple(
      None if "!" in said else world.score(c.text, " ".join(said))
      for c in TASK.rubric
    )
    reward = None
    if "!" not in said:
      weights = SEED.weights()
      reward = sum(w * s for w, s in zip(weights, scores, strict=True)) / 12
    rollouts.append(records.Rollout(said, 1, "stop", reward, scores))
  return records.Group(
    id=id or f"cold:0:t{number}",
    kind="cold",
    step=-1,
    slot=0,
    task=f"t{number}",
    weights_version=0,
    rubric_version=0,
    criteria=tuple((f"t{number}#{i}", 0) for i in range(6)),
    weights=SEED.weights(),
    fields=(),
    rollouts=tuple(rollouts),
    importance=None,
    minimum_valid=2,
  )


def calibrate(*cold, pairs=1):
  return calibrating.calibrate(
    cold, jax.random.key(0), minimum_pairs=pairs, anchor_share=0.5
  )


def test_levels_bands_anchors_and_masses_by_hand():
  # Means of 3, 2 and 4 twelfths, ranges of 6, 4 and 8: a, ab or z apart.
  found = calibrate(
    # "ab" and "c": weights 5 and 2; a and b and c separate.
    calibrating.Cold(
      group(0, "ab", "c"), group(0, "ab", "ab"), group(0, "ab", "c")
    ),
    # a separates.
    calibrating.Cold(group(1, "as", "s"), group(1, "s", "s"), None),
    # b and c separate.
    calibrating.Cold(group(2, "bs", "cs"), None, group(2, "bs", "s")),
  )
  # 3, 2 and 1 of 6 criteria.
  assert found.levels == pytest.approx((1.0, 3 / 6, 2 / 6, 1 / 6))
  assert found.masses == pytest.approx({"t0": 3 / 6, "t1": 1 / 6, "t2": 2 / 6})
  # Task 0: 3.5 against 5 of 12; task 1: 2.5 against 1.
  assert found.rollout.samples == 2
  assert found.rollout.lower == pytest.approx(100 * 1.5 / 12)
  # Task 0: nothing; task 2: 3 against 2 of 12. The 95th percentile of the two.
  assert found.rubric.lower == pytest.approx(0.95 * 100 * 1 / 12)
  # Ranges of 3, 3 and 0 of 12.
  assert found.rollout.upper == found.rubric.upper == pytest.approx(25.0)
  # In task 0 the rest of b is a and c, 3 against 2: it goes with b. That of a
  # is 2 and 2, that of c goes against it; so does that of b and c in task 2.
  assert found.anchors == {"t0": ("t0#1",)}


def test_what_flips_in_the_second_grading_is_no_anchor():
  others = cold("abc", "s")[1:]
  for again, anchors in ((("ab", "c"), {"t0"}), (("a", "c"), set())):
    first = calibrating.Cold(
      group(0, "ab", "c"), group(0, "ab", "c"), group(0, *again)
    )
    assert set(calibrate(first, *others).anchors) & {"t0"} == anchors


def test_two_gradings_are_compared_on_the_rollouts_that_both_count():
  first = group(0, "a", "ab", "abc", "!")
  again = group(0, "!", "ab", "ab", "abcsz")
  others = [
    calibrating.Cold(group(number, "as", "s"), group(number, "s", "s"), None)
    for number in (1, 2)
  ]
  found = calibrate(
    calibrating.Cold(first, group(0, "a", "ab"), again), *others
  )
  # Only the second and the third count in both: 5 and 7 against 5 and 5.
  assert found.rubric.lower == pytest.approx(100 * 1 / 12)
  assert found.rubric.samples == 1


def test_thin_groups_say_nothing():
  thin = group(3, "abc", "!")
  found = calibrate(
    *(
      calibrating.Cold(
        group(n, "abc", "s"), group(n, "s", "s"), group(n, "s", "s")
      )
      for n in range(3)
    ),
    calibrating.Cold(thin, group(3, "a", "a"), group(3, "a", "a")),
  )
  assert set(found.masses) == {"t0", "t1", "t2"}
  assert "t3" not in found.anchors
  assert (found.rollout.samples, found.rubric.samples) == (3, 3)


def cold(*letters, second="z", again="s"):
  """Three tasks with such a first group; the others say one thing twice."""
  return [
    calibrating.Cold(
      group(n, *letters), group(n, second, second), group(n, again, again)
    )
    for n in range(3)
  ]


def test_an_empty_band_is_refused_in_words():
  # Of "abc" and "s", 7 and 1 of 12, the second group and the second grading
  # are 0 and 3 of 12 away, and the range is 6.
  found = calibrate(*cold("abc", "s"))
  assert found.rubric.lower == pytest.approx(25.0)
  # Of "ab" and "a" they are 0 and 3 of 12 away too, but the range is 2.
  told = r"rubric band is empty.*3 pairs, is 25.00 .*groups, is 16.67"
  with pytest.raises(calibration.CalibrationError, match=told):
    calibrate(*cold("ab", "a"))


def test_too_few_pairs_are_no_band():
  with pytest.raises(calibration.CalibrationError, match="at least 4 pairs"):
    calibrate(*cold("abc", "s"), pairs=4)


def test_what_was_found_in_a_sentence():
  found = records.Calibration(
    levels=(1.0, 0.61, 0.38, 0.17),
    rollout=records.Band(10.2, 28.0, 200, 9.1, 11.3),
    rubric=records.Band(3.1, 28.0, 500, 2.9, 3.3),
    anchors={"t0": ("t0#0",)},
    masses={"t0": 0.5, "t1": 0.3},
  )
  assert calibrating.describe(found, 3) == (
    "Cold start: 2 of 3 tasks have a mass; levels 1.00, 0.61, 0.38, 0.17; "
    "rollout band [10.2, 28.0] points (null variation of 200 pairs, 9.1 to "
    "11.3); rubric band [3.1, 28.0] points (null variation of 500 pairs, 2.9 "
    "to 3.3); 1 tasks with anchors"
  )


def test_the_fixture_weighs_as_the_recorder_does():
  made = group(0, "ab", "c", "!")
  np.testing.assert_allclose(
    recording.rewards_of(made), [5 / 12, 2 / 12, np.nan]
  )
