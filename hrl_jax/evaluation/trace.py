"""One task's story in a run of HarnessRL, as Figure 6 of the paper tells it."""

import pathlib
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import matplotlib.figure

from hrl_jax import base
from hrl_jax.harness import changes, commits, history, records, rubrics
from hrl_jax.harness import state as states
from hrl_jax.methods.harnessrl import telling


class Moment(NamedTuple):
  """A step at which something happened to the task.

  Attributes:
    step: -1 for the cold start.
    points: mean of the drawn group by the rubric of then, None if there is no
      such group or it is thin.
    accepted: interfaces of the accepted candidates.
    level: of sampling, afterwards.
    fields: mounted afterwards.
    lines: what happened.
  """

  step: int
  points: float | None
  accepted: tuple[str, ...]
  level: int
  fields: tuple[str, ...]
  lines: tuple[str, ...]


def moments(
  bank: base.Bank, log: Iterable[records.Record], task: str
) -> list[Moment]:
  """What happened to a task, step by step.

  Args:
    bank: of the run.
    log: of the run.
    task: id.

  Raises:
    ValueError: if the bank has no such task.
  """
  if all(each.id != task for each in bank.tasks):
    names = ", ".join(each.id for each in bank.tasks[:5])
    raise ValueError(
      f"The bank has no task {task!r}. It has {len(bank.tasks)}, such as "
      f"{names}."
    )
  alone = base.Bank(
    tuple(each for each in bank.tasks if each.id == task), bank.hash
  )
  state = states.init(alone)
  by_step: dict[int, list[records.Record]] = {}
  for record in log:
    if isinstance(record, records.Calibration):
      by_step.setdefault(-1, []).append(_of_task(record, task))
    elif history.task_of(record) == task:
      by_step.setdefault(_step(record), []).append(record)
  result = []
  for step in sorted(by_step):
    before = states.rubric(state, 0)
    state = commits.commit(state, by_step[step])
    result.append(_moment(step, by_step[step], before, states.task(state, 0)))
  return result


def lines(found: Sequence[Moment]) -> Iterator[str]:
  """The story as text."""
  for moment in found:
    when = "first policy" if moment.step < 0 else f"step {moment.step}"
    points = "" if moment.points is None else f": {moment.points:.1f} points"
    yield f"{when}{points}"
    yield from (f"  {line}" for line in moment.lines)


def plot(found: Sequence[Moment], task: str, path: pathlib.Path) -> None:
  """Draws reward, accepted changes, level and fields over the steps."""
  figure = matplotlib.figure.Figure(figsize=(8, 5), layout="constrained")
  above, below = figure.subplots(2, 1, sharex=True, height_ratios=(3, 1))
  drawn = [each for each in found if each.points is not None]
  above.plot(
    [each.step for each in drawn],
    [each.points for each in drawn],
    "o-",
    color="0.3",
    label="reward of the drawn group",
  )
  colors = {"sampling": "C0", "rollout": "C2", "rubric": "C1"}
  for name, color in colors.items():
    marked = [each for each in drawn if name in each.accepted]
    above.plot(
      [each.step for each in marked],
      [each.points for each in marked],
      "s",
      ms=10,
      mfc="none",
      color=color,
      label=f"{name} changed",
    )
  above.set_ylabel("points")
  above.set_title(f"task {task}")
  above.legend(fontsize="small")
  steps = [each.step for each in found]
  below.step(
    steps, [each.level for each in found], where="post", label="sampling level"
  )
  below.step(
    steps,
    [len(each.fields) for each in found],
    where="post",
    label="mounted fields",
  )
  below.set_ylim(-0.2, 3.2)
  below.set_xlabel("step")
  below.legend(fontsize="small")
  figure.savefig(path, dpi=120)


def _step(record: records.Record) -> int:
  if isinstance(record, changes.Update):
    return record.candidate.step
  return record.step


def _of_task(
  calibration: records.Calibration, task: str
) -> records.Calibration:
  """What the cold start fixed for one task."""
  return records.Calibration(
    levels=calibration.levels,
    rollout=calibration.rollout,
    rubric=calibration.rubric,
    anchors={n: c for n, c in calibration.anchors.items() if n == task},
    masses={n: m for n, m in calibration.masses.items() if n == task},
  )


def _moment(
  step: int,
  happened: Sequence[records.Record],
  before: rubrics.TaskRubric,
  after: states.TaskHarness,
) -> Moment:
  drawn = [
    history.digest(each, history.Place(0, 0))
    for each in happened
    if isinstance(each, records.Group) and each.kind in ("cold", "train")
  ]
  points = [each.points for each in drawn if each.points is not None]
  return Moment(
    step=step,
    points=sum(points) / len(points) if points else None,
    accepted=tuple(
      each.candidate.interface
      for each in happened
      if isinstance(each, changes.Update) and each.decision.is_accepted
    ),
    level=after.level,
    fields=tuple(after.fields),
    lines=tuple(
      [line for each in happened for line in _told(each)]
      + [*_difference(before, after.rubric)]
    ),
  )


def _told(record: records.Record) -> Iterator[str]:
  match record:
    case records.Group(kind="cold" | "train"):
      seen = history.digest(record, history.Place(0, 0))
      counts = ", ".join(
        f"{tally.target[0]}@{tally.target[1]} {tally.reached:g}/{seen.valid}"
        for tally in seen.tallies
      )
      mounted = " and ".join(seen.mounted)
      yield f"drawn{f' with {mounted}' if mounted else ''}: {counts}"
    case records.Labels():
      yield from _labels(record)
    case changes.Update():
      yield from _update(record)
    case changes.Removal():
      yield f"<{record.field}> is gone ({record.code})"
    case changes.Outcome():
      delta = record.points_delta
      effect = "unknown" if delta is None else f"{delta:+.1f} points"
      yield f"{record.candidate} by draw {record.draw} after it: {effect}"


def _labels(record: records.Labels) -> Iterator[str]:
  if record.code == "thin_group":
    yield "too few graded rollouts for a label"
  for label in record.labels:
    if label.name == "agree" and not label.is_generic:
      continue
    quotes = "; ".join(
      f"rollout {quote.rollout}: {quote.text[:60]!r}"
      for quote in label.quotes[:2]
    )
    yield (
      f"{label.target[0]} is {label.name} ({label.reason}, confidence "
      f"{label.confidence:.2f}, by {record.author})"
      + (f" {quotes}" if quotes else "")
    )
  if record.is_saturated:
    yield f"the task is saturated: mass {record.mass:.2f}"


def _update(record: changes.Update) -> Iterator[str]:
  decision = record.decision
  band = [
    "" if bound is None else f"{bound:.1f}"
    for bound in (decision.lower, decision.upper)
  ]
  yield (
    f"{record.candidate.interface}, round {record.candidate.round}: "
    f"{telling.update(record)}"
    + (f" band [{', '.join(band)}]" if any(band) else "")
  )


def _difference(
  before: rubrics.TaskRubric, after: rubrics.TaskRubric
) -> Iterator[str]:
  """What the rubric has gained and lost, as a diff."""
  old = {e.version.target: (e.version.text, e.raw) for e in before.entries}
  new = {e.version.target: (e.version.text, e.raw) for e in after.entries}
  for sign, one, other in (("-", old, new), ("+", new, old)):
    for target, (text, raw) in one.items():
      if other.get(target) != (text, raw):
        yield f"{sign} {raw:+g} {text}  [{target[0]}@{target[1]}]"
