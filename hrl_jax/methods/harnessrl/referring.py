"""Reference fields: their donors are chosen and checked, not written (H-40)."""

from collections.abc import Sequence

import msgspec
import numpy as np

from hrl_jax import base, protocols
from hrl_jax.harness import cases, donors, guidance, records, rubrics, trimming
from hrl_jax.methods.harnessrl import parts

# Donors of another wording that are graded for one field, at most.
_TRIES = 2


def donations(
  made: parts.Parts, draw: parts.Draw, target: records.Target
) -> tuple[cases.Donation, ...]:
  """Responses that a reference field for a criterion may show, best first."""
  if not made.knobs.has_memory:
    return donors.of_group(
      draw.groups[0], target, draw.harness.rubric.find(target[0]).raw < 0
    )
  entry = draw.harness.rubric.find(target[0])
  earlier = [
    version
    for version in (
      *rubrics.seed_versions(draw.task),
      *(each for update in draw.before.updates for each in update.made),
    )
    if version.cid == target[0] and version.version < target[1]
  ]
  cosines = made.limits.similarity(
    entry.version.text, [version.text for version in earlier]
  )
  return donors.donations(
    donors.Wanted(
      target=target,
      is_penalty=entry.raw < 0,
      earlier=tuple(
        (version.target, float(cosine))
        for version, cosine in zip(earlier, cosines, strict=True)
        if cosine >= made.knobs.same_meaning
      ),
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
) -> list[cases.Proposal]:
  """Answers whose reference fields have their donors and their text.

  A donor of another wording is graded by this task's own criterion before it is
  mounted; one that fails it is passed over (H-40b).
  """
  tried = [
    (index, donation)
    for index, answer in enumerate(answers)
    for add in answer.rollout
    if isinstance(add, records.Add) and add.field == "reference"
    for donation in _to_check(add, shown[index])
  ]
  scores = probe.grade(
    [
      _submission(asked[index].draw, donation, _target(shown[index], donation))
      for index, donation in tried
    ],
    purpose,
  )
  failed = {
    (index, donation.donor)
    for (index, donation), scores_C in zip(tried, scores, strict=True)
    if not _is_met(asked[index].draw, _target(shown[index], donation), scores_C)
  }
  return [
    answer._replace(
      rollout=tuple(
        _with_donors(made, each, shown[index], index, failed)
        for each in answer.rollout
      )
    )
    for index, answer in enumerate(answers)
  ]


def _to_check(
  add: records.Add, case: cases.ProposalCase
) -> list[cases.Donation]:
  """The first donors of other wordings among a field's positive ones."""
  foreign = [
    donation
    for target in add.targets
    for donation in case.donations.get(target, ())
    if donation.donor.similarity is not None
  ]
  return foreign[:_TRIES]


def _with_donors(
  made: parts.Parts,
  operation: records.Add | records.Drop,
  case: cases.ProposalCase,
  index: int,
  failed: set[tuple[int, records.Donor]],
) -> records.Add | records.Drop:
  if not isinstance(operation, records.Add) or operation.field != "reference":
    return operation
  checked = _to_check(operation, case)
  at_hand = [
    donation
    for target in operation.targets
    for donation in case.donations.get(target, ())
    if (index, donation.donor) not in failed
    and (donation.donor.similarity is None or donation in checked)
  ]
  positive = _first(at_hand, "positive")
  negative = _first(at_hand, "negative")
  chosen = [each for each in (positive, negative) if each]
  texts = [
    trimming.trimmed(each.text, made.knobs.donor_tokens, made.count_text)
    if each
    else None
    for each in (positive, negative)
  ]
  return msgspec.structs.replace(
    operation,
    text=guidance.reference(
      *texts, other_task=positive.about if positive else None
    ),
    donors=tuple(each.donor for each in chosen),
  )


def _first(
  at_hand: Sequence[cases.Donation], sign: str
) -> cases.Donation | None:
  return next((each for each in at_hand if each.donor.sign == sign), None)


def _target(
  case: cases.ProposalCase, donation: cases.Donation
) -> records.Target:
  """The criterion of this task that a donation was found for."""
  return next(
    target for target, all in case.donations.items() if donation in all
  )


def _submission(
  draw: parts.Draw, donation: cases.Donation, target: records.Target
) -> protocols.Submission:
  entry = draw.harness.rubric.find(target[0])
  criterion = base.Criterion(
    entry.version.text,
    entry.raw,
    entry.version.checker,
    entry.version.arguments,
  )
  return protocols.Submission(
    draw.place, draw.task.prompt, donation.text, (criterion,)
  )


def _is_met(
  draw: parts.Draw, target: records.Target, scores_C: np.ndarray
) -> bool:
  """Whether a graded response reaches the desired form; not if missing."""
  is_penalty = draw.harness.rubric.find(target[0]).raw < 0
  score = float(scores_C[0])
  return score == 0.0 if is_penalty else score > 0.0
