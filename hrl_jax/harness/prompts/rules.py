"""The rules of a proposal, as far as they bear on what is on offer."""

from collections.abc import Iterator
from typing import NamedTuple

from hrl_jax.harness import cases
from hrl_jax.harness.prompts import names, offers


class Limits(NamedTuple):
  """Sizes that a proposal is held to.

  Attributes:
    wording_tokens: of the text of a criterion (V7 of H-43).
    guidance_tokens: of all mounted fields together (H-40).
    targets: of a field (H-71).
    confidence: of a label, below which the rubric leaves its criterion alone
      (H-63).
  """

  wording_tokens: int
  guidance_tokens: int
  targets: int
  confidence: float


_TASK = """\
The question. Propose one change for each interface of this task's harness, or \
none. A change is a list of operations, applied and measured together on the \
policy as it is now. What it does to the mean reward decides: added guidance \
has to raise it by more than chance does, a field that is dropped must not be \
missed, a change for a spurious criterion has to move it by more than chance \
does, and nothing may move it too far. Look at what was tried before, here \
and on related criteria, and at what it did; do not undo a recent change. No \
change is a fine answer: where nothing below is called for, say null."""

_OP_FORMS = {
  "create": '{"op": "create", "text": "<text>", "weight": <number>}: '
  "a new criterion, such as the property that a gamed one was meant to track.",
  "restore": '{"op": "restore", "id": "<id>", "weight": <number>}: '
  "a criterion that was taken out is put back as it was.",
  "rewrite": '{"op": "rewrite", "id": "<id>", "text": "<text>"}: '
  "the whole new text of a criterion, such as one without its phrase above.",
  "delete": '{"op": "delete", "id": "<id>"}: '
  "its points go to the other criteria.",
  "reweight": '{"op": "reweight", "id": "<id>", "weight": <number>}: '
  "another weight.",
  "merge": '{"op": "merge", "ids": ["<id>", ...], "text": "<text>"}: '
  "one criterion for at least two of one sign; its weight is their sum.",
  "split": '{"op": "split", "id": "<id>", "texts": ["<text>", ...], '
  '"weights": <null or [<number>, ...]>}: at least two for one; their weights '
  "add up to the old one, null makes them equal.",
}

_ADDED = {
  "criterion": "a constraint for the policy, in your words: a paraphrase of "
  "the targets, or what earlier responses that met them did",
  "reference": "past responses are shown; they are put in for you",
  "critique": "what the rollouts above fell short of: for each target one "
  "line, with a quote from one of them",
}

_END = """\
The rationale is two or three sentences; evidence is the names of records that \
it rests on, such as e1, or null.
The form of the reply:
{"rationale": "<text>", "sampling": <null or operation>, "rollout": \
<null or [operation, ...]>, "rubric": <null or [operation, ...]>, "evidence": \
<null or ["<name>", ...]>}"""


def of(
  case: cases.ProposalCase, offer: offers.Offer, limits: Limits
) -> Iterator[str]:
  """The question and its rules, a part each."""
  yield _TASK
  yield from _sampling(offer)
  yield from _rollout(case, offer, limits)
  yield from _rubric(case, offer, limits)
  yield _END


def _sampling(offer: offers.Offer) -> Iterator[str]:
  if not offer.lower:
    yield "\nSampling: null."
    return
  yield (
    "\nSampling. The task is saturated: it may be drawn less often.\n"
    '- {"op": "reweight"}: its sampling level goes one down in weight.'
  )


def _rollout(
  case: cases.ProposalCase, offer: offers.Offer, limits: Limits
) -> Iterator[str]:
  if not offer.adds and not offer.drops:
    yield "\nRollout: null."
    return
  yield (
    "\nRollout. Guidance fields stand after the task when the policy answers "
    "it; they are for blind criteria."
  )
  for kind, targets in offer.adds.items():
    text = "" if kind == "reference" else ', "text": "<text>"'
    yield (
      f'- {{"op": "add", "field": "{kind}", "targets": ["<id>", ...]{text}}}: '
      f"{_ADDED[kind]}. Targets, heaviest first: {names.listed(targets)}."
    )
  if offer.drops:
    yield (
      '- {"op": "drop", "field": "<kind>"}: a field goes: '
      f"{names.listed(offer.drops)}. It is due once no target of a field is "
      "blind any more."
    )
  if offer.adds:
    yield (
      "Take all blind criteria of the task together, heaviest first: a single "
      "one rarely moves the mean reward enough. A field has at most "
      f"{limits.targets} targets and there are at most {case.cap} fields, of "
      f"different kinds, {limits.guidance_tokens} tokens together. A kind that "
      "is mounted is only added with its drop in the same list. Never write "
      "the answer itself, and do not speak of criteria, points or a judge."
    )


def _rubric(
  case: cases.ProposalCase, offer: offers.Offer, limits: Limits
) -> Iterator[str]:
  if not offer.rubric:
    yield "\nRubric: null."
    return
  primary = any(label.name == "spurious" for label in case.labels)
  yield (
    "\nRubric. "
    + (
      "Spurious criteria call for a change that rewards what they were meant "
      "to. "
      if primary
      else ""
    )
    + "Criteria that are saturated, blind or met through generic content may "
    "be changed too: tightened, merged, split, deleted."
  )
  for op, known in offer.rubric.items():
    yield f"- {_OP_FORMS[op]}" + (
      f" Ids: {names.listed(known)}." if known else ""
    )
  count = len(case.case.criteria)
  yield (
    "Each criterion is in at most one operation. The size of a weight is "
    f"{case.lowest:g} to {case.highest:g}, and its sign never changes. Anchors "
    "may only be reweighted. A positive criterion that is no anchor must be "
    f"left, and at most {case.most} criteria; there are {count}. Criteria "
    f"whose label has a confidence below {limits.confidence:g} stay as they "
    "are."
  )
  if case.writes:
    yield (
      "A text is one statement that can be checked on a response alone, says "
      "what no other criterion says, and has at most "
      f"{limits.wording_tokens} tokens. That of a penalty describes the "
      "unwanted behaviour."
    )
