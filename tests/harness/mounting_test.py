import pytest

from hrl_jax import base
from hrl_jax.harness import changes, guidance, mounting, terms, validity
from tests.harness import makes

pytestmark = pytest.mark.core

A, B = makes.target(0), makes.target(1)
PROMPT = (base.Message("user", "Why is the sky blue ?"),)
POSITIVE = terms.Donor("g", 0, "positive", "t", A)
NEGATIVE = terms.Donor("g", 1, "negative", "t", A)
MOUNTED = {"critique": makes.field("critique", B, text="it lacked a close")}

Add, Drop = changes.Add, changes.Drop


def _words(turns):
  return sum(len(turn.content.split()) for turn in turns)


def _problem(*proposed, fields=MOUNTED, active=(A, B), **room):
  known = {
    "cap": 3,
    "guidance_tokens": 100,
    "prompt_tokens": 200,
    "count_text": lambda text: len(text.split()),
    "count_prompt": _words,
  }
  return mounting.problem(
    fields,
    proposed,
    prompt=PROMPT,
    active=active,
    room=mounting.Room(**{**known, **room}),
  )


def _code(*proposed, **others):
  found = _problem(*proposed, **others)
  return found and found.code


ADD = Add("criterion", (A,), "name the gas")


@pytest.mark.parametrize(
  "proposed",
  [
    (ADD,),
    (Drop("critique"),),
    (Drop("critique"), Add("critique", (A,), "new")),
    (Add("critique", (A,), "new"), Drop("critique")),
    (ADD, Add("reference", (A, B), "like this", (NEGATIVE, POSITIVE))),
    (),
  ],
)
def test_what_may_be_mounted_has_no_problem(proposed):
  assert _problem(*proposed) is None


@pytest.mark.parametrize(
  ("proposed", "problem"),
  [
    ((Drop("critique"), Drop("critique")), "<critique> is named twice"),
    ((ADD, Add("criterion", (B,), "too")), "<criterion> is named twice"),
  ],
)
def test_a_kind_is_added_and_dropped_once(proposed, problem):
  assert _problem(*proposed) == validity.Problem("twice", problem)


def test_what_is_not_there_is_not_dropped():
  found = _problem(Drop("reference"), ADD)
  assert found == ("unmounted", "<reference> is not mounted")


def test_what_is_there_is_not_added():
  found = _problem(Add("critique", (A,), "new"), Drop("critique"), ADD)
  assert found is None
  assert _code(Add("critique", (A,), "new"), ADD) == "mounted"


def test_a_field_is_about_criteria_of_the_rubric():
  assert _problem(Add("criterion", (), "do")).code == "unknown"
  # Rewritten since, of another task, and one known beside one that is not.
  for targets in ((makes.target(0, 1),), (("u#0", 0),), (A, makes.target(5))):
    assert _code(Add("criterion", targets, "do")) == "unknown"


def test_a_field_is_about_three_criteria_at_most():
  active = [makes.target(number) for number in range(4)]
  three, four = tuple(active[:3]), tuple(active)
  assert guidance.MOST_TARGETS == 3
  assert _code(Add("criterion", three, "do"), active=active) is None
  assert _code(Add("criterion", four, "do"), active=active) == "targets"


def test_a_reference_needs_a_response_to_learn_from():
  for given in ((), (NEGATIVE,)):
    assert _code(Add("reference", (A,), "like this", given)) == "donor"


def test_a_field_needs_a_text():
  for text in ("", " \n"):
    assert _code(Add("criterion", (A,), text)) == "text"


def test_no_more_fields_than_the_cap():
  assert _problem(ADD, cap=1) == ("cap", "2 fields, at most 1 now")
  assert _code(ADD, cap=2) is None
  swap = (Drop("critique"), ADD)
  assert _code(*swap, cap=1) is None
  assert _code(*swap, cap=0) == "cap"
  assert _code(ADD, fields={}, cap=0) == "cap"


def test_a_withdrawal_never_fails_for_room():
  fields = {**MOUNTED, "criterion": makes.field("criterion", A)}
  little = {"cap": 0, "guidance_tokens": 0, "prompt_tokens": 0}
  assert _problem(Drop("critique"), fields=fields, **little) is None


def test_all_fields_together_have_a_length():
  # 4 words are mounted, 3 are added.
  assert _code(ADD, guidance_tokens=7) is None
  found = _problem(ADD, guidance_tokens=6)
  assert found == ("long", "7 tokens of guidance, at most 6")


def test_the_task_with_its_guidance_has_a_length():
  # 6 words of the task, 7 of the fields, 4 tags and 11 of the closing line.
  assert _code(ADD, prompt_tokens=28) is None
  found = _problem(ADD, prompt_tokens=27)
  assert found == ("long", "28 tokens with the task, at most 27")


def test_what_is_dropped_leaves_room():
  swap = (Drop("critique"), ADD)
  assert _code(*swap, guidance_tokens=3) is None
