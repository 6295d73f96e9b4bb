import pytest

from hrl_jax.harness import cases, quotes, records
from tests.harness import makes

pytestmark = pytest.mark.core

RESPONSES = (
  "Great question. Water climbs.",
  "Great question. Pores.",
  "Water climbs the pores.",
  "Paper. great question",
  "Great question, but cut",
)


def _quotes(*pairs):
  return tuple(records.Quote(*pair) for pair in pairs)


def _unsupported(met, *pairs, points=10.0):
  met = tuple({"1": True, "0": False, "?": None}[each] for each in met)
  view = cases.CriterionView(
    makes.target(0), "is kind", points, 1.0, False, met, "agree", "separates"
  )
  suspicion = cases.Suspicion(
    view.target, "superficial_compliance", _quotes(*pairs), 0.7
  )
  return quotes.unsupported(suspicion, view, RESPONSES)


PRAISE = ((0, "Great question"), (1, "Great question"))


def test_two_satisfying_rollouts_are_evidence():
  assert _unsupported("1100?", *PRAISE) == ""
  # The third that satisfies need not be quoted; nor need two say the same.
  assert _unsupported("1110?", (0, "Great"), (1, "question. P")) == ""


def test_one_is_evidence_where_it_is_the_only_one():
  assert _unsupported("0100?", (1, "Pores")) == ""
  assert _unsupported("1100?", (1, "Pores")) == (
    "quotes 1 satisfying rollouts, 2 are needed"
  )
  # Twice from the same rollout is once.
  assert _unsupported("1100?", (1, "Pores"), (1, "Great")) == (
    "quotes 1 satisfying rollouts, 2 are needed"
  )


def test_evidence_stands_in_no_failing_rollout():
  assert _unsupported("1010?", (0, "Water"), (2, "Water")) == ""
  assert _unsupported("1100?", (0, "Water climbs"), (1, "Pores")) == (
    "'Water climbs' stands in a failing rollout too"
  )
  # The last rollout has no verdict: it does not fail. As a failing one it would
  # matter.
  assert "stands in" in _unsupported("11000", *PRAISE)


def test_only_satisfying_rollouts_may_be_quoted():
  for met in ("1000?", "1?00?"):
    assert _unsupported(met, *PRAISE) == (
      "quotes rollout 1, which does not satisfy"
    )


def test_a_penalty_is_satisfied_where_it_is_absent():
  assert _unsupported("0011?", *PRAISE, points=-10.0) == ""
  assert _unsupported("1100?", *PRAISE, points=-10.0) == (
    "quotes rollout 0, which does not satisfy"
  )


@pytest.mark.parametrize(
  ("pair", "trouble"),
  [
    ((1, "Water"), "rollout 1 does not hold 'Water'"),
    ((1, "great question"), "rollout 1 does not hold 'great question'"),
    ((0, ""), "rollout 0 does not hold ''"),
    ((0, " "), "rollout 0 does not hold ' '"),
    ((5, "Water"), "quotes rollout 5, which is not there"),
    ((-1, "cut"), "quotes rollout -1, which is not there"),
  ],
)
def test_a_quote_stands_in_its_rollout_word_for_word(pair, trouble):
  assert quotes.misquoted(_quotes((0, "Great"), pair), RESPONSES) == trouble
  assert _unsupported("1100?", (0, "Great"), pair) == trouble


def test_quotes_are_not_optional():
  assert quotes.misquoted((), RESPONSES) == "quotes nothing"
  assert _unsupported("1100?") == "quotes nothing"
  # Scores may lie between, so that no rollout satisfies.
  assert _unsupported("0000?") == "quotes nothing"
