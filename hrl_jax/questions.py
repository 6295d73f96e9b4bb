"""Questions to served models: the judge's, and those of a method."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from hrl_jax import base


class Question(NamedTuple):
  """What a model is asked, and the form of its reply.

  Attributes:
    messages: a system message and a user message.
    schema: JSON schema of the reply, an object, in the strict form of OpenAI's
      `response_format`; its properties come in their order, so what reasons
      stands before what it decides.
  """

  messages: base.Conversation
  schema: Mapping[str, Any]


def object_schema(properties: Mapping[str, Any]) -> dict[str, Any]:
  """The schema of an object that has all of these properties and no other."""
  return {
    "type": "object",
    "properties": dict(properties),
    "required": list(properties),
    "additionalProperties": False,
  }
