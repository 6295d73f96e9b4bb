import os
import pathlib
import random
import subprocess
import sys

import hypothesis
import pytest

from hrl_jax.harness import cases, stand_in
from tests.harness import drawn, role_cases
from tests.harness.stand_in import random_cases

pytestmark = pytest.mark.core

ROLES = stand_in.StandIn()


def test_it_signs_as_rules():
  assert ROLES.author == "rules"
  assert isinstance(ROLES, cases.Roles)


def test_a_wording_is_the_whole_statement():
  # Which of its words is loose it cannot tell.
  targets = (role_cases.target(2), role_cases.target(3))
  (answer,) = ROLES.check_wording([(role_cases.CASE, targets)])
  assert answer == cases.Wording(
    {targets[0]: "is detailed", targets[1]: "closes politely"}
  )


def test_phrases_are_its_own():
  (answer,) = stand_in.StandIn(("in great detail",)).attribute(
    [role_cases.CASE]
  )
  # Rollouts 1, 2 and 5 are detailed and say so, and no other one does.
  assert [each.target for each in answer.suspicions] == [role_cases.target(2)]


def _answers(asked, answer_all):
  """What it says of each case alone, which is what it says of all together."""
  alone = tuple(answer for each in asked for answer in answer_all([each]))
  assert tuple(answer_all(asked)) == alone
  assert tuple(answer_all(asked[::-1])) == alone[::-1]
  assert answer_all([]) == ()
  return alone


def _mirrored(case):
  """The same case, whatever is kept by name the other way round."""
  return case._replace(
    fields=dict(reversed(case.fields.items())),
    donations=dict(reversed(case.donations.items())),
  )


@hypothesis.given(drawn.RANDOMS)
def test_an_answer_depends_on_its_case_only(random):
  shown = [random_cases.proposal_case(random) for _ in range(3)]
  attributed = [each.case for each in shown]
  worded = [
    (case, tuple(view.target for view in case.criteria)) for case in attributed
  ]
  _answers(attributed, ROLES.attribute)
  _answers(worded, ROLES.check_wording)
  proposed = _answers(shown, ROLES.propose)
  assert proposed == _answers([*map(_mirrored, shown)], ROLES.propose)


def said(count=300):
  """What it says of some cases, in words."""
  drawn_cases = [
    random_cases.proposal_case(random.Random(seed)) for seed in range(count)
  ]
  shown = [case.case for case in drawn_cases]
  return repr((ROLES.attribute(shown), ROLES.propose(drawn_cases)))


def test_another_process_says_the_same():
  # There, texts have other hashes, and sets another order.
  program = "from tests.harness.stand_in import stand_in_test as here\n"
  root = pathlib.Path(__file__).parents[3]
  for seed in ("1", "2"):
    done = subprocess.run(
      [sys.executable, "-c", f"{program}print(ascii(here.said()), end='')"],
      cwd=root,
      env={**os.environ, "PYTHONHASHSEED": seed},
      capture_output=True,
      text=True,
      timeout=60,
      check=True,
    )
    assert done.stdout == ascii(said())
