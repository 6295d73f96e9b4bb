"""Times the harness memory at the paper's size, with vectors made up for it.

  python scripts/bench_memory.py
  python scripts/bench_memory.py --parts growth --banks 860 8600

  retrieval   what is related to the criteria of the drawn tasks, asked for the
              first time (cold), and again after some criteria were rewritten
              and others made (again)
  records     a step's groups are appended; the histories of its tasks are read
  growth      a step of both, in banks of several sizes

Every part runs in a process of its own, so that its peak of memory is its own.
Criteria are points in clusters within clusters, each criterion at its own
distance from the middle of its topic. No text is embedded and no model called.
Other work on the machine disturbs what is measured, so the load stands beside
it.
"""

import argparse
import concurrent.futures
import functools
import json
import multiprocessing
import os
import pathlib
import re
import tempfile
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from hrl_jax.harness import changes, records, retrieval, terms
from hrl_jax.services.memory import memory

CRITERIA = 13
ROLLOUTS = 8
# Of the paper's criteria, 10.7 % are penalties.
PENALTIES = 0.107
FLOOR = 0.82
REWRITTEN = 0.03
MADE = 600
BLOCK = 4096


def main() -> None:
  """Runs the benchmark of the command line."""
  arguments = _arguments()
  results = []
  for part in arguments.parts:
    for name, measure in _runs(part, arguments):
      load = os.getloadavg()[0]
      result = {"part": name, "load": round(load, 1), **_alone(measure)}
      print(_line(result), flush=True)
      results.append(result)
  if arguments.json:
    arguments.json.write_text(json.dumps(results, indent=2) + "\n")


def related(
  folder: str, criteria: int, drawn: int, dimension: int
) -> dict[str, Any]:
  """Builds the index, and asks it and the exact search the same."""
  world = World(criteria // CRITERIA, dimension)
  build = functools.partial(_built, folder, world)
  result, found = _alone(build), {}
  for search in ("approximate", "exact"):
    outcome = _alone(functools.partial(_asked, folder, world, search, drawn))
    found[search] = outcome.pop("found")
    result |= {f"{search}_{name}": value for name, value in outcome.items()}
  wanted = [set(hits) for hits in found["exact"]]
  got = [set(hits) for hits in found["approximate"]]
  hits = sum(map(len, wanted))
  both = sum(len(a & b) for a, b in zip(wanted, got, strict=True))
  return {**result, "hits": hits, "recall": both / hits}


def _built(folder: str, world: "World") -> dict[str, Any]:
  clock = Clock()
  clock.time("build", lambda: world.opened(folder, "exact").close())
  return clock.seconds


def _asked(
  folder: str, world: "World", search: str, drawn: int
) -> dict[str, Any]:
  """Asks cold and again; leaves the memory as it was."""
  clock = Clock()
  kept = clock.time("open", lambda: world.opened(folder, search))
  with kept:
    length = kept.length()
    queries = world.queries(drawn)
    found = clock.time("cold", lambda: kept.related(queries))
    updates, queries = world.changed(queries)
    clock.time("append", lambda: kept.append(updates))
    clock.time("again", lambda: kept.related(queries))
    clock.time("cut", lambda: kept.cut(length))
  found = [[hit.target for hit in hits] for hits in found]
  return {**clock.seconds, "queries": len(queries), "found": found}


def history(
  folder: str, tasks: int, drawn: int, dimension: int, draws: int
) -> dict[str, Any]:
  """Appends the groups of some steps and reads the histories."""
  world, clock = World(tasks, dimension), Clock()
  names = [world.task(task) for task in range(drawn)]
  with world.opened(folder, "exact") as kept:
    for step in range(draws):
      groups = [world.group(task, step) for task in range(drawn)]
      name = "first_append" if step == 0 else "last_append"
      clock.time(name, lambda batch=groups: kept.append(batch))
    found = clock.time("histories", lambda: kept.histories(names))
    length = kept.length()
  clock.time("open", lambda: world.opened(folder, "exact").close())
  groups = max(len(each.seen) for each in found)
  return {**clock.seconds, "groups_of_each": groups, "log_mb": length / 1e6}


def growth(
  folder: str, tasks: int, drawn: int, dimension: int
) -> dict[str, Any]:
  """A step's appends and reads in a bank of a size."""
  world, clock = World(tasks, dimension), Clock()
  clock.time("build", lambda: world.opened(folder, "exact").close())
  with world.opened(folder, "approximate") as kept:
    places = np.linspace(0, tasks - 1, drawn).astype(int).tolist()
    names = [world.task(task) for task in places]
    queries = world.queries(drawn)
    for search in ("cold", "again"):
      clock.time(f"related_{search}", lambda: kept.related(queries))
    for step in range(6):
      groups = [world.group(task, step) for task in places]
      # The last counts: the first ones enter new tasks.
      clock.time("append", lambda batch=groups: kept.append(batch))
      clock.time("histories", lambda: kept.histories(names))
    updates, queries = world.changed(queries)
    clock.time("append_updates", lambda: kept.append(updates))
    clock.time("related_changed", lambda: kept.related(queries))
  return {"tasks": tasks, **clock.seconds}


class Clock:
  """Times work, on the wall and by the CPU time of the process.

  Attributes:
    seconds: both, by name.
  """

  def __init__(self) -> None:
    self.seconds: dict[str, Any] = {}

  def time(self, name: str, work: Callable[[], Any]) -> Any:
    """What the work returns."""
    wall, cpu = time.perf_counter(), time.process_time()
    result = work()
    self.seconds[f"{name}_s"] = time.perf_counter() - wall
    self.seconds[f"{name}_cpu_s"] = time.process_time() - cpu
    return result


class World:
  """Criteria whose vectors are computed from their numbers."""

  def __init__(self, tasks: int, dimension: int):
    self.name = f"synthetic-{tasks}-{dimension}"
    self._tasks = tasks
    self._dimension = dimension
    rng = np.random.default_rng(0)
    count = tasks * CRITERIA
    topics = max(1, count // 25)
    self._domains = _unit(rng.standard_normal((200, dimension)))
    self._topics = _unit(rng.standard_normal((topics, dimension)))
    self._domain_of_topic = rng.integers(0, 200, topics)

  def opened(self, folder: str, search: str) -> memory.Memory:
    """The memory of this world."""
    seeds = [
      (
        self.task(task),
        [
          self.version(task, place, task * CRITERIA + place)
          for place in range(CRITERIA)
        ],
      )
      for task in range(self._tasks)
    ]
    return memory.Memory(
      folder, self.name, seeds, self, floor=FLOOR, search=search
    )

  def embed(self, texts: Sequence[str]) -> np.ndarray:
    """The vectors of texts that end in a criterion's number."""
    numbers = np.array([int(text.rpartition(" ")[2]) for text in texts])
    vectors_ND = np.empty((len(numbers), self._dimension), np.float32)
    for block in np.unique(numbers // BLOCK):
      chosen = numbers // BLOCK == block
      vectors_ND[chosen] = self._block(int(block))[numbers[chosen] % BLOCK]
    return vectors_ND

  @functools.lru_cache(maxsize=4)  # noqa: B019
  def _block(self, block: int) -> np.ndarray:
    rng = np.random.default_rng([1, block])
    topic_N = rng.integers(0, len(self._topics), BLOCK)
    # Squared share of a vector that is its own: the cosine of two criteria of
    # a topic is one less the mean of theirs, nearly.
    own_N1 = rng.uniform(0.05, 0.35, (BLOCK, 1))
    noise_ND = _unit(rng.standard_normal((BLOCK, self._dimension)))
    return _unit(
      np.sqrt(0.55 * (1 - own_N1))
      * self._domains[self._domain_of_topic[topic_N]]
      + np.sqrt(0.45 * (1 - own_N1)) * self._topics[topic_N]
      + np.sqrt(own_N1) * noise_ND
    )

  def task(self, task: int) -> str:
    """The id of a task."""
    return f"task-{task:06}"

  def version(self, task: int, place: int, number: int) -> terms.Version:
    """A criterion of a task."""
    return terms.Version(
      cid=f"{self.task(task)}#{place}",
      version=0,
      text=f"criterion {number}",
      sign=-1 if number * PENALTIES % 1 < PENALTIES else 1,
      origin="seed",
    )

  def queries(self, drawn: int) -> list[retrieval.Query]:
    """The criteria of tasks spread over the bank, 12.9 of each on average."""
    places = np.linspace(0, self._tasks - 1, drawn).astype(int).tolist()
    queries = []
    for index, task in enumerate(places):
      for place in range(CRITERIA - (index % 10 == 0)):
        version = self.version(task, place, task * CRITERIA + place)
        queries.append(
          retrieval.Query(
            version.target, self.task(task), version.sign, version.text
          )
        )
    return queries

  def changed(
    self, queries: Sequence[retrieval.Query]
  ) -> tuple[list[changes.Update], list[retrieval.Query]]:
    """Makes 600 criteria, some of them in place of some queries' criteria."""
    rewritten = np.linspace(
      0, len(queries) - 1, int(REWRITTEN * len(queries))
    ).astype(int)
    new = list(queries)
    updates = []
    for index in range(MADE):
      number = self._tasks * CRITERIA + BLOCK + index
      # The first are rewrites of what is asked again.
      old = queries[rewritten[index]] if index < len(rewritten) else None
      if old is None:
        cid, version, task, sign = f"new#{index}", 0, self.task(index), 1
      else:
        cid, version, task, sign = old.target[0], 1, old.task, old.sign
      made = terms.Version(cid, version, f"criterion {number}", sign, "seed")
      updates.append(_update(index, task, made, old))
      if old is not None:
        new[rewritten[index]] = retrieval.Query(
          made.target, task, sign, made.text
        )
    return updates, new

  def group(self, task: int, step: int) -> records.Group:
    """A recorded group: 8 rollouts of 1,000 characters."""
    rng = np.random.default_rng([2, task, step])
    targets = tuple(
      (f"{self.task(task)}#{place}", 0) for place in range(CRITERIA)
    )
    rollouts = tuple(
      records.Rollout(
        text="".join(map(chr, rng.integers(97, 123, 1000))),
        tokens=200,
        finish="stop",
        reward=float(rng.random()),
        scores=tuple(rng.integers(0, 2, CRITERIA).astype(float).tolist()),
      )
      for _ in range(ROLLOUTS)
    )
    return records.Group(
      id=f"{step}/train/{task}",
      kind="train",
      step=step,
      slot=0,
      task=self.task(task),
      weights_version=step,
      rubric_version=0,
      criteria=targets,
      weights=(1.0,) * CRITERIA,
      fields=(),
      rollouts=rollouts,
      importance=1.0,
      minimum_valid=4,
    )


def _update(
  index: int, task: str, made: terms.Version, old: retrieval.Query | None
) -> changes.Update:
  candidate = changes.Candidate(
    id=f"candidate {index}",
    step=0,
    task=task,
    interface="rubric",
    operations=(),
    is_primary=True,
    round=0,
    rubric_version=0,
    potential=1.0,
    is_grounded=False,
    evidence=(),
    rationale="",
    author="rules",
  )
  return changes.Update(
    candidate,
    changes.Measurement("ok", ""),
    changes.Decision(True, "accepted"),
    made=(made,),
    retired=() if old is None else (old.target,),
  )


def _unit(vectors_ND: np.ndarray) -> np.ndarray:
  lengths_N1 = np.linalg.norm(vectors_ND, axis=1, keepdims=True)
  return (vectors_ND / lengths_N1).astype(np.float32)


def _alone(measure: Callable[[], dict[str, Any]]) -> dict[str, Any]:
  """Measures in a new process; its peak of memory is added."""
  context = multiprocessing.get_context("spawn")
  with concurrent.futures.ProcessPoolExecutor(1, context) as process:
    return process.submit(_with_peak, measure).result()


def _with_peak(measure: Callable[[], dict[str, Any]]) -> dict[str, Any]:
  result = measure()
  # Not of `resource`, which starts from that of the parent.
  status = pathlib.Path("/proc/self/status").read_text()
  peak = re.search(r"VmHWM:\s+(\d+) kB", status)[1]
  return {**result, "peak_gb": int(peak) / 1e6}


def _runs(part: str, arguments: argparse.Namespace):
  """Yields the measurements of a part, by name."""
  drawn, dimension = arguments.drawn, arguments.dimension
  sizes = {"drawn": drawn, "dimension": dimension}
  with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
    if part == "retrieval":
      criteria = arguments.criteria
      yield part, functools.partial(related, folder, criteria, **sizes)
    elif part == "records":
      small = {"drawn": drawn, "dimension": 64, "draws": arguments.draws}
      yield part, functools.partial(history, folder, 8600, **small)
    else:
      for bank in arguments.banks:
        place = str(pathlib.Path(folder, str(bank)))
        small = {"drawn": min(drawn, bank), "dimension": 64}
        yield part, functools.partial(growth, place, bank, **small)


def _line(result: dict[str, Any]) -> str:
  numbers = [
    f"{name} {value:.4g}" if isinstance(value, float) else f"{name} {value}"
    for name, value in result.items()
  ]
  return "  ".join(numbers)


PARTS = ("retrieval", "records", "growth")


def _arguments() -> argparse.Namespace:
  parser = argparse.ArgumentParser(
    description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
  )
  parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
  parser.add_argument("--criteria", type=int, default=200_000)
  parser.add_argument("--drawn", type=int, default=512)
  parser.add_argument("--dimension", type=int, default=768)
  parser.add_argument("--draws", type=int, default=30)
  parser.add_argument(
    "--banks", type=int, nargs="+", default=[860, 8600, 86000]
  )
  parser.add_argument("--folder", help="for files; default: the system's")
  parser.add_argument("--json", type=pathlib.Path)
  arguments = parser.parse_args()
  if arguments.criteria < CRITERIA * arguments.drawn:
    parser.error("--criteria must be enough for the drawn tasks.")
  return arguments


if __name__ == "__main__":
  main()
