import functools

import jax
import numpy as np
import pytest

from hrl_jax import base, protocols
from hrl_jax.model import token_tree
from hrl_jax.services import likelihood, likelihood_judge
from tests import tiny

LOGPROBS = token_tree.make_logprobs(tiny.DECODER, np.float32, head_chunk=64)
TEXT = tiny.text()
MODEL = likelihood.Model(LOGPROBS, tiny.params(), TEXT, 128, tree_tokens=128)
PROMPTS = {name: (base.Message("user", f"Say {name}.")) for name in ("a", "bc")}
PROMPTS = {name: (message,) for name, message in PROMPTS.items()}
KIND = base.Criterion("Is kind.", 2.0)
RUDE = base.Criterion("Is rude.", -1.0)
LONG = base.Criterion("Names a river.", 1.0)


def request(
  response, rubric=(KIND, RUDE), prompt=PROMPTS["a"], slot=0, rollout=0
):
  return base.GradeRequest(
    base.Occasion(0, "train"), slot, rollout, 0, prompt, response, rubric
  )


@functools.cache
def gain(response, text="Is kind.", prompt=PROMPTS["a"]):
  """As the docstring says, one sequence at a time by the whole pass."""
  (message,) = prompt
  wish = f"{message.content}\n\nYour answer {text[0].lower()}{text[1:]}"
  response_ids = TEXT.encode(response)

  def mean(content):
    prompt_ids = TEXT.encode_chat((base.Message("user", content),))
    logits_TV = tiny.logits(
      tiny.DECODER, tiny.params(), prompt_ids, response_ids
    )
    logprobs_TV = np.asarray(jax.nn.log_softmax(logits_TV))
    return logprobs_TV[np.arange(len(response_ids)), response_ids].mean()

  return float(mean(wish) - mean(message.content))


def judge(thresholds=None, **changes):
  everything = {
    (prompt, criterion.text): 0.0
    for prompt in PROMPTS.values()
    for criterion in (KIND, RUDE, LONG)
  }
  return likelihood_judge.LikelihoodJudge(
    MODEL._replace(**changes), everything | (thresholds or {})
  )


def scores(grades):
  return {(g.slot, g.rollout): g.scores_C.tolist() for g in grades}


def test_it_is_a_grader():
  assert isinstance(judge(), protocols.Grader)


@pytest.mark.parametrize("prompt", PROMPTS.values(), ids=PROMPTS)
@pytest.mark.parametrize("text", ["Is kind.", "Names a river."])
def test_a_gain_is_the_rise_of_the_mean_log_probability(prompt, text):
  question = likelihood.question(MODEL, prompt, text, "hello")
  (found,) = likelihood.gains(MODEL, [question])
  assert found == pytest.approx(gain("hello", text, prompt), abs=1e-5)
  assert abs(found) > 1e-3


def test_the_criterion_is_asked_at_the_end_of_the_last_turn():
  prompt = (
    base.Message("system", "Be brief."),
    base.Message("user", "Why?"),
  )
  assert likelihood.with_criterion(prompt, "Gives a reason.") == (
    prompt[0],
    base.Message("user", "Why?\n\nYour answer gives a reason."),
  )


def test_a_prompt_that_ends_with_the_assistant_is_refused():
  prompt = (base.Message("user", "Why?"), base.Message("assistant", "So."))
  with pytest.raises(ValueError, match="the last turn of the prompt is of 'as"):
    likelihood.with_criterion(prompt, "Gives a reason.")


def test_the_threshold_decides_for_criteria_and_penalties_alike():
  found = {text: gain("hello", text) for text in ("Is kind.", "Is rude.")}
  for margin, score in ((-1e-4, 1.0), (1e-4, 0.0)):
    thresholds = {
      (PROMPTS["a"], text): value + margin for text, value in found.items()
    }
    (grade,) = judge(thresholds).grade([request("hello")])
    assert grade.scores_C.tolist() == [score, score]
    assert grade.scores_C.dtype == np.float64
    assert grade.failures == ()


@pytest.mark.parametrize("response", ["", " ", "\n\t \u00a0"])
def test_a_response_without_text_meets_nothing(response):
  (grade,) = judge({(PROMPTS["a"], "Is kind."): -1e9}).grade(
    [request(response)]
  )
  assert grade.scores_C.tolist() == [0.0, 0.0]
  assert grade.failures == ()


def test_a_criterion_without_a_threshold_has_no_score():
  unknown = base.Criterion("Is new.", 1.0)
  for response in ("hello", ""):
    (grade,) = judge({(PROMPTS["a"], "Is kind."): -1e9}).grade(
      [request(response, (unknown, KIND), slot=3, rollout=2)]
    )
    expected = [np.nan, 1.0 if response else 0.0]
    np.testing.assert_array_equal(grade.scores_C, expected)
    (failure,) = grade.failures
    assert failure[:3] == (3, 2, 0)
    assert "No threshold" in failure.reason
    assert failure.raw == response


def test_a_threshold_of_another_prompt_does_not_count():
  (grade,) = judge().grade(
    [request("hello", prompt=(base.Message("user", "Say d."),))]
  )
  assert np.isnan(grade.scores_C).all()
  assert len(grade.failures) == 2


def test_what_the_model_cannot_read_has_no_score():
  for response in ("x" * 120, "half \ud83d of it"):
    (grade,) = judge().grade([request(response)])
    assert np.isnan(grade.scores_C).all()
    assert len(grade.failures) == 2
  assert "lone surrogate" in grade.failures[0].reason


def test_weights_that_are_not_finite_give_no_score():
  broken = jax.tree.map(lambda leaf: leaf * np.nan, tiny.params())
  (grade,) = judge(params=broken).grade([request("hello")])
  assert np.isnan(grade.scores_C).all()
  assert "gain of nan" in grade.failures[0].reason


MANY = (
  request("hello", (KIND, RUDE, LONG)),
  request("good day to you", (KIND,), slot=0, rollout=1),
  request("hello", (KIND, RUDE, LONG), slot=0, rollout=2),
  request("hello you", (LONG, KIND), PROMPTS["bc"], slot=1),
  request("", (RUDE,), PROMPTS["bc"], slot=1, rollout=1),
  request("he", (), PROMPTS["bc"], slot=2),
)


def test_gains_do_not_depend_on_companions_or_order():
  questions = [
    likelihood.question(MODEL, each.prompt, criterion.text, each.response)
    for each in MANY
    for criterion in each.rubric
    if each.response
  ]
  together = likelihood.gains(MODEL, questions)
  backwards = likelihood.gains(MODEL, questions[::-1])[::-1]
  alone = [likelihood.gains(MODEL, [each])[0] for each in questions]
  small = likelihood.gains(MODEL._replace(tree_tokens=64), questions)
  for other in (backwards, alone, small):
    np.testing.assert_allclose(other, together, atol=1e-5)
  assert len(set(np.round(together, 4))) == len(set(questions))


def test_scores_do_not_depend_on_companions_or_order():
  together = scores(judge().grade(MANY))
  backwards = scores(judge().grade(iter(MANY[::-1])))
  alone = {}
  for each in MANY:
    alone |= scores(judge().grade([each]))
  assert together == backwards == alone
  assert [len(together[key]) for key in sorted(together)] == [3, 1, 3, 2, 1, 0]
  assert {score for each in together.values() for score in each} == {0.0, 1.0}


def test_equal_responses_have_equal_scores():
  found = scores(judge().grade(MANY))
  assert found[0, 0] == found[0, 2]


def test_a_rubric_without_criteria_has_an_empty_grade():
  (grade,) = judge().grade([request("hello", ())])
  assert grade.scores_C.shape == (0,)
  assert grade.failures == ()


def test_a_criterion_that_names_a_checker_is_refused():
  exact = base.Criterion("Has an a.", 1.0, "contains_pattern", {"pattern": "a"})
  with pytest.raises(ValueError, match="names the checker 'contains_pattern'"):
    list(judge().grade([request("hello", (KIND, exact))]))
