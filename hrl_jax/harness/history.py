"""What the memory keeps of a task by time: a digest of its records (H-52).

The digest grows by one record at a time and is all that most of the evolver
asks for; the whole rollouts are read from the log, at the places it names.
"""

from typing import NamedTuple

import msgspec

from hrl_jax.harness import changes, records, terms


class Place(NamedTuple):
  """Where a record stands in the log, in bytes."""

  offset: int
  length: int


class Tally(msgspec.Struct, frozen=True):
  """How one criterion fared in a group, in the desired form (H-61).

  Attributes:
    target: the criterion.
    reached: sum over valid rollouts of the score, of one minus the score for a
      penalty.
    unguided: likewise, over rollouts that saw no field for this criterion, in
      whichever words.
    label: at that draw, None where it was not labelled.
  """

  target: terms.Target
  reached: float
  unguided: float
  label: terms.LabelName | None = None


class Seen(msgspec.Struct, frozen=True):
  """A recorded group in short.

  Attributes:
    id: of the group.
    kind: what it was for.
    step: updates before it.
    place: of its record.
    valid: rollouts with all their scores.
    is_thin: whether these are too few to say anything (H-65).
    mass: share of criteria that separate it (H-35), None if thin.
    points: mean reward in points, None if thin.
    range_points: highest less lowest reward in points, None if thin.
    mounted: fields that its guided rollouts saw.
    tallies: one per criterion.
  """

  id: str
  kind: str
  step: int
  place: Place
  valid: int
  is_thin: bool
  mass: float | None
  points: float | None
  range_points: float | None
  mounted: tuple[terms.FieldKind, ...]
  tallies: tuple[Tally, ...]


class History(msgspec.Struct, frozen=True):
  """Everything about one task, in the order of the log.

  Attributes:
    task: id.
    seen: its groups: the cold start's, draws, probes and regrades.
    updates: candidates, accepted or not.
    removals: fields that went without a measurement.
    outcomes: of accepted candidates.
    labelled: steps at which it was labelled.
  """

  task: str
  seen: tuple[Seen, ...] = ()
  updates: tuple[changes.Update, ...] = ()
  removals: tuple[changes.Removal, ...] = ()
  outcomes: tuple[changes.Outcome, ...] = ()
  labelled: tuple[int, ...] = ()

  def draws(self) -> tuple[Seen, ...]:
    """The groups of the cold start and of training."""
    return tuple(each for each in self.seen if each.kind in ("cold", "train"))


POINTS = 100.0
"""Lambda: a reward of 1 in points (H-7)."""


def extend(history: History, record: records.Record, place: Place) -> History:
  """The history with one more record of its task.

  Args:
    history: up to there.
    record: of the same task.
    place: of its line.
  """
  match record:
    case records.Group():
      seen = (*history.seen, digest(record, place))
      return msgspec.structs.replace(history, seen=seen)
    case records.Labels():
      return _labelled(history, record)
    case changes.Update():
      updates = (*history.updates, record)
      return msgspec.structs.replace(history, updates=updates)
    case changes.Removal():
      removals = (*history.removals, record)
      return msgspec.structs.replace(history, removals=removals)
    case changes.Outcome():
      outcomes = (*history.outcomes, record)
      return msgspec.structs.replace(history, outcomes=outcomes)
  raise ValueError(f"A {type(record).__name__} is of no task.")


def task_of(record: records.Record) -> str | None:
  """The task that a record is about, None if it is about all of them."""
  match record:
    case changes.Update():
      return record.candidate.task
    case records.Header() | records.Calibration():
      return None
  return record.task


def digest(group: records.Group, place: Place) -> Seen:
  """A group in short."""
  valid = [each for each in group.rollouts if each.reward is not None]
  is_thin = len(valid) < group.minimum_valid
  rewards = [POINTS * each.reward for each in valid]
  tallies = tuple(
    _tally(group, index, valid) for index in range(len(group.criteria))
  )
  separating = sum(0 < each.reached < len(valid) for each in tallies)
  return Seen(
    id=group.id,
    kind=group.kind,
    step=group.step,
    place=place,
    valid=len(valid),
    is_thin=is_thin,
    mass=None if is_thin else separating / len(tallies),
    points=None if is_thin else sum(rewards) / len(rewards),
    range_points=None if is_thin else max(rewards) - min(rewards),
    mounted=tuple(field.kind for field in group.fields),
    tallies=tallies,
  )


def _tally(
  group: records.Group, index: int, valid: list[records.Rollout]
) -> Tally:
  target = group.criteria[index]
  is_penalty = group.weights[index] < 0
  guided = {cid for field in group.fields for cid, _ in field.targets}
  reached = unguided = 0.0
  for rollout in valid:
    score = rollout.scores[index]
    desired = 1.0 - score if is_penalty else score
    reached += desired
    if not (target[0] in guided and rollout.is_guided):
      unguided += desired
  return Tally(target=target, reached=reached, unguided=unguided)


def _labelled(history: History, record: records.Labels) -> History:
  names = {label.target: label.name for label in record.labels}

  def named(seen: Seen) -> Seen:
    if seen.id not in record.groups:
      return seen
    tallies = tuple(
      msgspec.structs.replace(tally, label=names.get(tally.target))
      for tally in seen.tallies
    )
    return msgspec.structs.replace(seen, tallies=tallies)

  return msgspec.structs.replace(
    history,
    seen=tuple(map(named, history.seen)),
    labelled=(*history.labelled, record.step),
  )


def encode(history: History) -> str:
  """A history as JSON."""
  return msgspec.json.encode(history).decode()


def decode(text: str) -> History:
  """The history of a text that `encode` made.

  Raises:
    ValueError: if it is no such text.
  """
  return msgspec.json.decode(text, type=History)
