"""Questions to an LLM, and endpoints that answer them."""

import json

from hrl_jax import base, questions
from hrl_jax.services import llm, replies
from tests.services import calls

SCHEMA = questions.object_schema(
  {"why": {"type": "string"}, "number": {"type": "integer"}}
)
KNOBS = llm.Knobs(
  structured=True, temperature=0.6, max_tokens=256, deadline=20.0
)
REPAIR = "A reply to this came already"


def endpoint(url, **changes):
  """Of few calls that give up soon."""
  soon = dict(max_in_flight=8, attempts=2, timeout_s=1.0, deadline_s=3.0)
  return calls.endpoint(url, **soon | changes)


def service(url, kept=None, *, deadline=KNOBS.deadline, **changes):
  return llm.LlmService(
    endpoint(url, **changes),
    KNOBS._replace(deadline=deadline),
    kept or replies.Forgetful(),
  )


def call(number=0, **changes):
  asked = llm.Call(
    step=3,
    purpose="hacking",
    task=f"task-{number}",
    attempt=0,
    messages=(
      base.Message("system", "You count."),
      base.Message("user", f"Number {number}, please."),
    ),
    schema=SCHEMA,
  )
  return asked._replace(**changes)


def text(body):
  return body["messages"][-1]["content"]


def number(body):
  return int(text(body).split()[1].rstrip(","))


def value(number):
  return {"why": "Because.", "number": number}


def honest(body):
  """The reply of a model that does what it is told."""
  return json.dumps(value(number(body)))


def good(index, calls=1):
  """The answer to `call(index)`, with the tokens of the fault server."""
  raw = json.dumps(value(index))
  return llm.Answer(value(index), "", raw, 2 * calls, calls)
