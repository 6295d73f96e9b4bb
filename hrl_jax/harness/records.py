"""The lines of the harness log: all that a run's harness saw, did and why.

The log is the truth (H-50, H-51). Whatever else is known about the harness, its
live state, the memory's indices, a task's story, is computed from its records,
in their order. Records are immutable and read and written strictly; a number
that is missing is None.
"""

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

# A criterion at one wording: the id of its lineage, and its version. A rewrite
# keeps the lineage and counts the version up.
Target = tuple[str, int]

FieldKind = Literal["criterion", "reference", "critique"]
FIELD_KINDS: tuple[FieldKind, ...] = ("criterion", "reference", "critique")
"""The guidance fields, in the order in which they are mounted (H-37)."""

Interface = Literal["sampling", "rollout", "rubric"]
INTERFACES: tuple[Interface, ...] = ("sampling", "rollout", "rubric")

LabelName = Literal["blind", "saturated", "spurious", "agree"]
LABELS: tuple[LabelName, ...] = ("blind", "saturated", "spurious", "agree")


class _Record(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
  """Base: immutable, and no field is skipped in reading."""


class Version(_Record):
  """A criterion at one wording (H-41); its weight lives in the state.

  Attributes:
    cid: of its lineage, unique in the bank: "<task>#<number>".
    version: counts the wordings of a lineage, from 0.
    text: the statement.
    sign: of its weight, which never flips (H-43): 1, or -1 for a penalty.
    origin: how the lineage began.
    parents: lineages that it came from: sources of a merge, the split one, or
      the archived one that is restored.
    step: when this wording was made, -1 for the seed.
    checker: name of the exact checker that decides it, None if judged.
    arguments: of the checker.
  """

  cid: str
  version: int
  text: str
  sign: Literal[1, -1]
  origin: Literal["seed", "create", "split", "merge", "restore"]
  parents: tuple[str, ...] = ()
  step: int = -1
  checker: str | None = None
  arguments: Mapping[str, Any] = {}

  @property
  def target(self) -> Target:
    """Its name."""
    return self.cid, self.version


class Donor(_Record):
  """Where a response of a reference field came from (H-40a).

  Attributes:
    group: id of the recorded group.
    rollout: place in that group.
    sign: whether it shows what to do or what not to do.
    task: id of the task that it answers.
    target: the criterion that it meets or fails.
    similarity: cosine of that criterion to the field's own target, None where
      they are the same.
  """

  group: str
  rollout: int
  sign: Literal["positive", "negative"]
  task: str
  target: Target
  similarity: float | None = None


class Field(_Record):
  """A guidance field as it is mounted on a task (H-37).

  Attributes:
    kind: which of the three.
    targets: the criteria that it shall make reachable.
    text: what stands between its tags.
    donors: whose responses it shows.
    step: at which it was mounted.
  """

  kind: FieldKind
  targets: tuple[Target, ...]
  text: str
  donors: tuple[Donor, ...]
  step: int


class Rollout(_Record):
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


class Group(_Record, tag_field="record", tag="group"):
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
  criteria: tuple[Target, ...]
  weights: tuple[float, ...]
  fields: tuple[Field, ...]
  rollouts: tuple[Rollout, ...]
  importance: float | None
  minimum_valid: int


class Quote(_Record):
  """A piece of a rollout, as evidence; `text` stands in it word for word."""

  rollout: int
  text: str


class Label(_Record):
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

  target: Target
  name: LabelName
  reason: str
  route: Interface | None
  is_generic: bool
  wording: str | None
  quotes: tuple[Quote, ...]
  confidence: float
  persistence: int
  evidence: tuple[str, ...]


class Labels(_Record, tag_field="record", tag="labels"):
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


class _Operation(
  _Record, frozen=True, tag_field="op", tag=lambda name: name.lower()
):
  """Base of the typed operations; `op` tells them apart."""


class Lower(_Operation, tag="lower"):
  """Sampling: the task's weight falls by one level (H-33)."""


class Add(_Operation):
  """Rollout: a field is mounted."""

  field: FieldKind
  targets: tuple[Target, ...]
  text: str
  donors: tuple[Donor, ...] = ()


class Drop(_Operation):
  """Rollout: a field is withdrawn."""

  field: FieldKind


class Create(_Operation):
  """Rubric: a new criterion, or an archived one restored (H-43)."""

  text: str
  weight: float
  restores: str | None = None


class Rewrite(_Operation):
  """Rubric: other words for a criterion."""

  cid: str
  text: str


class Delete(_Operation):
  """Rubric: a criterion goes to the archive."""

  cid: str


class Reweight(_Operation):
  """Rubric: another weight, on the seed's scale."""

  cid: str
  weight: float


class Merge(_Operation):
  """Rubric: one criterion in place of several."""

  cids: tuple[str, ...]
  text: str


class Split(_Operation):
  """Rubric: several criteria in place of one.

  Attributes:
    weights: of the parts, None for equal ones; their sum is the old weight.
  """

  cid: str
  texts: tuple[str, ...]
  weights: tuple[float, ...] | None = None


RubricOperation = Create | Rewrite | Delete | Reweight | Merge | Split
Operation = Lower | Add | Drop | RubricOperation


class Candidate(_Record):
  """A proposed change of one interface of one task (H-70).

  Attributes:
    id: unique in the log.
    step: of the draw that it answers.
    task: id.
    interface: which of the three.
    operations: measured and accepted together.
    is_primary: whether a label asked for it; else it holds secondary rubric
      operations only (H-85).
    round: 0, or 1 for a revised one (H-74).
    rubric_version: that it was made for.
    potential: weight of the targets, in points (H-71).
    is_grounded: whether retrieval brought evidence above the floor (H-53).
    evidence: ids of records.
    rationale: the author's words.
    author: "rules", or a model's name.
  """

  id: str
  step: int
  task: str
  interface: Interface
  operations: tuple[Operation, ...]
  is_primary: bool
  round: int
  rubric_version: int
  potential: float
  is_grounded: bool
  evidence: tuple[str, ...]
  rationale: str
  author: str


class Measurement(_Record):
  """What the critic measured on the frozen policy (H-80 to H-83).

  Attributes:
    status: whether there is a measurement.
    reason: why there is none, or what was measured.
    before: of the recorded group, in points (H-7) or discriminative mass.
    after: under the candidate.
    delta: after - before.
    valid: rollouts that count on both sides.
    weights_version: of the policy.
    target_met: of a withdrawal: whether a rollout meets the target without it.
    gradings: criteria that were graded for it.
    rollouts: that were sampled for it.
  """

  status: Literal["ok", "none"]
  reason: str
  before: float | None = None
  after: float | None = None
  delta: float | None = None
  valid: int = 0
  weights_version: int | None = None
  target_met: bool | None = None
  gradings: int = 0
  rollouts: int = 0


class Decision(_Record):
  """The critic's verdict.

  Attributes:
    is_accepted: whether the candidate joins the harness.
    code: why, as a word.
    lower: of the band, in points, None where it has no such bound.
    upper: likewise.
  """

  is_accepted: bool
  code: str
  lower: float | None = None
  upper: float | None = None


class Update(_Record, tag_field="record", tag="update"):
  """A candidate, its measurement and the decision.

  Attributes:
    candidate: what was proposed.
    measurement: what it did.
    decision: what became of it.
    made: wordings that an accepted rubric candidate brought into the rubric.
    retired: wordings that it took out.
  """

  candidate: Candidate
  measurement: Measurement
  decision: Decision
  made: tuple[Version, ...] = ()
  retired: tuple[Target, ...] = ()


class Removal(_Record, tag_field="record", tag="removal"):
  """A field that went without a measurement.

  Attributes:
    step: at which it was gone.
    task: id.
    field: its kind.
    code: "cap" (H-39), or "orphan": its target was rewritten or deleted (H-88).
  """

  step: int
  task: str
  field: FieldKind
  code: Literal["cap", "orphan"]


class Outcome(_Record, tag_field="record", tag="outcome"):
  """What became of an accepted candidate by one of its next draws (H-56).

  Attributes:
    candidate: id.
    task: id.
    step: of the draw.
    draw: 1 or 2, counted from the acceptance.
    labels: of its targets that are still there.
    mass_delta: discriminative mass now, less that at the acceptance.
    points_delta: mean points now, less those at the acceptance.
  """

  candidate: str
  task: str
  step: int
  draw: int
  labels: tuple[tuple[Target, LabelName], ...]
  mass_delta: float | None
  points_delta: float | None


class Band(_Record):
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


class Calibration(_Record, tag_field="record", tag="calibration"):
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


class Header(_Record, tag_field="record", tag="header"):
  """The first line of a log.

  Attributes:
    bank: hash of the tasks.
    format: of these records.
    origin: names what else a log goes on only with, "" for nothing.
  """

  bank: str
  format: int = 1
  origin: str = ""


Record = Header | Group | Labels | Update | Removal | Outcome | Calibration

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
