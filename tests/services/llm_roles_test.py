import json

import pytest

from hrl_jax.harness import cases, changes, records
from hrl_jax.harness.prompts import layout, rules
from hrl_jax.services import llm_roles
from tests.harness import role_cases
from tests.methods.harnessrl import world
from tests.services import fault_server, questioning

BUDGET = layout.Budget(lambda text: len(text) // 4, 16_384)
LIMITS = rules.Limits(128, 1_024, 3, 0.5)
NOOP = {
  "rationale": "Nothing is called for.",
  "sampling": None,
  "rollout": None,
  "rubric": None,
  "evidence": [],
}


def roles(url, **changes):
  return llm_roles.LlmRoles(questioning.service(url, **changes), BUDGET, LIMITS)


def ask_all(played):
  """One answer of each role about the same case."""
  (attribution,) = played.attribute([role_cases.CASE])
  target = role_cases.target(2)
  (wording,) = played.check_wording([(role_cases.CASE, [target])])
  (proposal,) = played.propose([role_cases.PROPOSAL_CASE])
  return attribution, wording, proposal


def purpose(body):
  """Which role a request is for, by the members of its reply."""
  schema = body["response_format"]["json_schema"]["schema"]
  names = set(schema["properties"])
  if "rollout" in names:
    return "proposal"
  first = next(iter(schema["properties"].values()))
  return "wording" if "phrase" in first.get("properties", {}) else "attribution"


def test_each_role_reads_its_own_answer():
  def answer(body):
    if purpose(body) == "wording":
      return json.dumps({"c2": {"reason": "Loose.", "phrase": "is detailed"}})
    if purpose(body) == "proposal":
      return json.dumps({**NOOP, "rubric": [{"op": "delete", "id": "c2"}]})
    return "no object"

  with fault_server.FaultServer(answer) as url:
    attribution, wording, proposal = ask_all(roles(url))
  assert attribution.suspicions == ()
  (problem,) = attribution.problems
  assert "2 replies" in problem
  assert wording.phrases == {role_cases.target(2): "is detailed"}
  assert proposal.rubric == (changes.Delete(role_cases.target(2)[0]),)
  assert proposal.rationale == NOOP["rationale"]


@pytest.mark.parametrize("kind", fault_server.KINDS)
def test_a_fault_changes_nothing_and_is_told(kind):
  server = fault_server.FaultServer(
    lambda body: json.dumps(NOOP),
    lambda body, arrival: kind,
    retry_after="30",
    slow_s=5.0,
  )
  with server as url:
    answers = ask_all(roles(url, deadline=3.0, timeout_s=0.3, deadline_s=1.0))
  for answer, empty in zip(
    answers,
    (cases.Attribution(), cases.Wording({}), cases.Proposal()),
    strict=True,
  ):
    assert answer.problems
    assert answer._replace(problems=()) == empty


def test_a_case_that_fits_no_prompt_is_told_and_not_asked():
  with fault_server.FaultServer(lambda body: json.dumps(NOOP)) as url:
    service = questioning.service(url)
    played = llm_roles.LlmRoles(service, layout.Budget(len, 1_000), LIMITS)
    (answer,) = played.attribute([role_cases.CASE])
  assert answer.suspicions == () and len(answer.problems) == 1


def test_what_is_not_asked_about_has_an_empty_answer():
  played = roles("http://127.0.0.1:1/v1")
  calm = role_cases.CASE._replace(criteria=role_cases.CASE.criteria[:1])
  assert played.attribute([calm]) == (cases.Attribution(),)
  assert played.check_wording([(calm, [])]) == (cases.Wording({}),)


def test_calls_and_tokens_are_counted_by_role():
  with fault_server.FaultServer(lambda body: json.dumps(NOOP)) as url:
    played = roles(url)
    played.propose([role_cases.PROPOSAL_CASE])
  # The server counts one token of each prompt and one of each completion.
  assert +played.tally == {"proposal_calls": 1, "proposal_tokens": 2}


def test_a_run_whose_llm_talks_nonsense_keeps_the_seed_harness():
  with fault_server.FaultServer(lambda body: "I would rather not.") as url:
    run = world.run(roles(url))
    state = run.whole(2)
  assert state.harness.version == 1  # The calibration.
  labels = [r for r in run.memory.log if isinstance(r, records.Labels)]
  assert labels and all(record.author == "judge" for record in labels)
  assert any(record.problems for record in labels)
  assert not any(isinstance(r, changes.Update) for r in run.memory.log)
