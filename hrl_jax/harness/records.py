"""The lines of the harness log: all that a run's harness saw, did and why.

The log is the truth (H-50, H-51). Whatever else is known about the harness, its
live state, the memory's indices, a task's story, is computed from its records,
in their order. Records are immutable and read and written strictly; a number
that is missing is None.
"""

from typing import Literal

import msgspec

from hrl_jax.harness import changes, terms


class Rollout(terms.Immutable):
  """A rollout of a recorded group.

  Attributes:
    text: the response.
    tokens: its length.
    finish: "stop", "length" or "abort".
    reward: None where not valid.
    scores: one per criterion of the group, None where missing.
    is_guided: whether it saw guidance.
  """

  text: str
  tokens: int
  finish: Literal["stop", "length", "abort"]
  reward: float | None
  scores: tuple[float | None, ...]
  is_guided: bool = False


class Group(terms.Immutable, tag_field="record", tag="group"):
  """The graded rollouts of one task (H-55: probes and regrades too).

  Attributes:
    id: unique in the log.
    kind: what it was sampled or graded for.
    step: updates before it.
    slot: of its plan.
    task: id.
    weights_version: of the policy that sampled it.
    rubric_version: of the task's rubric.
    criteria: of the rubric that graded it.
    weights: of each, on the seed's scale (`state.weights`).
    fields: guidance that was mounted for the guided rollouts.
    rollouts: in group order.
    importance: u of the draw, None where it was not drawn.
    minimum_valid: J_min (H-65).
  """

  id: str
  kind: Literal["cold", "train", "probe", "regrade"]
  step: int
  slot: int
  task: str
  weights_version: int
  rubric_version: int
  criteria: tuple[terms.Target, ...]
  weights: tuple[float, ...]
  fields: tuple[terms.Field, ...]
  rollouts: tuple[Rollout, ...]
  importance: float | None
  minimum_valid: int


class Quote(terms.Immutable):
  """A piece of a rollout, as evidence; `text` stands in it word for word."""

  rollout: int
  text: str


class Label(terms.Immutable):
  """What the attributor says of one criterion (H-62, H-63).

  Attributes:
    target: the criterion.
    name: one of the four labels.
    reason: why, as a word: "never_met", "noise", "no_history", "full",
      "not_yet", "separates", "unsupported", or the pattern of a hack.
    route: the interface that answers it, None for none.
    is_generic: whether it is met through boilerplate.
    wording: the phrase of the criterion that lets a surface form pass.
    quotes: evidence.
    confidence: in [0, 1].
    persistence: consecutive draws with this label at this version.
    evidence: ids of the records that it rests on.
  """

  target: terms.Target
  name: terms.LabelName
  reason: str
  route: terms.Interface | None
  is_generic: bool
  wording: str | None
  quotes: tuple[Quote, ...]
  confidence: float
  persistence: int
  evidence: tuple[str, ...]


class Labels(terms.Immutable, tag_field="record", tag="labels"):
  """The labels of a task at one draw.

  Attributes:
    step: of the draw.
    task: id.
    groups: ids of the groups that were looked at.
    labels: one per criterion of the rubric; none where the group was thin.
    code: "labelled", or "thin_group" (H-65).
    author: who answered what is not computed: "rules", or a model's name.
    mass: the discriminative mass of these groups (H-35).
    is_saturated: whether the task is diagnosed as saturated (H-34).
    problems: what the author answered that could not be used, and why.
  """

  step: int
  task: str
  groups: tuple[str, ...]
  labels: tuple[Label, ...]
  code: Literal["labelled", "thin_group"]
  author: str
  mass: float | None
  is_saturated: bool
  problems: tuple[str, ...] = ()


class Band(terms.Immutable):
  """An acceptance band in points, and how its lower bound was measured.

  Attributes:
    lower: the 95th percentile of the null variation (H-91).
    upper: the median range of rewards within a group.
    samples: pairs behind the lower bound.
    low: 95 % bootstrap interval of the lower bound.
    high: likewise.
  """

  lower: float
  upper: float
  samples: int
  low: float
  high: float


class Calibration(terms.Immutable, tag_field="record", tag="calibration"):
  """What the cold start fixes (H-90 to H-94).

  Attributes:
    levels: 1, gamma_1, gamma_2, gamma_3.
    rollout: the band of guidance.
    rubric: the band of the rubric.
    anchors: by task id, the lineages whose text is fixed.
    masses: by task id, the discriminative mass; absent where the group was
      thin.
  """

  levels: tuple[float, float, float, float]
  rollout: Band
  rubric: Band
  anchors: dict[str, tuple[str, ...]]
  masses: dict[str, float]


class Header(terms.Immutable, tag_field="record", tag="header"):
  """The first line of a log.

  Attributes:
    bank: hash of the tasks.
    format: of these records.
    origin: names what else a log goes on only with, "" for nothing.
  """

  bank: str
  format: int = 1
  origin: str = ""


Record = (
  Header
  | Group
  | Labels
  | changes.Update
  | changes.Removal
  | changes.Outcome
  | Calibration
)

_ENCODER = msgspec.json.Encoder()
_DECODER = msgspec.json.Decoder(Record)


def encode(record: Record) -> bytes:
  """One line of JSON, its end included.

  Raises:
    ValueError: if a text is no Unicode text.
  """
  return _ENCODER.encode(record) + b"\n"


def decode(line: bytes) -> Record:
  """The record of a line.

  Raises:
    ValueError: if it is not one, whole and as written.
  """
  return _DECODER.decode(line)
