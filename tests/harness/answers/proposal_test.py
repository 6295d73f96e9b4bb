import jsonschema
import pytest

from hrl_jax.harness import cases, changes
from hrl_jax.harness.answers import proposal
from hrl_jax.harness.prompts import forms
from tests.harness import role_cases
from tests.harness.answers import answer_forms

pytestmark = pytest.mark.core

CASE = role_cases.PROPOSAL_CASE
ROLLOUT, RUBRIC = answer_forms.ROLLOUT, answer_forms.RUBRIC
_answer, _cid = answer_forms.answer, answer_forms.cid


def test_every_operation_by_hand():
  answer = _answer(
    sampling={"op": "reweight"},
    rollout=[form for form, _ in ROLLOUT],
    rubric=[form for form, _ in RUBRIC],
    evidence=["e2", "e1"],
  )
  jsonschema.validate(answer, answer_forms.schema(CASE))
  assert proposal.read(answer, CASE) == cases.Proposal(
    sampling=(changes.Lower(),),
    rollout=tuple(operation for _, operation in ROLLOUT),
    rubric=tuple(operation for _, operation in RUBRIC),
    evidence=("g-5", "g-0"),
    rationale="Because.",
    problems=(),
  )


@pytest.mark.parametrize(
  ("form", "operation"),
  [*ROLLOUT, *RUBRIC, ({"op": "reweight"}, changes.Lower())],
)
def test_an_operation_is_written_as_it_was_read(form, operation):
  assert forms.written(operation, CASE) == form


@pytest.mark.parametrize("empty", [None, []])
def test_noop_is_no_operation_and_no_problem(empty):
  answer = _answer(rollout=empty, rubric=empty, evidence=empty)
  assert proposal.read(answer, CASE) == cases.Proposal(rationale="Because.")


# A part of an answer, and why it is refused.
REWRITE = {"op": "rewrite", "id": "c2", "text": "x"}
ADD = ROLLOUT[0][0]
REFUSED = [
  ("sampling", {"op": "raise"}, "sampling.op is 'raise', which is not of"),
  ("sampling", [{"op": "reweight"}], "sampling is a list, not an object"),
  ("sampling", {"op": "reweight", "to": 3}, "sampling has the unknown key"),
  ("sampling", "reweight", "sampling is 'reweight', not an object"),
  ("sampling", False, "sampling is a truth value"),
  ("rollout", {"op": "drop"}, "rollout is an object, not a list"),
  ("rollout", [None], "rollout[0] is null, not an object"),
  ("rollout", [{"field": "critique"}], "rollout[0].op is null"),
  ("rollout", [{**ADD, "op": "mount"}], "'mount', which is not of: add, drop"),
  ("rollout", [{**ADD, "field": "hint"}], "rollout[0].field is 'hint'"),
  ("rollout", [{**ADD, "field": None}], "rollout[0].field is null"),
  # Not blind, not there, of another version of the name.
  ("rollout", [{**ADD, "targets": ["c2"]}], "'c2', which is not of: c6, c1"),
  ("rollout", [{**ADD, "targets": ["c99"]}], "targets[0] is 'c99'"),
  ("rollout", [{**ADD, "targets": ["C6"]}], "targets[0] is 'C6'"),
  ("rollout", [{**ADD, "targets": [_cid(6)]}], "targets[0] is 'cell/7#5'"),
  ("rollout", [{**ADD, "targets": "c6"}], "targets is 'c6', not a list"),
  ("rollout", [{**ADD, "targets": []}], "targets is empty"),
  ("rollout", [{**ADD, "targets": ["c6", "c6"]}], "about one thing twice"),
  ("rollout", [{**ADD, "text": ""}], "rollout[0].text is empty"),
  ("rollout", [{**ADD, "text": None}], "text is null, not a text"),
  # The text of a reference is assembled.
  ("rollout", [{**ADD, "field": "reference"}], "unknown key 'text'"),
  ("rollout", [{**ROLLOUT[1][0], "targets": ["c1"]}], "which is not of: c6"),
  # Only what is mounted can go.
  ("rollout", [{"op": "drop", "field": "criterion"}], "not of: critique"),
  ("rollout", [ADD, ADD], "rollout is about one thing twice"),
  ("rollout", [ROLLOUT[3][0]] * 2, "rollout is about one thing twice"),
  ("rubric", REWRITE, "rubric is an object, not a list"),
  ("rubric", [{**REWRITE, "op": "edit"}], "rubric[0].op is 'edit'"),
  ("rubric", [{**REWRITE, "op": ["rewrite"]}], "rubric[0].op is a list"),
  ("rubric", [{**REWRITE, "id": "c99"}], "rubric[0].id is 'c99'"),
  ("rubric", [{**REWRITE, "id": "a1"}], "rubric[0].id is 'a1'"),
  ("rubric", [{**REWRITE, "id": 2}], "rubric[0].id is 2"),
  # An anchor.
  ("rubric", [{**REWRITE, "id": "c5"}], "rubric[0].id is 'c5'"),
  ("rubric", [{**REWRITE, "weight": 1}], "rubric[0] has the unknown key"),
  ("rubric", [{"op": "rewrite", "id": "c2"}], "rubric[0] lacks 'text'"),
  ("rubric", [{**RUBRIC[0][0], "weight": "2"}], "'2', not a finite number"),
  ("rubric", [{**RUBRIC[0][0], "weight": True}], "not a finite number"),
  ("rubric", [{**RUBRIC[0][0], "weight": 1e999}], "inf, not a finite number"),
  ("rubric", [{**RUBRIC[0][0], "weight": 10**400}], "a huge number"),
  ("rubric", [{**RUBRIC[1][0], "id": "c1"}], "'c1', which is not of: a1"),
  ("rubric", [{**RUBRIC[1][0], "text": "x"}], "unknown key 'text'"),
  ("rubric", [{**RUBRIC[6][0], "texts": ["a", 1]}], "rubric[0].texts[1] is 1"),
  ("rubric", [{**RUBRIC[6][0], "weights": [None, 1]}], "weights[0] is null"),
  # A second operation on a criterion.
  ("rubric", [REWRITE, {"op": "delete", "id": "c2"}], "one thing twice"),
  ("rubric", [RUBRIC[5][0], {"op": "delete", "id": "c6"}], "one thing twice"),
  ("rubric", [{**RUBRIC[5][0], "ids": ["c1", "c1"]}], "one thing twice"),
  ("rubric", [RUBRIC[1][0], RUBRIC[1][0]], "rubric is about one thing twice"),
  ("evidence", ["e9"], "evidence[0] is 'e9', which is not of: e1, e2"),
  ("evidence", ["e1", "e1"], "evidence is about one thing twice"),
  ("evidence", "e1", "evidence is 'e1', not a list"),
  ("rationale", 3, "rationale is 3, not a text"),
  ("rationale", "\ud800", "rationale holds half a surrogate pair"),
]


@pytest.mark.parametrize(("part", "value", "said"), REFUSED)
def test_a_part_is_refused_whole_and_alone(part, value, said):
  answer = _answer(
    sampling={"op": "reweight"},
    rollout=[ROLLOUT[3][0]],
    rubric=[RUBRIC[3][0]],
    evidence=["e1"],
  )
  whole = proposal.read(answer, CASE)
  assert whole.problems == ()
  # A part that would be used goes too.
  good = [RUBRIC[0][0]] if part == "rubric" and isinstance(value, list) else []
  value = [*good, *value] if good else value
  said = said.replace("rubric[0]", "rubric[1]") if good else said
  read = proposal.read({**answer, part: value}, CASE)
  (problem,) = read.problems
  assert problem.startswith("schema: ") and said in problem
  empty = "" if part == "rationale" else ()
  assert read == whole._replace(**{part: empty, "problems": (problem,)})


@pytest.mark.parametrize(
  ("value", "said"),
  [
    (None, "the answer is null, not an object"),
    ("x" * 10**7, f"the answer is '{'x' * 60}...', not an object"),
    ([_answer()], "the answer is a list, not an object"),
    ({}, "the answer lacks 'rationale'"),
    ({**_answer(), "a\n": 1}, r"the answer has the unknown key 'a\n'"),
  ],
)
def test_another_object_is_no_proposal(value, said):
  expected = cases.Proposal(problems=(f"schema: {said}",))
  assert proposal.read(value, CASE) == expected


def test_what_is_not_on_offer_is_refused():
  answer = _answer(
    sampling={"op": "reweight"},
    rollout=[ROLLOUT[3][0]],
    rubric=[REWRITE],
  )
  read = proposal.read(answer, CASE._replace(interfaces=()))
  assert not (read.sampling or read.rollout or read.rubric)
  assert read.problems == (
    "schema: sampling.op is 'reweight', which is not of: none",
    "schema: rollout[0].op is 'drop', which is not of: none",
    "schema: rubric[0].op is 'rewrite', which is not of: none",
  )
  read = proposal.read(answer, role_cases.SECOND_ROUND)
  assert not (read.sampling or read.rollout) and len(read.problems) == 2
  assert read.rubric == (changes.Rewrite(cid=_cid(2), text="x"),)


def test_a_deep_value_is_refused():
  deep = []
  for _ in range(100_000):
    deep = [deep]
  read = proposal.read(_answer(rubric=[{**REWRITE, "text": deep}]), CASE)
  assert read.problems == ("schema: rubric[0].text is a list, not a text",)
  while deep:
    (deep,) = deep


def test_a_copied_zero_width_character_does_not_stay():
  answer = _answer(rubric=[{**REWRITE, "text": "uses <\u200bdiv> a\u200bb"}])
  (operation,) = proposal.read(answer, CASE).rubric
  assert operation.text == "uses <div> a\u200bb"
