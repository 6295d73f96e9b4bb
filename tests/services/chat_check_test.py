import asyncio
import time

import pytest

from hrl_jax.services import chat
from tests.services import calls, fault_server


def check(settings, limit_s=5.0):
  async def main():
    async with chat.Chat(settings) as client:
      await client.check(limit_s)

  asyncio.run(main())


def unreachable(settings, limit_s=5.0):
  with pytest.raises(chat.UnreachableError) as caught:
    check(settings, limit_s)
  assert "\n" not in str(caught.value)
  return str(caught.value)


def test_an_endpoint_that_serves_the_model_passes():
  with fault_server.FaultServer(calls.echo, models=("other", "judge")) as url:
    check(calls.endpoint(url + "/"))


def test_an_endpoint_that_lists_no_models_passes():
  with fault_server.FaultServer(calls.echo, models=None) as url:
    check(calls.endpoint(url))


def test_nobody_there_is_told_how_to_start_one():
  port = calls.closed_port()
  url = f"http://127.0.0.1:{port}/v1"
  message = unreachable(calls.endpoint(url, model="Qwen/Qwen3-8B"))
  assert message.startswith(f"The endpoint at {url} cannot be used")
  assert "connection refused" in message
  assert f"`vllm serve Qwen/Qwen3-8B --port {port}`" in message
  assert "config.judge.endpoint.url" in message
  assert "config.judge.kind" in message


def test_an_endpoint_that_never_answers_is_said_in_time():
  with calls.silent() as url:
    start = time.monotonic()
    message = unreachable(calls.endpoint(url), limit_s=0.3)
    assert time.monotonic() - start < 2
  assert "no reply within 0.3 s" in message


def test_a_missing_model_is_said_with_those_served():
  models = [f"model-{index}" for index in range(12)]
  with fault_server.FaultServer(calls.echo, models=models) as url:
    message = unreachable(calls.endpoint(url))
  assert "'model-9' and 2 more, but not 'judge'" in message
  assert "model-10" not in message
  assert "config.judge.endpoint.model" in message


@pytest.mark.parametrize(
  ("key", "words"),
  [
    (calls.KEY, "refuses the API key"),
    (None, "refuses a call without API key"),
  ],
)
def test_a_refused_key_is_named(key, words):
  with fault_server.FaultServer(calls.echo, api_key="another") as url:
    message = unreachable(calls.endpoint(url, api_key=key))
  assert words in message
  assert "HTTP 401" in message
  assert "config.judge.endpoint.api_key_variable" in message
  assert calls.KEY not in message


@pytest.mark.parametrize(
  "url",
  [
    "127.0.0.1:8000/v1",
    "ftp://127.0.0.1/v1",
    "http:///v1",
    "http://user:secret@127.0.0.1/v1",
    "http://127.0.0.1/v1?key=secret",
  ],
)
def test_an_address_that_is_none_is_refused(url):
  with pytest.raises(ValueError, match="base URL such as") as caught:
    chat.Chat(calls.endpoint(url))
  assert "secret" not in str(caught.value)


@pytest.mark.parametrize("name", ["max_in_flight", "attempts", "timeout_s"])
def test_a_limit_that_is_not_positive_is_refused(name):
  with pytest.raises(ValueError, match=f"{name} .* must be positive, got 0"):
    chat.Chat(calls.endpoint("http://127.0.0.1/v1", **{name: 0}))
