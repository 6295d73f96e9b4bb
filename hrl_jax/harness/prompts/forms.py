"""The JSON form of operations (H-72), with the names that a prompt shows."""

from collections.abc import Iterable, Mapping
from typing import Any

from hrl_jax import questions
from hrl_jax.harness import cases, changes
from hrl_jax.harness.prompts import names, offers

_TEXT = {"type": "string"}
_NUMBER = {"type": "number"}
_NOOP = {"type": "null"}


def schema(offer: offers.Offer, evidence: Iterable[str]) -> dict[str, Any]:
  """The schema of a proposal.

  Args:
    offer: that it chooses from; an interface without choice takes null only.
    evidence: names of records that it may rest on.
  """
  known = tuple(evidence)
  lower = [_operation("reweight", {})] if offer.lower else []
  return questions.object_schema(
    {
      "rationale": _TEXT,
      "sampling": _any([*lower, _NOOP]),
      "rollout": _list_of(_rollout(offer)),
      "rubric": _list_of(_rubric(offer.rubric)),
      "evidence": _any([_ids(known), _NOOP]) if known else _NOOP,
    }
  )


def written(
  operation: changes.Operation, case: cases.ProposalCase
) -> dict[str, Any]:
  """An operation in the form of an answer."""
  shown = names.by_target(case.case)
  lineages = {target[0]: name for target, name in shown.items()}
  archived = {each.cid: name for name, each in names.archive(case).items()}
  match operation:
    case changes.Lower():
      return {"op": "reweight"}
    case changes.Add():
      targets = [shown[target] for target in operation.targets]
      form = {"op": "add", "field": operation.field, "targets": targets}
      has_text = operation.field != "reference"
      return {**form, "text": operation.text} if has_text else form
    case changes.Drop():
      return {"op": "drop", "field": operation.field}
    case changes.Create(restores=str() as cid, weight=weight):
      return {"op": "restore", "id": archived[cid], "weight": weight}
    case changes.Create(text=text, weight=weight):
      return {"op": "create", "text": text, "weight": weight}
    case changes.Rewrite(cid=cid, text=text):
      return {"op": "rewrite", "id": lineages[cid], "text": text}
    case changes.Delete(cid=cid):
      return {"op": "delete", "id": lineages[cid]}
    case changes.Reweight(cid=cid, weight=weight):
      return {"op": "reweight", "id": lineages[cid], "weight": weight}
    case changes.Merge(cids=cids, text=text):
      ids = [lineages[cid] for cid in cids]
      return {"op": "merge", "ids": ids, "text": text}
    case changes.Split(cid=cid, texts=texts, weights=weights):
      return {
        "op": "split",
        "id": lineages[cid],
        "texts": list(texts),
        "weights": None if weights is None else list(weights),
      }
  raise ValueError(f"{type(operation).__name__} is no operation.")


def _rollout(offer: offers.Offer) -> list[dict[str, Any]]:
  forms = []
  for kind, targets in offer.adds.items():
    form = {"field": _enum([kind]), "targets": _ids(targets)}
    if kind != "reference":
      form["text"] = _TEXT
    forms.append(_operation("add", form))
  if offer.drops:
    forms.append(_operation("drop", {"field": _enum(offer.drops)}))
  return forms


def _rubric(
  offered: Mapping[str, tuple[str, ...]],
) -> list[dict[str, Any]]:
  weights = {"type": "array", "items": _NUMBER}
  texts = {"type": "array", "items": _TEXT}
  own = {
    "create": {"text": _TEXT, "weight": _NUMBER},
    "restore": {"weight": _NUMBER},
    "rewrite": {"text": _TEXT},
    "delete": {},
    "reweight": {"weight": _NUMBER},
    "merge": {"text": _TEXT},
    "split": {"texts": texts, "weights": _any([weights, _NOOP])},
  }
  forms = []
  for op, known in offered.items():
    subject = {"id": _enum(known)} if known else {}
    if op == "merge":
      subject = {"ids": _ids(known)}
    forms.append(_operation(op, subject | own[op]))
  return forms


def _operation(op: str, properties: Mapping[str, Any]) -> dict[str, Any]:
  return questions.object_schema({"op": _enum([op]), **properties})


def _list_of(forms: list[dict[str, Any]]) -> dict[str, Any]:
  if not forms:
    return _NOOP
  return _any([{"type": "array", "items": _any(forms)}, _NOOP])


def _any(forms: list[dict[str, Any]]) -> dict[str, Any]:
  return forms[0] if len(forms) == 1 else {"anyOf": forms}


def _enum(choices: Iterable[str]) -> dict[str, Any]:
  return {"type": "string", "enum": list(choices)}


def _ids(choices: Iterable[str]) -> dict[str, Any]:
  return {"type": "array", "items": _enum(choices)}
