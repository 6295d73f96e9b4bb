"""What the evolver is made of, and a task at a draw as it sees it."""

from collections.abc import Callable, Mapping
from typing import Literal, NamedTuple

from hrl_jax import base
from hrl_jax.harness import (
  attribution,
  cases,
  changes,
  critic,
  history,
  records,
  retrieval,
  terms,
  validity,
)
from hrl_jax.harness import state as states


class Knobs(NamedTuple):
  """Choices of the evolver; those of the paper are in `configs`.

  Attributes:
    interfaces: that are evolved; the others stay as they are, or follow a rule
      of their own.
    has_critic: whether candidates are measured; else every valid one is
      accepted.
    has_memory: whether earlier records and other tasks are looked at; else
      labels and proposals come from the current group alone.
    rounds: of proposals in a step; rejected ones return once for each more
      (H-74).
    probe_share: groups that may be sampled anew in a step, as a share of those
      that were drawn (H-86).
    paired_probe: whether the recorded group is replaced by a fresh one without
      the candidate (H-87a).
    rubric_confidence: of a label, below which its criterion is left alone
      (H-63).
    related_shown: criteria of other tasks in a prompt (H-53).
    same_meaning: cosine at which two wordings mean the same (H-40a).
    condition_on: the prompt that guided rollouts are trained under (H-25).
    guidance_tokens: all fields of a task together (H-40).
    donor_tokens: a response that a reference field shows.
    prompt_tokens: a task with its guidance.
    attribution: of the attributor.
    critic: of the critic.
  """

  interfaces: tuple[terms.Interface, ...]
  has_critic: bool
  has_memory: bool
  rounds: int
  probe_share: float
  paired_probe: bool
  rubric_confidence: float
  related_shown: int
  same_meaning: float
  condition_on: Literal["guided", "bare"]
  guidance_tokens: int
  donor_tokens: int
  prompt_tokens: int
  attribution: attribution.Knobs
  critic: critic.Knobs


class Parts(NamedTuple):
  """The evolver.

  Attributes:
    knobs: its choices.
    roles: who answers what is not computed.
    memory: the log and its indices.
    limits: of new wordings.
    count_prompt: tokens of a rendered conversation.
    count_text: tokens of a text.
    pool: sentences for a stand-in, by task id; none for an LLM.
    about: one line about a task, by id.
    num_steps: T.
    group_size: G.
  """

  knobs: Knobs
  roles: cases.Roles
  memory: retrieval.Memory
  limits: validity.Limits
  count_prompt: Callable[[base.Conversation], int]
  count_text: Callable[[str], int]
  pool: Callable[[str], tuple[str, ...]]
  about: Callable[[str], str]
  num_steps: int
  group_size: int


class Draw(NamedTuple):
  """A distinct task of a step (H-60).

  Attributes:
    place: of the task in the bank.
    task: itself.
    harness: what its interfaces were at.
    groups: recorded at this step; thin ones are left out unless all are (H-65).
      The critic measures against the first.
    seen: these in short.
    before: the task's history, without this step.
    hits: related criteria of other tasks, by the task's own.
    others: histories of the tasks that these are of, by id.
  """

  place: int
  task: base.Task
  harness: states.TaskHarness
  groups: tuple[records.Group, ...]
  seen: tuple[history.Seen, ...]
  before: history.History
  hits: Mapping[terms.Target, tuple[retrieval.Hit, ...]]
  others: Mapping[str, history.History]


class Labelled(NamedTuple):
  """A draw with its labels.

  Attributes:
    draw: the task.
    case: as the roles are shown it.
    record: the labels, as they are logged.
  """

  draw: Draw
  case: cases.Case
  record: records.Labels


class Proposed(NamedTuple):
  """A candidate, and whether it may be measured.

  Attributes:
    labelled: the task.
    candidate: itself.
    problem: why it may not, None if it may.
  """

  labelled: Labelled
  candidate: changes.Candidate
  problem: validity.Problem | None


class Found(NamedTuple):
  """What the critic found out about a candidate.

  Attributes:
    measurement: its effect, or why there is none.
    groups: records of what was sampled or graded for it.
  """

  measurement: changes.Measurement
  groups: tuple[records.Group, ...] = ()


def unmeasured(
  reason: str, *, gradings: int = 0, rollouts: int = 0
) -> changes.Measurement:
  """No measurement (H-86), whatever was spent on it."""
  return changes.Measurement(
    status="none", reason=reason, gradings=gradings, rollouts=rollouts
  )
