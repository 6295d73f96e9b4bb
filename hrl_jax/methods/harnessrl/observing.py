"""A step's evidence becomes records, and each distinct task a draw."""

from collections.abc import Callable, Mapping, Sequence

from hrl_jax import base
from hrl_jax.harness import history, records, retrieval, terms
from hrl_jax.harness import state as states
from hrl_jax.methods.harnessrl import parts, recording

HarnessOf = Callable[[int], states.TaskHarness]
Hits = Mapping[terms.Target, tuple[retrieval.Hit, ...]]


def observe(
  made: parts.Parts,
  bank: base.Bank,
  harness_of: HarnessOf,
  step: int,
  evidence: base.Evidence,
) -> tuple[parts.Draw, ...]:
  """Records every group, then returns the distinct tasks in order of drawing.

  The records are durable when it returns; nothing is learnt before.

  Args:
    made: the evolver.
    bank: the tasks.
    harness_of: a task's interfaces as it was drawn, by its place in the bank.
    step: updates before it.
    evidence: of the step.
  """
  by_place = _by_place(evidence)
  tasks = [bank.tasks[place] for place in by_place]
  harnesses = [harness_of(place) for place in by_place]
  groups = [
    [_record(evidence.plan, group, task, harness, step) for group in of_task]
    for task, harness, of_task in zip(
      tasks, harnesses, by_place.values(), strict=True
    )
  ]
  # As they were before this step.
  befores = _histories(made, [task.id for task in tasks])
  appended = [group for of_task in groups for group in of_task]
  places = iter(made.memory.append(appended))
  hits = _related(made, tasks, harnesses)
  others = _others(made, hits)
  return tuple(
    _draw(
      parts.Draw(
        place=place,
        task=task,
        harness=harness,
        groups=tuple(of_task),
        seen=tuple(history.digest(group, next(places)) for group in of_task),
        before=before,
        hits=found,
        others=others,
      )
    )
    for place, task, harness, of_task, before, found in zip(
      by_place, tasks, harnesses, groups, befores, hits, strict=True
    )
  )


def _by_place(evidence: base.Evidence) -> dict[int, list[base.Group]]:
  """The groups of each drawn task, in order of their slots."""
  by_place: dict[int, list[base.Group]] = {}
  for group in sorted(evidence.groups, key=lambda group: group.slot):
    place = evidence.plan.slots[group.slot].task
    by_place.setdefault(place, []).append(group)
  return by_place


def _record(
  plan: base.Plan,
  group: base.Group,
  task: base.Task,
  harness: states.TaskHarness,
  step: int,
) -> records.Group:
  slot = plan.slots[group.slot]
  return recording.group(
    group,
    id=f"train:{step}:{group.slot}",
    kind="train",
    step=step,
    task=task.id,
    rubric=harness.rubric,
    fields=harness.fields.values(),
    is_guided=[prompt != slot.bare for prompt in slot.sampled_under],
    importance=slot.importance,
  )


def _draw(whole: parts.Draw) -> parts.Draw:
  """The draw without its thin groups, unless all are."""
  kept = [i for i, seen in enumerate(whole.seen) if not seen.is_thin]
  if not kept:
    return whole
  return whole._replace(
    groups=tuple(whole.groups[i] for i in kept),
    seen=tuple(whole.seen[i] for i in kept),
  )


def _histories(
  made: parts.Parts, tasks: Sequence[str]
) -> Sequence[history.History]:
  if not made.knobs.has_memory:
    return [history.History(task) for task in tasks]
  return made.memory.histories(tasks)


def _related(
  made: parts.Parts,
  tasks: Sequence[base.Task],
  harnesses: Sequence[states.TaskHarness],
) -> list[Hits]:
  """For each task, what is related to each of its criteria."""
  if not made.knobs.has_memory:
    return [{} for _ in tasks]
  queries = [
    retrieval.Query(
      entry.version.target, task.id, entry.version.sign, entry.version.text
    )
    for task, harness in zip(tasks, harnesses, strict=True)
    for entry in harness.rubric.entries
  ]
  found = iter(made.memory.related(queries))
  return [
    {
      entry.version.target: tuple(next(found))
      for entry in harness.rubric.entries
    }
    for harness in harnesses
  ]


def _others(
  made: parts.Parts, hits: Sequence[Hits]
) -> dict[str, history.History]:
  """The histories of all tasks that something related is of."""
  names = dict.fromkeys(
    hit.task for of_task in hits for each in of_task.values() for hit in each
  )
  if not names:
    return {}
  return dict(zip(names, made.memory.histories([*names]), strict=True))
