"""The 25 checkers of IFEval and the 58 of IFBench, from `if-verifiable`.

See "Instruction-Following Evaluation for Large Language Models"
(https://arxiv.org/abs/2311.07911) and "Generalizing Verifiable Instruction
Following" (https://arxiv.org/abs/2507.02833). Strict scoring: the response as
it is, no loosened variants.

The package draws at random whatever argument it is not given, or given out of
range, so the table below asks for all of them and for values that it keeps.
Language detection runs from a fixed seed. Sentence and word splitting need
NLTK's data, which is read from an installed `llama-index-core` or from where
NLTK looks, and never downloaded. The package is imported at the first use.
"""

import functools
import importlib
import importlib.util
import json
import math
import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import langdetect

from hrl_jax.data import jsonl
from hrl_jax.services.checkers import contract


def _whole(value: Any) -> Any:
  # The released rows say 4.0 where they mean 4.
  is_whole = isinstance(value, float) and value.is_integer()
  return int(value) if is_whole else value


def _number(lowest: int) -> contract.Kind:
  strict = contract.whole_number(lowest)
  return contract.Kind(
    strict.meaning, lambda value: strict.accepts(_whole(value))
  )


_COUNT = _number(0)
_ORDINAL = _number(1)
_RELATION = contract.one_of("less than", "at least")
_TEXT = contract.TEXT
_PROMPT = {"prompt_to_repeat": _TEXT}

_IFEVAL: Mapping[str, Mapping[str, contract.Kind]] = {
  "keywords:existence": {"keywords": contract.TEXTS},
  "keywords:frequency": {
    "keyword": _TEXT,
    "frequency": _COUNT,
    "relation": _RELATION,
  },
  "keywords:forbidden_words": {"forbidden_words": contract.TEXTS},
  "keywords:letter_frequency": {
    "letter": contract.LETTER,
    "let_frequency": _COUNT,
    "let_relation": _RELATION,
  },
  "language:response_language": {"language": _TEXT},
  "length_constraints:number_sentences": {
    "num_sentences": _COUNT,
    "relation": _RELATION,
  },
  "length_constraints:number_paragraphs": {"num_paragraphs": _COUNT},
  "length_constraints:number_words": {
    "num_words": _COUNT,
    "relation": _RELATION,
  },
  "length_constraints:nth_paragraph_first_word": {
    "num_paragraphs": _ORDINAL,
    "nth_paragraph": _ORDINAL,
    "first_word": _TEXT,
  },
  "detectable_content:number_placeholders": {"num_placeholders": _COUNT},
  "detectable_content:postscript": {"postscript_marker": _TEXT},
  "detectable_format:number_bullet_lists": {"num_bullets": _COUNT},
  "detectable_format:constrained_response": {},
  "detectable_format:number_highlighted_sections": {"num_highlights": _COUNT},
  "detectable_format:multiple_sections": {
    "section_spliter": _TEXT,
    "num_sections": _COUNT,
  },
  "detectable_format:json_format": {},
  "detectable_format:title": {},
  "combination:two_responses": {},
  "combination:repeat_prompt": _PROMPT,
  "startend:end_checker": {"end_phrase": _TEXT},
  "change_case:capital_word_frequency": {
    "capital_frequency": _COUNT,
    "capital_relation": _RELATION,
  },
  "change_case:english_capital": {},
  "change_case:english_lowercase": {},
  "punctuation:no_comma": {},
  "startend:quotation": {},
}

_IFBENCH: Mapping[str, Mapping[str, contract.Kind]] = {
  "count:word_count_range": {"min_words": _COUNT, "max_words": _COUNT},
  "count:unique_word_count": {"N": _COUNT},
  "ratio:stop_words": {"percentage": _COUNT},
  "ratio:sentence_type": {},
  "ratio:sentence_balance": {},
  "count:conjunctions": {"small_n": _COUNT},
  "count:person_names": {"N": _COUNT},
  "ratio:overlap": {"reference_text": _TEXT, "percentage": _COUNT},
  "count:numbers": {"N": _COUNT},
  "words:alphabet": {},
  "words:vowel": {},
  "words:consonants": {},
  "sentence:alliteration_increment": {},
  "words:palindrome": {},
  "count:punctuation": {},
  "format:parentheses": {},
  "format:quotes": {},
  "words:prime_lengths": {},
  "format:options": {"options": _TEXT},
  "format:newline": {},
  "format:emoji": {},
  "ratio:sentence_words": {},
  "count:words_japanese": {"N": _ORDINAL},
  "words:start_verb": {},
  "words:repeats": {"small_n": _COUNT},
  "sentence:keyword": {"word": _TEXT, "N": _ORDINAL},
  "count:pronouns": {"N": _COUNT},
  "words:odd_even_syllables": {},
  "words:last_first": {},
  "words:paragraph_last_first": {},
  "sentence:increment": {"small_n": _COUNT},
  "words:no_consecutive": {},
  "format:line_indent": {},
  "format:quote_unquote": {},
  "format:list": {"sep": _TEXT},
  "format:thesis": {},
  "format:sub-bullets": {},
  "format:no_bullets_bullets": {},
  "custom:multiples": {},
  "custom:mcq_count_length": {},
  "custom:reverse_newline": {},
  "custom:word_reverse": {},
  "custom:character_reverse": {},
  "custom:sentence_alphabet": {},
  "custom:european_capitals_sort": {},
  "custom:csv_city": {},
  "custom:csv_special_character": {},
  "custom:csv_quotes": {},
  "custom:date_format_list": {},
  "count:keywords_multiple": {
    f"keyword{index}": _TEXT for index in range(1, 6)
  },
  "words:keywords_specific_position": {
    "keyword": _TEXT,
    "n": _ORDINAL,
    "m": _ORDINAL,
  },
  "words:words_position": {"keyword": _TEXT},
  "repeat:repeat_change": _PROMPT,
  "repeat:repeat_simple": {},
  "repeat:repeat_span": {**_PROMPT, "n_start": _ORDINAL, "n_end": _ORDINAL},
  "format:title_case": {},
  "format:output_template": {},
  "format:no_whitespace": {},
}

_PUNKT = "tokenizers/punkt_tab"
_STOPWORDS = "corpora/stopwords"
_TAGGER = "taggers/averaged_perceptron_tagger_eng"
_NLTK_DATA = {
  "ifeval:length_constraints:number_sentences": (_PUNKT,),
  "ifeval:change_case:capital_word_frequency": (_PUNKT,),
  "ifbench:words:keywords_specific_position": (_PUNKT,),
  "ifbench:words:words_position": (_PUNKT,),
  "ifbench:format:title_case": (_PUNKT,),
  "ifbench:words:start_verb": (_PUNKT, _TAGGER),
  "ifbench:ratio:stop_words": (_STOPWORDS,),
}
_HOLDERS = {
  _PUNKT: "Install llama-index-core, whose files hold it.",
  _STOPWORDS: "Install llama-index-core, whose files hold it.",
  _TAGGER: "Put it into a folder that the variable NLTK_DATA names.",
}
# The package makes regular expressions of their arguments.
_WITH_PATTERNS = (
  "ifeval:keywords:existence",
  "ifeval:keywords:frequency",
  "ifeval:keywords:forbidden_words",
  "ifeval:detectable_format:multiple_sections",
  "ifeval:detectable_content:postscript",
)

_PROBES = contract.PROBES[:2]

_loading = threading.Lock()


def load() -> None:
  """Imports the package, which takes seconds."""
  _registries()


def _decide(name: str, response: str, arguments: contract.Arguments) -> bool:
  langdetect.DetectorFactory.seed = 0
  instruction = _instruction(name, json.dumps(arguments, sort_keys=True))
  return bool(instruction.check_following(response))


def _prepare(name: str, arguments: contract.Arguments) -> None:
  paragraphs = arguments.get("num_paragraphs", math.inf)
  if arguments.get("nth_paragraph", 0) > paragraphs:
    raise ValueError(
      f"of {paragraphs} paragraphs there is no number "
      f"{arguments['nth_paragraph']}. Lower nth_paragraph."
    )
  for each in (*_one_by_one(arguments), arguments):
    _instruction(name, json.dumps(each, sort_keys=True))


def _one_by_one(arguments: contract.Arguments) -> Iterator[contract.Arguments]:
  # The package stops at the first keyword that decides, and would meet a
  # later one that is no regular expression only in some response.
  for key, value in arguments.items():
    if isinstance(value, list) and len(value) > 1:
      yield from ({**arguments, key: [each]} for each in value)


@functools.lru_cache(maxsize=4096)
def _instruction(name: str, arguments: str) -> Any:
  """The package's own object for a checker and its arguments, as JSON."""
  benchmark, _, id = name.partition(":")
  given = {key: _whole(value) for key, value in json.loads(arguments).items()}
  # One thread at a time: NLTK and langdetect fill global tables at first use,
  # which the probes are.
  with _loading:
    instruction = _registries()[benchmark][id](id)
    _require_data(_NLTK_DATA.get(name, ()))
    try:
      instruction.build_description(**given)
      probes = contract.PROBES if name in _WITH_PATTERNS else _PROBES
      for probe in probes:
        instruction.check_following(probe)
    except Exception as error:
      raise ValueError(
        f"the arguments {arguments[:80]} cannot be used: "
        f"{type(error).__name__}: {jsonl.shown(str(error))}. The package takes "
        "some texts for regular expressions, and knows few languages."
      ) from error
  return instruction


@functools.cache
def _registries() -> Mapping[str, Mapping[str, Any]]:
  nltk = importlib.import_module("nltk")
  nltk.data.path[:0] = _packaged_data()
  # IFBench downloads, when it is imported, what NLTK does not find.
  download = nltk.download
  nltk.download = lambda *_, **__: False
  try:
    registries = {
      benchmark: importlib.import_module(
        f"if_verifiable.{benchmark}.instructions_registry"
      ).INSTRUCTION_DICT
      for benchmark in ("ifeval", "ifbench")
    }
  finally:
    nltk.download = download
  return registries


def _packaged_data() -> list[str]:
  spec = importlib.util.find_spec("llama_index")
  folders = (spec and spec.submodule_search_locations) or ()
  return [
    os.path.join(folder, "core", "_static", "nltk_cache") for folder in folders
  ]


def _require_data(resources: Sequence[str]) -> None:
  data = importlib.import_module("nltk").data
  for resource in resources:
    try:
      data.find(resource)
    except LookupError as error:
      raise ValueError(
        f"it needs NLTK's {resource}, which is not here. "
        f"{_HOLDERS[resource]} Nothing is downloaded."
      ) from error


def _wrapped(name: str, kinds: Mapping[str, contract.Kind]) -> contract.Checker:
  return contract.Checker(
    kinds,
    functools.partial(_decide, name),
    functools.partial(_prepare, name),
    has_pattern=name in _WITH_PATTERNS,
  )


CHECKERS = {
  f"{benchmark}:{id}": _wrapped(f"{benchmark}:{id}", kinds)
  for benchmark, table in (("ifeval", _IFEVAL), ("ifbench", _IFBENCH))
  for id, kinds in table.items()
}
