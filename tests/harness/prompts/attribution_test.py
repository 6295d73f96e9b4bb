import json

import pytest

from hrl_jax.harness import cases
from hrl_jax.harness.prompts import attribution, layout
from tests.harness import role_cases

pytestmark = pytest.mark.core

BUDGET = layout.Budget(len, 100_000)


def _asked(case=role_cases.CASE):
  question = attribution.question(case, BUDGET)
  text = question.messages[1].content
  return text[text.index("The question") :], question.schema


def test_only_what_is_not_computed_is_asked():
  text, schema = _asked()
  # Blind criteria and penalties that are full are not asked about.
  assert list(schema["properties"]) == ["separating", "full"]
  groups = schema["properties"].values()
  assert [list(group["properties"]) for group in groups] == [
    ["c2", "c4", "c7"],
    ["c3", "c5"],
  ]
  assert "Criteria: c3, c5\n" in text
  assert "c1" not in text and "c6" not in text


def test_the_sides_of_a_criterion_by_hand():
  text, _ = _asked()
  # 110?10: met by 1, 2, 5; 4 has no verdict.
  assert (
    "c2, a criterion: satisfied by rollouts 1, 2, 5; failed by 3, 6.\n" in text
  )
  # 100?01 of a penalty: its behaviour is absent in 2, 3, 5.
  assert (
    "c4, a penalty: satisfied by rollouts 2, 3, 5; failed by 1, 6.\n" in text
  )


def test_all_patterns_are_defined():
  text, _ = _asked()
  assert tuple(attribution.PATTERNS) == cases.HACK_PATTERNS
  for pattern in (*cases.HACK_PATTERNS, "none"):
    assert f"\n- {pattern}: " in text


def test_the_schema_has_reasons_and_quotes_before_verdicts():
  _, schema = _asked()
  entry = schema["properties"]["separating"]["properties"]["c4"]
  # Written out: the order of the properties is the order of the reply.
  assert json.dumps(entry) == json.dumps(
    {
      "type": "object",
      "properties": {
        "reason": {"type": "string"},
        "quotes": {
          "type": "array",
          "items": {
            "type": "object",
            "properties": {
              "rollout": {"type": "integer", "enum": [2, 3, 5]},
              "text": {"type": "string"},
            },
            "required": ["rollout", "text"],
            "additionalProperties": False,
          },
        },
        "pattern": {
          "type": "string",
          "enum": ["none", *cases.HACK_PATTERNS],
        },
        "confidence": {"type": "number"},
      },
      "required": ["reason", "quotes", "pattern", "confidence"],
      "additionalProperties": False,
    }
  )
  entry = schema["properties"]["full"]["properties"]["c5"]
  assert list(entry["properties"]) == ["reason", "quotes", "generic"]


def _with(*criteria):
  return role_cases.CASE._replace(criteria=criteria, related=())


def test_a_case_without_open_question_is_not_asked():
  blind = role_cases.CRITERIA[0]
  penalty = role_cases.view(1, "insults", -1.0, "000?00", "agree", "not_yet")
  assert attribution.question(_with(blind, penalty), BUDGET) is None


def test_a_part_that_is_empty_is_left_out():
  text, schema = _asked(_with(role_cases.CRITERIA[1]))
  assert list(schema["properties"]) == ["separating"]
  assert "generic" not in text
  text, schema = _asked(_with(role_cases.CRITERIA[2]))
  assert list(schema["properties"]) == ["full"]
  assert text.startswith("The question. Every rollout meets")
  assert "sycophancy" not in text


def test_half_scores_without_two_sides_are_not_asked():
  # Scores of 0.5 separate by their sum, but no rollout is clearly satisfying.
  half = role_cases.view(1, "is kind", 1.0, "000?00", "agree", "separates")
  assert attribution.question(_with(half), BUDGET) is None


def test_the_form_is_no_answer():
  text, _ = _asked()
  with pytest.raises(json.JSONDecodeError):
    json.loads(text[text.rindex("\n") + 1 :])
