"""The live harness H = (p, g, c) over the whole bank.

Numbers are leaves, text is in tables that only grow (see `tables`). A state is
never changed: a step's accepted candidates make the next one, which shares
every text with it. `commits.replay` rebuilds it from
the log.
"""

from collections.abc import Mapping
from typing import NamedTuple

import msgspec
import numpy as np
from flax import struct

from hrl_jax import base
from hrl_jax.harness import rubrics, tables, terms

# Numbers of an empty place in the tables' index arrays.
NONE = -1


@struct.dataclass
class HarnessState:
  """What the three interfaces are at, between two steps.

  Attributes:
    level_N: `[N]` int8, sampling level of each task, 0 for full weight.
    mass_N: `[N]` float64, discriminative mass at the last change of the level,
      at first that of the cold start; NaN where it is not known.
    field_N3: `[N, 3]` int32, places in `fields` of the mounted ones, by kind.
    criterion_NC: `[N, C]` int32, places in `versions` of the rubric's wordings.
    raw_NC: `[N, C]` float64, their weights as set, 0 where there is none.
    anchor_NC: `[N, C]` bool, whether their wording is fixed.
    rubric_version_N: `[N]` int32, accepted changes of each rubric.
    lineages_N: `[N]` int32, criterion ids given out for each task.
    anchored_N: `[N]` float64, sum of the anchors' weights in the seed.
    free_N: `[N]` float64, likewise of the other positive ones.
    levels_4: float64, weights of the four levels; NaN before the cold start.
    bands_22: float64, rollout and rubric by lower and upper bound, in points.
    version: accepted changes of the harness.
    versions: wordings of criteria, those of the seeds first.
    fields: every field that was ever mounted.
    bank: the tasks.
    places: of the tasks in the bank, by id.
  """

  level_N: np.ndarray
  mass_N: np.ndarray
  field_N3: np.ndarray
  criterion_NC: np.ndarray
  raw_NC: np.ndarray
  anchor_NC: np.ndarray
  rubric_version_N: np.ndarray
  lineages_N: np.ndarray
  anchored_N: np.ndarray
  free_N: np.ndarray
  levels_4: np.ndarray
  bands_22: np.ndarray
  version: int
  versions: tables.Table[terms.Version] = struct.field(pytree_node=False)
  fields: tables.Table[terms.Field] = struct.field(pytree_node=False)
  bank: base.Bank = struct.field(pytree_node=False)
  places: Mapping[str, int] = struct.field(pytree_node=False)


class TaskHarness(NamedTuple):
  """What the interfaces are at for one task.

  Attributes:
    level: of sampling.
    mass: see `HarnessState.mass_N`.
    fields: the mounted ones by kind.
    rubric: the criteria.
  """

  level: int
  mass: float
  fields: Mapping[terms.FieldKind, terms.Field]
  rubric: rubrics.TaskRubric


def init(bank: base.Bank) -> HarnessState:
  """The seed harness: full weights, no guidance, seed rubrics."""
  count = len(bank.tasks)
  sizes_N = np.array([len(task.rubric) for task in bank.tasks], np.int32)
  in_use_NC = np.arange(sizes_N.max()) < sizes_N[:, None]
  criterion_NC = np.full(in_use_NC.shape, NONE, np.int32)
  criterion_NC[in_use_NC] = np.arange(sizes_N.sum())
  raw_NC = np.zeros(in_use_NC.shape)
  raw_NC[in_use_NC] = [
    criterion.weight for task in bank.tasks for criterion in task.rubric
  ]
  return HarnessState(
    level_N=np.zeros(count, np.int8),
    mass_N=np.full(count, np.nan),
    field_N3=np.full((count, 3), NONE, np.int32),
    criterion_NC=criterion_NC,
    raw_NC=raw_NC,
    anchor_NC=np.zeros(in_use_NC.shape, bool),
    rubric_version_N=np.zeros(count, np.int32),
    lineages_N=sizes_N,
    anchored_N=np.zeros(count),
    free_N=np.array(
      [
        sum(
          criterion.weight for criterion in task.rubric if criterion.weight > 0
        )
        for task in bank.tasks
      ]
    ),
    levels_4=np.full(4, np.nan),
    bands_22=np.full((2, 2), np.nan),
    version=0,
    versions=tables.Table(
      [each for task in bank.tasks for each in rubrics.seed_versions(task)]
    ),
    fields=tables.Table(),
    bank=bank,
    places={task.id: place for place, task in enumerate(bank.tasks)},
  )


def weights(state: HarnessState) -> np.ndarray:
  """`[N]` float64, the weight with which each task is drawn (H-30)."""
  if not state.level_N.any():
    return np.ones(len(state.level_N))
  return state.levels_4[state.level_N]


def fields(
  state: HarnessState, index: int
) -> dict[terms.FieldKind, terms.Field]:
  """What is mounted on the task at this place in the bank, by kind."""
  return {
    kind: state.fields[place]
    for kind, place in zip(
      terms.FIELD_KINDS, state.field_N3[index].tolist(), strict=True
    )
    if place != NONE
  }


def rubric(state: HarnessState, index: int) -> rubrics.TaskRubric:
  """The rubric of the task at this place in the bank."""
  entries = tuple(
    rubrics.Entry(state.versions[place], raw, is_anchor)
    for place, raw, is_anchor in zip(
      state.criterion_NC[index].tolist(),
      state.raw_NC[index].tolist(),
      state.anchor_NC[index].tolist(),
      strict=True,
    )
    if place != NONE
  )
  return rubrics.of_entries(
    state.bank.tasks[index],
    entries,
    version=int(state.rubric_version_N[index]),
    lineages=int(state.lineages_N[index]),
    sums=rubrics.PositiveSums(
      float(state.anchored_N[index]), float(state.free_N[index])
    ),
  )


def task(state: HarnessState, index: int) -> TaskHarness:
  """What the interfaces are at for the task at this place in the bank."""
  return TaskHarness(
    level=int(state.level_N[index]),
    mass=float(state.mass_N[index]),
    fields=fields(state, index),
    rubric=rubric(state, index),
  )


class Text(msgspec.Struct, frozen=True):
  """The tables of a state, less the seeds' wordings: what a checkpoint keeps.

  Attributes:
    versions: wordings that the harness made.
    fields: every field that was ever mounted.
  """

  versions: tuple[terms.Version, ...]
  fields: tuple[terms.Field, ...]


def text(state: HarnessState) -> Text:
  """The texts of a state."""
  seeds = sum(len(task.rubric) for task in state.bank.tasks)
  return Text(tuple(state.versions[seeds:]), tuple(state.fields))


def with_text(state: HarnessState, kept: Text) -> HarnessState:
  """A state whose arrays were restored, with the texts that they point to."""
  seeds = init(state.bank).versions
  return state.replace(
    versions=seeds.extended(kept.versions), fields=tables.Table(kept.fields)
  )
