"""Rubric updates that take back what was done shortly before (H-122).

An accepted update is a reversal if one of its operations undoes one of an
earlier update of the same criterion, accepted at one of the task's two draws
before. What undoes what:

  rewrite    a rewrite, by a wording that the criterion had before
  delete     a create or a restore of this criterion
  create     a delete: it restores that criterion, or says the same again
  reweight   a reweight: in the opposite direction, back to the weight before
  split      the merge that this criterion came from
  merge      a split, of which at least two parts come together again

The paper counts the share of reversals among accepted updates in windows of 100
steps.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from hrl_jax.harness import changes, operations, rubrics, terms

_DRAWS = 2

Similarity = Callable[[str, str], float]
"""The cosine of two texts."""


class Story(NamedTuple):
  """What happened to the rubric of one task.

  Attributes:
    seed: the rubric that it started with; its anchors do not matter.
    updates: in log order; only accepted ones of the rubric count.
    draws: steps at which the task was drawn, in any order; twice in a step is
      one draw (H-60).
  """

  seed: rubrics.TaskRubric
  updates: Sequence[changes.Update]
  draws: Sequence[int]


class Mark(NamedTuple):
  """An accepted rubric update, and whether it is a reversal.

  Attributes:
    candidate: id.
    step: of the draw that it answers.
    undone: id of the latest candidate that it undoes, None if it undoes none.
  """

  candidate: str
  step: int
  undone: str | None


class Window(NamedTuple):
  """Rubric updates in a stretch of steps.

  Attributes:
    first: its first step.
    accepted: updates.
    reversed: of these, reversals.
  """

  first: int
  accepted: int
  reversed: int

  @property
  def rate(self) -> float:
    """Reversals per accepted update, NaN where there is none."""
    return self.reversed / self.accepted if self.accepted else math.nan


class _Done(NamedTuple):
  """An operation that was carried out: by what, on what, and what it made."""

  candidate: str
  step: int
  operation: changes.RubricOperation
  old: tuple[rubrics.Entry, ...]
  made: tuple[str, ...]


def marks(
  story: Story, *, similarity: Similarity, floor: float
) -> tuple[Mark, ...]:
  """Which accepted updates of a task's rubric are reversals.

  Args:
    story: of the task.
    similarity: asked only of texts that differ.
    floor: cosine from which two wordings are the same, 0.95 in H-122.

  Returns:
    One mark per accepted rubric update, in order.

  Raises:
    ValueError: if an update lies at a step that is no draw, or does not follow
      from the seed and the updates before it.
  """
  rubric = story.seed
  wordings = {e.version.cid: (e.version.text,) for e in rubric.entries}
  done: list[_Done] = []
  result: list[Mark] = []

  def same(left: str, right: str) -> bool:
    return left == right or similarity(left, right) >= floor

  for update in filter(_counts, story.updates):
    step = update.candidate.step
    before = _draws_before(story.draws, update.candidate)
    recent = [each for each in done if each.step in before]
    undone = [
      earlier
      for operation in update.candidate.operations
      for earlier in _undone(operation, recent, rubric, wordings, same)
    ]
    latest = max(undone, key=lambda each: each.step, default=None)
    name = latest.candidate if latest else None
    result.append(Mark(update.candidate.id, step, name))
    made: set[terms.Target] = set()
    for operation in update.candidate.operations:
      change = operations.apply(rubric, (operation,), step=step)
      done.append(_carried_out(update.candidate, operation, rubric, change))
      rubric = change.rubric
      made |= {version.target for version in change.made}
      for version in change.made:
        earlier = wordings.get(version.cid, ())
        wordings[version.cid] = (*earlier, version.text)
    _check_made(update, made)
  return tuple(result)


def reversal_rate(
  stories: Iterable[Story],
  *,
  steps: int,
  window: int,
  similarity: Similarity,
  floor: float,
) -> tuple[Window, ...]:
  """Accepted and reversing rubric updates by window of steps, over all tasks.

  Args:
    stories: one per task.
    steps: of the run; the last window may be shorter.
    window: steps of a window, 100 in the paper.
    similarity: see `marks`.
    floor: see `marks`.

  Raises:
    ValueError: if an update lies beyond the run, or see `marks`.
  """
  accepted = [0] * -(-steps // window)
  reversed_ = list(accepted)
  for story in stories:
    for mark in marks(story, similarity=similarity, floor=floor):
      if not 0 <= mark.step < steps:
        raise ValueError(
          f"Candidate {mark.candidate} lies at step {mark.step}, but the run "
          f"has {steps} steps."
        )
      accepted[mark.step // window] += 1
      reversed_[mark.step // window] += mark.undone is not None
  return tuple(
    Window(index * window, *counts)
    for index, counts in enumerate(zip(accepted, reversed_, strict=True))
  )


def _counts(update: changes.Update) -> bool:
  return update.decision.is_accepted and update.candidate.interface == "rubric"


def _draws_before(
  draws: Sequence[int], candidate: changes.Candidate
) -> list[int]:
  if candidate.step not in draws:
    raise ValueError(
      f"Candidate {candidate.id} answers a draw at step {candidate.step}, but "
      f"its task was drawn at {sorted(set(draws))} only."
    )
  return sorted({step for step in draws if step < candidate.step})[-_DRAWS:]


def _undone(
  operation: changes.RubricOperation,
  recent: Sequence[_Done],
  rubric: rubrics.TaskRubric,
  wordings: dict[str, tuple[str, ...]],
  same: Callable[[str, str], bool],
) -> Iterator[_Done]:
  for earlier in recent:
    match operation, earlier.operation:
      case changes.Rewrite(cid=cid, text=text), changes.Rewrite(cid=other):
        is_undone = cid == other and any(
          same(text, wording) for wording in wordings[cid][:-1]
        )
      case changes.Delete(cid=cid), changes.Create():
        is_undone = cid in earlier.made
      case changes.Create(), changes.Delete(cid=cid):
        is_undone = operation.restores == cid or same(
          operation.text, earlier.old[0].version.text
        )
      case changes.Reweight(cid=cid), changes.Reweight(cid=other):
        is_undone = cid == other and _returns(
          operation.weight, rubric.find(cid).raw, earlier
        )
      case changes.Split(cid=cid), changes.Merge():
        is_undone = cid in earlier.made
      case changes.Merge(cids=cids), changes.Split():
        is_undone = len(set(cids) & set(earlier.made)) > 1
      case _:
        is_undone = False
    if is_undone:
      yield earlier


def _returns(weight: float, now: float, earlier: _Done) -> bool:
  """Whether a weight goes back to the one before an earlier reweight."""
  was = earlier.old[0].raw
  then = earlier.operation.weight - was
  return math.isclose(weight, was) and (weight - now) * then < 0


def _carried_out(
  candidate: changes.Candidate,
  operation: changes.RubricOperation,
  rubric: rubrics.TaskRubric,
  change: operations.Change,
) -> _Done:
  touched = operations.touches(operation)
  return _Done(
    candidate.id,
    candidate.step,
    operation,
    old=tuple(e for e in rubric.entries if e.version.cid in touched),
    made=tuple(version.cid for version in change.made),
  )


def _check_made(update: changes.Update, made: set[terms.Target]) -> None:
  logged = {version.target for version in update.made}
  if logged != made:
    raise ValueError(
      f"Candidate {update.candidate.id} made {sorted(logged)} in the log, but "
      f"from the seed and the updates before it would follow {sorted(made)}. "
      "Hand over all of the task's updates, and the rubric of its bank."
    )
