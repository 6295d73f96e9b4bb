import hypothesis
import pytest

from hrl_jax.harness import cases
from hrl_jax.harness.answers import wording
from tests.harness import role_cases
from tests.harness.answers import json_values

pytestmark = pytest.mark.core

CASE = role_cases.CASE
TARGETS = [role_cases.target(2), role_cases.target(3)]


def _answer(phrase="detailed"):
  return {
    "c2": {"reason": "x", "phrase": phrase},
    "c3": {"reason": "x", "phrase": ""},
  }


def test_phrases_by_hand():
  # An empty one says that the words are not to blame.
  expected = cases.Wording({role_cases.target(2): "detailed"}, ())
  assert wording.read(_answer(), CASE, TARGETS) == expected


@pytest.mark.parametrize(
  ("answer", "said"),
  [
    (_answer(" "), "the answer.c2.phrase is empty"),
    (_answer(3), "the answer.c2.phrase is 3, not a text"),
    (_answer(None), "the answer.c2.phrase is null, not a text"),
    (_answer("\ud800"), "the answer.c2.phrase holds half a surrogate pair"),
    ({**_answer(), "c2": {"phrase": "x"}}, "the answer.c2 lacks 'reason'"),
    (
      {**_answer(), "c2": {"reason": 1, "phrase": "x"}},
      "the answer.c2.reason is 1, not a text",
    ),
    ({"c3": _answer()["c3"]}, "the answer lacks 'c2'"),
    ("detailed", "the answer is 'detailed', not an object"),
    (None, "the answer is null, not an object"),
  ],
)
def test_what_cannot_be_used_is_said(answer, said):
  assert wording.read(answer, CASE, TARGETS) == cases.Wording({}, (said,))


def test_a_criterion_that_was_not_asked_about_is_left_out():
  answer = {**_answer(), "c4": _answer()["c2"]}
  read = wording.read(answer, CASE, TARGETS)
  assert read.phrases == {role_cases.target(2): "detailed"}
  assert read.problems == ("the answer has the unknown key 'c4'",)


@hypothesis.settings(max_examples=200, deadline=None)
@hypothesis.given(
  json_values.near([_answer()], ["c1", "c2", "c3", "reason", "phrase"], ["x"])
)
def test_any_value_is_read(value):
  read = wording.read(value, CASE, TARGETS)
  for target, phrase in read.phrases.items():
    name = {TARGETS[0]: "c2", TARGETS[1]: "c3"}[target]
    assert phrase.strip() and phrase.encode()
    assert set(value[name]) == {"reason", "phrase"}
