import asyncio
import email.utils
import gc
import logging
import time
import traceback

import pytest

from hrl_jax.services import chat
from tests.services import calls, fault_server


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch):
  monkeypatch.setattr(chat, "_FIRST_PAUSE_S", 0.05)


def test_a_stuck_endpoint_ends_at_the_deadline():
  with calls.silent() as url:
    error, seconds = calls.failure(
      calls.endpoint(url, deadline_s=0.7, timeout_s=0.4)
    )
  # Tries of 0.4 s and of what the first pause left of 0.3 s.
  assert error.reason.startswith("no reply within 0.")
  assert error.reason.endswith("before the deadline of 0.7 s)")
  assert 0.6 < seconds < 2


def test_no_try_outlives_the_deadline_of_its_call():
  with calls.silent() as url:
    settings = calls.endpoint(url, deadline_s=0.3, timeout_s=30.0)
    error, seconds = calls.failure(settings)
  assert error.reason.endswith(
    "(1 try; no time for another before the deadline of 0.3 s)"
  )
  assert seconds < 2


def test_many_calls_run_at_once():
  server = fault_server.FaultServer(calls.echo, delay_s=0.05)
  with server as url:
    start = time.monotonic()
    replies, _ = calls.run(calls.endpoint(url, max_in_flight=64), *range(64))
    seconds = time.monotonic() - start
  assert len({reply.text for reply in replies}) == 64
  # One after the other they would take 64 * 0.05 s = 3.2 s; all at once, 0.05.
  assert seconds < 0.8
  assert server.max_open > 8


def test_never_more_calls_are_open_than_allowed():
  server = fault_server.FaultServer(calls.echo, delay_s=0.05)
  with server as url:
    calls.run(calls.endpoint(url, max_in_flight=4), *range(16))
  assert server.max_open == 4


def test_calls_are_served_in_order_of_arrival():
  server = fault_server.FaultServer(calls.echo)
  with server as url:
    calls.run(calls.endpoint(url, max_in_flight=1), *range(12))
  assert [body["messages"] for body in server.bodies] == [
    calls.question(index)["messages"] for index in range(12)
  ]


def test_connections_are_used_again():
  server = fault_server.FaultServer(calls.echo, delay_s=0.001)
  with server as url:
    calls.run(calls.endpoint(url, max_in_flight=4), *range(40))
  assert server.connections == 4


def test_queueing_does_not_count_against_the_deadline():
  with fault_server.FaultServer(calls.echo, delay_s=0.1) as url:
    # The last of eight waits for 0.7 s.
    replies, _ = calls.run(
      calls.endpoint(url, max_in_flight=1, deadline_s=0.5), *range(8)
    )
  assert all(isinstance(reply, chat.Reply) for reply in replies)


def test_a_rate_limit_holds_back_every_call():
  limited_until = []

  def fault(body, arrival):
    # The first four, of which each asks for half a second.
    if len(limited_until) < 4:
      limited_until.append(time.monotonic() + 0.5)
      return "rate_limited"
    return None

  server = fault_server.FaultServer(calls.echo, fault, retry_after="0.5")
  with server as url:
    settings = calls.endpoint(url, max_in_flight=4, attempts=1)
    replies, client = calls.run(settings, *range(16))
  assert all(isinstance(reply, chat.Reply) for reply in replies)
  # Not among the attempts, of which there is one.
  assert client.tally == {"HTTP 429": 4}
  # The client counts from when it hears of it: later, never earlier.
  assert min(server.arrivals_s[4:]) >= max(limited_until)


def test_a_rate_limit_with_a_date_is_waited_for():
  # Dates have whole seconds: 1 to 2 s from now.
  date = email.utils.formatdate(time.time() + 2, usegmt=True)
  server = fault_server.FaultServer(
    calls.echo, calls.at_first("rate_limited"), retry_after=date
  )
  with server as url:
    (reply,), _ = calls.run(calls.endpoint(url, attempts=1), 0)
  assert reply.text == "answer to question 0"
  assert server.arrivals_s[1] - server.arrivals_s[0] > 0.8


@pytest.mark.parametrize("value", ["0", "-1", "soon", "nan", "inf", ""])
def test_a_rate_limit_that_asks_for_no_time_counts_as_a_try(value):
  server = fault_server.FaultServer(
    calls.echo, calls.always("rate_limited"), retry_after=value
  )
  with server as url:
    error, _ = calls.failure(calls.endpoint(url, attempts=3))
  assert error.reason == "HTTP 429 (3 tries)"


def test_a_rate_limit_past_the_deadline_fails_at_once():
  server = fault_server.FaultServer(
    calls.echo, calls.always("rate_limited"), retry_after="60"
  )
  with server as url:
    start = time.monotonic()
    settings = calls.endpoint(url, deadline_s=30.0, max_in_flight=1)
    (first, second), _ = calls.run(settings, 0, 1)
    assert time.monotonic() - start < 2
  assert first.reason == (
    "HTTP 429 (1 try; told to wait 60 s, which is past the deadline of 30 s)"
  )
  # It learnt from the first that there is no use in asking.
  assert second.reason == (
    "not tried (0 tries; told to wait 60 s, which is past the deadline of 30 s)"
  )
  assert len(server.bodies) == 1


def test_a_cancelled_call_closes_its_connection_and_frees_its_place():
  stuck = calls.question(0)["messages"]
  server = fault_server.FaultServer(
    calls.echo, lambda body, n: "stuck" if body["messages"] == stuck else None
  )

  async def main(url):
    async with chat.Chat(calls.endpoint(url, max_in_flight=1)) as client:
      call = asyncio.create_task(client.complete(calls.sent(0)))
      while not server.open:
        await asyncio.sleep(0.01)
      waiting = asyncio.create_task(client.complete(calls.sent(1)))
      queued = asyncio.create_task(client.complete(calls.sent(2)))
      await asyncio.sleep(0.05)
      assert not waiting.done()
      queued.cancel()
      call.cancel()
      async with asyncio.timeout(3):
        assert (await waiting).text == "answer to question 1"
        while server.open:
          await asyncio.sleep(0.01)
      with pytest.raises(asyncio.CancelledError):
        await call
      assert len(asyncio.all_tasks()) == 1

  with server as url:
    asyncio.run(main(url))
  assert len(server.bodies) == 2


def test_a_cancelled_pause_frees_its_place(monkeypatch):
  monkeypatch.setattr(chat.Chat, "_pause_s", lambda self, failed: 60.0)
  first = calls.question(0)["messages"]
  server = fault_server.FaultServer(
    calls.echo, lambda body, n: "reset" if body["messages"] == first else None
  )

  async def main(url):
    settings = calls.endpoint(url, max_in_flight=1, deadline_s=600.0)
    async with chat.Chat(settings) as client:
      call = asyncio.create_task(client.complete(calls.sent(0)))
      while not client.tally:
        await asyncio.sleep(0.01)
      call.cancel()
      async with asyncio.timeout(3):
        assert (await client.complete(calls.sent(1))).finish == "stop"

  with server as url:
    asyncio.run(main(url))


def test_the_event_loop_is_never_held_up():
  held_s = []

  async def beat():
    while True:
      # CPU time of this thread, which other work on the machine leaves alone.
      start = time.thread_time()
      await asyncio.sleep(0.005)
      held_s.append(time.thread_time() - start - 0.005)

  async def main(url):
    heart = asyncio.create_task(beat())
    async with chat.Chat(calls.endpoint(url, max_in_flight=256)) as client:
      await calls.ask(client, *range(256))
    heart.cancel()

  # What is collected here is of other tests, not of the client.
  gc.collect()
  gc.freeze()
  with fault_server.FaultServer(calls.echo, delay_s=0.05) as url:
    asyncio.run(main(url))
  gc.unfreeze()
  assert len(held_s) > 5
  assert max(held_s) < 0.05


def test_a_long_request_passes_whole():
  text = "é" * 1_000_000
  server = fault_server.FaultServer(lambda body: str(len(text)))
  body = {"messages": [{"role": "user", "content": text}]}

  async def main(url):
    async with chat.Chat(calls.endpoint(url)) as client:
      return await client.complete(chat.encode(calls.endpoint(url), body))

  with server as url:
    assert asyncio.run(main(url)).text == "1000000"
  assert server.bodies[0]["messages"][0]["content"] == text


def test_a_key_reaches_the_endpoint_and_nothing_else(caplog):
  caplog.set_level(logging.DEBUG)
  settings = calls.endpoint("", api_key=calls.KEY, attempts=1)
  shown = [repr(settings), str(settings)]
  with fault_server.FaultServer(calls.echo, api_key=calls.KEY) as url:
    (reply,), _ = calls.run(settings._replace(url=url), 0)
    assert reply.text == "answer to question 0"
  for kind in fault_server.KINDS:
    with fault_server.FaultServer(
      calls.echo, calls.always(kind), slow_s=0.0
    ) as url:
      faulty = settings._replace(url=url, timeout_s=0.2, deadline_s=0.3)
      (outcome,), _ = calls.run(faulty, 0)
      shown.append(repr(outcome))
      if isinstance(outcome, chat.CallError):
        shown += [outcome.raw, *traceback.format_exception(outcome)]
  with fault_server.FaultServer(calls.echo, api_key="another") as url:
    (error,), _ = calls.run(settings._replace(url=url), 0)
    shown += [repr(error), error.raw]
  assert calls.KEY not in "".join(shown)
  assert calls.KEY not in caplog.text


def test_a_proxy_of_the_environment_is_not_used(monkeypatch):
  for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
    monkeypatch.setenv(name, f"http://127.0.0.1:{calls.closed_port()}")
  monkeypatch.delenv("no_proxy", raising=False)
  with fault_server.FaultServer(calls.echo) as url:
    (reply,), _ = calls.run(calls.endpoint(url, attempts=1), 0)
  assert isinstance(reply, chat.Reply)
