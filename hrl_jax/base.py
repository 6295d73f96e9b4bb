"""The records that cross rooms.

Arrays carry their axes in their names. The letters, and no others:

  P tasks drawn in a step     G rollouts of a group     B rows (rollouts)
  T tokens of a row           V vocabulary              N tasks of the bank
  C criteria of a rubric      A arms                    S sketch
  D features of the model     L layers                  H heads
  U distinct prompts          K blocks of completions   R rows of a block
  F flat tokens               M micro-batches           1 a broadcast axis

Host records hold numpy arrays. The protocols of the outside world are in
`hrl_jax.protocols`.
"""

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

import numpy as np

PyTree = Any


class Message(NamedTuple):
  """One turn of a conversation.

  Attributes:
    role: "system", "user" or "assistant".
    content: the text of the turn, any characters.
  """

  role: str
  content: str


Conversation = tuple[Message, ...]


class Criterion(NamedTuple):
  """One checkable statement about a response.

  Attributes:
    text: the statement, as a judge would read it.
    weight: signed, never zero; negative for a penalty, whose text describes
      the behaviour that costs reward.
    checker: name of the exact checker that decides it, or None if judged.
    arguments: keyword arguments of the checker, JSON values.
  """

  text: str
  weight: float
  checker: str | None = None
  arguments: Mapping[str, Any] = {}


Rubric = tuple[Criterion, ...]


class Task(NamedTuple):
  """One prompt with its rubric.

  Attributes:
    id: unique in its bank.
    domain: one of the five domains, or the source's own word.
    prompt: the conversation that the policy answers.
    rubric: the seed rubric, at least one positive weight.
  """

  id: str
  domain: str
  prompt: Conversation
  rubric: Rubric


class Bank(NamedTuple):
  """A frozen set of tasks.

  Attributes:
    tasks: the N tasks, in file order.
    hash: SHA-256 of their content; a run resumes only on the same one.
  """

  tasks: tuple[Task, ...]
  hash: str


class Slot(NamedTuple):
  """One draw of a task: what its group of rollouts sees and is graded by.

  Attributes:
    task: index of the task in the bank.
    bare: index in `Plan.prompts` of the task's own prompt, without guidance:
      what a grader is shown.
    importance: u = 1 / (N p), the importance weight of the draw (H-30).
    rubric: the rubric of this draw.
    sampled_under: for each of the G rollouts, the index in `Plan.prompts` of
      the prompt that it is sampled under.
    trained_under: likewise, of the prompt that it is trained under (H-25).
    arm: index of the agent harness that makes the rollouts, None for none.
  """

  task: int
  bare: int
  importance: float
  rubric: Rubric
  sampled_under: tuple[int, ...]
  trained_under: tuple[int, ...]
  arm: int | None = None


class Plan(NamedTuple):
  """Everything that a step may draw, decided before the first rollout.

  Attributes:
    prompts: the conversations of the slots, without duplicates.
    slots: in the order in which they are used; longer than `num_groups` where
      constant groups are replaced.
    num_groups: the P groups of a full batch.
    drop_constant: whether groups without contrast give way to later slots.
    max_rounds: rounds of generation after which a batch stays short.
  """

  prompts: tuple[Conversation, ...]
  slots: tuple[Slot, ...]
  num_groups: int
  drop_constant: bool = False
  max_rounds: int = 1


class Sampling(NamedTuple):
  """How completions are drawn.

  Attributes:
    temperature: divides the logits; 0 decodes greedily.
    top_p: nucleus mass kept before drawing, 1 keeps all.
    top_k: number of tokens kept before drawing, 0 keeps all.
    max_tokens: completion length at which a rollout is cut.
    stop_ids: tokens that end a rollout; the stop token is kept.
  """

  temperature: float
  top_p: float
  top_k: int
  max_tokens: int
  stop_ids: tuple[int, ...]


class Request(NamedTuple):
  """One completion asked of an engine.

  Attributes:
    prompt_ids: token ids of the rendered prompt.
    seed: of all the randomness of this completion, unsigned 32 bits.
  """

  prompt_ids: tuple[int, ...]
  seed: int


class Completion(NamedTuple):
  """What an engine sampled.

  Attributes:
    request: index of its request.
    tokens: `[T]` int32, the sampled ids, stop token included.
    logprobs: `[T]` float32, full-vocabulary log-probability of each token at
      the sampling temperature: what the trainer compares with (H-26).
    drawn_logprobs: `[T]` float32, log-probability under the distribution
      that the token was drawn from, after top-p and top-k.
    finish: "stop", "length" or "abort".
    weights_version: version of the weights that made every token.
  """

  request: int
  tokens: np.ndarray
  logprobs: np.ndarray
  drawn_logprobs: np.ndarray
  finish: Literal["stop", "length", "abort"]
  weights_version: int


class Rollout(NamedTuple):
  """One finished sample of the policy on a task.

  Attributes:
    slot: index of its slot in the plan.
    index: its place in the group.
    sampled_under: index in `Plan.prompts`.
    trained_under: index in `Plan.prompts`.
    text: the completion without its stop token.
    seed: the seed of its request.
    completion: tokens, log-probabilities and weights version.
  """

  slot: int
  index: int
  sampled_under: int
  trained_under: int
  text: str
  seed: int
  completion: Completion


class Failure(NamedTuple):
  """Something that was lost, and why; kept, reported, never a score.

  Attributes:
    slot: index of the slot in the plan.
    rollout: place in the group.
    criterion: index in the rubric, None if it is the whole rollout.
    reason: one line.
    raw: what came back, unchanged.
  """

  slot: int
  rollout: int
  criterion: int | None
  reason: str
  raw: str = ""


class Occasion(NamedTuple):
  """When a response is graded: keeps gradings of equal content apart.

  Attributes:
    step: updates before it.
    purpose: "train", "evaluation", or a word of the method's own.
  """

  step: int
  purpose: str


class GradeRequest(NamedTuple):
  """One response to be graded against one rubric.

  Attributes:
    occasion: when it is graded.
    slot: index of the slot in the plan.
    rollout: place in the group.
    attempt: 0 for the step's own grading; a repeated grading counts up.
    prompt: the bare task prompt, without guidance.
    response: the text under judgement: data, never instructions.
    rubric: the criteria.
  """

  occasion: Occasion
  slot: int
  rollout: int
  attempt: int
  prompt: Conversation
  response: str
  rubric: Rubric


class Grade(NamedTuple):
  """The scores of one response.

  Attributes:
    slot: of its request.
    rollout: of its request.
    scores_C: `[C]` float64 in [0, 1], NaN where missing.
    failures: why scores are missing.
  """

  slot: int
  rollout: int
  scores_C: np.ndarray
  failures: tuple[Failure, ...] = ()


class Group(NamedTuple):
  """The G rollouts of one slot, graded.

  Attributes:
    slot: index of the slot in the plan.
    rollouts: in group order.
    scores_GC: `[G, C]` float64 against the slot's rubric, NaN where missing.
    rewards_G: `[G]` float64, NaN where not valid (H-20, H-101).
    valid_G: `[G]` bool, True where every criterion has a score.
    fate: "trained"; "thin" (too few valid rollouts: trained on nothing, but
      still one of the batch's P, H-102); "constant" (no contrast, replaced).
  """

  slot: int
  rollouts: tuple[Rollout, ...]
  scores_GC: np.ndarray
  rewards_G: np.ndarray
  valid_G: np.ndarray
  fate: Literal["trained", "thin", "constant"]


class Evidence(NamedTuple):
  """What a step saw: the ground for credit and for every change of a harness.

  Attributes:
    occasion: when it was seen, and what for.
    plan: the plan that it answers.
    groups: the P groups of the batch first, in plan order, then the others.
    rewards_PG: `[P, G]` float64 of the batch's groups, NaN where not valid.
    valid_PG: `[P, G]` bool, all False in a thin group.
    importance_P: `[P]` float64, u of each of them.
    failures: everything that was lost, by slot, rollout and criterion.
  """

  occasion: Occasion
  plan: Plan
  groups: tuple[Group, ...]
  rewards_PG: np.ndarray
  valid_PG: np.ndarray
  importance_P: np.ndarray
  failures: tuple[Failure, ...]
