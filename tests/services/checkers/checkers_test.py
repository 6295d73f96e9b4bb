import functools
import json
import os
import pathlib
import random
import subprocess
import sys

import pytest

from hrl_jax.services import checkers

ROOT = str(pathlib.Path(__file__).parents[3])

# One usable value for every argument of every checker.
VALUES = {
  "phrases": ["doctor", "tea"],
  "pattern": "[a-z]+",
  "minimum": 1,
  "maximum": 9,
  "count": 1,
  "size": 2,
  "share": 0.2,
  "keywords": ["tea", "doctor"],
  "keyword": "tea",
  "relation": "at least",
  "let_relation": "less than",
  "capital_relation": "less than",
  "forbidden_words": ["doctor"],
  "letter": "e",
  "language": "en",
  "first_word": "the",
  "postscript_marker": "P.S.",
  "section_spliter": "Section",
  "prompt_to_repeat": "Say the word tea and no other word at all.",
  "end_phrase": "thank you",
  "reference_text": "I drink tea with milk.",
  "percentage": 40,
  "options": "yes/no/maybe",
  "word": "tea",
  **{f"keyword{index}": "tea" for index in range(1, 6)},
  "sep": "-",
}
TEXTS = (
  "I drink tea because my doctor says so.",
  "The tea is hot! Is the milk cold? Yes, thank you",
  "* one\n* two\n- three\n\nP.S. Call 112.",
  "NOBODY KNOWS",
  "no one knows it",
  # Language detection from another seed calls it Italian, or Swedish.
  "I am in",
  "Le thé est chaud, mais pas le lait.",
  '"quoted" and "quoted again"',
  "ID,Country,City,Year,Count\n1,a,b,2,3",
  "123 45.6",
  "好。你喝茶吗\uff1f",
  "\ud800 \x00 \u2028 🙂",
  "?!",
)


def values(name):
  return {key: VALUES.get(key, 2) for key in checkers.arguments(name)}


def can_run(name):
  """False where NLTK's data for the checker is not installed."""
  try:
    checkers.validate(name, values(name))
  except ValueError as error:
    if "needs NLTK" not in str(error):
      raise
    return False
  return True


@functools.cache
def cases():
  return [
    (name, text, values(name))
    for name in sorted(checkers.names())
    if can_run(name)
    for text in TEXTS
  ]


def score(name, text, arguments):
  try:
    return checkers.check(name, text, arguments)
  except checkers.CheckerError:
    return None


@pytest.fixture(scope="module")
def first_scores():
  return [score(*case) for case in cases()]


def test_the_registry_is_whole():
  names = checkers.names()
  assert sum(name.startswith("ifeval:") for name in names) == 25
  assert sum(name.startswith("ifbench:") for name in names) == 58
  assert len(names) == 15 + 25 + 58


def test_scores_are_zero_or_one_or_missing(first_scores):
  assert set(first_scores) == {0.0, 1.0, None}
  assert all(isinstance(each, float | None) for each in first_scores)


def test_most_checkers_are_met_by_one_of_the_texts_and_missed_by_another(
  first_scores,
):
  seen = {}
  for (name, _, _), value in zip(cases(), first_scores, strict=True):
    seen.setdefault(name, set()).add(value)
  decided = [name for name, values in seen.items() if {0.0, 1.0} <= values]
  # The others ask for texts such as 26 sentences from a to z.
  assert len(decided) >= 40


def test_same_text_same_score_in_any_order(first_scores):
  order = list(range(len(cases())))
  random.Random(7).shuffle(order)
  for _ in range(2):
    for index in order:
      assert score(*cases()[index]) == first_scores[index], cases()[index]


# Without the type checks of the tests, which draw at random themselves.
FRESH = """
import concurrent.futures, json, random, sys
from hrl_jax.services import checkers

checkers.validate("ifeval:punctuation:no_comma", {})
before = random.getstate()

def score(case):
  try:
    return checkers.check(*case)
  except checkers.CheckerError:
    return None

with concurrent.futures.ThreadPoolExecutor(8) as pool:
  scores = list(pool.map(score, json.load(sys.stdin)))
print(json.dumps({"scores": scores, "drew": random.getstate() != before}))
"""


def test_another_process_on_eight_threads_gives_the_same_scores(
  first_scores,
):
  order = list(range(len(cases())))[::-1]
  result = subprocess.run(
    [sys.executable, "-c", FRESH],
    input=json.dumps([cases()[index] for index in order]),
    capture_output=True,
    text=True,
    check=True,
    env=os.environ | {"PYTHONHASHSEED": "12345", "PYTHONPATH": ROOT},
  )
  answer = json.loads(result.stdout)
  assert not answer["drew"]
  for index, other in zip(order, answer["scores"], strict=True):
    assert other == first_scores[index], cases()[index]


@pytest.mark.parametrize("blank", ["", " ", "\n\t\u2028"])
def test_a_blank_response_meets_nothing(blank):
  assert {score(name, blank, arguments) for name, _, arguments in cases()} == {
    0.0
  }


def test_a_checker_that_breaks_gives_no_score():
  # It looks for the last character that is no digit, and there is none.
  with pytest.raises(checkers.CheckerError, match=r"IndexError.* is missing"):
    checkers.check("ifbench:format:quote_unquote", "123", {})


def test_every_argument_is_required_and_none_is_too_many():
  for name, _, arguments in cases()[:: len(TEXTS)]:
    for key in arguments:
      fewer = {other: arguments[other] for other in arguments if other != key}
      with pytest.raises(
        ValueError, match=rf"missing are \['{key}'\], unknown \[\]"
      ):
        checkers.validate(name, fewer)
      with pytest.raises(ValueError, match=f"{key} must be"):
        checkers.validate(name, arguments | {key: None})
    with pytest.raises(
      ValueError, match=r"missing are \[\], unknown \['extra'\]"
    ):
      checkers.validate(name, arguments | {"extra": 1})


@pytest.mark.parametrize(
  ("name", "arguments", "message"),
  [
    ("mentions_any", {"phrases": "doctor"}, "phrases must be a list of phras"),
    ("mentions_any", {"phrases": []}, "phrases must be a list of phrases"),
    ("mentions_any", {"phrases": ["*"]}, "each with a letter or digit"),
    (
      "mentions_at_least",
      {"phrases": ["a"], "count": 2},
      "count is 2, but there are only 1 phrases",
    ),
    ("word_count", {"minimum": 3, "maximum": 2}, "at least 3 and at most 2"),
    ("word_count", {"minimum": True, "maximum": 2}, "minimum must be a whole"),
    ("word_count", {"minimum": 1.0, "maximum": 2}, "minimum must be a whole"),
    ("contains_pattern", {"pattern": "("}, "pattern must be a regular expr"),
    ("repeats", {"size": 2, "share": 1.0}, "share must be a number from 0"),
  ],
)
def test_wrong_arguments_are_refused(name, arguments, message):
  with pytest.raises(ValueError, match=message):
    checkers.validate(name, arguments)
  with pytest.raises(ValueError, match=message):
    checkers.check(name, "text", arguments)


def test_an_unknown_checker_is_refused():
  with pytest.raises(ValueError, match="Unknown checker 'mention'"):
    checkers.check("mention", "text", {})
