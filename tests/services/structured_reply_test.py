import json
import math
import time

import hypothesis
import pytest
from hypothesis import strategies as st

from hrl_jax import questions
from hrl_jax.services import structured_reply

pytestmark = pytest.mark.core

OPERATION = questions.object_schema(
  {
    "op": {"enum": ["merge", "delete"]},
    "targets": {"type": "array", "items": {"type": "integer"}, "minItems": 1},
  }
)
SCHEMA = questions.object_schema(
  {
    "why": {"type": "string"},
    "rubric": {
      "anyOf": [{"type": "null"}, {"type": "array", "items": OPERATION}]
    },
    "confidence": {"type": "number", "minimum": 0, "maximum": 1},
  }
)
VALUE = {
  "why": "Two say the same.",
  "rubric": [{"op": "merge", "targets": [3, 4]}],
  "confidence": 0.5,
}
TEXT = json.dumps(VALUE)


def read(text, schema=SCHEMA, cut=False):
  return structured_reply.read(text, schema, cut=cut)


def problem(text, schema=SCHEMA, cut=False):
  with pytest.raises(structured_reply.ReplyError) as caught:
    read(text, schema, cut)
  message = str(caught.value)
  assert 0 < len(message) < 1000 and message.isprintable()
  return message


@pytest.mark.parametrize(
  "dress",
  [
    "@",
    "\ufeff\n  @\n",
    "```json\n@\n```",
    "```\n@",
    "Here is my answer:\n\n@\n\nTell me if you need more.",
    '<think>\nMaybe {"why": 1}? Or {x}\n</think>\n\n@',
    "Merging {3, 4} is best.\n</think>\n```json\n@\n```",
    "[THINK]Hm.[/THINK]@",
    'The form is {"why": <text>, ...}.\n@',
  ],
)
def test_an_object_is_read_as_models_send_it(dress):
  assert read(dress.replace("@", TEXT)) == VALUE


def test_commas_after_last_items_are_passed_over():
  text = TEXT.replace("]", ",]").replace("}", ",\n}")
  assert text.count(",") > TEXT.count(",") + 3
  assert read(text) == VALUE


@pytest.mark.parametrize(
  ("text", "words"),
  [
    ("", "the reply is empty"),
    (" \n", "the reply is empty"),
    ("I cannot help with that.", "no JSON object in: 'I cannot help"),
    (TEXT[: len(TEXT) // 2], "a brace is not closed"),
    (TEXT[len(TEXT) // 2 :], "a brace closes nothing"),
    (TEXT.replace('"', "'"), "no JSON object in"),
    (TEXT + "\n" + TEXT, "2 JSON objects where one was asked for"),
    (f"[{TEXT}, {TEXT}]", "2 JSON objects"),
    ("<think>so", "reasoning does not end"),
    (f"<think>maybe {TEXT}", "reasoning does not end"),
    ("<think>so</think>", "nothing after its reasoning"),
    ("{" * 100, "nested deeper than 64 levels"),
    ("null", "no JSON object in: 'null'"),
  ],
)
def test_what_is_not_one_object_is_refused(text, words):
  assert words in problem(text)


@pytest.mark.parametrize(
  ("changes", "words"),
  [
    ({"why": None}, "$.why: None is not of type 'string'"),
    ({"more": 1}, "$: Additional properties are not allowed ('more' was"),
    ({"confidence": 2}, "$.confidence: 2 is greater than the maximum of 1"),
    ({"confidence": True}, "$.confidence: True is not of type 'number'"),
    (
      {"rubric": [{"op": "zap", "targets": [1]}]},
      "$.rubric[0].op: 'zap' is not",
    ),
    (
      {"rubric": [{"op": "delete", "targets": []}]},
      "$.rubric[0].targets: [] should be non-empty",
    ),
    (
      {"rubric": [{"op": "delete", "targets": [1, "2"]}]},
      "$.rubric[0].targets[1]: '2' is not of type 'integer'",
    ),
    (
      {"rubric": [{"op": "delete", "targets": [True]}]},
      "$.rubric[0].targets[0]: True is not of type 'integer'",
    ),
    # JSON schema would take it; as an index it would not do.
    (
      {"rubric": [{"op": "delete", "targets": [1.0]}]},
      "$.rubric[0].targets[0]: 1.0 is not of type 'integer'",
    ),
    ({"rubric": [{"op": "delete"}]}, "$.rubric[0]: 'targets' is a required"),
  ],
)
def test_what_breaks_the_schema_is_named_with_its_place(changes, words):
  assert words in problem(json.dumps(VALUE | changes))


def test_several_problems_are_said_at_once():
  message = problem('{"why": 1, "confidence": -1}')
  assert message.count("; ") == 2
  for part in ("$.why: 1", "$.confidence: -1", "'rubric' is a required"):
    assert part in message


def test_a_long_value_does_not_hide_what_is_wrong_with_it():
  message = problem(json.dumps(VALUE | {"confidence": "much " * 1000}))
  assert message.endswith("... is not of type 'number'")


def test_a_key_that_is_there_twice_is_refused():
  text = TEXT.replace('"op": "merge"', '"op": "merge", "op": "delete"')
  assert problem(text) == "$.rubric[0].op is there twice"


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999"])
def test_a_number_that_json_does_not_have_is_refused(number):
  text = TEXT.replace("0.5", number)
  assert problem(text).startswith("$.confidence is ")


def test_half_a_surrogate_pair_is_refused():
  assert problem(TEXT.replace("same", "\\ud83d")) == (
    "$.why holds half a surrogate pair"
  )
  assert read(TEXT.replace("same", "\\ud83d\\ude00"))["why"].endswith("😀.")


@pytest.mark.parametrize(
  ("text", "is_read"),
  [(TEXT, True), (f" {TEXT}\n", True), (f"Here: {TEXT}", False), ("", False)],
)
def test_a_cut_reply_counts_only_as_one_whole_object(text, is_read):
  if is_read:
    assert read(text, cut=True) == VALUE
  else:
    assert "cut at its" in problem(text, cut=True)


@pytest.mark.parametrize(
  ("schema", "words"),
  [
    ({"type": "nonsense"}, "'nonsense' is not valid under any"),
    ({"type": "array"}, "type 'array'; it must be 'object'"),
    ({}, "type None; it must be 'object'"),
  ],
)
def test_a_schema_of_no_object_is_refused(schema, words):
  with pytest.raises(ValueError, match="The schema of a reply") as caught:
    structured_reply.check_schema(schema)
  assert words in str(caught.value)


@pytest.mark.parametrize(
  "text",
  [
    '{"why": "' + "a" * 3_000_000,
    '{"rubric": [' + "1," * 1_000_000 + "1]}",
    '{"rubric": [' + "1," * 49_000 + "1]}",
    '{"rubric": ["' + "a" * 3_000_000 + '"]}',
    '{"' + "a" * 50_000 + '": [' + "1," * 20_000 + "NaN]}",
    "{" + ",".join(f'"{n}": 1' for n in range(9_000)) + "}",
    "{}" * 1_000_000,
    "think>" * 500_000,
  ],
  ids=lambda text: f"{text[:14]} {len(text)}",
)
def test_megabytes_take_no_longer_than_their_length(text):
  begin = time.process_time()
  problem(text)
  assert time.process_time() - begin < 10.0


def test_a_long_object_is_read_up_to_a_length():
  room = 100_000 - len(json.dumps(VALUE | {"why": ""}))
  text = json.dumps(VALUE | {"why": "a" * room})
  assert len(read(f"<think>{text}</think>{text}")["why"]) == room
  message = problem(text.replace("aaa", "aaaa", 1))
  assert message == (
    "a JSON object of 100,001 characters, at most 100,000 are read"
  )


def test_the_deepest_object_meets_a_schema_that_holds_itself():
  schema = {
    "type": "object",
    "properties": {"in": {"anyOf": [{"type": "null"}, {"$ref": "#"}]}},
  }
  text = '{"in": ' * 63 + '{"in": 1}' + "}" * 63
  assert "is not" in problem(text, schema)
  value = read(text.replace("1", "null"), schema)
  for _ in range(64):
    value = value["in"]
  assert value is None


SOUP = st.lists(
  st.sampled_from(
    [
      *'{}[]",:\\\n\0\ud800 .`',
      *('"why": "x",', '"rubric": null,', '"confidence": 1', '"rubric": ['),
      *('{"op": "delete", "targets": [1]}', "NaN", "1e999", "null", "true"),
      *("```json\n", "<think>", "</think>", "\\u12", "9" * 5000, "[" * 70),
      TEXT,
    ]
  ),
  max_size=20,
).map("".join)
JSONISH = st.recursive(
  st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(st.characters(exclude_categories=()), max_size=5),
    st.sampled_from(["merge", "delete"]),
  ),
  lambda inner: st.one_of(
    st.lists(inner, max_size=3),
    st.dictionaries(
      st.sampled_from(["why", "rubric", "confidence", "op", "targets", "x"]),
      inner,
      max_size=4,
    ),
  ),
  max_leaves=8,
).map(json.dumps)
DAMAGED = st.builds(
  lambda place, gone, put: TEXT[:place] + put + TEXT[place + gone :],
  st.integers(0, len(TEXT)),
  st.integers(0, 30),
  st.text(st.sampled_from('{}[]",:\\ 12.e\n\ud800ax'), max_size=3),
)
GARBAGE = st.one_of(
  st.text(st.characters(exclude_categories=()), max_size=60),
  SOUP,
  JSONISH,
  DAMAGED,
)


def keeps_to_the_schema(value):
  """By hand, what `SCHEMA` says."""
  assert set(value) == {"why", "rubric", "confidence"}
  assert isinstance(value["why"], str)
  assert type(value["confidence"]) in (int, float)
  assert 0 <= value["confidence"] <= 1 and math.isfinite(value["confidence"])
  for operation in value["rubric"] or []:
    assert set(operation) == {"op", "targets"}
    assert operation["op"] in ("merge", "delete")
    assert operation["targets"]
    assert all(type(each) is int for each in operation["targets"])
  json.dumps(value, ensure_ascii=False, allow_nan=False).encode()


@hypothesis.settings(max_examples=2000)
@hypothesis.given(GARBAGE, st.booleans())
def test_garbage_is_an_object_of_the_schema_or_a_reply_error(text, cut):
  try:
    value = read(text, cut=cut)
  except structured_reply.ReplyError as error:
    assert str(error).isprintable() and 0 < len(str(error)) < 1000
  else:
    keeps_to_the_schema(value)


@hypothesis.settings(max_examples=300)
@hypothesis.given(st.integers(0, len(TEXT) - 1), st.integers(0, len(TEXT) - 1))
def test_half_an_object_is_never_read_as_a_whole_one(start, end):
  if TEXT[start:end] != TEXT:
    problem(TEXT[start:end])
