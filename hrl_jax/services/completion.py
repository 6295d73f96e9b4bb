"""Reads the body of a chat completion."""

import json
from typing import NamedTuple

from hrl_jax.services import exchange


class Reply(NamedTuple):
  """A completion.

  Attributes:
    text: what the model said, "" if nothing; its refusal where it gave one
      instead of a content. Always valid Unicode.
    finish: why it ended, as the endpoint puts it: "stop", "length", ... or "".
  """

  text: str
  finish: str


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
  return Reply(text.encode(errors="replace").decode(), finish)
