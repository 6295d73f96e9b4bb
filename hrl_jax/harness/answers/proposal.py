"""Answers of the proposer: JSON of H-72 to typed operations.

An interface's part is read whole or refused whole, with the code "schema": an
operation that was not on offer, an unknown key or id, a wrong type, or a second
operation on the same criterion or field. What an operation would do to the
harness is checked later (`validity`).
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from hrl_jax.harness import cases, changes, operations, terms
from hrl_jax.harness.answers import values
from hrl_jax.harness.prompts import names, offers

Thing = TypeVar("Thing")

_KEYS = ("rationale", "sampling", "rollout", "rubric", "evidence")


class _Context(NamedTuple):
  """What operations are read by.

  Attributes:
    offer: that they choose from.
    criteria: of the task, by name.
    archive: wordings that may be restored, by name.
  """

  offer: offers.Offer
  criteria: dict[str, cases.CriterionView]
  archive: dict[str, terms.Version]


def read(value: Any, case: cases.ProposalCase) -> cases.Proposal:
  """The operations that a role proposed, as far as they can be used.

  Args:
    value: the answer to `prompts.proposal.question`, any JSON value.
    case: that it was about.
  """
  problems: list[str] = []

  def part(read_one: Callable[..., Any], *inputs: Any) -> Any:
    try:
      return read_one(*inputs)
    except values.UnusableError as error:
      problems.append(f"schema: {error}")
      return None

  said = part(values.members, value, "the answer", _KEYS)
  if said is None:
    return cases.Proposal(problems=tuple(problems))
  context = _Context(
    offers.of(case), names.criteria(case.case), names.archive(case)
  )
  known = names.evidence(case)
  return cases.Proposal(
    sampling=part(_sampling, said["sampling"], context.offer) or (),
    rollout=part(_rollout, said["rollout"], context) or (),
    rubric=part(_rubric, said["rubric"], context) or (),
    evidence=part(_evidence, said["evidence"], known) or (),
    rationale=part(values.text, said["rationale"], "rationale") or "",
    problems=tuple(problems),
  )


def _sampling(value: Any, offer: offers.Offer) -> tuple[changes.Lower, ...]:
  if value is None:
    return ()
  _operator(value, "sampling", ("reweight",) if offer.lower else ())
  values.members(value, "sampling", ("op",))
  return (changes.Lower(),)


def _rollout(
  value: Any, context: _Context
) -> tuple[changes.Add | changes.Drop, ...]:
  if value is None:
    return ()
  found = [
    _field_operation(item, f"rollout[{index}]", context)
    for index, item in enumerate(values.items(value, "rollout"))
  ]
  _check_distinct([(type(each), each.field) for each in found], "rollout")
  return tuple(found)


def _field_operation(
  item: Any, place: str, context: _Context
) -> changes.Add | changes.Drop:
  adds, drops = context.offer.adds, context.offer.drops
  offered = ["add"] * bool(adds) + ["drop"] * bool(drops)
  op = _operator(item, place, offered)
  kinds = {kind: kind for kind in (adds if op == "add" else drops)}
  kind = values.named(item.get("field"), f"{place}.field", kinds)
  if op == "drop":
    values.members(item, place, ("op", "field"))
    return changes.Drop(field=kind)
  own = () if kind == "reference" else ("text",)
  said = values.members(item, place, ("op", "field", "targets", *own))
  known = {name: context.criteria[name].target for name in adds[kind]}
  return changes.Add(
    field=kind,
    targets=_named_all(said["targets"], f"{place}.targets", known),
    text=values.text(said["text"], f"{place}.text") if own else "",
  )


_OWN_KEYS = {
  "create": ("text", "weight"),
  "restore": ("id", "weight"),
  "rewrite": ("id", "text"),
  "delete": ("id",),
  "reweight": ("id", "weight"),
  "merge": ("ids", "text"),
  "split": ("id", "texts", "weights"),
}
_RECORDS = {
  "create": changes.Create,
  "rewrite": changes.Rewrite,
  "delete": changes.Delete,
  "reweight": changes.Reweight,
  "merge": changes.Merge,
  "split": changes.Split,
}


def _rubric(
  value: Any, context: _Context
) -> tuple[changes.RubricOperation, ...]:
  if value is None:
    return ()
  found = [
    _rubric_operation(item, f"rubric[{index}]", context)
    for index, item in enumerate(values.items(value, "rubric"))
  ]
  touched = [cid for each in found for cid in operations.touches(each)]
  restored = [
    each.restores
    for each in found
    if isinstance(each, changes.Create) and each.restores
  ]
  _check_distinct(touched + restored, "rubric")
  return tuple(found)


def _rubric_operation(
  item: Any, place: str, context: _Context
) -> changes.RubricOperation:
  offered = context.offer.rubric
  op = _operator(item, place, tuple(offered))
  said = values.members(item, place, ("op", *_OWN_KEYS[op]))
  if op == "restore":
    version = values.named(said["id"], f"{place}.id", context.archive)
    weight = values.number(said["weight"], f"{place}.weight")
    return changes.Create(
      text=version.text, weight=weight, restores=version.cid
    )
  known = {name: context.criteria[name].target[0] for name in offered[op]}
  read: dict[str, Any] = {}
  if "id" in said:
    read["cid"] = values.named(said["id"], f"{place}.id", known)
  if "ids" in said:
    read["cids"] = _named_all(said["ids"], f"{place}.ids", known)
  if "text" in said:
    read["text"] = values.text(said["text"], f"{place}.text")
  if "weight" in said:
    read["weight"] = values.number(said["weight"], f"{place}.weight")
  if "texts" in said:
    read["texts"] = _all(said["texts"], f"{place}.texts", values.text)
  if said.get("weights") is not None:
    weights = _all(said["weights"], f"{place}.weights", values.number)
    read["weights"] = weights
  return _RECORDS[op](**read)


def _evidence(value: Any, known: Mapping[str, str]) -> tuple[str, ...]:
  if value is None or value == []:
    return ()
  return _named_all(value, "evidence", known)


def _operator(item: Any, place: str, offered: Sequence[str]) -> str:
  """The name of an operation, which is one of those on offer."""
  if not isinstance(item, dict):
    raise values.UnusableError(
      f"{place} is {values.shown(item)}, not an object"
    )
  return values.named(item.get("op"), f"{place}.op", {op: op for op in offered})


def _all(
  value: Any, place: str, read_one: Callable[[Any, str], Thing]
) -> tuple[Thing, ...]:
  return tuple(
    read_one(item, f"{place}[{index}]")
    for index, item in enumerate(values.items(value, place))
  )


def _named_all(
  value: Any, place: str, known: Mapping[str, Thing]
) -> tuple[Thing, ...]:
  """What names stand for, at least one and none twice."""
  found = _all(value, place, lambda item, at: values.named(item, at, known))
  if not found:
    raise values.UnusableError(f"{place} is empty")
  _check_distinct(found, place)
  return found


def _check_distinct(found: Sequence[Hashable], place: str) -> None:
  if len(set(found)) < len(found):
    raise values.UnusableError(f"{place} is about one thing twice")
