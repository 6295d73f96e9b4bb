"""Changes of a harness: typed operations, and what became of them.

A candidate is a change of one interface; with its measurement and decision it
is an update, a line of the log.
"""

from typing import Literal

from hrl_jax.harness import terms


class _Operation(
  terms.Immutable, frozen=True, tag_field="op", tag=lambda name: name.lower()
):
  """Base of the typed operations; `op` tells them apart."""


class Lower(_Operation, tag="lower"):
  """Sampling: the task's weight falls by one level (H-33)."""


class Add(_Operation):
  """Rollout: a field is mounted."""

  field: terms.FieldKind
  targets: tuple[terms.Target, ...]
  text: str
  donors: tuple[terms.Donor, ...] = ()


class Drop(_Operation):
  """Rollout: a field is withdrawn."""

  field: terms.FieldKind


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


class Candidate(terms.Immutable):
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
  interface: terms.Interface
  operations: tuple[Operation, ...]
  is_primary: bool
  round: int
  rubric_version: int
  potential: float
  is_grounded: bool
  evidence: tuple[str, ...]
  rationale: str
  author: str


class Measurement(terms.Immutable):
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


class Decision(terms.Immutable):
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


class Update(terms.Immutable, tag_field="record", tag="update"):
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
  made: tuple[terms.Version, ...] = ()
  retired: tuple[terms.Target, ...] = ()


class Removal(terms.Immutable, tag_field="record", tag="removal"):
  """A field that went without a measurement.

  Attributes:
    step: at which it was gone.
    task: id.
    field: its kind.
    code: "cap" (H-39), or "orphan": its target was rewritten or deleted (H-88).
  """

  step: int
  task: str
  field: terms.FieldKind
  code: Literal["cap", "orphan"]


class Outcome(terms.Immutable, tag_field="record", tag="outcome"):
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
  labels: tuple[tuple[terms.Target, terms.LabelName], ...]
  mass_delta: float | None
  points_delta: float | None
