import hypothesis
import pytest

from hrl_jax import base
from hrl_jax.harness import cases, quotes, records, stand_in
from hrl_jax.harness.stand_in import suspicions
from tests.harness import drawn, makes
from tests.harness.stand_in import random_cases

pytestmark = pytest.mark.core

A, B = makes.target(0), makes.target(1)


def _view(met, text="is detailed", reason="separates", points=10.0, target=A):
  met = tuple({"1": True, "0": False, "?": None}[each] for each in met)
  return cases.CriterionView(
    target, text, points, 1.0, False, met, "agree", reason
  )


def _attribution(responses, *views, phrases=stand_in.PHRASES):
  case = cases.Case(
    step=3,
    task="t",
    prompt=(base.Message("user", "Why?"),),
    criteria=views,
    responses=tuple(responses),
    rewards=(None,) * len(responses),
    history=(),
    related=(),
  )
  return suspicions.attribution(case, phrases)


def _quotes(*pairs):
  return tuple(records.Quote(*pair) for pair in pairs)


PRAISING = (
  "Great question! Water.",
  "Well, GREAT QUESTION, pores.",
  "Water climbs.",
  "Pores.",
)


def test_a_phrase_of_satisfying_rollouts_alone_is_suspect():
  assert _attribution(PRAISING, _view("1100")) == cases.Attribution(
    suspicions=(
      cases.Suspicion(
        A,
        "superficial_compliance",
        _quotes((0, "Great question"), (1, "GREAT QUESTION")),
        0.7,
      ),
    )
  )


@pytest.mark.parametrize(
  "met",
  [
    # Not all that satisfy have it; one that fails has it too; one satisfies.
    "1110",
    "1010",
    "1000",
    "0110",
  ],
)
def test_a_phrase_that_does_not_follow_the_verdicts_is_not(met):
  assert _attribution(PRAISING, _view(met)) == cases.Attribution()


def test_a_rollout_without_verdict_proves_nothing():
  assert _attribution(PRAISING, _view("11??")).suspicions
  assert not _attribution(PRAISING, _view("1?00")).suspicions


def test_only_separating_positive_criteria_are_suspected():
  for view in (
    _view("1100", points=-10.0),
    _view("1100", reason="noise"),
    _view("1100", reason="not_yet"),
  ):
    assert _attribution(PRAISING, view) == cases.Attribution()


def test_each_criterion_is_looked_at():
  found = _attribution(PRAISING, _view("0011"), _view("1100", target=B))
  assert [each.target for each in found.suspicions] == [B]


def _long(*lengths):
  """Responses of so many words."""
  return tuple(" ".join("abcdefg"[:length]) for length in lengths)


def test_a_criterion_that_sorts_by_length_is_suspect():
  # The longest has no verdict.
  found = _attribution(_long(4, 3, 2, 7, 2, 5, 1), _view("110?010"))
  assert found.suspicions == (
    cases.Suspicion(
      A, "length_gaming", _quotes((0, "a b c d"), (1, "a b c")), 0.5
    ),
  )


@pytest.mark.parametrize(
  ("lengths", "met"),
  [
    # By chance, with two on a side; an equal one fails; the short ones satisfy.
    ((4, 4, 2, 2, 2), "11000"),
    ((4, 4, 4, 2, 2), "11100"),
    ((4, 4, 3, 3, 2, 2), "111000"),
    ((2, 2, 2, 4, 4, 4), "111000"),
  ],
)
def test_lengths_that_prove_nothing_are_not(lengths, met):
  assert _attribution(_long(*lengths), _view(met)) == cases.Attribution()


def test_a_full_criterion_about_a_phrase_that_all_have_is_generic():
  responses = ("Paper. I hope this helps.", "I hope this helps!", "Nothing.")
  view = _view("11?", "says that it hopes to help", "full")
  assert _attribution(responses, view) == cases.Attribution()
  view = view._replace(text="expresses hope at the end")
  quoted = _quotes((0, "I hope this helps"), (1, "I hope this helps"))
  assert _attribution(responses, view) == cases.Attribution(
    generic=((A, quoted),)
  )
  # Now the last one counts, and lacks it.
  full = view._replace(met=(True, True, True))
  assert _attribution(responses, full) == cases.Attribution()


def test_the_phrases_are_given():
  found = _attribution(
    ("As an AI, yes.", "As an AI, no.", "No."),
    _view("110"),
    phrases=("as an ai",),
  )
  assert found.suspicions[0].quotes == _quotes((0, "As an AI"), (1, "As an AI"))


def test_a_letter_that_is_longer_in_lower_case_moves_no_quote():
  # The lower case of a dotted capital I has two characters.
  responses = ("\u0130\u0130 certainly", "certainly", "no")
  (found,) = _attribution(responses, _view("110")).suspicions
  assert found.quotes == _quotes((0, "certainly"), (1, "certainly"))


@hypothesis.settings(max_examples=200)
@hypothesis.given(drawn.RANDOMS)
def test_whatever_it_says_has_its_evidence(random):
  case = random_cases.case(random)
  said = suspicions.attribution(case, stand_in.PHRASES)
  views = {view.target: view for view in case.criteria}
  separating = {view.target for view in case.separating()}
  full = {view.target for view in case.full()}
  for suspicion in said.suspicions:
    view = views[suspicion.target]
    assert suspicion.target in separating
    assert quotes.unsupported(suspicion, view, case.responses) == ""
  for target, cited in said.generic:
    assert target in full
    assert quotes.misquoted(cited, case.responses) == ""
  assert said.problems == ()
