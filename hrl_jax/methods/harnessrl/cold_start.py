"""The cold start: the seed policy meets every task once (H-90 to H-94).

Everything is appended to a file of its own as it comes, so a killed cold start
goes on where it was, and another run of the same bank can be given the result:
the paper's 9B runs reuse the values of the 4B's.
"""

import logging
from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol, runtime_checkable

import jax
import numpy as np

from hrl_jax import base, protocols
from hrl_jax.harness import records, rubrics
from hrl_jax.methods import drawing
from hrl_jax.methods.harnessrl import calibrating, recording, regrading

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


@runtime_checkable
class File(Protocol):
  """Where the records of a cold start are kept, in order."""

  def read(self) -> Sequence[records.Record]:
    """Those that are there."""
    ...

  def append(self, new: Sequence[records.Record]) -> None:
    """Adds some; they are durable when it returns."""
    ...


class Unkept:
  """A cold start that is over with its process; a `File`.

  Attributes:
    log: its records.
  """

  def __init__(self):
    """Has nothing yet."""
    self.log: list[records.Record] = []

  def read(self) -> list[records.Record]:
    """Those that are there."""
    return list(self.log)

  def append(self, new: Sequence[records.Record]) -> None:
    """Adds some."""
    self.log += new


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
  sample_key, order_key, band_key = jax.random.split(key, 3)
  order = np.asarray(jax.random.permutation(order_key, len(bank.tasks)))
  second = sorted(order[: knobs.second_groups].tolist())
  regraded = sorted(order[::-1][: knobs.regraded_groups].tolist())
  everywhere = range(len(bank.tasks))
  _sample(bank, everywhere, 0, file, found, probe, sample_key, knobs)
  _sample(bank, second, 1, file, found, probe, sample_key, knobs)
  _regrade(bank, regraded, file, found, probe, knobs)
  result = calibrating.calibrate(
    _cold(bank, found),
    band_key,
    minimum_pairs=knobs.minimum_pairs,
    anchor_share=knobs.anchor_share,
  )
  file.append([result])
  _logger.info("%s", calibrating.describe(result, len(bank.tasks)))
  return (*found.values(), result)


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
    _keep(new, file, found)
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
    jobs = [
      regrading.Job(
        place,
        bank.tasks[place],
        found[_group_id(bank, place, 0)],
        bank.tasks[place].rubric,
      )
      for place in chunk
    ]
    if all(_regrade_id(job.group) in found for job in jobs):
      continue
    scores = regrading.grade(jobs, probe, f"cold {number}")
    new = [
      recording.regraded(
        job.group,
        scores_GC,
        rubrics.seed(job.task),
        id=_regrade_id(job.group),
      )
      for job, scores_GC in zip(jobs, scores, strict=True)
    ]
    _keep(new, file, found)


def _keep(
  new: Sequence[records.Group], file: File, found: dict[str, records.Record]
) -> None:
  """Appends what is not there: of a chunk that was being written, the rest."""
  missing = [each for each in new if each.id not in found]
  file.append(missing)
  found |= {each.id: each for each in missing}


def _cold(
  bank: base.Bank, found: dict[str, records.Record]
) -> list[calibrating.Cold]:
  """What was seen of each task, in the order of the bank."""
  firsts = [found[_group_id(bank, i, 0)] for i in range(len(bank.tasks))]
  return [
    calibrating.Cold(
      first,
      second=found.get(_group_id(bank, place, 1)),
      regraded=found.get(_regrade_id(first)),
    )
    for place, first in enumerate(firsts)
  ]


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
