"""Answers of the proposer that may be anything, and what is made of them."""

import json

import hypothesis
import jsonschema
import pytest
from hypothesis import strategies as st

from hrl_jax.harness import cases, changes, operations, records
from hrl_jax.harness.answers import proposal
from hrl_jax.harness.prompts import names
from tests.harness import role_cases
from tests.harness.answers import answer_forms, json_values

pytestmark = pytest.mark.core

CASE = role_cases.PROPOSAL_CASE
REWRITE = answer_forms.RUBRIC[2][0]
ADD = answer_forms.ROLLOUT[0][0]

TEMPLATES = [
  answer_forms.answer(
    sampling={"op": "reweight"},
    rollout=[form for form, _ in answer_forms.ROLLOUT],
    rubric=[form for form, _ in answer_forms.RUBRIC],
    evidence=["e1"],
  ),
  answer_forms.answer(rollout=[ADD], rubric=[answer_forms.RUBRIC[5][0]]),
  answer_forms.answer(
    sampling={"op": "reweight"}, rubric=[REWRITE, answer_forms.RUBRIC[0][0]]
  ),
]
KEYS = ["op", "id", "ids", "text", "texts", "weight", "weights", "field"]
WORDS = ["c1", "c2", "c4", "c5", "c6", "c9", "a1", "a2", "e1", "e9", "add"]
NEAR = json_values.near(
  TEMPLATES,
  keys=[*KEYS, "targets", *answer_forms.answer()],
  words=[*WORDS, "drop", "critique", "delete", "merge", "reweight"],
)
VARIANTS = [
  CASE,
  role_cases.SECOND_ROUND,
  CASE._replace(interfaces=("rollout",)),
  CASE._replace(cap=0, fields={}, writes=False, archive=()),
  CASE._replace(is_saturated=False, level=3),
]
SCHEMAS = [answer_forms.schema(case) for case in VARIANTS]


def _is_offered(operation, case):
  """Whether an operation was asked for, by rules of its own."""
  known = names.criteria(case.case)
  blind = {x.target for x in case.labels if x.name == "blind"}
  anchors = {view.target[0] for view in known.values() if view.is_anchor}
  match operation:
    case changes.Add():
      return set(operation.targets) <= blind and len(operation.targets) > 0
    case changes.Drop():
      return operation.field in case.fields
    case changes.Create(restores=str() as cid):
      return cid in {version.cid for version in case.archive}
    case changes.Reweight():
      return operation.cid in {view.target[0] for view in known.values()}
  touched = operations.touches(operation)
  cids = {view.target[0] for view in known.values()}
  return set(touched) <= cids - anchors and (
    case.writes or isinstance(operation, changes.Delete)
  )


@hypothesis.settings(max_examples=800, deadline=None)
@hypothesis.given(NEAR, st.sampled_from(range(len(VARIANTS))))
def test_any_value_is_read_and_only_what_was_asked_for(value, variant):
  case, schema = VARIANTS[variant], SCHEMAS[variant]
  before = json.dumps(value)
  read = proposal.read(value, case)
  assert json.dumps(value) == before
  for problem in read.problems:
    assert problem.startswith("schema: ")
    assert problem.isascii() and problem.isprintable() and len(problem) < 300
  validator = jsonschema.Draft202012Validator(schema)
  if not read.problems:
    # An empty list is a noop also where there is no list to choose from.
    noops = {key: part or None for key, part in value.items()}
    assert validator.is_valid(noops)
  for part in ("sampling", "rollout", "rubric"):
    if getattr(read, part):
      part_schema = schema["properties"][part]
      validator.evolve(schema=part_schema).validate(value[part])
      assert part in case.interfaces
  assert all(_is_offered(each, case) for each in (*read.rollout, *read.rubric))
  touched = [cid for each in read.rubric for cid in operations.touches(each)]
  assert len(set(touched)) == len(touched)
  # It can be logged.
  candidate = changes.Candidate(
    id="x",
    step=0,
    task="t",
    interface="rubric",
    operations=(*read.sampling, *read.rollout, *read.rubric),
    is_primary=True,
    round=0,
    rubric_version=0,
    potential=1.0,
    is_grounded=False,
    evidence=read.evidence,
    rationale=read.rationale,
    author="a model",
  )
  update = changes.Update(
    candidate,
    changes.Measurement("none", "x"),
    changes.Decision(False, "x"),
  )
  assert records.decode(records.encode(update)) == update


@hypothesis.settings(max_examples=500, deadline=None)
@hypothesis.given(json_values.anything([*answer_forms.answer(), *KEYS], WORDS))
def test_anything_at_all_is_read(value):
  read = proposal.read(value, CASE)
  assert read.problems or read == cases.Proposal(
    rationale=read.rationale, evidence=read.evidence
  )
