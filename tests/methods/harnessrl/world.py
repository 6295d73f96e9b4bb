"""A world of letters for the harness: "Has x." is met by a response with an x.

A rollout holds each of the letters a to d with some chance that depends on its
seed, never the letters of a blind criterion, unless guidance names them. Where
a test works values out by hand, `scripted` says which rollouts of every group
have which letters instead.
"""

import dataclasses
import itertools
import re
from collections.abc import Sequence

import jax
import msgspec
import numpy as np

from hrl_jax import base, collect, protocols
from hrl_jax.harness import (
  attribution,
  changes,
  critic,
  records,
  stand_in,
  terms,
  validity,
)
from hrl_jax.harness import state as states
from hrl_jax.methods import drawing, harnessrl, interfaces
from hrl_jax.methods.harnessrl import cold_start, parts
from tests import fakes
from tests.methods.harnessrl import stubs

# Chances of the letters of an unguided rollout.
CHANCES = {"a": 0.5, "b": 0.3, "c": 0.7, "d": 0.9, "s": 1.0}


def answer(prompt: str, seed: int) -> str:
  """A response; the same for the same prompt and seed."""
  random = np.random.RandomState(seed % 2**32)
  letters = [name for name, p in CHANCES.items() if random.uniform() < p]
  guided = re.findall(r"Has (\w)\.", prompt.partition("<")[2])
  letters += [name for name in guided if random.uniform() < 0.9]
  return " ".join(dict.fromkeys(letters)) or "-"


LETTERS = {"a": "11110000", "b": "11000000", "c": "11111100", "s": "11111111"}
"""Of a scripted group: 3 * 4 + 2 * 2 + 2 * 6 + 8 = 36 of 8 * 12, 37.5 points;
three of six criteria separate it."""


def scripted(letters=LETTERS, **guided):
  """Answers of which the k-th of a group has a letter if its k-th mark is 1.

  Args:
    letters: marks by letter.
    guided: likewise, of letters that guidance names.
  """
  asked = itertools.count()

  def answered(prompt: str, seed: int) -> str:
    # The engine answers whole groups, from the last rollout to the first.
    place = 7 - next(asked) % 8
    named = re.findall(r"Has (\w)\.", prompt.partition("<")[2])
    marks = {**letters, **{x: guided[x] for x in named if x in guided}}
    return " ".join(x for x in marks if marks[x][place] == "1") or "-"

  return answered


def score(criterion: str, response: str) -> float:
  """1 if the response has the letter that the criterion names."""
  letter = re.fullmatch(r"Has (\w)\.", criterion)
  return float(bool(letter) and letter[1] in response.split())


CRITERIA = (
  ("Has a.", 3.0),
  ("Has b.", 2.0),
  ("Has c.", 2.0),
  ("Has s.", 1.0),
  ("Has z.", 4.0),
  ("Has d.", -1.0),
)
"""Separating, saturated, blind and penalised letters; 12 positive."""


def bank(count: int = 6, criteria=CRITERIA) -> base.Bank:
  """Tasks that all have the same criteria."""
  return base.Bank(
    tuple(
      fakes.task(f"t{index}", f"task {index}", *criteria)
      for index in range(count)
    ),
    "letters",
  )


def world(answers=answer, scores=score) -> collect.World:
  return collect.World(
    fakes.FakeEngine(answers), fakes.FakeGrader(scores), fakes.FakeTokenizer()
  )


KNOBS = parts.Knobs(
  interfaces=terms.INTERFACES,
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
  memory: stubs.Memory,
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
  """A run of the method without a policy: nothing is trained.

  Attributes:
    plans: of each step.
    evidence: likewise.
    metrics: likewise.
  """

  tasks: base.Bank
  memory: stubs.Memory
  evolver: parts.Parts
  file: cold_start.Unkept
  world: collect.World
  rules: interfaces.Rules
  num_groups: int
  anchor_share: float

  def __post_init__(self):
    self.method = self.drawing(self.num_groups)
    self.plans: list[base.Plan] = []
    self.evidence: list[base.Evidence] = []
    self.metrics: list[dict] = []
    self.seconds: list[dict] = []

  @property
  def _start(self) -> harnessrl.Start:
    knobs = cold_start.Knobs(6, 6, 2, self.anchor_share, 8, chunk=4)
    return harnessrl.Start(self.file, knobs)

  def drawing(self, num_groups: int) -> protocols.Method:
    """The method with steps of so many groups."""
    size = drawing.Size(num_groups, 8, False, 1)
    return harnessrl.make(size, self.evolver, self._start, self.rules)

  @property
  def log(self) -> list[records.Record]:
    return self.memory.log

  def probe(self, step: int = 0) -> stubs.Probe:
    return stubs.Probe(self.world, self.memory.journal, step)

  def start(self, **bands) -> harnessrl.State:
    """The state after the cold start, with these bands instead of its own."""
    key, start = jax.random.key(1), self._start
    if bands:
      cold_start.run(self.tasks, self.file, self.probe(), key, start.knobs)
      self.file.log[-1] = msgspec.structs.replace(
        self.file.log[-1],
        **{
          name: records.Band(lower, upper, 6, lower, lower)
          for name, (lower, upper) in bands.items()
        },
      )
    return self.method.prepare(self.method.init(self.tasks), self.probe(), key)

  def step(
    self, state: harnessrl.State, step: int, draws: Sequence[int] = ()
  ) -> harnessrl.State:
    """The state after a step; of these tasks, if they are named."""
    plan_key, collect_key, learn_key = jax.random.split(
      jax.random.fold_in(jax.random.key(0), step), 3
    )
    method = self.drawing(64) if draws else self.method
    plan, state = method.plan(state, step, plan_key)
    if draws:
      slot_of = {slot.task: slot for slot in plan.slots}
      slots = tuple(slot_of[place] for place in draws)
      plan = plan._replace(slots=slots, num_groups=len(slots))
    self.memory.journal.append(("step", step))
    self.world.engine.load(None, version=step)
    evidence = collect.gather(
      plan,
      self.world,
      collect_key,
      occasion=base.Occasion(step, "train"),
      sampling=stubs.SAMPLING,
    )
    learnt = self.method.learn(
      state, step, evidence, self.probe(step), learn_key
    )
    self.plans.append(plan)
    self.evidence.append(evidence)
    self.metrics.append(learnt.metrics)
    self.seconds.append(learnt.seconds)
    return learnt.state

  def whole(self, steps: int) -> harnessrl.State:
    state = self.start()
    for step in range(steps):
      state = self.step(state, step)
    return state

  def calls(self, name: str) -> list[tuple]:
    """What was asked of the probe since the last step began."""
    started = max(
      (i for i, e in enumerate(self.memory.journal) if e[0] == "step"),
      default=0,
    )
    return [e for e in self.memory.journal[started:] if e[0] == name]

  def updates(self, step: int, interface: str) -> list[changes.Update]:
    """Candidates of a step on an interface, in the order of the log."""
    return [
      each
      for each in self.memory.of(changes.Update)
      if (each.candidate.step, each.candidate.interface) == (step, interface)
    ]


def run(roles=None, answers=answer, scores=score, **options) -> Run:
  """A run over fresh lists.

  Args:
    roles: of the evolver, the stand-in if there are none.
    answers: of the policy.
    scores: of the judge.
    options: `tasks`, `criteria`, `rules`, `memory` (a class), `num_groups` and
      `anchor_share`; others are knobs of `made`.
  """
  tasks = bank(options.pop("tasks", 6), options.pop("criteria", CRITERIA))
  memory = options.pop("memory", stubs.Memory)(tasks)
  outer = {
    "rules": options.pop("rules", interfaces.Rules()),
    "num_groups": options.pop("num_groups", 4),
    "anchor_share": options.pop("anchor_share", 0.0),
  }
  return Run(
    tasks=tasks,
    memory=memory,
    evolver=made(memory, roles, **options),
    file=cold_start.Unkept(),
    world=world(answers, scores),
    **outer,
  )


def task(state: harnessrl.State, place: int) -> states.TaskHarness:
  return states.task(state.harness, place)
