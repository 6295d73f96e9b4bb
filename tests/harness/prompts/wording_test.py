import json

import pytest

from hrl_jax.harness.prompts import layout, wording
from tests.harness import role_cases

pytestmark = pytest.mark.core

BUDGET = layout.Budget(len, 100_000)


def test_the_named_criteria_are_asked_in_their_order():
  targets = [role_cases.target(3), role_cases.target(2)]
  question = wording.question(role_cases.CASE, targets, BUDGET)
  entry = (
    '{"type": "object", "properties": {"reason": {"type": "string"}, '
    '"phrase": {"type": "string"}}, "required": ["reason", "phrase"], '
    '"additionalProperties": false}'
  )
  assert json.dumps(question.schema) == (
    f'{{"type": "object", "properties": {{"c2": {entry}, "c3": {entry}}}, '
    '"required": ["c2", "c3"], "additionalProperties": false}'
  )
  text = question.messages[1].content
  assert "\nCriteria: c2, c3\n" in text
  assert text.endswith(
    '{"c2": {"reason": "<one or two sentences>", "phrase": "<phrase>"}, '
    '"c3": {"reason": "<one or two sentences>", "phrase": "<phrase>"}}'
  )


def test_the_pattern_of_a_spurious_criterion_is_shown():
  views = list(role_cases.CRITERIA)
  views[1] = views[1]._replace(label="spurious", reason="length_gaming")
  case = role_cases.CASE._replace(criteria=tuple(views))
  targets = [role_cases.target(2), role_cases.target(3)]
  text = wording.question(case, targets, BUDGET).messages[1].content
  assert "\nCriteria: c2 (length_gaming), c3\n" in text


def test_nothing_is_asked_of_no_criterion():
  other = [("other#0", 0), role_cases.target(2, version=1)]
  assert wording.question(role_cases.CASE, [], BUDGET) is None
  assert wording.question(role_cases.CASE, other, BUDGET) is None
