"""Reference fields: their donors are chosen and checked, not written (H-40)."""

from collections.abc import Sequence
from typing import NamedTuple

import msgspec
import numpy as np

from hrl_jax import base, protocols
from hrl_jax.harness import (
  cases,
  changes,
  donors,
  guidance,
  rubrics,
  terms,
  trimming,
)
from hrl_jax.methods.harnessrl import parts

# Donors of another wording that are graded for one field, at most.
_TRIES = 2


class _Choice(NamedTuple):
  """A response that a field may show for one of its targets."""

  target: terms.Target
  donation: cases.Donation


def donations(
  made: parts.Parts, draw: parts.Draw, target: terms.Target
) -> tuple[cases.Donation, ...]:
  """Responses that a reference field for a criterion may show, best first."""
  entry = draw.harness.rubric.find(target[0])
  if not made.knobs.has_memory:
    return donors.of_group(draw.groups[0], target, entry.raw < 0)
  return donors.donations(
    donors.Wanted(
      target=target,
      is_penalty=entry.raw < 0,
      earlier=_earlier(made, draw, entry.version),
      hits=draw.hits.get(target, ()),
    ),
    draw.groups[0],
    draw.before,
    draw.others,
    made.memory.group,
    made.about,
  )


def assemble(
  made: parts.Parts,
  shown: Sequence[cases.ProposalCase],
  answers: Sequence[cases.Proposal],
  asked: Sequence[parts.Labelled],
  probe: protocols.Probe,
  purpose: str,
) -> tuple[list[cases.Proposal], int]:
  """Answers whose reference fields have their donors and their text.

  A donor of another wording is graded by this task's own criterion before it is
  mounted; one that fails it, or that cannot be graded, is passed over (H-40b).

  Args:
    made: the evolver.
    shown: what the proposer saw.
    answers: of the proposer.
    asked: the tasks.
    probe: that grades.
    purpose: a word that no other grading of the step has.

  Returns:
    The answers, and how many criteria were graded.
  """
  tried = [
    (index, choice)
    for index, answer in enumerate(answers)
    for add in filter(_is_reference, answer.rollout)
    for choice in _to_check(add, shown[index])
  ]
  submissions = [_submission(asked[i].draw, choice) for i, choice in tried]
  scores = probe.grade(submissions, purpose) if submissions else ()
  passed: list[set[_Choice]] = [set() for _ in answers]
  for (index, choice), scores_C in zip(tried, scores, strict=True):
    if _is_met(asked[index].draw, choice.target, scores_C):
      passed[index].add(choice)
  assembled = [
    answer._replace(
      rollout=tuple(
        _with_donors(made, each, case, passed_of_task)
        if _is_reference(each)
        else each
        for each in answer.rollout
      )
    )
    for answer, case, passed_of_task in zip(answers, shown, passed, strict=True)
  ]
  return assembled, len(submissions)


def _earlier(
  made: parts.Parts, draw: parts.Draw, now: terms.Version
) -> tuple[tuple[terms.Target, float], ...]:
  """Earlier wordings of a criterion that mean the same, newest first."""
  known = [*rubrics.seed_versions(draw.task)]
  known += [each for update in draw.before.updates for each in update.made]
  earlier = [
    version
    for version in reversed(known)
    if version.cid == now.cid and version.version < now.version
  ]
  if not earlier:
    return ()
  cosines = made.limits.similarity(now.text, [each.text for each in earlier])
  return tuple(
    (version.target, float(cosine))
    for version, cosine in zip(earlier, cosines, strict=True)
    if cosine >= made.knobs.same_meaning
  )


def _is_reference(operation: changes.Add | changes.Drop) -> bool:
  return isinstance(operation, changes.Add) and operation.field == "reference"


def _choices(
  add: changes.Add, case: cases.ProposalCase, sign: str
) -> list[_Choice]:
  """Responses of a sign for the field's targets, best first."""
  return [
    _Choice(target, donation)
    for target in add.targets
    for donation in case.donations.get(target, ())
    if donation.donor.sign == sign
  ]


def _to_check(add: changes.Add, case: cases.ProposalCase) -> list[_Choice]:
  """Positive responses to other wordings that come before any to the target's.

  A field shows one positive response, so what comes later is not needed.
  """
  foreign: list[_Choice] = []
  for choice in _choices(add, case, "positive"):
    if choice.donation.donor.similarity is None:
      break
    foreign.append(choice)
  return foreign[:_TRIES]


def _with_donors(
  made: parts.Parts,
  add: changes.Add,
  case: cases.ProposalCase,
  passed: set[_Choice],
) -> changes.Add:
  """The field with a positive and a negative response, of those at hand."""
  positive = next(
    (
      choice.donation
      for choice in _choices(add, case, "positive")
      if choice.donation.donor.similarity is None or choice in passed
    ),
    None,
  )
  # Two rollouts may say the same.
  negative = next(
    (
      choice.donation
      for choice in _choices(add, case, "negative")
      if positive is None or choice.donation.text != positive.text
    ),
    None,
  )
  texts = [
    trimming.trimmed(each.text, made.knobs.donor_tokens, made.count_text)
    if each
    else None
    for each in (positive, negative)
  ]
  return msgspec.structs.replace(
    add,
    text=guidance.reference(
      *texts, other_task=positive.about if positive else None
    ),
    donors=tuple(each.donor for each in (positive, negative) if each),
  )


def _submission(draw: parts.Draw, choice: _Choice) -> protocols.Submission:
  entry = draw.harness.rubric.find(choice.target[0])
  criterion = base.Criterion(
    entry.version.text,
    entry.raw,
    entry.version.checker,
    entry.version.arguments,
  )
  return protocols.Submission(
    draw.place, draw.task.prompt, choice.donation.text, (criterion,)
  )


def _is_met(
  draw: parts.Draw, target: terms.Target, scores_C: np.ndarray
) -> bool:
  """Whether a graded response reaches the desired form; not if missing."""
  is_penalty = draw.harness.rubric.find(target[0]).raw < 0
  score = float(scores_C[0])
  return score == 0.0 if is_penalty else score > 0.0
