"""The proposer's question: one change of each interface, or none (H-70).

Beside the case it shows the labels, what is mounted, what a reference field
could show and, in a second round, what was rejected and why (H-74). Only
operations that some label asks for are on offer.
"""

import json
from collections.abc import Iterator

from hrl_jax import fences, questions
from hrl_jax.harness import cases, changes, records, terms
from hrl_jax.harness.prompts import (
  forms,
  layout,
  names,
  offers,
  rules,
  situation,
)

# Shares of the room that is kept for the question.
_FIELD, _DONATION, _QUOTES, _REJECTED = 4, 4, 2, 4


def question(
  case: cases.ProposalCase, budget: layout.Budget, limits: rules.Limits
) -> questions.Question | None:
  """Asks for what `answers.proposal` reads, None if nothing is on offer.

  Args:
    case: of a labelled draw.
    budget: of the prompt.
    limits: of texts and fields.

  Raises:
    layout.TooLongError: if what may not be cut does not fit.
    ValueError: if a turn of the task has an unknown role.
  """
  offer = offers.of(case)
  if offer.is_empty:
    return None
  parts = (
    *_labels(case),
    *_updates(case),
    *_guidance(case),
    *_donations(case, offer),
    *_archive(case, offer),
    *_rejections(case),
    *rules.of(case, offer, limits),
  )
  schema = forms.schema(offer, names.evidence(case))
  return situation.question(case.case, parts, schema, budget)


def _labels(case: cases.ProposalCase) -> Iterator[layout.Part]:
  saturated = "is" if case.is_saturated else "is not"
  yield (
    f"The state of this task. It {saturated} diagnosed as saturated; its "
    f"sampling level is {case.level} of {offers.LOWEST_LEVEL}, 0 is full "
    "weight.\nIts criteria again, with their weights as set and their labels:"
  )
  known = names.criteria(case.case)
  by_target = names.by_target(case.case)
  evidence = _evidence_names(case)
  for label in case.labels:
    name = by_target[label.target]
    view = known[name]
    anchor = ", an anchor" if view.is_anchor else ""
    generic = ", met through generic content" if label.is_generic else ""
    rests = names.listed(evidence[each] for each in label.evidence)
    yield (
      f"{name}: weight {view.raw:g}{anchor}; {label.name} ({label.reason})"
      f"{generic}, confidence {label.confidence:.2f}, draws in a row: "
      f"{label.persistence}, records: {rests}"
    )
    if label.wording is not None:
      yield "The phrase of its text that lets a surface form pass:"
      yield fences.fenced(f"{name}-phrase", label.wording)
    if label.quotes:
      yield "Its evidence, each quote with the number of its rollout:"
      yield layout.Long(f"{name}-quotes", _quotes(label), _QUOTES)
  yield ""


def _quotes(label: records.Label) -> str:
  return "\n".join(
    f"{quote.rollout + 1}: {situation.line(quote.text)}"
    for quote in label.quotes
  )


def _updates(case: cases.ProposalCase) -> Iterator[str]:
  if not case.updates:
    return
  evidence = _evidence_names(case)
  yield "Records of the changes that the history tells:"
  for update in case.updates:
    candidate, delta = update.candidate, update.measurement.delta
    effect = "no points" if delta is None else f"{delta:+.1f} points"
    verdict = "accepted" if update.decision.is_accepted else "rejected"
    yield (
      f"{evidence[candidate.id]}: step {candidate.step}, "
      f"{candidate.interface}, {effect}, {verdict}"
    )
  yield ""


def _evidence_names(case: cases.ProposalCase) -> dict[str, str]:
  return {each: name for name, each in names.evidence(case).items()}


def _guidance(case: cases.ProposalCase) -> Iterator[layout.Part]:
  mounted = [kind for kind in terms.FIELD_KINDS if kind in case.fields]
  yield (
    f"At most {case.cap} guidance fields may be mounted; mounted are: "
    f"{names.listed(mounted)}."
  )
  known = names.by_target(case.case)
  for kind in mounted:
    field = case.fields[kind]
    # A target may have gone from the rubric since.
    targets = [known[each] for each in field.targets if each in known]
    yield (
      f"{kind}, since step {field.step} (now {case.case.step}), for "
      f"{names.listed(targets)}:"
    )
    yield layout.Long(f"mounted-{kind}", field.text, _FIELD)
  yield ""


def _donations(
  case: cases.ProposalCase, offer: offers.Offer
) -> Iterator[layout.Part]:
  targets = offer.adds.get("reference", ())
  if not targets:
    return
  yield "Responses that a reference field could show:"
  known = names.criteria(case.case)
  seen = {view.positive for view in case.case.related}
  for name in targets:
    given = case.donations[known[name].target]
    positive = [each for each in given if each.donor.sign == "positive"]
    others = sum(each.about is not None for each in positive)
    yield (
      f"{name}: {len(positive)} positive, {others} of them to other tasks; "
      f"{len(given) - len(positive)} negative"
    )
    if positive and positive[0].text not in seen:
      seen.add(positive[0].text)
      yield f"The best positive one for {name}:"
      yield layout.Long(f"{name}-response", positive[0].text, _DONATION)
  yield ""


def _archive(
  case: cases.ProposalCase, offer: offers.Offer
) -> Iterator[layout.Part]:
  if "restore" not in offer.rubric:
    return
  yield "Criteria that were taken out and may be restored:"
  for name, version in names.archive(case).items():
    kind = "a penalty" if version.sign < 0 else "a criterion"
    yield f"{name} ({names.in_history(version.target)}), {kind}:"
    yield fences.fenced(name, version.text)


def _rejections(case: cases.ProposalCase) -> Iterator[layout.Part]:
  if not case.rejections:
    return
  evidence = _evidence_names(case)
  yield (
    "This is the second round. What you proposed for the interfaces below was "
    "rejected:"
  )
  for rejection in case.rejections:
    candidate = rejection.candidate
    yield (
      f"{evidence[candidate.id]}, {candidate.interface}: "
      f"{_measured(rejection.measurement)}; "
      f"{_decided(rejection.decision)}"
    )
    operations = [forms.written(each, case) for each in candidate.operations]
    text = json.dumps(operations, ensure_ascii=False)
    yield layout.Long(f"rejected-{candidate.interface}", text, _REJECTED)
    if rejection.measurement.reason:
      yield fences.fenced(
        f"why-{candidate.interface}", rejection.measurement.reason
      )
  yield (
    "Propose one revised change for each of these interfaces, or null where "
    "nothing better is in sight.\n"
  )


def _measured(measurement: changes.Measurement) -> str:
  if measurement.delta is None:
    return "not measured"
  return (
    f"moved the mean reward from {_points(measurement.before)} to "
    f"{_points(measurement.after)}, by {measurement.delta:+.1f} points"
  )


def _decided(decision: changes.Decision) -> str:
  # What may stand behind a colon is not our own words.
  code = decision.code.partition(":")[0]
  lower, upper = _points(decision.lower), _points(decision.upper)
  return f"decision: {code}, the band is {lower} to {upper}"


def _points(points: float | None) -> str:
  return "open" if points is None else f"{points:.1f}"
