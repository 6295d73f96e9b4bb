import contextlib
import socketserver
import threading

import pytest

from hrl_jax.services import chat
from tests.services import calls, fault_server

# Another try helps; what the tally calls it; what the last one is called.
RETRIED = {
  "refused": ("closed", "connection closed by http://127.0.0.1:"),
  "reset": ("closed", "connection closed by http://127.0.0.1:"),
  "rate_limited": ("HTTP 429", "HTTP 429"),
  "server_error": ("HTTP 500", "HTTP 500"),
  "stuck": ("timeout", "no reply within 0.3 s"),
  "cut": ("cut", "reply cut off"),
  "malformed": ("malformed", "reply is not JSON"),
  "wrong_schema": ("malformed", "reply is no chat completion"),
  "huge": ("too large", "reply of more than 50,000 bytes"),
}


@contextlib.contextmanager
def replying(status, body, header=""):
  """An address that answers all with the same, and a list of the requests."""
  asked = []

  class Handler(socketserver.StreamRequestHandler):
    def handle(self):
      asked.append(self.request.recv(10_000))
      head = f"HTTP/1.1 {status} -\r\nConnection: close\r\n{header}\r\n"
      self.wfile.write(head.encode() + body)

  with socketserver.TCPServer(("127.0.0.1", 0), Handler) as server:
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
      yield f"http://127.0.0.1:{server.server_address[1]}/v1", asked
    finally:
      server.shutdown()
      thread.join()


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch):
  monkeypatch.setattr(chat, "_FIRST_PAUSE_S", 0.05)


def test_a_reply_carries_text_and_finish():
  server = fault_server.FaultServer(calls.echo)
  with server as url:
    (reply,), client = calls.run(calls.endpoint(url), 7)
  assert reply == chat.Reply("answer to question 7", "stop", 2)
  assert server.bodies == [{**calls.question(7), "model": "judge"}]
  assert not client.tally


@pytest.mark.parametrize("kind", RETRIED)
def test_a_fault_that_passes_is_tried_again(kind):
  server = fault_server.FaultServer(
    calls.echo, calls.at_first(kind), retry_after="0.1", slow_s=0.0
  )
  with server as url:
    settings = calls.endpoint(
      url,
      timeout_s=0.3 if kind == "stuck" else 5.0,
      max_reply_bytes=50_000,
      attempts=8,
    )
    replies, client = calls.run(settings, *range(4))
  assert [reply.text for reply in replies] == [
    f"answer to question {index}" for index in range(4)
  ]
  # A closed listener refuses some connections of the others as well.
  seen = client.tally[RETRIED[kind][0]] + client.tally["refused"]
  assert seen >= 4
  assert server.faults[kind] == 4


def test_a_mix_of_faults_changes_no_reply():
  kinds = sorted(RETRIED)

  def fault(body, arrival):
    draw = int(fault_server.identity(body)[:8], 16)
    # One request in five meets one fault, some twice.
    if draw % 5 or arrival > draw % 2:
      return None
    return kinds[draw % len(kinds)]

  server = fault_server.FaultServer(calls.echo, fault, retry_after="0.1")
  with server as url:
    settings = calls.endpoint(url, timeout_s=0.5, attempts=8, max_in_flight=16)
    replies, client = calls.run(settings, *range(200))
  assert [reply.text for reply in replies] == [
    f"answer to question {index}" for index in range(200)
  ]
  assert set(server.faults) == set(RETRIED)
  assert sum(server.answered.values()) >= 200
  assert client.tally.total() >= 40


@pytest.mark.parametrize("kind", sorted(set(RETRIED) - {"rate_limited"}))
def test_a_fault_that_stays_is_said_with_its_tries(kind):
  server = fault_server.FaultServer(calls.echo, calls.always(kind))
  with server as url:
    settings = calls.endpoint(
      url,
      timeout_s=0.3 if kind == "stuck" else 5.0,
      max_reply_bytes=50_000,
      attempts=3,
    )
    error, seconds = calls.failure(settings)
  if kind == "refused":
    assert "(3 tries)" in error.reason
  else:
    assert error.reason.startswith(RETRIED[kind][1])
    assert error.reason.endswith("(3 tries)")
    assert len(server.bodies) == 3
  assert "\n" not in error.reason
  assert seconds < 3


@pytest.mark.parametrize(
  ("kind", "raw"),
  [
    ("server_error", "the engine died"),
    ("malformed", '"finish_reason": "stop"'),
    ("wrong_schema", '"text": "answer to question 0"'),
    ("cut", '{"object": "chat.completion"'),
    ("huge", "huge huge huge"),
  ],
)
def test_what_came_back_is_kept(kind, raw):
  with fault_server.FaultServer(calls.echo, calls.always(kind)) as url:
    error, _ = calls.failure(
      calls.endpoint(url, attempts=1, max_reply_bytes=50_000)
    )
  assert raw in error.raw
  assert len(error.raw) <= 10_000


def test_the_last_body_is_kept_when_later_tries_bring_none():
  kinds = ("server_error", "stuck")
  server = fault_server.FaultServer(calls.echo, lambda body, n: kinds[n])
  with server as url:
    error, _ = calls.failure(calls.endpoint(url, attempts=2, timeout_s=0.2))
  assert error.reason == "no reply within 0.2 s (2 tries)"
  assert error.raw == "the engine died"


@pytest.mark.parametrize(
  ("kind", "text"), [("empty", ""), ("refusal", "I cannot judge this.")]
)
def test_a_model_that_says_nothing_has_replied(kind, text):
  server = fault_server.FaultServer(calls.echo, calls.always(kind))
  with server as url:
    (reply,), _ = calls.run(calls.endpoint(url), 0)
  assert reply == chat.Reply(text, "stop", 2)
  assert len(server.bodies) == 1


def test_a_slow_reply_is_waited_for():
  server = fault_server.FaultServer(
    calls.echo, calls.always("slow"), slow_s=0.3
  )
  with server as url:
    (reply,), client = calls.run(calls.endpoint(url), 0)
  assert reply.text == "answer to question 0"
  assert not client.tally


def test_a_wrong_request_is_not_tried_again():
  server = fault_server.FaultServer(calls.echo, api_key="another")
  with server as url:
    error, seconds = calls.failure(calls.endpoint(url, api_key=calls.KEY))
  assert error.reason == "HTTP 401 (1 try)"
  assert error.raw == "no such key: [API key]"
  assert seconds < 1


@pytest.mark.parametrize("status", [301, 400, 404, 413, 422])
def test_what_is_wrong_with_the_request_is_not_tried_again(status):
  with replying(status, b"too long", "Location: /v1/models\r\n") as (
    url,
    asked,
  ):
    error, _ = calls.failure(calls.endpoint(url))
  assert error.reason == f"HTTP {status} (1 try)"
  assert error.raw == "too long"
  assert len(asked) == 1


@pytest.mark.parametrize("status", [408, 409, 425, 429, 500, 502, 503, 529])
def test_what_may_pass_is_tried_again(status):
  with replying(status, b"\xffbusy") as (url, asked):
    error, _ = calls.failure(calls.endpoint(url, attempts=3))
  assert error.reason == f"HTTP {status} (3 tries)"
  assert error.raw == "\N{REPLACEMENT CHARACTER}busy"
  assert len(asked) == 3


def test_an_empty_body_is_tried_again():
  with replying(200, b"") as (url, asked):
    error, _ = calls.failure(calls.endpoint(url, attempts=2))
  assert (error.reason, error.raw) == ("empty reply (2 tries)", "")
  assert len(asked) == 2


@pytest.mark.parametrize(
  ("answer", "text"),
  [('{"1": "yes", "2": "no"}', '{"1": "yes"}'), ('"yes"', '["yes", "yes"]')],
)
def test_a_wrong_count_is_a_reply(answer, text):
  server = fault_server.FaultServer(
    lambda body: answer, calls.always("wrong_count")
  )
  with server as url:
    (reply,), _ = calls.run(calls.endpoint(url), 0)
  assert reply.text == text


def test_nobody_there_is_said_with_the_address():
  url = f"http://127.0.0.1:{calls.closed_port()}/v1"
  error, _ = calls.failure(calls.endpoint(url, attempts=2))
  assert error.reason == (
    f"connection refused at {url}/chat/completions (2 tries)"
  )
  assert error.raw == ""
