import pytest
from hypothesis import given
from hypothesis import strategies as st

from hrl_jax.services.checkers import text

DOCTOR = ["doctor*", "see a nurse"]


@pytest.mark.parametrize(
  ("response", "found"),
  [
    ("Ask your doctor.", True),
    ("Doctors know.", True),
    ("The DOCTOR's office", True),
    ("**doctor**, _doctor_, (doctor)", True),
    ("Please see\n  a nurse", True),
    ("Please see a nurses' home", False),
    ("codoctor", False),
    ("7doctor", False),
    ("a nurse", False),
    ("", False),
  ],
)
def test_phrases_are_whole_words_in_any_case(response, found):
  assert text.mentions_any(response, DOCTOR) is found


@pytest.mark.parametrize(
  ("response", "phrase"),
  [
    ("Eine STRASSE", "straße"),
    ("Ein Café", "cafe\u0301"),
    ("Ein cafe\u0301", "CAFÉ"),
    ("\u039f\u03b4\u03cc\u03c2", "\u03bf\u03b4\u03cc\u03c3"),
    ("I don\u2019t know", "don't"),
    ("well\u2011known", "well-known"),
    ("C++ is hard", "c++"),
    ("It costs 5 % more", "5 %"),
    ("half a.b half", "a.b"),
  ],
)
def test_phrases_are_compared_by_meaning_not_by_bytes(response, phrase):
  assert text.mentions_any(response, [phrase])


@pytest.mark.parametrize(
  ("response", "phrase"),
  [
    ("cafe\u0301", "cafe"),
    ("12", "2"),
    ("axb", "a.b"),
    ("vaccine", "vac"),
  ],
)
def test_a_part_of_a_word_is_no_mention(response, phrase):
  assert not text.mentions_any(response, [phrase])


def test_counts_of_phrases_by_hand():
  response = "Rest, ice and rest."
  phrases = ["rest", "ice", "heat"]
  assert text.mentions_at_least(response, phrases, 2)
  # "rest" is there twice and counts once.
  assert not text.mentions_at_least(response, phrases, 3)
  assert not text.mentions_all(response, phrases)
  assert text.mentions_all(response, phrases[:2])


def test_order_is_of_whole_phrases():
  assert text.mentions_in_order("First boil it, then pour.", ["first", "then"])
  assert not text.mentions_in_order("Then boil it first.", ["first", "then"])
  # The second "tea" must come after the first.
  assert not text.mentions_in_order("One tea.", ["tea", "tea"])
  assert text.mentions_in_order("Tea after tea.", ["tea", "tea"])


@pytest.mark.parametrize(
  ("response", "met"),
  [
    ("I keep the light.", True),
    ("Light? That's mine!", True),
    ("I'm here", True),
    ("I\u2019ve seen it", True),
    ("It is i.e. a test", False),
    ("He keeps time in his inn.", False),
    ("", False),
  ],
)
def test_first_person(response, met):
  assert text.first_person(response) is met


def test_patterns_see_the_response_as_it_is():
  assert text.contains_pattern("No comma here", r"\A[^,]+\Z")
  assert not text.contains_pattern("One, two", r"\A[^,]+\Z")
  assert not text.contains_pattern("ABC", "abc")
  assert text.contains_pattern("ABC", "(?i)abc")
  assert not text.contains_pattern(" \n ", r"\A[^,]+\Z")


@pytest.mark.parametrize(
  ("response", "met"),
  [
    ("Yes, it is.", True),
    ("  **Yes** it is", True),
    ('"Yes!" she said', True),
    ("Yesterday it was", False),
    ("Oh yes", False),
    ("", False),
  ],
)
def test_starts_with_any(response, met):
  assert text.starts_with_any(response, ["yes", "no"]) is met


@pytest.mark.parametrize(
  ("response", "met"),
  [
    ("Many thanks, thank you!", True),
    ("Thank you.**\n", True),
    ("Thank\nyou", True),
    ("Thank you all.", False),
    ("I thank youth", False),
    ("...", False),
  ],
)
def test_ends_with_any(response, met):
  assert text.ends_with_any(response, ["thank you"]) is met


@pytest.mark.parametrize(
  ("response", "met"),
  [
    ("It is done.", True),
    ("Is it?\n", True),
    ("He said \u201cStop!\u201d", True),
    ("It is *done.*", True),
    ("And so on\u2026", True),
    ("\u597d\u3002", True),
    ("42.", True),
    ("It is", False),
    ("It is done,", False),
    ("Steps:\n1. Cool it.\n2.", False),
    ("Steps:\n1. Cool it.", True),
    ("...", False),
    ("", False),
  ],
)
def test_a_complete_ending(response, met):
  assert text.ends_with_punctuation(response) is met


@pytest.mark.parametrize(
  ("response", "count"),
  [
    ("One two three", 3),
    ("It's well-known: 3.5 % of x_y", 7),
    ("don\u2019t", 1),
    ("\u201cyes\u201d \u2014 no", 2),
  ],
)
def test_words_by_hand(response, count):
  assert text.word_count(response, count, count)
  assert not text.word_count(response, count + 1, count + 1)
  assert not text.word_count(response, 0, count - 1)


@pytest.mark.parametrize(
  ("response", "count"),
  [
    ("One. Two! Three?", 3),
    ("One. Two and", 2),
    ("It is 3.5 km to example.com today.", 1),
    ('"Stop!" he said. "Why?"', 3),
    ("Wait... what?! Yes.", 3),
    ("\u4f60\u597d\u3002\u518d\u89c1\u3002", 2),
    ("One.\n\nTwo.", 2),
  ],
)
def test_sentences_by_hand(response, count):
  assert text.sentence_count(response, count, count)
  assert not text.sentence_count(response, 0, count - 1)


def test_lines_by_hand():
  assert text.line_count("One,\n\n two.\n", 2, 2)
  # U+2028 is no new line, as in the files.
  assert text.line_count("One,\u2028two.", 1, 1)
  assert not text.line_count("\n---\n", 0, 5)


@pytest.mark.parametrize(
  ("response", "met"),
  [
    ("Plain text - with a dash.", True),
    ("In 1999. It was.", True),
    ("Intro:\n- one", False),
    ("Intro:\n  * one", False),
    ("1. one\n2. two", False),
    ("(1) one", False),
    ("a) one", False),
    ("\u2022 one", False),
    ("**Bold** start", True),
    ("3.5 litres", True),
    ("", False),
  ],
)
def test_no_list(response, met):
  assert text.no_list(response) is met


def test_a_question():
  assert text.asks_question("Who are you?")
  assert not text.asks_question("I wonder.")
  assert not text.asks_question("??")


def test_repeated_runs_by_hand():
  # Runs of two: ab ba ab ba ab: 2 of 5 are new, 3/5 said before.
  assert text.repeats("a b a b a b", 2, 0.59)
  assert not text.repeats("a b a b a b", 2, 0.6)
  assert not text.repeats("a b c d e f", 2, 0.0)
  assert not text.repeats("a a", 3, 0.0)


@given(st.text(st.characters()))
def test_every_checker_decides_about_any_text(response):
  phrases = ["a", "don't", "caf\u00e9*"]
  assert text.mentions_all(response, phrases) <= text.mentions_any(
    response, phrases
  )
  assert text.mentions_in_order(response, phrases) <= text.mentions_all(
    response, phrases
  )
  for decide in (
    text.first_person,
    text.ends_with_punctuation,
    text.no_list,
    text.asks_question,
  ):
    assert decide(response) in (True, False)
  text.starts_with_any(response, phrases)
  text.ends_with_any(response, phrases)
  text.repeats(response, 2, 0.5)
  has_letter = any(map(str.isalnum, response))
  assert text.sentence_count(response, 1, 10**6) is has_letter
  assert text.line_count(response, 1, 10**6) is has_letter


@pytest.mark.parametrize(
  "unit", [".", " ", "\n", "a ", "1. ", '"', "?!", "\n1."]
)
def test_long_degenerate_text_takes_linear_time(unit):
  response = "x" + unit * 50_000 + "y"
  text.sentence_count(response, 1, 1)
  text.no_list(response)
  text.ends_with_punctuation(response)
  text.word_count(response, 1, 1)
  text.ends_with_any(response, ["a"])
