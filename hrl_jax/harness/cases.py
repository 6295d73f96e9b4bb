"""What the evolver's roles are shown, and what they answer.

An LLM sees a case as a prompt and a rule-based stand-in sees the case itself:
neither knows more than the other. Answers are what a role said, not yet what is
believed: quotes are verified and operations are checked by whoever asked.
"""

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple, Protocol, runtime_checkable

from hrl_jax import base
from hrl_jax.harness import changes, records, terms

HackPattern = Literal[
  "superficial_compliance",
  "length_gaming",
  "partial_coverage",
  "sycophancy",
  "over_refusal",
]
HACK_PATTERNS: tuple[HackPattern, ...] = (
  "superficial_compliance",
  "length_gaming",
  "partial_coverage",
  "sycophancy",
  "over_refusal",
)
"""What only satisfying rollouts share where a criterion is spurious (H-62)."""


class CriterionView(NamedTuple):
  """A criterion beside the group that was graded by it.

  Attributes:
    target: its name.
    text: its wording.
    points: what it counts, in points; negative for a penalty.
    raw: its weight as set, on the seed's scale.
    is_anchor: whether its wording is fixed.
    met: for each rollout whether it is met as worded, None where missing; a
      penalty is met where its behaviour is present.
    label: computed so far.
    reason: of the label.
  """

  target: terms.Target
  text: str
  points: float
  raw: float
  is_anchor: bool
  met: tuple[bool | None, ...]
  label: terms.LabelName
  reason: str


class RelatedView(NamedTuple):
  """A criterion of another task that retrieval found for one of this task's.

  Attributes:
    to: the criterion that it is related to.
    target: its name.
    text: its wording.
    similarity: cosine of the two.
    passes: rollouts that met it of those that were graded, in its last group.
    labels: it had, oldest first.
    positive: a response that meets it, None if none is recorded.
    negative: one that does not.
    updates: one line for each change of it, with its measurement.
  """

  to: terms.Target
  target: terms.Target
  text: str
  similarity: float
  passes: tuple[int, int]
  labels: tuple[terms.LabelName, ...]
  positive: str | None
  negative: str | None
  updates: tuple[str, ...]


class Case(NamedTuple):
  """A task at a draw, as the attributor is shown it.

  Attributes:
    step: of the draw.
    task: id.
    prompt: of the task, without guidance.
    criteria: its rubric.
    responses: of the group's rollouts, in order.
    rewards: of each in points, None where missing.
    history: one line for each earlier group and update, oldest first.
    related: of other tasks, those of criteria that a role is asked about first,
      then nearest first.
  """

  step: int
  task: str
  prompt: base.Conversation
  criteria: tuple[CriterionView, ...]
  responses: tuple[str, ...]
  rewards: tuple[float | None, ...]
  history: tuple[str, ...]
  related: tuple[RelatedView, ...]

  def separating(self) -> tuple[CriterionView, ...]:
    """Criteria that some rollouts meet and others do not."""
    return tuple(each for each in self.criteria if each.reason == "separates")

  def full(self) -> tuple[CriterionView, ...]:
    """Positive criteria that every rollout meets."""
    return tuple(
      each
      for each in self.criteria
      if each.reason in ("full", "not_yet") and each.points > 0
    )


class Suspicion(NamedTuple):
  """A role's word that meeting a criterion reflects no quality (H-62).

  Attributes:
    target: a separating criterion.
    pattern: what only the satisfying rollouts share.
    quotes: of satisfying rollouts.
    confidence: in [0, 1].
  """

  target: terms.Target
  pattern: HackPattern
  quotes: tuple[records.Quote, ...]
  confidence: float


class Attribution(NamedTuple):
  """Answer to the hacking question.

  Attributes:
    suspicions: of separating criteria; one that is not named is trusted.
    generic: full criteria that are met through boilerplate, with quotes.
    problems: what the answer said that could not be read, and why.
  """

  suspicions: tuple[Suspicion, ...] = ()
  generic: tuple[tuple[terms.Target, tuple[records.Quote, ...]], ...] = ()
  problems: tuple[str, ...] = ()


class Wording(NamedTuple):
  """Answer to the wording check (H-64).

  Attributes:
    phrases: by criterion, the words that let a surface form pass.
    problems: as above.
  """

  phrases: Mapping[terms.Target, str]
  problems: tuple[str, ...] = ()


class Donation(NamedTuple):
  """A response that a reference field may show.

  Attributes:
    donor: where it comes from.
    text: the response.
    about: one line about the task that it answers, None if it is this one.
  """

  donor: terms.Donor
  text: str
  about: str | None


class Rejection(NamedTuple):
  """A candidate of the first round that was not accepted (H-74)."""

  candidate: changes.Candidate
  measurement: changes.Measurement
  decision: changes.Decision


class ProposalCase(NamedTuple):
  """What the proposer is shown.

  Attributes:
    case: as the attributor saw it.
    labels: one per criterion.
    is_saturated: whether the task is diagnosed as saturated (H-34).
    level: of sampling, 0 to 3.
    fields: mounted guidance.
    cap: fields that may be mounted.
    donations: responses that a reference field may show, best first, by target.
    archive: wordings that may be restored.
    interfaces: that may be changed.
    lowest: least size of a raw weight.
    highest: greatest one.
    most: criteria that the rubric may have.
    writes: whether new wordings can be graded.
    updates: earlier candidates of the task, oldest first.
    rejections: of the first round; there are none in it.
    pool: sentences that a stand-in may take for new wordings; an LLM has none.
  """

  case: Case
  labels: tuple[records.Label, ...]
  is_saturated: bool
  level: int
  fields: Mapping[terms.FieldKind, terms.Field]
  cap: int
  donations: Mapping[terms.Target, tuple[Donation, ...]]
  archive: tuple[terms.Version, ...]
  interfaces: tuple[terms.Interface, ...]
  lowest: float
  highest: float
  most: int
  writes: bool
  updates: tuple[changes.Update, ...] = ()
  rejections: tuple[Rejection, ...] = ()
  pool: tuple[str, ...] = ()


class Proposal(NamedTuple):
  """The proposer's action a = (a_p, a_g, a_c); an empty one is noop (H-72).

  The donors of a reference field and its text are not the proposer's: they are
  assembled from the donations of its targets.

  Attributes:
    sampling: operations on the task's weight.
    rollout: on its guidance.
    rubric: on its rubric.
    evidence: ids of records that it rests on.
    rationale: in its words.
    problems: what it said that could not be read, and why.
  """

  sampling: tuple[changes.Lower, ...] = ()
  rollout: tuple[changes.Add | changes.Drop, ...] = ()
  rubric: tuple[changes.RubricOperation, ...] = ()
  evidence: tuple[str, ...] = ()
  rationale: str = ""
  problems: tuple[str, ...] = ()


@runtime_checkable
class Roles(Protocol):
  """Who answers the evolver's questions: an LLM, or a stand-in.

  Attributes:
    author: "rules", or the model's name; it is in every record.
    tally: calls and tokens of a model so far, by role, such as
      "proposal_calls"; empty where none is asked.
  """

  author: str
  tally: Mapping[str, int]

  def attribute(self, cases: Sequence[Case]) -> Sequence[Attribution]:
    """Whether separating criteria are hacked, and full ones generic."""
    ...

  def check_wording(
    self, cases: Sequence[tuple[Case, Sequence[terms.Target]]]
  ) -> Sequence[Wording]:
    """The phrases that let a surface form pass."""
    ...

  def propose(self, cases: Sequence[ProposalCase]) -> Sequence[Proposal]:
    """A change of each interface, or none."""
    ...
