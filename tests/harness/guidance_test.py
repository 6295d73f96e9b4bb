import itertools

import pytest

from hrl_jax import base
from hrl_jax.harness import guidance, terms

pytestmark = pytest.mark.core

PROMPT = (
  base.Message("system", "Be brief."),
  base.Message("user", "Why?"),
  base.Message("assistant", "Because."),
  base.Message("user", "And how?"),
  base.Message("assistant", "Well,"),
)
TEXTS = {
  "criterion": "Name the gas.",
  "reference": "A good answer:\nNitrogen.",
  "critique": "It was long.",
}
MOUNTED = """\
And how?

<criterion>
Name the gas.
</criterion>
<reference>
A good answer:
Nitrogen.
</reference>
<critique>
It was long.
</critique>
Use what stands between the tags and do not mention it."""


def test_fields_stand_after_the_last_user_turn_in_the_papers_order():
  expected = (*PROMPT[:3], base.Message("user", MOUNTED), PROMPT[4])
  for kinds in itertools.permutations(terms.FIELD_KINDS):
    texts = {kind: TEXTS[kind] for kind in kinds}
    assert guidance.render(PROMPT, texts) == expected


def test_a_single_field_is_closed_too():
  rendered = guidance.render(PROMPT[1:2], {"critique": "It was long."})
  assert rendered == (
    base.Message(
      "user",
      "Why?\n\n<critique>\nIt was long.\n</critique>\n"
      "Use what stands between the tags and do not mention it.",
    ),
  )


def test_without_fields_the_task_is_as_it_was():
  assert guidance.render(PROMPT, {}) is PROMPT


@pytest.mark.parametrize("prompt", [(), PROMPT[:1], (PROMPT[0], PROMPT[2])])
def test_a_task_without_a_user_turn_has_no_place_for_fields(prompt):
  with pytest.raises(ValueError, match="after the user's turn"):
    guidance.render(prompt, TEXTS)
  assert guidance.render(prompt, {}) == prompt


def test_a_reference_says_what_is_good_and_what_is_not():
  assert guidance.reference("Yes.", "No.", other_task=None) == (
    "A good answer:\nYes.\nAn answer that falls short:\nNo."
  )
  assert guidance.reference("Yes.", None, other_task="Why is it?") == (
    "A good answer to another task, Why is it?:\nYes."
  )
  assert guidance.reference(None, "No.", other_task=None) == (
    "An answer that falls short:\nNo."
  )
  assert guidance.reference(None, None, other_task=None) == ""


def test_a_critique_lists_what_was_lacking():
  assert guidance.critique(["names the gas", "is brief"]) == (
    "The last answers fell short:\nnames the gas\nis brief"
  )
