import pytest

from tests.harness import role_cases

pytestmark = pytest.mark.core


def _texts(views):
  return [view.text for view in views]


def test_separating_criteria_are_told_by_the_reason_of_their_label():
  assert _texts(role_cases.CASE.separating()) == [
    "is detailed",
    "insults the reader",
    "gives an example",
  ]


def test_full_criteria_are_positive_whether_saturated_or_not_yet():
  case = role_cases.CASE
  assert _texts(case.full()) == ["closes politely", "is about paper"]
  # A penalty that is never triggered is full too, but by nothing it says.
  penalty = case.criteria[3]._replace(label="saturated", reason="full")
  case = case._replace(criteria=(*case.criteria[:3], penalty))
  assert _texts(case.full()) == ["closes politely"]
