"""Answers to the wording check."""

from collections.abc import Sequence
from typing import Any

from hrl_jax.harness import cases, terms
from hrl_jax.harness.answers import values
from hrl_jax.harness.prompts import names


def read(
  value: Any, case: cases.Case, targets: Sequence[terms.Target]
) -> cases.Wording:
  """The phrases that a role named; that they stand there is checked later.

  A criterion whose words are not to blame has none.

  Args:
    value: the answer to `prompts.wording.question`, any JSON value.
    case: that it was about.
    targets: criteria that were asked about.
  """
  about = names.picked(names.criteria(case), targets)
  problems: list[str] = []
  phrases = values.entries(value, "the answer", about, _phrase, problems)
  return cases.Wording(dict(phrases), tuple(problems))


def _phrase(
  entry: Any, place: str, view: cases.CriterionView
) -> tuple[terms.Target, str] | None:
  said = values.members(entry, place, ("reason", "phrase"))
  values.string(said["reason"], f"{place}.reason")
  if said["phrase"] == "":
    return None
  return view.target, values.text(said["phrase"], f"{place}.phrase")
