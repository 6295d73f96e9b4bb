"""The bodies of a chat completion: of its request and of its reply."""

import hashlib
import json
from typing import Any, NamedTuple

from hrl_jax import questions
from hrl_jax.services import exchange


class Reply(NamedTuple):
  """A completion.

  Attributes:
    text: what the model said, "" if nothing; its refusal where it gave one
      instead of a content. Always valid Unicode.
    finish: why it ended, as the endpoint puts it: "stop", "length", ... or "".
    tokens: of the prompt and of the completion, None if the endpoint does not
      count them.
  """

  text: str
  finish: str
  tokens: int | None = None


def request(
  question: questions.Question,
  *,
  temperature: float,
  max_tokens: int,
  seed: int,
  schema_name: str | None,
) -> dict[str, Any]:
  """What is sent to ask a question, but for the name of the model.

  Args:
    question: its messages and the schema of its reply.
    temperature: of the model.
    max_tokens: length at which the reply is cut.
    seed: of the model's draws.
    schema_name: under which the endpoint is told to keep to the schema, None
      to leave the form to the messages.
  """
  body = {
    "messages": [message._asdict() for message in question.messages],
    "temperature": temperature,
    "max_tokens": max_tokens,
    "seed": seed,
  }
  if schema_name is not None:
    body["response_format"] = {
      "type": "json_schema",
      "json_schema": {
        "name": schema_name,
        "strict": True,
        "schema": question.schema,
      },
    }
  return body


def seed(*name: int | str) -> int:
  """31 bits for the call of that name, the same in every run."""
  digest = hashlib.sha256(repr(name).encode()).digest()
  return int.from_bytes(digest[:4], "big") >> 1


def parse(body: bytes) -> Reply:
  """The first choice of a body; what the model thought apart is left out.

  Raises:
    ExchangeError: of kind "malformed" if there is none, or of kind "aborted"
      if the endpoint gave up before the model ended.
  """
  try:
    reply = json.loads(body)
  except (ValueError, RecursionError):
    reason = "reply is not JSON" if body else "empty reply"
    raise exchange.ExchangeError("malformed", reason, body) from None
  match reply:
    case {"error": error} if error is not None:
      raise exchange.ExchangeError("malformed", "reply is an error", body)
    case {"choices": [{"message": dict(message), **choice}, *_]}:
      text = message.get("content")
      if text is None:
        text = message.get("refusal") or ""
      finish = choice.get("finish_reason") or ""
    case _:
      text = finish = None
  if not isinstance(text, str) or not isinstance(finish, str):
    reason = "reply is no chat completion"
    raise exchange.ExchangeError("malformed", reason, body)
  if finish in ("abort", "error"):
    reason = f"reply ended with {finish!r}"
    raise exchange.ExchangeError("aborted", reason, body)
  # JSON can spell half of a surrogate pair, which no file takes.
  text = text.encode(errors="replace").decode()
  return Reply(text, finish, _tokens(reply.get("usage")))


def _tokens(usage: Any) -> int | None:
  match usage:
    case {"prompt_tokens": int(prompt), "completion_tokens": int(written)}:
      if 0 <= prompt < 2**53 and 0 <= written < 2**53:
        return prompt + written
  return None
