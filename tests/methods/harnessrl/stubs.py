"""What the harness asks of the outside, as lists that tests look into."""

from collections.abc import Sequence

import jax

from hrl_jax import base, collect
from hrl_jax.harness import cases, history, records, retrieval

SAMPLING = base.Sampling(1.0, 1.0, 0, 64, ())


class Memory:
  """The memory as lists; a `retrieval.Memory`.

  Attributes:
    log: every record.
    journal: what was asked of the world and written, in order, by `Run`.
  """

  def __init__(self, tasks: base.Bank):
    self.log: list[records.Record] = []
    self.journal: list[tuple] = []
    self._histories: dict[str, history.History] = {}
    self._tasks = tasks

  def append(self, new: Sequence[records.Record]) -> list[history.Place]:
    self.journal.append(("append", [type(each) for each in new]))
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
    return [self._histories.get(name, history.History(name)) for name in tasks]

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

  def of(self, type_: type, **facts) -> list:
    """The records of a type with such attributes."""
    return [
      record
      for record in self.log
      if isinstance(record, type_)
      and all(getattr(record, name) == fact for name, fact in facts.items())
    ]


class Forgetful(Memory):
  """A memory in which nobody may look."""

  def histories(self, tasks):
    raise AssertionError("Nothing may be asked of this memory.")

  related = group = histories


class Roles:
  """Roles that answer as they are told; a `cases.Roles`.

  Attributes:
    attributed: cases that the hacking question was asked about.
    worded: likewise of the wording check, with its criteria.
    proposed: likewise of proposals.
    tally: how often a proposal was asked for.
  """

  author = "fake"

  def __init__(self, propose=None, attribute=None, wording=None):
    self._propose = propose or (lambda case: cases.Proposal())
    self._attribute = attribute or (lambda case: cases.Attribution())
    self._wording = wording or (lambda case, targets: cases.Wording({}))
    self.attributed: list[cases.Case] = []
    self.worded: list[tuple] = []
    self.proposed: list[cases.ProposalCase] = []
    self.tally = {"proposal_calls": 0}

  def attribute(self, asked):
    self.attributed += asked
    return [self._attribute(case) for case in asked]

  def check_wording(self, asked):
    self.worded += asked
    return [self._wording(case, targets) for case, targets in asked]

  def propose(self, asked):
    self.proposed += asked
    self.tally["proposal_calls"] += len(asked)
    return [self._propose(case) for case in asked]


class Probe:
  """Samples and grades in the world of letters; notes what it is asked."""

  def __init__(self, world: collect.World, journal: list, step: int = 0):
    self.world = world
    self.journal = journal
    self.step = step

  def sample(self, plan: base.Plan, key: jax.Array) -> base.Evidence:
    self.journal.append(("sample", plan))
    return collect.gather(
      plan,
      self.world,
      key,
      occasion=base.Occasion(self.step, "probe"),
      sampling=SAMPLING,
    )

  def grade(self, submissions, purpose):
    self.journal.append(("grade", purpose, tuple(submissions)))
    return collect.grade(
      submissions, self.world, occasion=base.Occasion(self.step, purpose)
    )[0]
