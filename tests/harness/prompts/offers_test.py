import pytest

from hrl_jax.harness import terms
from hrl_jax.harness.prompts import offers
from tests.harness import role_cases

pytestmark = pytest.mark.core

CASE = role_cases.PROPOSAL_CASE


def _offer(**others):
  return offers.of(CASE._replace(**others))


def _labels(**names):
  """The labels of the case, all of them agree but for these."""
  return tuple(
    role_cases.label(n, names.get(f"c{n}", "agree"), "full")
    for n in range(1, 8)
  )


def test_the_offer_of_a_case_by_hand():
  free = ("c1", "c2", "c3", "c4", "c6", "c7")
  assert _offer() == offers.Offer(
    lower=True,
    # c6 is heavier, and only it has donations.
    adds={
      "criterion": ("c6", "c1"),
      "reference": ("c6",),
      "critique": ("c6", "c1"),
    },
    drops=("critique",),
    rubric={
      "create": (),
      "restore": ("a1",),
      "rewrite": free,
      "delete": free,
      # c5 is an anchor.
      "reweight": ("c1", "c2", "c3", "c4", "c5", "c6", "c7"),
      "merge": free,
      "split": free,
    },
  )


@pytest.mark.parametrize(
  ("others", "lower"),
  [
    ({}, True),
    ({"level": 2}, True),
    ({"level": 3}, False),
    ({"is_saturated": False}, False),
    ({"interfaces": ("rollout", "rubric")}, False),
  ],
)
def test_sampling_is_for_saturated_tasks_above_the_lowest_level(others, lower):
  assert _offer(**others).lower is lower


@pytest.mark.parametrize(
  "others",
  [
    {"cap": 0},
    {"labels": _labels(c2="spurious", c3="saturated")},
    {"interfaces": ("sampling", "rubric")},
  ],
)
def test_fields_are_for_blind_criteria_below_the_cap(others):
  assert _offer(**others).adds == {}


def test_a_reference_needs_a_positive_response():
  donations = {
    role_cases.target(1): (role_cases.donation("negative", "x"),),
    role_cases.target(6): (),
  }
  assert set(_offer(donations=donations).adds) == {"criterion", "critique"}


def test_a_field_is_dropped_once_no_target_is_blind():
  field = terms.Field(
    "criterion", (role_cases.target(1), role_cases.target(3)), "x", (), 3
  )
  fields = {"criterion": field}
  left = _labels(c2="spurious")
  assert _offer(fields=fields, labels=left).drops == ("criterion",)
  # At the cap of the last quarter nothing can replace it.
  still = _labels(c1="blind")
  assert _offer(fields=fields, labels=still, cap=0).drops == ()
  assert _offer(fields=fields, labels=still).drops == ("criterion",)
  assert _offer(fields={}, labels=still).drops == ()


def test_without_a_spurious_criterion_others_are_left_alone():
  labels = (*_labels(c1="blind", c5="saturated")[:6], role_cases.LABELS[2])
  labels = (
    *labels[:2],
    role_cases.label(3, "agree", "not_yet", is_generic=True),
    *labels[3:6],
    role_cases.label(7, "agree", "separates"),
  )
  rubric = _offer(labels=labels, archive=()).rubric
  assert rubric == {
    "create": (),
    "rewrite": ("c1", "c3"),
    "delete": ("c1", "c3"),
    "reweight": ("c1", "c3", "c5"),
    "merge": ("c1", "c3"),
    "split": ("c1", "c3"),
  }


def test_nobody_who_grades_no_wordings():
  assert set(_offer(writes=False).rubric) == {"delete", "reweight"}


def test_one_criterion_is_not_merged():
  rubric = _offer(labels=_labels(c1="blind")).rubric
  assert "merge" not in rubric and rubric["split"] == ("c1",)


@pytest.mark.parametrize("labels", [(), _labels()])
def test_where_all_is_well_nothing_is_on_offer(labels):
  offer = _offer(labels=labels, is_saturated=False, fields={})
  assert offer.is_empty
  assert offer == offers.Offer(False, {}, (), {})


def test_a_second_round_is_about_what_was_rejected():
  offer = offers.of(role_cases.SECOND_ROUND)
  assert not offer.lower and not offer.adds and not offer.drops
  assert offer.rubric == _offer().rubric
