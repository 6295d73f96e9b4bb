import msgspec
import pytest

from hrl_jax import base
from hrl_jax.harness import attribution, cases, history, records
from tests.harness import makes

pytestmark = pytest.mark.core

A, B, C = makes.target(0), makes.target(1), makes.target(2)
NOTHING = history.History("t")
RESPONSES = (
  "Great question. Water.",
  "Great question. Pores.",
  "Water climbs.",
  "Great pores.",
)


def _view(target, text, met, reason="separates", points=10.0):
  met = tuple({"1": True, "0": False, "?": None}[each] for each in met)
  name = "saturated" if reason == "full" else "agree"
  return cases.CriterionView(
    target, text, points, points / 10, False, met, name, reason
  )


def _case(*views):
  return cases.Case(
    step=9,
    task="t",
    prompt=(base.Message("user", "Why?"),),
    criteria=views,
    responses=RESPONSES,
    rewards=(1.0,) * 4,
    history=(),
    related=(),
  )


CASE = _case(
  _view(A, "is detailed", "1100"),
  _view(B, "closes politely", "1111", "full"),
  _view(C, "names pores", "0000", "never_met"),
)
LABELS = (
  makes.label(A),
  makes.label(B, "saturated", "full"),
  makes.label(C, "blind", "never_met", route="rollout"),
)


def _quotes(*pairs):
  return tuple(records.Quote(*pair) for pair in pairs)


PRAISE = _quotes((0, "Great question"), (1, "Great question"))


def _accusing(target, quotes=PRAISE, confidence=0.8):
  suspicion = cases.Suspicion(
    target, "superficial_compliance", quotes, confidence
  )
  return cases.Attribution(suspicions=(suspicion,))


def test_a_supported_suspicion_makes_a_criterion_spurious():
  labels, problems = attribution.with_answers(
    LABELS, NOTHING, CASE, _accusing(A)
  )
  assert labels == (
    msgspec.structs.replace(
      LABELS[0],
      name="spurious",
      reason="superficial_compliance",
      route="rubric",
      quotes=PRAISE,
      confidence=0.8,
    ),
    *LABELS[1:],
  )
  assert problems == ()


def test_confidence_in_a_suspicion_grows_from_what_the_role_said():
  told = []
  for step in (1, 2):
    group = makes.group({A: "10"}, step=step)
    told += [group, makes.labels(group, {A: "spurious"})]
  labels, _ = attribution.with_answers(
    LABELS, makes.story(*told), CASE, _accusing(A)
  )
  # 1 - 0.2 / 2**2.
  assert labels[0].persistence == 3
  assert labels[0].confidence == pytest.approx(0.95)


def test_an_unsupported_suspicion_is_not_believed_but_told():
  labels, problems = attribution.with_answers(
    LABELS, NOTHING, CASE, _accusing(A, PRAISE[:1])
  )
  assert labels == (
    msgspec.structs.replace(LABELS[0], reason="unsupported"),
    *LABELS[1:],
  )
  (problem,) = problems
  assert problem.startswith("t#0: quotes 1 satisfying")


@pytest.mark.parametrize("target", [B, C, makes.target(7)])
def test_no_answer_overrides_a_computed_label(target):
  labels, _ = attribution.with_answers(LABELS, NOTHING, CASE, _accusing(target))
  assert labels == LABELS


def test_what_is_met_through_boilerplate_is_generic():
  quotes = _quotes((2, "climbs"))
  answer = cases.Attribution(generic=((B, quotes),), problems=("read: half",))
  labels, problems = attribution.with_answers(LABELS, NOTHING, CASE, answer)
  assert labels[1] == msgspec.structs.replace(
    LABELS[1], is_generic=True, quotes=quotes
  )
  assert (labels[0], labels[2]) == (LABELS[0], LABELS[2])
  assert problems == ("read: half",)


@pytest.mark.parametrize("quotes", [_quotes((2, "Pores")), ()])
def test_boilerplate_that_is_not_there_is_not_believed(quotes):
  answer = cases.Attribution(generic=((B, quotes),))
  labels, problems = attribution.with_answers(LABELS, NOTHING, CASE, answer)
  assert labels == LABELS
  assert len(problems) == 1


def test_only_full_positive_criteria_are_generic():
  case = _case(
    _view(A, "is detailed", "1100"),
    _view(B, "insults", "0000", "full", points=-10.0),
    _view(C, "names pores", "0000", "never_met"),
  )
  quotes = _quotes((2, "climbs"))
  answer = cases.Attribution(generic=tuple((t, quotes) for t in (A, B, C)))
  labels, _ = attribution.with_answers(LABELS, NOTHING, case, answer)
  assert labels == LABELS


def test_a_wording_is_a_phrase_of_its_criterion():
  answer = cases.Wording({A: "detailed", B: "polite close"}, ("read: half",))
  labels, problems = attribution.with_wording(LABELS, CASE, answer)
  assert [label.wording for label in labels] == ["detailed", None, None]
  assert problems == (
    "read: half",
    "t#1: its wording does not hold 'polite close'",
  )


def test_an_empty_phrase_is_no_wording():
  labels, problems = attribution.with_wording(
    LABELS, CASE, cases.Wording({A: ""})
  )
  assert labels == LABELS
  assert len(problems) == 1
