"""A world of letters for the harness: "Has x." is met by a response with an x.

A rollout holds each of the letters a to d with some chance that depends on its
seed, never the letters of a blind criterion, unless guidance names them.
"""

import dataclasses
import re
from collections.abc import Sequence

import jax
import numpy as np

from hrl_jax import base, collect
from hrl_jax.harness import (
  attribution,
  critic,
  history,
  records,
  retrieval,
  stand_in,
  validity,
)
from hrl_jax.harness import state as states
from hrl_jax.methods import drawing, harnessrl, interfaces
from hrl_jax.methods.harnessrl import cold_start, parts
from tests import fakes

SAMPLING = base.Sampling(1.0, 1.0, 0, 64, ())
# Chances of the letters of an unguided rollout.
CHANCES = {"a": 0.5, "b": 0.3, "c": 0.7, "d": 0.9, "s": 1.0}


def answer(prompt: str, seed: int) -> str:
  """A response; the same for the same prompt and seed."""
  random = np.random.RandomState(seed % 2**32)
  letters = [name for name, p in CHANCES.items() if random.uniform() < p]
  guided = re.findall(r"Has (\w)\.", prompt.partition("<")[2])
  letters += [name for name in guided if random.uniform() < 0.9]
  return " ".join(dict.fromkeys(letters)) or "-"


def score(criterion: str, response: str) -> float:
  """1 if the response has the letter that the criterion names."""
  letter = re.fullmatch(r"Has (\w)\.", criterion)
  return float(bool(letter) and letter[1] in response.split())


def bank(count: int = 6) -> base.Bank:
  """Tasks with separating, saturated, blind and penalised letters."""
  return base.Bank(
    tuple(
      fakes.task(
        f"t{index}",
        f"task {index}",
        ("Has a.", 3.0),
        ("Has b.", 2.0),
        ("Has c.", 2.0),
        ("Has s.", 1.0),
        ("Has z.", 4.0),
        ("Has d.", -1.0),
      )
      for index in range(count)
    ),
    "letters",
  )


class Memory:
  """The memory as lists; a `retrieval.Memory`."""

  def __init__(self, tasks: base.Bank):
    self.log: list[records.Record] = []
    self._histories: dict[str, history.History] = {}
    self._tasks = tasks

  def append(self, new: Sequence[records.Record]) -> list[history.Place]:
    places = []
    for record in new:
      place = history.Place(len(self.log), 1)
      self.log.append(records.decode(records.encode(record)))
      places.append(place)
      name = history.task_of(record)
      if name is not None:
        known = self._histories.get(name, history.History(name))
        self._histories[name] = history.extend(known, self.log[-1], place)
    return places

  def histories(self, tasks: Sequence[str]) -> list[history.History]:
    return [
      self._histories.get(name, history.History(name)) for name in tasks
    ]

  def group(self, place: history.Place) -> records.Group:
    return self.log[place.offset]

  def related(
    self, queries: Sequence[retrieval.Query]
  ) -> list[tuple[retrieval.Hit, ...]]:
    """The seeds' criteria of other tasks with the same words."""
    return [
      tuple(
        retrieval.Hit((f"{task.id}#{index}", 0), task.id, query.text, 1.0)
        for task in self._tasks.tasks
        for index, criterion in enumerate(task.rubric)
        if criterion.text == query.text and task.id != query.task
      )[:4]
      for query in queries
    ]

  def similarities(self, text: str, others: Sequence[str]) -> list[float]:
    return [float(text == other) for other in others]


class File:
  """A cold start's records as a list."""

  def __init__(self):
    self.log: list[records.Record] = []

  def read(self) -> list[records.Record]:
    return list(self.log)

  def append(self, new: Sequence[records.Record]) -> None:
    self.log += new


class Probe:
  """Samples and grades in the world of letters; counts what it is asked."""

  def __init__(self, world: collect.World, step: int = 0):
    self.world = world
    self.step = step
    self.groups = self.gradings = 0

  def sample(self, plan: base.Plan, key: jax.Array) -> base.Evidence:
    self.groups += len(plan.slots)
    return collect.gather(
      plan,
      self.world,
      key,
      occasion=base.Occasion(self.step, "probe"),
      sampling=SAMPLING,
    )

  def grade(self, submissions, purpose):
    self.gradings += sum(len(each.rubric) for each in submissions)
    return collect.grade(
      submissions, self.world, occasion=base.Occasion(self.step, purpose)
    )[0]


def world(answers=answer, scores=score) -> collect.World:
  return collect.World(
    fakes.FakeEngine(answers), fakes.FakeGrader(scores), fakes.FakeTokenizer()
  )


KNOBS = parts.Knobs(
  interfaces=records.INTERFACES,
  has_critic=True,
  has_memory=True,
  rounds=2,
  probe_share=1.0,
  paired_probe=False,
  rubric_confidence=0.5,
  related_shown=16,
  same_meaning=0.82,
  condition_on="guided",
  guidance_tokens=1024,
  donor_tokens=384,
  prompt_tokens=2048,
  attribution=attribution.Knobs(
    saturated_records=2,
    reach_counts_guided=False,
    computed_confidence=0.5,
    mass_below_level=False,
    has_history=True,
  ),
  critic=critic.Knobs(),
)


def made(
  memory: Memory,
  roles=None,
  *,
  num_steps: int = 8,
  pool: Sequence[str] = (),
  **knobs,
) -> parts.Parts:
  """An evolver over a memory."""
  chosen = KNOBS._replace(**knobs)
  if not chosen.has_memory:
    without = chosen.attribution._replace(has_history=False)
    chosen = chosen._replace(attribution=without)
  return parts.Parts(
    knobs=chosen,
    roles=roles or stand_in.StandIn(),
    memory=memory,
    limits=validity.Limits(
      similarity=memory.similarities,
      highest_similarity=0.95,
      count_tokens=lambda text: len(text.split()),
      most_tokens=128,
      is_judged=True,
    ),
    count_prompt=lambda turns: sum(len(t.content.split()) for t in turns),
    count_text=lambda text: len(text.split()),
    pool=lambda task: tuple(pool),
    about=lambda task: f"about {task}",
    num_steps=num_steps,
    group_size=8,
  )


@dataclasses.dataclass
class Run:
  """A run of the method without a policy: nothing is trained."""

  tasks: base.Bank
  memory: Memory
  evolver: parts.Parts
  file: File
  world: collect.World
  rules: interfaces.Rules = interfaces.Rules()
  num_groups: int = 4

  def __post_init__(self):
    self.method = harnessrl.make(
      drawing.Size(self.num_groups, 8, False, 1),
      self.evolver,
      harnessrl.Start(
        self.file, cold_start.Knobs(6, 6, 2, 0.5, 8, chunk=4)
      ),
      self.rules,
    )
    self.plans: list[base.Plan] = []
    self.metrics: list[dict] = []

  def start(self) -> harnessrl.State:
    return self.method.prepare(
      self.method.init(self.tasks), Probe(self.world), jax.random.key(1)
    )

  def step(self, state: harnessrl.State, step: int) -> harnessrl.State:
    plan_key, collect_key, learn_key = jax.random.split(
      jax.random.fold_in(jax.random.key(0), step), 3
    )
    plan, state = self.method.plan(state, step, plan_key)
    evidence = collect.gather(
      plan,
      self.world,
      collect_key,
      occasion=base.Occasion(step, "train"),
      sampling=SAMPLING,
    )
    state, metrics = self.method.learn(
      state, step, evidence, Probe(self.world, step), learn_key
    )
    self.plans.append(plan)
    self.metrics.append(metrics)
    return state

  def whole(self, steps: int) -> harnessrl.State:
    state = self.start()
    for step in range(steps):
      state = self.step(state, step)
    return state


def run(roles=None, answers=answer, scores=score, **options) -> Run:
  """A run over fresh lists."""
  count = options.pop("tasks", 6)
  rules = options.pop("rules", interfaces.Rules())
  tasks = bank(count)
  memory = Memory(tasks)
  return Run(
    tasks,
    memory,
    made(memory, roles, **options),
    File(),
    world(answers, scores),
    rules,
  )


def task(state: harnessrl.State, place: int) -> states.TaskHarness:
  return states.task(state.harness, place)
