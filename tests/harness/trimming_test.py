import hypothesis
import pytest
from hypothesis import strategies as st

from hrl_jax.harness import trimming

pytestmark = pytest.mark.core

TEXT = "Water climbs. Does it? It does! So\n\nsay the pores."


def _words(text):
  return len(text.split())


@pytest.mark.parametrize(
  ("most", "expected"),
  [
    (10, TEXT),
    (9, "Water climbs. Does it? It does! So"),
    (7, "Water climbs. Does it? It does! So"),
    (6, "Water climbs. Does it? It does!"),
    (5, "Water climbs. Does it?"),
    (4, "Water climbs. Does it?"),
    (3, "Water climbs."),
    (2, "Water climbs."),
    (1, "Water"),
    (0, ""),
  ],
)
def test_a_text_is_cut_at_the_end_of_a_sentence(most, expected):
  assert trimming.trimmed(TEXT, most, _words) == expected


def test_a_point_within_a_word_ends_no_sentence():
  text = "It takes 3.5 hours at e.g.room temperature. Then"
  assert trimming.trimmed(text, 7, _words) == text[:-5]
  assert trimming.trimmed(text, 4, _words) == "It takes 3.5 hours"


@pytest.mark.parametrize("text", ["incomprehensibilities", "水が昇る。紙だ。"])
def test_a_word_that_is_too_long_alone_is_cut(text):
  assert trimming.trimmed(text, 5, len) == text[:5]


@hypothesis.given(st.text("ab.!\n ", max_size=60), st.integers(0, 40))
def test_the_longest_start_that_fits(text, most):
  cut = trimming.trimmed(text, most, len)
  assert text.startswith(cut)
  assert len(cut) <= most
  if len(text) <= most:
    assert cut == text
    return

  def fits(is_end):
    return [
      text[:place]
      for place in range(1, most + 1)
      if is_end(text[place - 1], text[place])
    ]

  def ends_sentence(last, following):
    return following == "\n" or (last in ".!" and following.isspace())

  # A break is where white space begins; a second line feed is part of it.
  sentences = [each for each in fits(ends_sentence) if each[-1:] != "\n"]
  words = [
    each
    for each in fits(lambda last, following: following.isspace())
    if not each[-1].isspace()
  ]
  longest = (sentences or words or [text[:most]])[-1]
  assert cut.strip() == longest.strip()
