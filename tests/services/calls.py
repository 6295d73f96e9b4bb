"""Calls of a chat client, and what to ask it."""

import asyncio
import contextlib
import socket
import time

from hrl_jax.services import chat

KEY = "sk-secret-0123456789"


def endpoint(url, **changes):
  return chat.Endpoint(
    url=url,
    model="judge",
    api_key=None,
    max_in_flight=64,
    attempts=4,
    timeout_s=5.0,
    deadline_s=20.0,
  )._replace(**changes)


def question(index=0):
  return {"messages": [{"role": "user", "content": f"question {index}"}]}


def sent(index=0):
  return chat.encode(endpoint(""), question(index))


def echo(body):
  return "answer to " + body["messages"][0]["content"]


def always(kind):
  return lambda body, arrival: kind


def at_first(kind):
  return lambda body, arrival: kind if arrival == 0 else None


async def ask(client, *indices):
  calls = (client.complete(sent(index)) for index in indices)
  return await asyncio.gather(*calls, return_exceptions=True)


def run(settings, *indices):
  """The outcome of each question, and the client that asked them."""

  async def main():
    async with chat.Chat(settings) as client:
      return await ask(client, *indices), client

  return asyncio.run(main())


def failure(settings):
  """The error of one call, and how long it took."""
  start = time.monotonic()
  (error,), _ = run(settings, 0)
  assert isinstance(error, chat.CallError), error
  return error, time.monotonic() - start


def closed_port():
  with socket.create_server(("127.0.0.1", 0)) as listener:
    return listener.getsockname()[1]


@contextlib.contextmanager
def silent():
  """The address of one who accepts connections and says nothing."""
  with socket.create_server(("127.0.0.1", 0)) as listener:
    yield f"http://127.0.0.1:{listener.getsockname()[1]}/v1"
