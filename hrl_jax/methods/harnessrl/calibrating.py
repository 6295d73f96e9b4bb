"""From the groups of a cold start to what it fixes (H-91 to H-94)."""

from collections.abc import Sequence
from typing import NamedTuple

import jax
import numpy as np

from hrl_jax.harness import calibration, critic, history, records
from hrl_jax.methods.harnessrl import recording


class Cold(NamedTuple):
  """What a cold start saw of a task.

  Attributes:
    first: its group.
    second: an independent one, None if there is none.
    regraded: the first with its second grading, None if there is none.
  """

  first: records.Group
  second: records.Group | None
  regraded: records.Group | None


def calibrate(
  cold: Sequence[Cold],
  key: jax.Array,
  *,
  minimum_pairs: int,
  anchor_share: float,
) -> records.Calibration:
  """Levels, bands, anchors and masses.

  Args:
    cold: of every task.
    key: consumed.
    minimum_pairs: groups that were answered, or graded, twice: without so many
      there is no band.
    anchor_share: largest share of the positive weight that anchors have (H-44).

  Raises:
    calibration.CalibrationError: if a band is empty, or too little could be
      graded.
  """
  seen = [_seen(each.first) for each in cold]
  ranges_N = np.array([_or_nan(each.range_points) for each in seen])
  masses_N = np.array([_or_nan(each.mass) for each in seen])
  rollout_key, rubric_key = jax.random.split(key)
  return records.Calibration(
    levels=calibration.levels(masses_N),
    rollout=calibration.rollout_band(
      *_points(list(map(_two_groups, cold))),
      ranges_N,
      rollout_key,
      minimum_pairs=minimum_pairs,
    ),
    rubric=calibration.rubric_band(
      *_points(list(map(_two_gradings, cold))),
      ranges_N,
      rubric_key,
      minimum_pairs=minimum_pairs,
    ),
    anchors={
      each.first.task: anchors
      for each in cold
      if (anchors := _anchors(each, anchor_share))
    },
    masses={
      each.first.task: first.mass
      for each, first in zip(cold, seen, strict=True)
      if first.mass is not None
    },
  )


def describe(found: records.Calibration, tasks: int) -> str:
  """What the cold start found, in one sentence.

  Args:
    found: itself.
    tasks: of the bank.
  """
  bands = {"rollout": found.rollout, "rubric": found.rubric}
  return "Cold start: " + "; ".join(
    [
      f"{len(found.masses)} of {tasks} tasks have a mass",
      "levels " + ", ".join(f"{level:.2f}" for level in found.levels),
      *(
        f"{name} band [{band.lower:.1f}, {band.upper:.1f}] points (null "
        f"variation of {band.samples} pairs, {band.low:.1f} to {band.high:.1f})"
        for name, band in bands.items()
      ),
      f"{len(found.anchors)} tasks with anchors",
    ]
  )


def _two_groups(cold: Cold) -> tuple[float, float] | None:
  if cold.second is None:
    return None
  first, second = _seen(cold.first), _seen(cold.second)
  return _or_nan(first.points), _or_nan(second.points)


def _two_gradings(cold: Cold) -> tuple[float, float] | None:
  """Of the rollouts that count in both, as the critic compares them (H-83)."""
  if cold.regraded is None:
    return None
  effect = critic.delta_points(
    recording.rewards_of(cold.first),
    recording.rewards_of(cold.regraded),
    minimum=cold.first.minimum_valid,
  )
  return effect.before, effect.after


def _points(
  pairs: Sequence[tuple[float, float] | None],
) -> tuple[np.ndarray, np.ndarray]:
  """Points before and after, of the pairs that there are."""
  found_P2 = np.array([pair for pair in pairs if pair]).reshape(-1, 2)
  return found_P2[:, 0], found_P2[:, 1]


def _anchors(cold: Cold, share: float) -> tuple[str, ...]:
  group, again = cold.first, cold.regraded
  chosen = calibration.anchors(
    recording.scores_of(group),
    np.array(group.weights),
    recording.scores_of(again) if again else None,
    max_share=share,
    minimum=group.minimum_valid,
  )
  return tuple(group.criteria[index][0] for index in chosen)


def _seen(group: records.Group) -> history.Seen:
  # The place in the log does not matter here.
  return history.digest(group, history.Place(0, 0))


def _or_nan(value: float | None) -> float:
  return np.nan if value is None else value
