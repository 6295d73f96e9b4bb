import json

import pytest

from hrl_jax import base, questions
from hrl_jax.services import completion, exchange


def body(**changes):
  message = {"role": "assistant", "content": "yes"} | changes
  choice = {"index": 0, "message": message, "finish_reason": "stop"}
  return json.dumps({"choices": [choice, {"message": {}}], "error": None})


def test_the_first_choice_counts():
  assert completion.parse(body().encode()) == completion.Reply("yes", "stop")


def test_separate_reasoning_is_left_out():
  thought = body(reasoning_content="no", reasoning="no")
  assert completion.parse(thought.encode()).text == "yes"


@pytest.mark.parametrize(
  ("changes", "text"),
  [
    ({"content": None}, ""),
    ({"content": None, "refusal": None}, ""),
    ({"content": None, "refusal": "I cannot."}, "I cannot."),
    ({"content": "yes", "refusal": "I cannot."}, "yes"),
  ],
)
def test_a_refusal_stands_in_for_a_content_that_is_null(changes, text):
  assert completion.parse(body(**changes).encode()).text == text


def test_no_finish_is_empty():
  reply = completion.parse(b'{"choices": [{"message": {"content": "a"}}]}')
  assert reply == completion.Reply("a", "")


QUESTION = questions.Question(
  (base.Message("system", "Be brief."), base.Message("user", "Hi")),
  questions.object_schema({"reason": {"type": "string"}}),
)


def test_a_request_by_hand():
  request = completion.request(
    QUESTION, temperature=0.6, max_tokens=9, seed=1, schema_name="answer"
  )
  # Written out: what is sent names a reply that is kept.
  assert json.dumps(request) == (
    '{"messages": [{"role": "system", "content": "Be brief."}, '
    '{"role": "user", "content": "Hi"}], "temperature": 0.6, "max_tokens": 9, '
    '"seed": 1, "response_format": {"type": "json_schema", "json_schema": '
    '{"name": "answer", "strict": true, "schema": {"type": "object", '
    '"properties": {"reason": {"type": "string"}}, "required": ["reason"], '
    '"additionalProperties": false}}}}'
  )


def test_an_endpoint_without_structured_replies_is_told_no_schema():
  request = completion.request(
    QUESTION, temperature=0.0, max_tokens=9, seed=1, schema_name=None
  )
  assert "response_format" not in request


def test_a_seed_has_31_bits_of_its_name():
  # sha256("(3, 'train', 0)") by sha256sum begins with 58cca7db; half of it.
  assert completion.seed(3, "train", 0) == 0x58CCA7DB // 2
  assert completion.seed(3, "train", 1) != completion.seed(3, "train", 0)


@pytest.mark.parametrize(
  ("usage", "tokens"),
  [
    ({"prompt_tokens": 70, "completion_tokens": 5, "total_tokens": 1}, 75),
    ({"prompt_tokens": 70}, None),
    ({"prompt_tokens": 70, "completion_tokens": -5}, None),
    ({"prompt_tokens": 70, "completion_tokens": 10**4000}, None),
    ({"prompt_tokens": 70, "completion_tokens": "5"}, None),
    (None, None),
    ([70, 5], None),
  ],
)
def test_tokens_are_those_that_the_endpoint_counts(usage, tokens):
  raw = json.dumps({**json.loads(body()), "usage": usage})
  assert completion.parse(raw.encode()).tokens == tokens


def test_half_a_surrogate_pair_can_be_written_to_a_file():
  reply = completion.parse(body(content="a\ud83db").encode())
  assert reply.text == "a?b"
  assert completion.parse(body(content="😀").encode()).text == "😀"


@pytest.mark.parametrize(
  ("raw", "reason"),
  [
    (b"", "empty reply"),
    (b"\xff\xfe\x00", "not JSON"),
    (b"<html>502</html>", "not JSON"),
    (b"[" * 200_000, "not JSON"),
    (b"[" + b"9" * 5_000 + b"]", "not JSON"),
    (b"null", "no chat completion"),
    (b'"yes"', "no chat completion"),
    (b"{}", "no chat completion"),
    (b'{"choices": []}', "no chat completion"),
    (b'{"choices": [{"text": "yes"}]}', "no chat completion"),
    (b'{"choices": [{"message": "yes"}]}', "no chat completion"),
    (b'{"choices": [{"message": {"content": ["a"]}}]}', "no chat completion"),
    (b'{"choices": {"0": {"message": {"content": "a"}}}}', "no chat"),
    (b'{"error": {"message": "full"}}', "is an error"),
    (
      b'{"error": {"code": 1}, "choices": [{"message": {"content": "yes"}}]}',
      "is an error",
    ),
  ],
)
def test_what_is_no_completion_is_refused(raw, reason):
  with pytest.raises(exchange.ExchangeError, match=reason) as caught:
    completion.parse(raw)
  assert caught.value.kind == "malformed"
  assert caught.value.body == raw


@pytest.mark.parametrize("finish", ["abort", "error"])
def test_a_completion_that_the_endpoint_gave_up_is_refused(finish):
  raw = body().replace("stop", finish).encode()
  with pytest.raises(exchange.ExchangeError, match=f"ended with '{finish}'"):
    completion.parse(raw)
