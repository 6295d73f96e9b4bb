import jsonschema
import msgspec
import pytest

from hrl_jax.harness import changes
from hrl_jax.harness.prompts import layout, proposal, rules
from tests.harness import role_cases

pytestmark = pytest.mark.core

BUDGET = layout.Budget(len, 100_000)
LIMITS = rules.Limits(
  wording_tokens=77, guidance_tokens=555, targets=3, confidence=0.4
)


def _asked(shown=role_cases.PROPOSAL_CASE, **others):
  question = proposal.question(shown._replace(**others), BUDGET, LIMITS)
  text = question.messages[1].content
  return text[text.index("The state of this task.") :], question.schema


def test_the_state_by_hand():
  text, _ = _asked()
  for expected in (
    "It is diagnosed as saturated; its sampling level is 1 of 3",
    "\nc1: weight 2; blind (never_met), confidence 0.50, draws in a row: 1, "
    "records: e1, e2\n",
    "\nc2: weight 3; spurious (superficial_compliance), confidence 0.80, draws "
    "in a row: 2, records: none\n",
    "\n<c2-phrase>\ndetailed\n</c2-phrase>\n",
    ">\n1: In great detail.\n2: In great detail.\n</c2-quotes-",
    "\nc3: weight 1; saturated (full), met through generic content, ",
    "\nc4: weight -1; agree ",
    "\nc5: weight 2, an anchor; agree (not_yet)",
    "At most 2 guidance fields may be mounted; mounted are: critique.\n"
    "critique, since step 9 (now 12), for c3:\n<mounted-critique-",
    "\nc6: 1 positive, 1 of them to other tasks; 1 negative\n",
    ">\nWater climbs the pores.\n</c6-response-",
    "\na1 (#9@1), a criterion:\n<a1>\nnames a reaction\n</a1>\n",
  ):
    assert expected in text
  assert "second round" not in text


def test_earlier_changes_are_named_as_evidence():
  rejection = role_cases.rejection(role_cases.REJECTED, "rubric")
  update = changes.Update(*rejection)
  lowered = changes.Update(
    msgspec.structs.replace(
      rejection.candidate, id="u-0", step=4, interface="sampling"
    ),
    changes.Measurement("ok", "mass"),
    changes.Decision(True, "measured"),
  )
  text, schema = _asked(updates=(lowered, update))
  assert (
    "\ne1: step 4, sampling, no points, accepted\n"
    "e2: step 12, rubric, +1.5 points, rejected\n" in text
  )
  # The records of c1's label come after them.
  assert "draws in a row: 1, records: e3, e4\n" in text
  evidence = schema["properties"]["evidence"]["anyOf"][0]
  assert evidence["items"]["enum"] == ["e1", "e2", "e3", "e4"]


def test_the_rules_by_hand():
  text, _ = _asked()
  for expected in (
    '"add", "field": "criterion", "targets": ["<id>", ...], "text": "<text>"}',
    '"add", "field": "reference", "targets": ["<id>", ...]}',
    "Targets, heaviest first: c6, c1.",
    "a field goes: critique.",
    "at most 3 targets and there are at most 2 fields, of different kinds, 555 "
    "tokens together",
    "The size of a weight is 1 to 3, and its sign never changes.",
    "at most 20 criteria; there are 7.",
    "has at most 77 tokens",
    "a confidence below 0.4 stay as they are",
    "Ids: c1, c2, c3, c4, c6, c7.",
    "Spurious criteria call for",
  ):
    assert expected in text


def test_only_rules_of_what_is_on_offer_are_given():
  text, schema = _asked(interfaces=("rubric",), writes=False)
  assert "\nSampling: null." in text and "\nRollout: null." in text
  assert '"op": "delete"' in text and '"op": "rewrite"' not in text
  assert "has at most" not in text
  noop = {"type": "null"}
  assert schema["properties"]["sampling"] == noop
  assert schema["properties"]["rollout"] == noop
  text, _ = _asked(interfaces=("sampling",))
  assert "\nRubric: null." in text and '{"op": "reweight"}' in text


def test_a_donation_that_is_shown_already_is_not_shown_again():
  related = role_cases.RELATED._replace(positive="Water climbs the pores.")
  case = role_cases.CASE._replace(related=(related,))
  text, _ = _asked(case=case)
  assert "Water climbs the pores." not in text


def test_the_second_round_shows_what_was_rejected_and_why():
  text, schema = _asked(role_cases.SECOND_ROUND)
  for expected in (
    "e3, rubric: moved the mean reward from 48.0 to 49.5, by +1.5 points; "
    "decision: below, the band is 3.1 to 28.0\n",
    # As an answer would have it.
    '>\n[{"op": "rewrite", "id": "c2", "text": "explains each step"}, '
    '{"op": "reweight", "id": "c5", "weight": 1.0}]\n</rejected-rubric-',
    "<why-rubric>\nregraded\n</why-rubric>\n",
    "\nSampling: null.",
    "\nRollout: null.",
  ):
    assert expected in text
  evidence = schema["properties"]["evidence"]["anyOf"][0]
  assert evidence["items"]["enum"] == ["e1", "e2", "e3"]


def test_a_rejection_without_measurement_says_so():
  rejection = role_cases.rejection((changes.Lower(),), "sampling")._replace(
    measurement=changes.Measurement("none", "timeout"),
    # What is behind the colon may come from others.
    decision=changes.Decision(False, "unmeasured:c2 says <b>"),
  )
  text, _ = _asked(rejections=(rejection,))
  assert (
    "e3, sampling: not measured; decision: unmeasured, the band is open to "
    "open\n" in text
  )
  assert "<why-sampling>\ntimeout\n</why-sampling>\n" in text
  assert '[{"op": "reweight"}]' in text


def test_nothing_on_offer_is_no_question():
  case = role_cases.PROPOSAL_CASE._replace(interfaces=())
  assert proposal.question(case, BUDGET, LIMITS) is None


def _objects(schema):
  if isinstance(schema, dict):
    if schema.get("type") == "object":
      yield schema
    for inner in schema.values():
      yield from _objects(inner)
  elif isinstance(schema, list):
    for inner in schema:
      yield from _objects(inner)


def test_the_schema_is_strict():
  for case in (role_cases.PROPOSAL_CASE, role_cases.SECOND_ROUND):
    _, schema = _asked(case)
    jsonschema.Draft202012Validator.check_schema(schema)
    assert list(schema["properties"]) == [
      "rationale",
      "sampling",
      "rollout",
      "rubric",
      "evidence",
    ]
    for each in _objects(schema):
      assert each["additionalProperties"] is False
      assert each["required"] == list(each["properties"])


def test_without_records_there_is_no_evidence_to_name():
  labels = (role_cases.LABELS[1],)
  _, schema = _asked(labels=labels)
  assert schema["properties"]["evidence"] == {"type": "null"}
