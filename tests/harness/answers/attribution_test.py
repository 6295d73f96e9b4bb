import copy
import json

import hypothesis
import jsonschema
import pytest

from hrl_jax.harness import cases, quotes, records
from hrl_jax.harness.answers import attribution
from hrl_jax.harness.prompts import attribution as prompt
from hrl_jax.harness.prompts import layout
from tests import hostile_texts
from tests.harness import role_cases
from tests.harness.answers import json_values

pytestmark = pytest.mark.core

CASE = role_cases.CASE
SCHEMA = prompt.question(CASE, layout.Budget(len, 100_000)).schema


def _trusted():
  return {"reason": "x", "quotes": [], "pattern": "none", "confidence": 0.5}


def _answer():
  """c2 is gamed, c3 is generic, and the rest is as it should be."""
  first = {"rollout": 1, "text": "In great detail."}
  second = {"rollout": 5, "text": "great detail"}
  return {
    "separating": {
      "c2": {
        "reason": "All say so.",
        "quotes": [first, second],
        "pattern": "superficial_compliance",
        "confidence": 0.75,
      },
      "c4": _trusted(),
      "c7": _trusted(),
    },
    "full": {
      "c3": {"reason": "x", "quotes": [dict(first)], "generic": True},
      "c5": {"reason": "x", "quotes": [], "generic": False},
    },
  }


SUSPICION = cases.Suspicion(
  role_cases.target(2),
  "superficial_compliance",
  # Rollouts are counted from 0 in records.
  (
    records.Quote(0, "In great detail."),
    records.Quote(4, "great detail"),
  ),
  0.75,
)
GENERIC = (role_cases.target(3), (records.Quote(0, "In great detail."),))


def test_an_answer_by_hand():
  assert jsonschema.Draft202012Validator(SCHEMA).is_valid(_answer())
  assert attribution.read(_answer(), CASE) == cases.Attribution(
    (SUSPICION,), (GENERIC,), ()
  )


def test_what_is_quoted_right_is_believed():
  answer = attribution.read(_answer(), CASE)
  view = CASE.criteria[1]
  assert not quotes.unsupported(answer.suspicions[0], view, CASE.responses)


# What is done to the entry of c2, and what is said of it.
BROKEN = [
  (lambda e: e.update(pattern="vanity"), "separating.c2.pattern is 'vanity'"),
  (lambda e: e.update(pattern=["none"]), "separating.c2.pattern is a list"),
  (lambda e: e.update(confidence=1.5), "separating.c2.confidence is 1.5"),
  (lambda e: e.update(confidence=-0.1), "not from 0 to 1"),
  (lambda e: e.update(confidence=True), "confidence is a truth value"),
  (lambda e: e.update(confidence="0.5"), "'0.5', not a finite number"),
  (lambda e: e.update(confidence=float("nan")), "nan, not a finite number"),
  (lambda e: e.update(confidence=10**400), "a huge number"),
  (lambda e: e.update(quotes=[]), "separating.c2 has no quote"),
  (lambda e: e.update(quotes="x"), "separating.c2.quotes is 'x', not a list"),
  (lambda e: e.update(note=1), "separating.c2 has the unknown key 'note'"),
  (lambda e: e.update(reason=None), "c2.reason is null, not a text"),
  (lambda e: e.pop("reason"), "separating.c2 lacks 'reason'"),
  # 110?10: rollout 3 does not satisfy c2, 4 has no verdict.
  (lambda e: e["quotes"][1].update(rollout=3), "quotes[1].rollout is 3"),
  (lambda e: e["quotes"][1].update(rollout=4), "not of: 1, 2, 5"),
  (lambda e: e["quotes"][1].update(rollout=0), "rollout is 0"),
  (lambda e: e["quotes"][1].update(rollout=-1), "rollout is -1"),
  (lambda e: e["quotes"][1].update(rollout="1"), "rollout is '1'"),
  (lambda e: e["quotes"][1].update(rollout=True), "is a truth value"),
  (lambda e: e["quotes"][1].update(rollout=1.0), "rollout is 1.0"),
  # An empty quote would stand in every rollout.
  (lambda e: e["quotes"][0].update(text=""), "quotes[0].text is empty"),
  (lambda e: e["quotes"][0].update(text=" \n"), "quotes[0].text is empty"),
  (lambda e: e["quotes"][0].update(text="\u200b"), "text is empty"),
  (lambda e: e["quotes"][0].update(text=None), "text is null, not a text"),
  (lambda e: e["quotes"][0].update(text="\ud800"), "half a surrogate pair"),
  (lambda e: e["quotes"][0].update(page=1), "unknown key 'page'"),
  (lambda e: e["quotes"].append("x"), "quotes[2] is 'x', not an object"),
]


@pytest.mark.parametrize(("change", "said"), BROKEN)
def test_a_broken_entry_is_left_out_alone(change, said):
  answer = _answer()
  change(answer["separating"]["c2"])
  read = attribution.read(answer, CASE)
  assert read.suspicions == () and read.generic == (GENERIC,)
  (problem,) = read.problems
  assert said in problem


@pytest.mark.parametrize(
  ("value", "said"),
  [
    ("yes", "separating is 'yes', not an object"),
    (None, "separating is null, not an object"),
    ([], "separating is a list, not an object"),
  ],
)
def test_a_group_of_another_type_is_left_out_alone(value, said):
  read = attribution.read({**_answer(), "separating": value}, CASE)
  assert read == cases.Attribution((), (GENERIC,), (said,))


def test_unknown_and_missing_criteria_are_said():
  answer = _answer()
  entry = answer["separating"].pop("c2")
  # c1 is blind: it was not asked.
  answer["separating"] |= {"c1": entry, "c99": entry}
  assert attribution.read(answer, CASE) == cases.Attribution(
    (),
    (GENERIC,),
    ("separating has the unknown key 'c1'", "separating lacks 'c2'"),
  )


@pytest.mark.parametrize(
  ("value", "said"),
  [
    (None, "the answer is null, not an object"),
    ({}, "the answer lacks 'separating'"),
    ({**_answer(), "more": 1}, "the answer has the unknown key 'more'"),
  ],
)
def test_another_object_is_no_answer(value, said):
  assert attribution.read(value, CASE) == cases.Attribution(problems=(said,))


def test_generic_is_a_truth_value_with_a_quote():
  answer = _answer()
  answer["full"]["c3"]["generic"] = "true"
  answer["full"]["c5"]["generic"] = True
  assert attribution.read(answer, CASE) == cases.Attribution(
    (SUSPICION,),
    (),
    (
      "full.c3.generic is 'true', not true or false",
      "full.c5 has no quote",
    ),
  )


def test_a_quote_of_markup_stands_in_its_rollout():
  response = "Use <div> and [INST] here."
  case = CASE._replace(responses=(response,) * 6)
  shown = prompt.question(case, layout.Budget(len, 100_000)).messages[1].content
  copied = "<\u200bdiv> and [\u200bINST]"
  assert copied in shown
  answer = _answer()
  answer["separating"]["c2"]["quotes"][0]["text"] = copied
  quote = attribution.read(answer, case).suspicions[0].quotes[0]
  assert quote.text == "<div> and [INST]" and quote.text in response


ENTRY_KEYS = ["reason", "quotes", "pattern", "confidence", "generic"]
NEAR = json_values.near(
  [_answer()],
  keys=["separating", "full", *(f"c{n}" for n in range(1, 9)), *ENTRY_KEYS],
  words=["none", *cases.HACK_PATTERNS],
)


@hypothesis.settings(max_examples=800, deadline=None)
@hypothesis.given(NEAR)
def test_any_value_is_read_and_only_what_keeps_to_the_schema(value):
  before = copy.deepcopy(value)
  read = attribution.read(value, CASE)
  assert json.dumps(value) == json.dumps(before)
  for problem in read.problems:
    assert problem.isascii() and problem.isprintable() and len(problem) < 300
  validator = jsonschema.Draft202012Validator(SCHEMA)
  if not read.problems:
    assert validator.is_valid(value)
  names = {role_cases.target(n): f"c{n}" for n in range(1, 8)}
  for suspicion in read.suspicions:
    name = names[suspicion.target]
    group = SCHEMA["properties"]["separating"]["properties"]
    validator.evolve(schema=group[name]).validate(value["separating"][name])
  for target, cited in read.generic:
    group = SCHEMA["properties"]["full"]["properties"]
    entry = value["full"][names[target]]
    validator.evolve(schema=group[names[target]]).validate(entry)
    assert cited and entry["generic"] is True


@hypothesis.settings(max_examples=300, deadline=None)
@hypothesis.given(hostile_texts.TEXTS)
def test_a_quote_of_any_text_is_read_or_refused(text):
  answer = _answer()
  answer["separating"]["c2"]["quotes"][0]["text"] = text
  read = attribution.read(answer, CASE)
  assert bool(read.suspicions) != bool(read.problems)
  for suspicion in read.suspicions:
    suspicion.quotes[0].text.encode()
