import asyncio
import contextlib
import http.server
import json
import threading
import time

import numpy as np
import pytest

from hrl_jax.services import chat
from hrl_jax.services.memory import embedder, endpoint_embedder
from tests.services import calls


class Server(http.server.ThreadingHTTPServer):
  """Answers with vectors made from the texts, unless told otherwise.

  Attributes:
    bodies: what was asked, in order.
    keys: the value of each call's Authorization.
    answer: `answer(body, number)`: status, headers and body of the reply to
      the call of that number.
    open: calls at work now; max_open: most of them at once.
  """

  daemon_threads = True

  def __init__(self, answer):
    super().__init__(("127.0.0.1", 0), Handler)
    self.answer = answer
    self.bodies, self.keys = [], []
    self.open = self.max_open = 0
    self.lock = threading.Lock()


class Handler(http.server.BaseHTTPRequestHandler):
  def do_POST(self):
    body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
    server = self.server
    with server.lock:
      number = len(server.bodies)
      server.bodies.append(body)
      server.keys.append(self.headers["Authorization"])
      server.open += 1
      server.max_open = max(server.open, server.max_open)
    time.sleep(0.01)
    status, headers, reply = server.answer(body, number)
    with server.lock:
      server.open -= 1
    self.send_response(status)
    for name, value in {**headers, "Content-Length": len(reply)}.items():
      self.send_header(name, str(value))
    self.end_headers()
    with contextlib.suppress(ConnectionError):  # The client may have left.
      self.wfile.write(reply)

  def log_message(self, *_):
    pass


def vector(text):
  return [float(len(text)), 1.0, float(text.count("e"))]


def reply(body, number=0, **changes):
  data = [
    {"index": index, "embedding": vector(text)}
    for index, text in enumerate(body["input"])
  ]
  # Not in the order in which they were asked for.
  content = {"data": data[::-1], **changes}
  return 200, {}, json.dumps(content).encode()


@contextlib.contextmanager
def served(answer=reply):
  server = Server(answer)
  thread = threading.Thread(target=server.serve_forever, args=(0.01,))
  thread.start()
  try:
    yield server, f"http://127.0.0.1:{server.server_port}/v1"
  finally:
    server.shutdown()
    thread.join()
    server.server_close()


def made(url, batch_size=32, **changes):
  endpoint = calls.endpoint(url, **changes)
  return endpoint_embedder.EndpointEmbedder(endpoint, batch_size=batch_size)


def expected(texts):
  return embedder.normalized(np.array([vector(text) for text in texts]), "x")


def test_vectors_come_in_the_order_of_the_texts_and_with_length_one():
  texts = ["one", "three", "seven", "e"]
  with served() as (server, url):
    asked = made(url)
    assert isinstance(asked, embedder.Embedder)
    np.testing.assert_array_equal(asked.embed(texts), expected(texts))
    (body,) = server.bodies
  assert body == {
    "model": "judge",
    "input": texts,
    "encoding_format": "float",
  }
  assert asked.name == "endpoint-judge"


def test_many_texts_are_asked_in_batches_side_by_side_but_not_too_many():
  texts = ["e" * number for number in range(1, 42)]
  with served() as (server, url):
    asked = made(url, batch_size=2, max_in_flight=4)
    np.testing.assert_array_equal(asked.embed(texts), expected(texts))
  assert sorted(len(body["input"]) for body in server.bodies) == [1] + 20 * [2]
  assert 2 <= server.max_open <= 4


def test_it_can_be_asked_from_within_an_event_loop():
  async def main(url):
    return made(url).embed(["one"])

  with served() as (_, url):
    assert asyncio.run(main(url)).shape == (1, 3)


def test_the_key_is_sent_and_not_shown():
  def refused(body, number):
    return 401, {}, calls.KEY.encode()

  with served(refused) as (server, url):
    asked = made(url, api_key=calls.KEY)
    with pytest.raises(chat.UnreachableError, match="HTTP 401") as caught:
      asked.embed(["one"])
  assert server.keys == [f"Bearer {calls.KEY}"]
  assert calls.KEY not in str(caught.value) + repr(asked)


@pytest.mark.parametrize(
  "first",
  [
    (500, {}, b"broken"),
    (429, {"Retry-After": "1"}, b""),
    (200, {}, b"not JSON"),
    (200, {}, b"{}"),
    (200, {}, b'{"data": []}'),
    (200, {}, b'{"data": [{"index": 0, "embedding": "abc"}]}'),
    (200, {}, b'{"data": [{"index": 1, "embedding": [1.0]}]}'),
    (200, {}, b'{"data": [{"index": 0, "embedding": []}]}'),
  ],
)
def test_what_another_try_may_mend_is_tried_again(first):
  def answer(body, number):
    return first if number == 0 else reply(body)

  with served(answer) as (server, url):
    start = time.monotonic()
    np.testing.assert_array_equal(made(url).embed(["one"]), expected(["one"]))
    assert time.monotonic() - start >= (1.0 if first[0] == 429 else 0.4)
    assert len(server.bodies) == 2


@pytest.mark.parametrize("status", [400, 401, 404, 422])
def test_what_is_wrong_with_the_request_is_not(status):
  with served(lambda body, number: (status, {}, b"")) as (server, url):
    with pytest.raises(chat.UnreachableError) as caught:
      made(url).embed(["one"])
    assert len(server.bodies) == 1
  message = str(caught.value)
  assert f"HTTP {status} (1 try)" in message
  assert "set config.judge.endpoint to one that runs" in message


def test_the_tries_are_counted():
  with served(lambda body, number: (503, {}, b"")) as (server, url):
    with pytest.raises(chat.UnreachableError, match=r"HTTP 503 \(2 tries\)"):
      made(url, attempts=2).embed(["one"])
    assert len(server.bodies) == 2


def test_an_endpoint_that_is_not_there_is_said():
  url = f"http://127.0.0.1:{calls.closed_port()}/v1"
  with pytest.raises(chat.UnreachableError, match="connection refused"):
    made(url, attempts=1).embed(["one"])


def test_an_endpoint_that_says_nothing_is_given_up_at_the_deadline():
  with calls.silent() as url:
    start = time.monotonic()
    with pytest.raises(chat.UnreachableError, match="no reply within"):
      made(url, timeout_s=0.2, deadline_s=0.9, attempts=99).embed(["one"])
    assert time.monotonic() - start < 5


def test_a_wait_past_the_deadline_is_not_waited_for():
  def answer(body, number):
    return 429, {"Retry-After": "3600"}, b""

  with served(answer) as (_, url):
    start = time.monotonic()
    with pytest.raises(chat.UnreachableError, match="HTTP 429"):
      made(url).embed(["one"])
    assert time.monotonic() - start < 5


def test_a_reply_that_is_too_large_is_given_up():
  def answer(body, number):
    return reply(body, padding="x" * 10**6)

  with served(answer) as (server, url):
    with pytest.raises(chat.UnreachableError, match="more than 100,000 bytes"):
      made(url, max_reply_bytes=100_000).embed(["one"])
    assert len(server.bodies) == 1


def test_one_failed_call_ends_all():
  def answer(body, number):
    return (400, {}, b"") if "bad" in body["input"] else reply(body)

  with served(answer) as (_, url), pytest.raises(chat.UnreachableError):
    made(url, batch_size=1).embed(["one", "bad", "two"])


def test_vectors_of_unequal_width_are_refused():
  def answer(body, number):
    data = [{"index": 0, "embedding": [1.0] * len(body["input"][0])}]
    return 200, {}, json.dumps({"data": data}).encode()

  with (
    served(answer) as (_, url),
    pytest.raises(chat.UnreachableError, match=r"have \[3, 5\] numbers"),
  ):
    made(url, batch_size=1).embed(["one", "three"])


@pytest.mark.parametrize(
  "changes", [{"url": "ftp://x"}, {"attempts": 0}, {"deadline_s": 0.0}]
)
def test_a_bad_endpoint_is_refused_before_it_is_asked(changes):
  with pytest.raises(ValueError):
    made(**{"url": "http://127.0.0.1:1/v1", **changes})
  with pytest.raises(ValueError, match="batch_size must be positive"):
    made("http://127.0.0.1:1/v1", batch_size=0)
