"""A step's evidence becomes records, and each distinct task a draw."""

from collections.abc import Callable, Mapping, Sequence

from hrl_jax import base
from hrl_jax.harness import history, records, retrieval
from hrl_jax.harness import state as states
from hrl_jax.methods.harnessrl import parts, recording

HarnessOf = Callable[[int], states.TaskHarness]


def observe(
  made: parts.Parts,
  state: states.HarnessState,
  harness_of: HarnessOf,
  step: int,
  evidence: base.Evidence,
) -> tuple[parts.Draw, ...]:
  """Records every group, then returns the distinct tasks in order of drawing.

  The records are durable when it returns; nothing is learnt before.
  """
  drawn = sorted({slot.task for slot in _slots(evidence)})
  harness_by_place = {place: harness_of(place) for place in drawn}
  by_place = _by_place(state, harness_by_place, step, evidence)
  tasks = [state.bank.tasks[place] for place in by_place]
  # As they were before this step.
  befores = _histories(made, [task.id for task in tasks])
  groups = [group for each in by_place.values() for group in each]
  locations = dict(
    zip((g.id for g in groups), made.memory.append(groups), strict=True)
  )
  harnesses = [harness_by_place[place] for place in by_place]
  hits = _related(made, tasks, harnesses)
  others = _others(made, hits)
  return tuple(
    parts.Draw(
      place=place,
      task=task,
      harness=harness,
      groups=tuple(by_place[place]),
      seen=tuple(history.digest(g, locations[g.id]) for g in by_place[place]),
      before=before,
      hits=hits_of_task,
      others=others,
    )
    for place, task, harness, before, hits_of_task in zip(
      by_place, tasks, harnesses, befores, hits, strict=True
    )
  )


def _slots(evidence: base.Evidence) -> list[base.Slot]:
  return [evidence.plan.slots[group.slot] for group in evidence.groups]


def _by_place(
  state: states.HarnessState,
  harnesses: Mapping[int, states.TaskHarness],
  step: int,
  evidence: base.Evidence,
) -> dict[int, list[records.Group]]:
  """The records of the groups of each drawn task, in order of their slots."""
  by_place: dict[int, list[records.Group]] = {}
  plan = evidence.plan
  for seen in sorted(evidence.groups, key=lambda group: group.slot):
    slot = plan.slots[seen.slot]
    by_place.setdefault(slot.task, []).append(
      recording.group(
        seen,
        id=f"train:{step}:{seen.slot}",
        kind="train",
        step=step,
        task=state.bank.tasks[slot.task].id,
        rubric=harnesses[slot.task].rubric,
        fields=harnesses[slot.task].fields.values(),
        is_guided=[prompt != slot.bare for prompt in slot.sampled_under],
        importance=slot.importance,
      )
    )
  return by_place


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
) -> Sequence[Mapping[records.Target, tuple[retrieval.Hit, ...]]]:
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
  made: parts.Parts,
  hits: Sequence[Mapping[records.Target, tuple[retrieval.Hit, ...]]],
) -> dict[str, history.History]:
  """The histories of all tasks that something related is of."""
  names = dict.fromkeys(
    hit.task for of_task in hits for each in of_task.values() for hit in each
  )
  return dict(zip(names, made.memory.histories([*names]), strict=True))
