"""Verdicts out of what a judge really sends.

A reply is met, not met, or no verdict at all. A wrong bit trains the policy
on a lie and nobody notices; a missing one costs a second call. So whatever
can be read in two ways is not read.
"""

import re
from typing import Any

from hrl_jax import base
from hrl_jax.services import objects
from hrl_jax.services.judge import wording

# Keys that may hold a verdict's object, keys beside a verdict that might be
# meant as another one, and such keys whose value may also be a text.
_WRAPPERS = ("evaluation", "result", "verdict", "judgement", "judgment")
_RIVALS = ("verdict", "decision", "passed", "pass")
_SOFT_RIVALS = (*_WRAPPERS, "answer", "conclusion")
_NEGATED = ("unmet", "not_met", "absent", "not_present", "is_absent")

_RUBRIC_WRAPPERS = ("verdicts", "criteria", "results")
_NUMBER = re.compile(r"(?:criterion[ _-]?)?0{0,3}([1-9][0-9]{0,3})", re.I)


class ReplyError(ValueError):
  """A reply holds no verdict that can be relied on; says why, in one line."""


def criterion_verdict(text: str, *, penalty: bool, cut: bool) -> bool:
  """Whether the judge says "met", or "present" of a penalty (H-20).

  Reads a JSON object, also in fences, after reasoning or amid prose that
  does not argue with it; a bare word that is the whole reply; or a last line
  such as "Verdict: met". Everything that states a verdict must agree.

  Args:
    text: the reply, any characters.
    penalty: whether `prompt.criterion_question` asked about a penalty.
    cut: whether the reply was ended by its token limit; then it counts only
      if it is one complete object.

  Raises:
    ReplyError: if there is no verdict, or more than one reading.
  """
  scan = _answer(text, cut)
  if not scan.objects:
    verdict = wording.verdict(scan.text, penalty)
    if verdict is None:
      raise ReplyError(f"no verdict in: {objects.shown(scan.text)}")
    return verdict
  stated, last = set(), None
  for found in scan.objects:
    verdict = _stated(found.value, penalty)
    if verdict is not None:
      stated.add(verdict)
      last = found
  if last is None:
    raise ReplyError(
      f"no key {wording.key(penalty)!r} in {objects.shown(scan.text)}"
    )
  said = wording.said(scan.prose, penalty)
  _check_agreement(stated | said, scan.text)
  _check_surroundings(scan.text[: last.start], scan.text[last.end :])
  return stated.pop()


def rubric_verdicts(
  text: str, rubric: base.Rubric, *, cut: bool
) -> tuple[bool, ...]:
  """The verdicts of a reply to `prompt.rubric_question`, in rubric order.

  Verdicts belong to criteria by their numbers, never by their order: one
  object with the numbers as keys, or objects that each carry "criterion",
  alone or in an array, either of them under one key such as "verdicts".

  Args:
    text: the reply, any characters.
    rubric: the criteria that were asked about.
    cut: whether the reply was ended by its token limit.

  Raises:
    ReplyError: unless every criterion has exactly one verdict.
  """
  scan = _answer(text, cut)
  entries = [entry for found in scan.objects for entry in _entries(found.value)]
  if len(entries) != len(rubric):
    raise ReplyError(
      f"{len(entries)} verdicts for {len(rubric)} criteria: "
      f"{objects.shown(scan.text)}"
    )
  by_number = dict(entries)
  for number in range(1, len(rubric) + 1):
    if number not in by_number:
      raise ReplyError(
        f"no verdict for criterion {number}, but for {sorted(by_number)[:10]}"
      )
  if wording.said(scan.prose, False) | wording.said(scan.prose, True):
    raise ReplyError(
      f"a verdict outside its object: {objects.shown(scan.prose)}"
    )
  if scan.objects:
    start, end = scan.objects[0].start, scan.objects[-1].end
    _check_surroundings(scan.text[:start], scan.text[end:])
  return tuple(
    _entry(by_number[number], number, criterion.weight < 0)
    for number, criterion in enumerate(rubric, start=1)
  )


def _answer(text: str, cut: bool) -> objects.Scan:
  """What the reply says once its reasoning is over."""
  try:
    return objects.answer(text, cut=cut)
  except objects.ObjectError as error:
    raise ReplyError(str(error)) from None


def _stated(value: objects.Object, penalty: bool) -> bool | None:
  """The verdict of one object, None if it is about something else."""
  while len(value) == 1 and wording.key_name(value[0][0]) in _WRAPPERS:
    inner = value[0][1]
    if not isinstance(inner, tuple):
      break
    value = inner
  own, others = set(), set()
  for depth, key, item in _pairs(value):
    name = wording.key_name(key)
    if name in wording.KEYS[penalty]:
      verdict = wording.read(item, penalty)
      if verdict is None:
        raise ReplyError(f"{name!r} is {objects.shown(item)}")
      (others if depth else own).add(verdict)
    elif name in wording.KEYS[not penalty] or name in _NEGATED:
      raise ReplyError(
        f"key {name!r} where {wording.key(penalty)!r} was asked for"
      )
    elif name in _RIVALS and not isinstance(item, tuple | list):
      others.add(wording.read(item, penalty))
    elif name in _SOFT_RIVALS:
      others |= {wording.read(item, penalty)} - {None}
  if not own and not others:
    return None
  if not own:
    raise ReplyError(
      f"no key {wording.key(penalty)!r} of its own: {objects.shown(value)}"
    )
  _check_agreement(own | others, value)
  return own.pop()


def _pairs(value: Any, depth: int = 0) -> list[tuple[int, str, Any]]:
  """Every pair of an object and of what is in it, with its depth."""
  if isinstance(value, list):
    return [pair for item in value for pair in _pairs(item, depth)]
  if not isinstance(value, tuple):
    return []
  found = []
  for key, item in value:
    found.append((depth, key, item))
    found.extend(_pairs(item, depth + 1))
  return found


def _entries(value: Any) -> list[tuple[int, Any]]:
  """The numbered verdicts of one object, each with its number."""
  if len(value) == 1 and wording.key_name(value[0][0]) in _RUBRIC_WRAPPERS:
    value = value[0][1]
  if isinstance(value, list):
    return [(_own_number(item), item) for item in value]
  if not isinstance(value, tuple):
    raise ReplyError(f"no verdicts in {objects.shown(value)}")
  if any(wording.key_name(key) == "criterion" for key, _ in value):
    return [(_own_number(value), value)]
  return [(_number(key), item) for key, item in value]


def _own_number(item: Any) -> int:
  pairs = item if isinstance(item, tuple) else ()
  numbers = [
    value for key, value in pairs if wording.key_name(key) == "criterion"
  ]
  if len(numbers) != 1:
    raise ReplyError(
      f"a verdict without its criterion's number: {objects.shown(item)}"
    )
  return _number(numbers[0])


def _number(value: Any) -> int:
  """The number of a criterion, written as one or as text."""
  if isinstance(value, int) and not isinstance(value, bool):
    value = str(value) if abs(value) < 10_000 else ""
  match = isinstance(value, str) and _NUMBER.fullmatch(value.strip())
  if not match:
    raise ReplyError(
      f"{objects.shown(value)} where a criterion's number was expected"
    )
  return int(match[1])


def _entry(value: Any, number: int, penalty: bool) -> bool:
  try:
    verdict = _stated(value, penalty) if isinstance(value, tuple) else None
  except ReplyError as error:
    raise ReplyError(f"criterion {number}: {error}") from None
  if verdict is None:
    raise ReplyError(
      f"criterion {number}: no key {wording.key(penalty)!r} in "
      f"{objects.shown(value)}"
    )
  return verdict


def _check_agreement(verdicts: set[bool | None], where: Any) -> None:
  if len(verdicts) > 1:
    raise ReplyError(f"verdicts that disagree: {objects.shown(where)}")


def _check_surroundings(before: str, after: str) -> None:
  """Raises if an object may be a quotation, or may be taken back."""
  if not wording.introduces(before):
    raise ReplyError(f"maybe a quotation, after {objects.shown(before[-40:])}")
  if wording.doubts(after):
    raise ReplyError(f"words after its verdict: {objects.shown(after)}")
