"""The cold start: the seed policy meets every task once (H-90 to H-94).

Everything is appended to a file of its own as it comes, so a killed cold start
goes on where it was, and another run of the same bank can be given the result:
the paper's 9B runs reuse the values of the 4B's.
"""

import logging
from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol

import jax
import numpy as np

from hrl_jax import base, protocols
from hrl_jax.harness import calibration, history, records, rubrics
from hrl_jax.methods import drawing
from hrl_jax.methods.harnessrl import recording

_logger = logging.getLogger(__name__)

# Groups of the cold start are older than step 0.
STEP = -1


class Knobs(NamedTuple):
  """Choices of the cold start.

  Attributes:
    second_groups: tasks that are answered twice, for the null variation of
      independent groups (H-92).
    regraded_groups: groups that are graded twice.
    minimum_pairs: of either, without which there is no band.
    anchor_share: largest share of the positive weight that anchors have (H-44).
    group_size: G.
    chunk: groups that are sampled at once.
  """

  second_groups: int
  regraded_groups: int
  minimum_pairs: int
  anchor_share: float
  group_size: int
  chunk: int


class File(Protocol):
  """Where the records of a cold start are kept, in order."""

  def read(self) -> Sequence[records.Record]:
    """Those that are there."""
    ...

  def append(self, new: Sequence[records.Record]) -> None:
    """Adds some; they are durable when it returns."""
    ...


def run(
  bank: base.Bank,
  file: File,
  probe: protocols.Probe,
  key: jax.Array,
  knobs: Knobs,
) -> tuple[records.Record, ...]:
  """The records of the cold start, of which the last is the calibration.

  Args:
    bank: every task is answered once.
    file: what is there already is not done again.
    probe: of the seed policy.
    key: consumed.
    knobs: choices.

  Raises:
    calibration.CalibrationError: if a band is empty, or too little could be
      graded; what was sampled stays in the file.
  """
  found = {_name(each): each for each in file.read()}
  if _CALIBRATED in found:
    return tuple(found.values())
  again_key, order_key, band_key = jax.random.split(key, 3)
  order = np.asarray(jax.random.permutation(order_key, len(bank.tasks)))
  second = sorted(order[: knobs.second_groups].tolist())
  regraded = sorted(order[::-1][: knobs.regraded_groups].tolist())
  _sample(bank, range(len(bank.tasks)), 0, file, found, probe, again_key, knobs)
  _sample(bank, second, 1, file, found, probe, again_key, knobs)
  _regrade(bank, regraded, file, found, probe, knobs)
  result = _calibrate(bank, found, band_key, knobs)
  file.append([result])
  _logger.info("%s", describe(result, found.values()))
  return (*found.values(), result)


def describe(found: records.Calibration, log: Sequence[records.Record]) -> str:
  """What the cold start found, in one paragraph."""
  groups = [each for each in log if isinstance(each, records.Group)]
  bands = {"rollout": found.rollout, "rubric": found.rubric}
  return "Cold start: " + "; ".join(
    [
      f"{len(groups)} groups",
      "levels " + ", ".join(f"{level:.2f}" for level in found.levels),
      *(
        f"{name} band [{band.lower:.1f}, {band.upper:.1f}] points (null "
        f"variation of {band.samples} pairs, {band.low:.1f} to {band.high:.1f})"
        for name, band in bands.items()
      ),
      f"{sum(map(bool, found.anchors.values()))} tasks with anchors",
    ]
  )


_CALIBRATED = "calibration"


def _name(record: records.Record) -> str:
  if isinstance(record, records.Calibration):
    return _CALIBRATED
  return record.id


def _sample(
  bank: base.Bank,
  places: Sequence[int],
  turn: int,
  file: File,
  found: dict[str, records.Record],
  probe: protocols.Probe,
  key: jax.Array,
  knobs: Knobs,
) -> None:
  """Samples a group of each task that lacks its first or second one."""
  for number, chunk in enumerate(_chunks(places, knobs.chunk)):
    names = [_group_id(bank, place, turn) for place in chunk]
    if all(name in found for name in names):
      continue
    plan = drawing.of_views(
      [(place, _view(bank, place, knobs), 1.0) for place in chunk],
      num_groups=len(chunk),
    )
    # Each chunk has a key of its own, whichever were done before.
    chunk_key = jax.random.fold_in(jax.random.fold_in(key, turn), number)
    evidence = probe.sample(plan, chunk_key)
    new = [
      recording.group(
        group,
        id=_group_id(bank, chunk[group.slot], turn),
        kind="cold",
        step=STEP,
        task=bank.tasks[chunk[group.slot]].id,
        rubric=rubrics.seed(bank.tasks[chunk[group.slot]]),
        fields=(),
        is_guided=[False] * knobs.group_size,
        importance=None,
      )
      for group in evidence.groups
    ]
    file.append(new)
    found |= {each.id: each for each in new}
    _logger.info(
      "Cold start: %d of %d %s groups.",
      min(len(places), (number + 1) * knobs.chunk),
      len(places),
      ("first", "second")[turn],
    )


def _regrade(
  bank: base.Bank,
  places: Sequence[int],
  file: File,
  found: dict[str, records.Record],
  probe: protocols.Probe,
  knobs: Knobs,
) -> None:
  """Grades groups once more, every criterion of every rollout (H-116)."""
  for number, chunk in enumerate(_chunks(places, knobs.chunk)):
    firsts = [found[_group_id(bank, place, 0)] for place in chunk]
    names = [_regrade_id(first) for first in firsts]
    if all(name in found for name in names):
      continue
    rubric_of = {place: rubrics.seed(bank.tasks[place]) for place in chunk}
    scores = iter(
      probe.grade(
        [
          protocols.Submission(
            place,
            bank.tasks[place].prompt,
            rollout.text,
            rubric_of[place].criteria(),
          )
          for place, first in zip(chunk, firsts, strict=True)
          for rollout in first.rollouts
        ],
        f"cold {number}",
      )
    )
    new = [
      recording.regraded(
        first,
        np.stack([next(scores) for _ in first.rollouts]),
        rubric_of[place],
        id=name,
      )
      for place, first, name in zip(chunk, firsts, names, strict=True)
    ]
    file.append(new)
    found |= {each.id: each for each in new}


def _calibrate(
  bank: base.Bank,
  found: dict[str, records.Record],
  key: jax.Array,
  knobs: Knobs,
) -> records.Calibration:
  first = [
    history.digest(found[_group_id(bank, place, 0)], history.Place(0, 0))
    for place in range(len(bank.tasks))
  ]
  points = {seen.id: _or_nan(seen.points) for seen in first}
  ranges_N = np.array([_or_nan(seen.range_points) for seen in first])
  masses_N = np.array([_or_nan(seen.mass) for seen in first])
  second, regraded = [], []
  for place, seen in enumerate(first):
    for pairs, name in (
      (second, _group_id(bank, place, 1)),
      (regraded, _regrade_id(found[seen.id])),
    ):
      if name in found:
        other = history.digest(found[name], history.Place(0, 0))
        pairs.append((points[seen.id], _or_nan(other.points)))
  rollout_key, rubric_key = jax.random.split(key)
  bands = {}
  for name, estimate, pairs, band_key in (
    ("rollout", calibration.rollout_band, second, rollout_key),
    ("rubric", calibration.rubric_band, regraded, rubric_key),
  ):
    before_P, after_P = np.array(pairs).reshape(-1, 2).T
    bands[name] = estimate(
      before_P, after_P, ranges_N, band_key, minimum_pairs=knobs.minimum_pairs
    )
  return records.Calibration(
    levels=calibration.levels(masses_N),
    anchors={
      task.id: cids
      for place, task in enumerate(bank.tasks)
      if (cids := _anchors(bank, place, found, knobs))
    },
    masses={
      task.id: seen.mass
      for task, seen in zip(bank.tasks, first, strict=True)
      if seen.mass is not None
    },
    **bands,
  )


def _anchors(
  bank: base.Bank,
  place: int,
  found: dict[str, records.Record],
  knobs: Knobs,
) -> tuple[str, ...]:
  group = found[_group_id(bank, place, 0)]
  again = found.get(_regrade_id(group))
  chosen = calibration.anchors(
    recording.scores_of(group),
    np.array(group.weights),
    recording.scores_of(again) if again else None,
    max_share=knobs.anchor_share,
    minimum=group.minimum_valid,
  )
  return tuple(group.criteria[index][0] for index in chosen)


def _view(bank: base.Bank, place: int, knobs: Knobs) -> drawing.View:
  task = bank.tasks[place]
  return drawing.bare(task, task.rubric, knobs.group_size)


def _group_id(bank: base.Bank, place: int, turn: int) -> str:
  return f"cold:{turn}:{bank.tasks[place].id}"


def _regrade_id(group: records.Group) -> str:
  return f"regrade:{group.id}"


def _chunks(places: Sequence[int], size: int) -> Iterator[Sequence[int]]:
  for start in range(0, len(places), size):
    yield places[start : start + size]


def _or_nan(value: float | None) -> float:
  return np.nan if value is None else value
