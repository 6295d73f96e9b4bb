"""What the stand-in proposes: one change of each interface that a label asks.

Where it has a choice it takes what it has tried least, as far as the history
that it is shown tells; without one it turns with the step.
"""

import itertools
import statistics
import zlib
from collections.abc import Iterator

from hrl_jax.harness import cases, changes, guidance, operations, records, terms

# Secondary operations of a step.
_SECONDARY = 2
# Criteria that a rubric may gain: each is graded for every rollout.
_CREATED = 3


def proposal(case: cases.ProposalCase) -> cases.Proposal:
  """The action (a_p, a_g, a_c) for a task."""
  return cases.Proposal(
    sampling=_sampling(case),
    rollout=_rollout(case) if "rollout" in case.interfaces else (),
    rubric=_rubric(case) if "rubric" in case.interfaces else (),
    rationale="by rules",
  )


def _sampling(case: cases.ProposalCase) -> tuple[changes.Lower, ...]:
  can = "sampling" in case.interfaces and case.level < 3
  return (changes.Lower(),) if case.is_saturated and can else ()


def _rollout(
  case: cases.ProposalCase,
) -> tuple[changes.Add | changes.Drop, ...]:
  blind = {label.target for label in case.labels if label.name == "blind"}
  idle = [
    kind
    for kind in terms.FIELD_KINDS
    if kind in case.fields and not blind.intersection(case.fields[kind].targets)
  ]
  if idle and not case.rejections:
    return tuple(changes.Drop(kind) for kind in idle)
  weights = {view.target: abs(view.points) for view in case.case.criteria}
  heaviest = sorted(blind, key=lambda target: (-weights[target], target))
  targets = tuple(heaviest[: guidance.MOST_TARGETS])
  free = [kind for kind in terms.FIELD_KINDS if kind not in case.fields]
  room = case.cap - len(case.fields)
  if not targets or room < 1:
    return ()
  order = sorted(free, key=lambda kind: _failures(case, kind))
  adds = [add for kind in order if (add := _add(case, kind, targets))]
  # A field that failed alone may do with another.
  return tuple(adds[: min(room, 2)])


def _failures(case: cases.ProposalCase, kind: terms.FieldKind) -> int:
  """How often an add of this kind was rejected, now and before."""
  rejected = [each.candidate for each in case.rejections]
  rejected += [
    update.candidate
    for update in case.updates
    if not update.decision.is_accepted
  ]
  return sum(
    isinstance(operation, changes.Add) and operation.field == kind
    for candidate in rejected
    for operation in candidate.operations
  )


def _add(
  case: cases.ProposalCase,
  kind: terms.FieldKind,
  targets: tuple[terms.Target, ...],
) -> changes.Add | None:
  views = {view.target: view for view in case.case.criteria}
  if kind == "reference":
    shown = tuple(t for t in targets if _has_positive(case, t))
    return changes.Add(kind, shown, text="") if shown else None
  lines = [
    f"{guidance.AVOID}: {views[target].text}"
    if views[target].points < 0
    else views[target].text
    for target in targets
  ]
  if kind == "criterion":
    return changes.Add(kind, targets, "\n".join(lines))
  return changes.Add(kind, targets, guidance.critique(lines))


def _has_positive(case: cases.ProposalCase, target: terms.Target) -> bool:
  donations = case.donations.get(target, ())
  return any(each.donor.sign == "positive" for each in donations)


def _rubric(case: cases.ProposalCase) -> tuple[changes.RubricOperation, ...]:
  """A primary operation for the surest spurious criterion, and secondary ones
  where the rubric no longer separates."""
  spurious = sorted(
    (label for label in case.labels if label.name == "spurious"),
    key=lambda label: (-label.confidence, label.target),
  )
  sentences = _sentences(case)
  too_much = any(each.decision.code == "above" for each in case.rejections)
  primary: list[changes.RubricOperation] = []
  if spurious:
    primary += _changed(case, spurious[0], [] if too_much else sentences)
  if case.rejections:
    return tuple(primary)
  secondary = itertools.islice(_secondary(case, sentences), _SECONDARY)
  return (*primary, *secondary)


def _changed(
  case: cases.ProposalCase, label: records.Label, sentences: list[str]
) -> Iterator[changes.RubricOperation]:
  """Other words if there are any, a lower weight, or its deletion.

  Words that ask for more than it does come before those that ask for something
  else. What is taken is removed from the sentences.
  """
  view = _view(case, label)
  if view.is_anchor or not sentences:
    yield from _lessened(case, label)
    return
  text = min(sentences, key=lambda each: not _tightens(each, view.text))
  sentences.remove(text)
  yield changes.Rewrite(label.target[0], text)


def _tightens(text: str, wording: str) -> bool:
  return text.startswith(wording.rstrip("."))


def _lessened(
  case: cases.ProposalCase, label: records.Label
) -> Iterator[changes.RubricOperation]:
  """A lower weight, or its deletion."""
  view = _view(case, label)
  sign = 1.0 if view.raw > 0 else -1.0
  if abs(view.raw) > case.lowest:
    yield changes.Reweight(label.target[0], sign * case.lowest)
  elif not view.is_anchor:
    yield changes.Delete(label.target[0])


def _secondary(
  case: cases.ProposalCase, sentences: list[str]
) -> Iterator[changes.RubricOperation]:
  """Tightens what boilerplate meets, asks something new of a saturated task,
  and once guidance has ended lets go of what stays blind.

  A criterion that is met by what it asks for stays as it is: a policy that is
  no longer rewarded for what it has learnt unlearns it.
  """
  positive = [label for label in case.labels if _view(case, label).raw > 0]
  for label in positive:
    if _is_full(label) and label.is_generic:
      yield from _changed(case, label, sentences)
  has_room = len(case.case.criteria) < case.most and _created(case) < _CREATED
  if case.is_saturated and has_room and any(map(_is_full, positive)):
    weights = [_view(case, label).raw for label in positive]
    present = [view.text for view in case.case.criteria]
    new = (
      text
      for text in sentences
      if not any(_tightens(text, wording) for wording in present)
    )
    for text in itertools.islice(new, 1):
      yield changes.Create(text, statistics.median_low(weights))
  if not case.cap:
    for label in positive:
      if label.name == "blind":
        yield from _lessened(case, label)


def _created(case: cases.ProposalCase) -> int:
  """Criteria that were created so far, as the history tells it."""
  return sum(
    isinstance(operation, changes.Create)
    for update in case.updates
    if update.decision.is_accepted
    for operation in update.candidate.operations
  )


def _is_full(label: records.Label) -> bool:
  return label.name == "saturated"


def _view(
  case: cases.ProposalCase, label: records.Label
) -> cases.CriterionView:
  return next(v for v in case.case.criteria if v.target == label.target)


def _sentences(case: cases.ProposalCase) -> list[str]:
  """Sentences of the pool that the rubric does not have, none if new wordings
  cannot be graded.

  With a history, those that were not tried, in the pool's order; without one,
  from whichever it is the step's turn for.
  """
  if not case.writes:
    return []
  present = {view.text for view in case.case.criteria}
  candidates = [each.candidate for each in (*case.updates, *case.rejections)]
  tried = {t for each in candidates for t in operations.wordings(each)}
  left = [text for text in case.pool if text not in present | tried]
  if left and not case.updates:
    turn = f"{case.case.task} {case.case.step} {len(case.rejections)}"
    first = zlib.crc32(turn.encode()) % len(left)
    left = left[first:] + left[:first]
  return left
