import math
import re

import hypothesis
import pytest
from hypothesis import strategies as st

from hrl_jax.harness.prompts import layout
from tests import hostile_texts

pytestmark = pytest.mark.core

CHARACTERS = layout.Budget(len, 10_000)


def _inside(text, tag):
  """The text of the only fence of a tag, whatever its key."""
  start = text.index(f"<{tag}-")
  name = text[start + 1 : text.index(">", start)]
  return hostile_texts.between(text, name)


def test_what_fits_is_whole():
  parts = ("Look:", layout.Long("a", "x" * 500, 1), "Well?")
  text = layout.fitted(parts, 1_000, CHARACTERS)
  assert _inside(text, "a") == "x" * 500
  assert text.startswith("Look:\n<a-") and text.endswith("\n\nWell?")


def test_a_long_text_loses_its_middle():
  letters = "a" * 1_000 + "b" * 1_000 + "c" * 1_000
  text = layout.fitted((layout.Long("a", letters, 1),), 900, CHARACTERS)
  assert 800 < len(text) <= 900
  head, note, tail = _inside(text, "a").split("\n")
  assert set(head) == {"a"} and set(tail) == {"c"}
  assert len(head) - len(tail) in (0, 1)
  left_out = 3_000 - len(head) - len(tail)
  assert note == f"[... {left_out} characters are left out here ...]"


def test_short_texts_stay_whole_and_long_ones_end_up_alike():
  parts = [layout.Long(f"t{n}", "x" * n, 1) for n in (50, 200, 4_000, 9_000)]
  text = layout.fitted(parts, 2_500, CHARACTERS)
  assert _inside(text, "t50") == "x" * 50
  assert _inside(text, "t200") == "x" * 200
  kept = [_inside(text, f"t{n}").count("x") for n in (4_000, 9_000)]
  assert kept[0] == kept[1] > 800


def test_a_share_counts_as_so_many_texts():
  parts = [layout.Long(f"t{n}", "x" * 9_000, n) for n in (1, 4)]
  text = layout.fitted(parts, 3_000, CHARACTERS)
  # "characters" in the note has no x.
  one, four = (_inside(text, f"t{n}").count("x") for n in (1, 4))
  assert abs(four - 4 * one) <= 4 and one > 400


def test_too_much_that_may_not_be_cut_is_refused():
  parts = ("x" * 200, layout.Long("a", "y" * 1_000, 1))
  with pytest.raises(
    layout.TooLongError, match=r"takes 2\d\d tokens where 100 .* Raise the"
  ):
    layout.fitted(parts, 100, CHARACTERS)


TEXTS = st.one_of(
  hostile_texts.TEXTS,
  st.builds(
    lambda text, count: text * count,
    hostile_texts.TEXTS,
    st.integers(0, 400),
  ),
)
COUNTS = st.sampled_from(
  [
    len,
    lambda text: len(text.split()),
    lambda text: len(text.encode()),
    lambda text: math.ceil(len(text) / 3),
    # Some texts are much denser than others.
    lambda text: sum(7 if letter in "<|" else 1 for letter in text),
  ]
)


@hypothesis.settings(max_examples=200, deadline=None)
@hypothesis.given(
  st.lists(st.tuples(TEXTS, st.integers(1, 8)), min_size=1, max_size=6),
  st.integers(0, 6_000),
  COUNTS,
)
def test_a_fitted_text_keeps_its_room_and_every_fixed_part(pieces, room, count):
  budget = layout.Budget(count)
  parts = []
  for number, (text, share) in enumerate(pieces):
    parts += [f"Piece {number}:", layout.Long(f"t{number}", text, share)]
  try:
    fitted = layout.fitted(parts, room, budget)
  except layout.TooLongError:
    assert layout.least(parts, budget) > room
    return
  assert count(fitted) <= room
  assert fitted == layout.fitted(parts, room, budget)
  for number, (text, _) in enumerate(pieces):
    assert f"Piece {number}:\n" in fitted
    inside = _inside(fitted, f"t{number}")
    if "are left out here" not in inside:
      assert hostile_texts.restored(inside) == hostile_texts.scalar(text)
    else:
      # It starts and ends as the text does, but for what makes it inert.
      head, tail = re.split(
        r"\n\[\.\.\. \d+ characters are left out here \.\.\.\]\n", inside
      )
      bare = hostile_texts.scalar(text).replace("\u200b", "")
      assert bare.startswith(head.replace("\u200b", ""))
      assert bare.endswith(tail.replace("\u200b", ""))
