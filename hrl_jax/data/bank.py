"""The task bank: tasks and rubrics as JSON Lines, in the form of `schema`."""

import hashlib
import json
import os
from collections.abc import Collection, Sequence

from hrl_jax import base
from hrl_jax.data import jsonl, schema


def load(
  paths: Sequence[str | os.PathLike[str]],
  *,
  checkers: Collection[str],
  validate: schema.Validate | None = None,
) -> base.Bank:
  """Reads the tasks of all files, in order, as one bank.

  The bank's hash is `content_hash` of its tasks: spaces, the order of keys and
  dropped references do not enter it, everything else does.

  Args:
    paths: of the files.
    checkers: names of the exact checkers that a criterion may name.
    validate: called with name and arguments of every checker that is named;
      raises ValueError if the checker does not take them.

  Raises:
    ValueError: at the first thing that is wrong, naming file and line.
  """
  if isinstance(paths, str | bytes | os.PathLike):
    raise ValueError(f"Expected a list of paths, got {paths!r}. Write [path].")
  tasks: list[base.Task] = []
  places: dict[str, str] = {}
  for path in paths:
    for number, record in jsonl.read(path):
      place = f"{jsonl.named(path)}, line {number}"
      try:
        task = schema.parse(record, checkers=checkers, validate=validate)
      except ValueError as error:
        task_id = jsonl.shown(record.get("id"))
        raise ValueError(f"{place}: task {task_id}: {error}") from error
      if task.id in places:
        raise ValueError(
          f"{place}: The id {jsonl.shown(task.id)} is already that of "
          f"{places[task.id]}. Give each task its own."
        )
      places[task.id] = place
      tasks.append(task)
  if not tasks:
    raise ValueError(
      f"No task in {jsonl.shown([os.fspath(path) for path in paths], 300)}. "
      "Give at least one file with at least one task."
    )
  return base.Bank(tuple(tasks), content_hash(tasks))


def save(tasks: Sequence[base.Task], path: str | os.PathLike[str]) -> None:
  """Writes tasks so that `load` gives the same tasks back.

  Raises:
    ValueError: if a task holds what JSON cannot say; nothing is written then.
  """
  jsonl.write((schema.record(task) for task in tasks), path)


def content_hash(tasks: Sequence[base.Task]) -> str:
  """SHA-256 of the tasks in canonical JSON, in hexadecimal; order matters."""
  canonical = json.dumps(
    [schema.record(task) for task in tasks],
    sort_keys=True,
    separators=(",", ":"),
    allow_nan=False,
  )
  return hashlib.sha256(canonical.encode()).hexdigest()


def first(bank: base.Bank, count: int | None) -> base.Bank:
  """The first so many tasks of a bank, None for all of them.

  Raises:
    ValueError: if there are fewer.
  """
  if count is None:
    return bank
  if count > len(bank.tasks):
    raise ValueError(
      f"config.data.max_tasks={count} is more than the {len(bank.tasks)} tasks "
      "of config.data.train. Lower it, or set it to None."
    )
  return base.Bank(bank.tasks[:count], content_hash(bank.tasks[:count]))


def without_judged(bank: base.Bank) -> tuple[base.Bank, int]:
  """Drops the criteria that name no checker, for a run without a judge.

  The hash is that of the tasks that are left. So a run refuses to resume with
  its judge taken away or given back, and on any other change of a criterion
  that it graded by.

  Returns:
    The bank, and how many criteria were dropped.

  Raises:
    ValueError: if a task is left without positive weight (H-100).
  """
  tasks = tuple(
    task._replace(
      rubric=tuple(each for each in task.rubric if each.checker is not None)
    )
    for task in bank.tasks
  )
  bare = [task.id for task in tasks if schema.positive_weight(task.rubric) == 0]
  if bare:
    raise ValueError(
      f"{len(bare)} tasks have no positive criterion that names a checker, "
      f"such as {jsonl.shown(bare[:3])}. Grade them with a judge, or leave "
      "them out."
    )
  dropped = sum(len(task.rubric) for task in bank.tasks) - sum(
    len(task.rubric) for task in tasks
  )
  return base.Bank(tasks, content_hash(tasks)), dropped
