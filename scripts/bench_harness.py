"""Times what a step of HarnessRL costs beside its models.

  python scripts/bench_harness.py
  python scripts/bench_harness.py --tasks 8600 --json harness.json

Banks of several sizes, criteria as many as the paper's (mean 12.9, median 10),
512 tasks drawn with 8 rollouts of 1,000 characters. Models answer at once: a
fake engine and a fake judge, made before the clock starts.

  commit  a step's accepted operations applied to the state: 12 of the rubric
          (the paper accepts 1,240 in its first 100 steps), 100 of guidance, 30
          of sampling
  draw    512 tasks with weights and importance weights
  evolve  everything else of a step: records, labels, retrieval by time,
          proposals by rules, decisions, the log; without retrieval by meaning,
          which scripts/bench_memory.py times
"""

import argparse
import json
import pathlib
import tempfile
import time
from collections.abc import Callable, Sequence

import jax
import numpy as np

from hrl_jax import base
from hrl_jax.core import task_sampling
from hrl_jax.harness import changes, commits, rubrics, stand_in, validity
from hrl_jax.harness import state as states
from hrl_jax.methods import drawing
from hrl_jax.methods.harnessrl import evolver, parts, views
from hrl_jax.services.memory import embedder, memory

DRAWN = 512
GROUP_SIZE = 8
ACCEPTED = {"rubric": 12, "rollout": 100, "sampling": 30}


def main() -> None:
  """Runs the benchmark of the command line."""
  parser = argparse.ArgumentParser(
    description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
  )
  parser.add_argument(
    "--tasks", type=int, nargs="+", default=[860, 8_600, 86_000]
  )
  parser.add_argument("--repeats", type=int, default=5)
  parser.add_argument("--json", type=pathlib.Path)
  arguments = parser.parse_args()
  results = []
  print("  tasks  criteria  commit ms  draw ms  evolve ms")
  for count in arguments.tasks:
    result = _measure(count, arguments.repeats)
    results.append(result)
    print(
      f"{count:7}  {result['criteria']:8}  {result['commit_ms']:9.1f}"
      f"  {result['draw_ms']:7.2f}  {result['evolve_ms']:9.0f}"
    )
  if arguments.json:
    arguments.json.write_text(json.dumps(results, indent=2) + "\n")


def _bank(count: int) -> base.Bank:
  random = np.random.default_rng(0)
  sizes = np.clip(np.exp(random.normal(np.log(10), 0.7, count)), 3, 50)
  tasks = []
  for index, size in enumerate(sizes.astype(int).tolist()):
    weights = random.integers(1, 6, size) * np.where(
      random.uniform(size=size) < 0.107, -1, 1
    )
    weights[0] = abs(weights[0])
    tasks.append(
      base.Task(
        f"task-{index}",
        "bench",
        (base.Message("user", f"Question {index} of the bank."),),
        tuple(
          # Few distinct texts: embedding them is not what is timed.
          base.Criterion(f"Explains point {(index + k) % 997}.", float(weight))
          for k, weight in enumerate(weights)
        ),
      )
    )
  return base.Bank(tuple(tasks), f"bench-{count}")


def _measure(count: int, repeats: int) -> dict:
  bank = _bank(count)
  state = states.init(bank).replace(
    levels_4=np.array([1.0, 0.61, 0.38, 0.17]),
    bands_22=np.array([[10.2, 28.0], [3.1, 28.0]]),
  )
  key = jax.random.key(0)
  drawn = task_sampling.draw(key, states.weights(state), DRAWN)
  log = [*_updates(bank, np.unique(drawn))]
  new = commits.commit(state, log)

  def draw() -> None:
    weights_N = states.weights(new)
    task_sampling.draw(key, weights_N, DRAWN)
    task_sampling.importance_weights(weights_N)

  with tempfile.TemporaryDirectory() as folder:
    evolve = _evolve(bank, state, drawn, pathlib.Path(folder))
    return {
      "tasks": count,
      "criteria": sum(len(task.rubric) for task in bank.tasks),
      "commit_ms": _milliseconds(lambda: commits.commit(state, log), repeats),
      "draw_ms": _milliseconds(draw, repeats),
      "evolve_ms": _milliseconds(evolve, repeats),
    }


def _milliseconds(run: Callable[[], object], repeats: int) -> float:
  """The median of some runs after one that does not count."""
  times = []
  for _ in range(repeats + 1):
    start = time.perf_counter()
    run()
    times.append(1000 * (time.perf_counter() - start))
  return float(np.median(times[1:]))


def _updates(bank: base.Bank, places: Sequence[int]) -> list[changes.Update]:
  """A step's accepted candidates, as many as the paper's."""
  made = []
  for interface, number in ACCEPTED.items():
    for place in places[:number]:
      task = bank.tasks[place]
      target = (f"{task.id}#0", 0)
      operation = {
        "rubric": changes.Rewrite(target[0], "Explains it in other words."),
        "rollout": changes.Add("criterion", (target,), "Explain it."),
        "sampling": changes.Lower(),
      }[interface]
      candidate = changes.Candidate(
        id=f"0:{task.id}:{interface}:0",
        step=0,
        task=task.id,
        interface=interface,
        operations=(operation,),
        is_primary=True,
        round=0,
        rubric_version=0,
        potential=10.0,
        is_grounded=False,
        evidence=(),
        rationale="",
        author="bench",
      )
      measurement = changes.Measurement("ok", "", after=0.5, delta=12.0)
      decision = changes.Decision(True, "within")
      made.append(changes.Update(candidate, measurement, decision))
  return made


class _Probe:
  """Answers at once with groups and scores that were made before."""

  def sample(self, plan: base.Plan, key: jax.Array) -> base.Evidence:
    return _evidence(plan, seed=1)

  def grade(self, submissions, purpose):
    return [np.ones(len(each.rubric)) for each in submissions]


def _evolve(
  bank: base.Bank,
  state: states.HarnessState,
  drawn: np.ndarray,
  folder: pathlib.Path,
) -> Callable[[], object]:
  """A function that does one more step each time it is called."""
  made = _parts(bank, folder)

  def view(place: int) -> drawing.View:
    task = bank.tasks[place]
    seen = views.prompts(task, {}, group_size=GROUP_SIZE, condition_on="guided")
    return views.view(task, seen, states.rubric(state, place))

  plan = drawing.of_views(
    [(place, view(place), 1.0) for place in drawn.tolist()], num_groups=DRAWN
  )
  evidence = _evidence(plan, seed=0)
  steps = iter(range(10_000))

  def step() -> None:
    number = next(steps)
    seen = evolver.Seen(
      step=number,
      evidence=evidence._replace(occasion=base.Occasion(number, "train")),
      harness_of=lambda place: states.task(state, place),
      rubric_after=states.rubric,
      probe=_Probe(),
    )
    evolver.evolve(made, state, seen, jax.random.key(number))

  return step


def _evidence(plan: base.Plan, seed: int) -> base.Evidence:
  random = np.random.default_rng(seed)
  text = "An answer that goes on for a while. " * 28
  completion = base.Completion(
    request=0,
    tokens=np.zeros(250, np.int32),
    logprobs=np.zeros(250, np.float32),
    drawn_logprobs=np.zeros(250, np.float32),
    finish="stop",
    weights_version=0,
  )
  groups = []
  for index, slot in enumerate(plan.slots):
    chance_C = random.uniform(-0.2, 1.2, len(slot.rubric))
    scores_GC = (
      random.uniform(size=(GROUP_SIZE, len(slot.rubric))) < chance_C
    ).astype(float)
    weights_C = np.array([criterion.weight for criterion in slot.rubric])
    groups.append(
      base.Group(
        slot=index,
        rollouts=tuple(
          base.Rollout(index, place, 0, 0, text, 0, completion)
          for place in range(GROUP_SIZE)
        ),
        scores_GC=scores_GC,
        rewards_G=scores_GC @ weights_C / weights_C[weights_C > 0].sum(),
        valid_G=np.ones(GROUP_SIZE, bool),
        fate="trained",
      )
    )
  return base.Evidence(
    occasion=base.Occasion(0, "train"),
    plan=plan,
    groups=tuple(groups),
    rewards_PG=np.stack([group.rewards_G for group in groups]),
    valid_PG=np.ones((len(groups), GROUP_SIZE), bool),
    importance_P=np.ones(len(groups)),
    failures=(),
  )


class _ByTime:
  """A memory that is not asked by meaning."""

  def __init__(self, whole: memory.Memory):
    self.append = whole.append
    self.histories = whole.histories
    self.group = whole.group
    self.similarities = whole.similarities

  def related(self, queries):
    return [()] * len(queries)


def _parts(bank: base.Bank, folder: pathlib.Path) -> parts.Parts:
  from configs import harnessrl_quickstart
  from hrl_jax import methods

  _, knobs = methods.recipe(
    "harnessrl", harnessrl_quickstart.harnessrl().to_dict()
  )
  whole = memory.Memory(
    folder,
    bank.hash,
    [(task.id, rubrics.seed_versions(task)) for task in bank.tasks],
    embedder.HashEmbedder(),
    floor=0.99,
    search="exact",
  )
  return parts.Parts(
    knobs=knobs.knobs(4_096),
    roles=stand_in.StandIn(),
    memory=_ByTime(whole),
    limits=validity.Limits(
      similarity=whole.similarities,
      highest_similarity=0.95,
      count_tokens=len,
      most_tokens=1_000,
      is_judged=True,
    ),
    count_prompt=lambda prompt: 100,
    count_text=len,
    pool=lambda task: (),
    about=lambda task: task,
    num_steps=10_000,
    group_size=GROUP_SIZE,
  )


if __name__ == "__main__":
  main()
