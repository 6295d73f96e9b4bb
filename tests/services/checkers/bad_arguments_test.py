"""Arguments are refused before a run, or the checker decides about any text."""

import threading

import hypothesis
import pytest
from hypothesis import strategies as st

from hrl_jax.services import checkers
from hrl_jax.services.checkers import bounded, registry
from tests.messages import check_message
from tests.services.checkers import checkers_test

# Possible nested sets: a warning of `re` about what a pattern may mean one day.
pytestmark = pytest.mark.filterwarnings("ignore:Possible:FutureWarning")

NAMES = sorted(filter(checkers_test.can_run, checkers.names()))
# Where arguments do not matter: this one fails on what has only digits.
BREAKS = "ifbench:format:quote_unquote"

TEXTS = st.text(st.characters() | st.sampled_from("\0\n\ud800'\"*.,?-()[]{}"))
PIECES = st.lists(
  st.sampled_from(
    [
      "tea",
      "P.S.",
      "yes/no",
      "[a-z]+",
      ".*",
      "\\",
      "(",
      "[",
      "*",
      "{0}",
      "(?i)x",
    ]
  ),
  min_size=1,
  max_size=3,
).map("".join)
NUMBERS = st.one_of(
  st.integers(),
  st.floats(),
  st.integers(0, 9),
  st.sampled_from([2**63, 10**308, 10**400, 1e300, 4.0, True]),
)
VALUES = st.one_of(
  st.none(),
  NUMBERS,
  TEXTS,
  PIECES,
  st.lists(TEXTS | PIECES | NUMBERS, max_size=3),
  st.dictionaries(TEXTS, NUMBERS, max_size=2),
)
RESPONSES = st.one_of(
  TEXTS,
  st.sampled_from(checkers_test.TEXTS),
  st.builds(lambda text, count: text * count, TEXTS, st.integers(0, 200)),
)


@st.composite
def _checks(draw, names):
  name = draw(st.sampled_from(names))
  arguments = checkers_test.values(name)
  for key in draw(st.sets(st.sampled_from(sorted(arguments) or ["none"]))):
    arguments[key] = draw(VALUES)
  return name, arguments, draw(st.lists(RESPONSES, min_size=1, max_size=3))


def _is_refused_or_decides(name, arguments, responses):
  try:
    checkers.validate(name, arguments)
  except ValueError as error:
    assert name in check_message(error)
    return
  for response in responses:
    try:
      score = checkers.check(name, response, arguments)
    except checkers.CheckerError as error:
      assert check_message(error).endswith("The score is missing.")
      assert name == BREAKS
    else:
      assert score in (0.0, 1.0)


@hypothesis.settings(
  max_examples=400, suppress_health_check=list(hypothesis.HealthCheck)
)
@hypothesis.given(_checks(NAMES))
def test_arguments_are_refused_or_the_checker_decides(check):
  _is_refused_or_decides(*check)


@hypothesis.settings(
  max_examples=300, suppress_health_check=list(hypothesis.HealthCheck)
)
@hypothesis.given(
  _checks([name for name in NAMES if registry.find(name).has_pattern])
)
def test_patterns_are_refused_or_the_checker_decides(check):
  _is_refused_or_decides(*check)


def test_the_checkers_that_take_patterns_are_the_bounded_ones():
  # A bracket that is left open is refused where it is taken for a pattern.
  refusing = set()
  for name in NAMES:
    for key, value in checkers_test.values(name).items():
      broken = ["("] if isinstance(value, list) else "("
      try:
        checkers.validate(name, checkers_test.values(name) | {key: broken})
      except ValueError as error:
        if "cannot be used: error" in str(error) or key == "pattern":
          refusing.add(name)
  assert refusing == {name for name in NAMES if registry.find(name).has_pattern}


def test_every_keyword_is_tried_alone():
  # The first is in no probe, so the second was never looked at.
  for name, key, first in (
    ("ifeval:keywords:forbidden_words", "forbidden_words", "sentence"),
    ("ifeval:keywords:existence", "keywords", "Qqq"),
  ):
    checkers.validate(name, {key: [first, "tea"]})
    with pytest.raises(ValueError, match="cannot be used: error") as error:
      checkers.validate(name, {key: [first, "["]})
    check_message(error.value)


@pytest.fixture
def impatient(monkeypatch):
  monkeypatch.setattr(bounded, "SECONDS", 0.5)


@pytest.mark.parametrize(
  "pattern",
  [r"(a+)+$", r"(\w+\s?)+$", r"(a|aa)+$", r"(\w*\s*)*!", "(1|1)*x"],
)
def test_a_pattern_without_end_is_refused_at_load(impatient, pattern):
  with pytest.raises(ValueError, match=r"takes longer than 0\.5 s") as error:
    checkers.validate("contains_pattern", {"pattern": pattern})
  assert "'contains_pattern'" in check_message(error.value)


def test_a_keyword_without_end_is_refused_at_load(impatient):
  with pytest.raises(ValueError, match=r"takes longer than 0\.5 s") as error:
    checkers.validate(
      "ifeval:keywords:existence", {"keywords": ["a", "(a+)+$"]}
    )
  check_message(error.value)


def test_a_pattern_that_only_one_response_traps_leaves_its_score_missing(
  impatient,
):
  arguments = {"pattern": "(z+)+!"}
  checkers.validate("contains_pattern", arguments)
  with pytest.raises(
    checkers.CheckerError, match=r"longer than 0\.5 s"
  ) as error:
    checkers.check("contains_pattern", "z" * 60, arguments)
  assert check_message(error.value).endswith("The score is missing.")
  # The next one is answered, and with its own answer.
  assert checkers.check("contains_pattern", "zzz!", arguments) == 1.0
  assert checkers.check("contains_pattern", "zzz?", arguments) == 0.0


def test_a_process_that_ended_is_started_again():
  arguments = {"pattern": "tea"}
  checkers.validate("contains_pattern", arguments)
  (worker,) = bounded._running
  worker.kill()
  worker.wait()
  with pytest.raises(checkers.CheckerError, match="ended with status -9"):
    checkers.check("contains_pattern", "tea", arguments)
  assert checkers.check("contains_pattern", "tea", arguments) == 1.0


def test_every_thread_gets_its_own_answer():
  scores = {}

  def check(index):
    text = f"{'x' * index * 1000} {index}"
    scores[index] = [
      checkers.check("contains_pattern", text, {"pattern": rf"\b{each}\Z"})
      for each in range(8)
    ]

  threads = [threading.Thread(target=check, args=(i,)) for i in range(8)]
  for thread in threads:
    thread.start()
  for thread in threads:
    thread.join()
  assert scores == {i: [float(i == each) for each in range(8)] for i in scores}
  assert len(scores) == 8


@pytest.mark.parametrize("size", [1, 7_000, 10**9, 10**400])
def test_repeats_takes_no_more_for_longer_runs(size):
  # Each run written out, 10,000 words took 800 MB, and 10**9 runs an hour.
  response = "tea " * 20_000
  arguments = {"size": size, "share": 0.5}
  assert checkers.check("repeats", response, arguments) == (size <= 20_000)


@hypothesis.given(
  st.lists(st.sampled_from("abc"), max_size=30),
  st.integers(1, 32),
  st.floats(0, 0.99),
)
def test_repeats_is_what_it_is_by_counting(words, size, share):
  runs = [tuple(words[i : i + size]) for i in range(len(words) - size + 1)]
  repeated = len(runs) > 0 and 1 - len(set(runs)) / len(runs) > share
  response = " ".join(words)
  score = checkers.check("repeats", response, {"size": size, "share": share})
  assert score == repeated


@pytest.mark.parametrize(
  "pattern", ["(?L)a", "(?au)a", "x{9999999999}", "(?P<"]
)
def test_a_pattern_that_does_not_compile_is_refused_as_such(pattern):
  with pytest.raises(ValueError, match="must be a regular expression, got"):
    checkers.validate("contains_pattern", {"pattern": pattern})
