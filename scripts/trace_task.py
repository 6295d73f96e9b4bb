"""Tells what HarnessRL did to one task of a run, as text and as a picture.

  python scripts/trace_task.py runs/harnessrl_quickstart TASK

TASK is an id of the bank; without it the tasks are listed by what happened to
them. The picture is written beside the memory, as trace_TASK.png.
"""

import argparse
import collections
import json
import pathlib
import re
import sys

from hrl_jax import base
from hrl_jax.data import bank as banks
from hrl_jax.data import package_files
from hrl_jax.evaluation import trace
from hrl_jax.harness import changes, history, records
from hrl_jax.services import checkers
from hrl_jax.services.memory import log


def main() -> None:
  """Runs the script of the command line."""
  parser = argparse.ArgumentParser(
    description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
  )
  parser.add_argument("run", type=pathlib.Path, help="the run folder")
  parser.add_argument("task", nargs="?", help="id of the task")
  arguments = parser.parse_args()
  try:
    bank = _bank(arguments.run)
    found = log.read(arguments.run / "memory" / "log.jsonl", bank.hash)
    if arguments.task is None:
      _list(found)
      return
    story = trace.moments(bank, found, arguments.task)
  except (ValueError, OSError) as error:
    sys.exit(str(error))
  print(*trace.lines(story), sep="\n")
  name = re.sub(r"[^\w.-]", "_", arguments.task)[:80]
  path = arguments.run / "memory" / f"trace_{name}.png"
  trace.plot(story, arguments.task, path)
  print(f"Picture: {path}")


def _bank(run: pathlib.Path) -> base.Bank:
  """The bank that a run was trained on."""
  path = run / "config.json"
  try:
    config = json.loads(path.read_text())
  except OSError as error:
    raise ValueError(
      f"Cannot read {path}: {error.strerror}. Name the folder of a run."
    ) from error
  bank = banks.load(
    [package_files.resolve(each) for each in config["data"]["train"]],
    checkers=checkers.names(),
    validate=checkers.validate,
  )
  if config["judge"]["kind"] == "none":
    bank, _ = banks.without_judged(bank)
  return banks.first(bank, config["data"]["max_tasks"])


def _list(found: list[records.Record]) -> None:
  """Tasks with the most accepted changes first."""
  accepted = collections.Counter(
    record.candidate.task
    for record in found
    if isinstance(record, changes.Update) and record.decision.is_accepted
  )
  drawn = collections.Counter(
    history.task_of(record)
    for record in found
    if isinstance(record, records.Group) and record.kind == "train"
  )
  print("accepted  drawn  task")
  for task, count in accepted.most_common(40):
    print(f"{count:8}  {drawn[task]:5}  {task}")


if __name__ == "__main__":
  main()
