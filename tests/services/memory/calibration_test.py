import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hrl_jax.services.memory import calibration
from tests.services.memory import things


def test_a_floor_by_hand():
  # Angles of 0, 10, 40 and 90 degrees, each in a task of its own: the nearest
  # to them have cosines of cos 10 = 0.9848, the same, cos 30 = 0.8660 and
  # cos 50 = 0.6427.
  angles = np.radians([0, 10, 40, 90])
  vectors = np.stack([np.cos(angles), np.sin(angles)], axis=1)
  vectors = vectors.astype(np.float32)
  tasks, signs = list("abcd"), [1] * 4
  floors = [
    calibration.calibrate_floor(vectors, tasks, signs, share)
    for share in (0.1, 0.5, 0.51, 0.75, 1.0)
  ]
  assert floors == [0.9848, 0.9848, 0.866, 0.866, 0.6427]


def test_a_criterion_is_not_compared_with_its_task_or_the_other_sign():
  vectors = np.ones((4, 1), np.float32)
  with pytest.raises(ValueError, match="Only 2 of 4 criteria"):
    calibration.calibrate_floor(vectors, list("aabb"), [1, -1, 1, 2], 0.75)
  assert calibration.calibrate_floor(vectors, list("aabb"), [1] * 4, 1.0) == 1


@given(share=st.floats(0.01, 1.0), seed=st.integers(0, 9))
def test_the_share_is_reached_and_nearly_no_more(share, seed):
  vectors = things.points(120, seed=seed)
  rng = np.random.default_rng(seed)
  tasks = [f"t{number}" for number in rng.integers(0, 40, 120)]
  signs = np.where(rng.random(120) < 0.1, -1, 1).tolist()
  floor = calibration.calibrate_floor(vectors, tasks, signs, share)
  exact = vectors.astype(float) @ vectors.astype(float).T
  same_task = np.array(tasks)[:, None] == np.array(tasks)[None]
  other_sign = np.array(signs)[:, None] != np.array(signs)[None]
  best = np.where(same_task | other_sign, -2, exact).max(axis=1)
  assert np.mean(best >= floor) >= share
  # A step higher, it would not be.
  assert np.mean(best >= floor + 2e-4) < share or floor == 1.0


def test_more_criteria_than_are_compared_at_once(monkeypatch):
  vectors = things.points(100)
  tasks = [f"t{number % 30}" for number in range(100)]
  whole = calibration.calibrate_floor(vectors, tasks, [1] * 100, 0.6)
  monkeypatch.setattr(calibration, "_CHUNK", 7)
  parts = calibration.calibrate_floor(vectors, tasks, [1] * 100, 0.6)
  assert parts == whole


@pytest.mark.parametrize("share", [0.0, -1.0, 1.1, float("nan")])
def test_a_share_out_of_range_is_refused(share):
  with pytest.raises(ValueError, match=r"must be in \(0, 1\]"):
    calibration.calibrate_floor(things.points(4), list("abcd"), [1] * 4, share)
