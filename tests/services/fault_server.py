"""An endpoint of chat completions that fails on purpose."""

import asyncio
import collections
import contextlib
import hashlib
import json
import socket
import struct
import threading
import time
from collections.abc import Callable, Coroutine, Sequence

KINDS = (
  "refused",
  "reset",
  "rate_limited",
  "server_error",
  "slow",
  "stuck",
  "cut",
  "malformed",
  "wrong_count",
  "wrong_schema",
  "empty",
  "refusal",
  "huge",
)


def identity(body: dict) -> str:
  """A name of a request's content, the same in every run."""
  return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()


class FaultServer:
  """A server in a thread, and the record of what it was asked.

    server = FaultServer(lambda body: "yes")
    with server as url:
      ...

  Attributes:
    bodies: of the requests for completions, in order of arrival.
    arrivals_s: when each came, on the monotonic clock.
    arrivals: requests of each content, by `identity`.
    answered: of these, those that were answered, at once or slowly.
    faults: requests by the kind of fault that was played on them.
    open: requests being answered now.
    max_open: most of them at the same time.
    connections: opened in all.
  """

  def __init__(
    self,
    answer: Callable[[dict], str],
    fault: Callable[[dict, int], str | None] = lambda body, arrival: None,
    *,
    delay_s: float = 0.0,
    slow_s: float = 0.3,
    retry_after: str = "1",
    models: Sequence[str] | None = ("judge",),
    api_key: str | None = None,
  ):
    """Makes a server that does not run yet.

    Args:
      answer: content of the reply to a request.
      fault: one of `KINDS`, or None, for a request and the number of requests
        of equal content before it.
      delay_s: before every normal answer.
      slow_s: added to it by the fault "slow".
      retry_after: value of the header of the fault "rate_limited".
      models: names that are served; None answers 404 to who asks for them.
      api_key: without which a request is refused, in words that repeat the
        one that it brought.
    """
    self._answer = answer
    self._fault = fault
    self._delay_s = delay_s
    self._slow_s = slow_s
    self._retry_after = retry_after
    self._models = models
    self._api_key = api_key
    self.bodies: list[dict] = []
    self.arrivals_s: list[float] = []
    self.arrivals: collections.Counter[str] = collections.Counter()
    self.answered: collections.Counter[str] = collections.Counter()
    self.faults: collections.Counter[str] = collections.Counter()
    self.open = self.max_open = self.connections = 0
    self._error: Exception | None = None

  def __enter__(self) -> str:
    """Starts it; the base address of its endpoint."""
    started = threading.Event()
    self._thread = threading.Thread(
      target=lambda: asyncio.run(self._run(started)), daemon=True
    )
    self._thread.start()
    if not started.wait(10):
      raise TimeoutError("The fault server did not start within 10 s.")
    return f"http://127.0.0.1:{self._port}/v1"

  def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
    """Stops it, whatever is open; raises what `answer` or `fault` raised."""
    self._loop.call_soon_threadsafe(self._stop.set)
    self._thread.join(10)
    if self._thread.is_alive():
      raise TimeoutError("The fault server did not stop within 10 s.")
    if self._error is not None and kind is None:
      raise self._error

  async def _run(self, started: threading.Event) -> None:
    self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
    self._port = 0
    self._refusing = 0
    self._tasks: set[asyncio.Task] = set()
    self._listen()
    started.set()
    await self._stop.wait()
    self._close()
    await asyncio.sleep(0)  # Those that were accepted last begin.
    for task in self._tasks:
      task.cancel()
    await asyncio.gather(*self._tasks, return_exceptions=True)
    self._close()  # One that refused may have begun to listen again.

  def _listen(self) -> None:
    # Not `asyncio.start_server`: if it is closed between an accepted
    # connection and its transport, nobody closes that connection.
    self._listener = socket.create_server(
      ("127.0.0.1", self._port), backlog=1024
    )
    self._listener.setblocking(False)
    self._port = self._listener.getsockname()[1]
    self._loop.add_reader(self._listener, self._accept)

  def _close(self) -> None:
    if self._listener.fileno() == -1:
      return
    self._loop.remove_reader(self._listener)
    self._listener.close()

  def _accept(self) -> None:
    with contextlib.suppress(BlockingIOError):
      while True:
        self._start(self._connected(self._listener.accept()[0]))

  def _start(self, coroutine: Coroutine[None, None, None]) -> None:
    task = self._loop.create_task(coroutine)
    self._tasks.add(task)
    task.add_done_callback(self._tasks.discard)

  async def _connected(self, client: socket.socket) -> None:
    self.connections += 1
    writer = None
    try:
      reader, writer = await asyncio.open_connection(sock=client)
      while await self._serve(_Connection(reader, writer)):
        pass
      writer.close()
      await writer.wait_closed()
    except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
      pass  # The client left, or the test is over.
    except Exception as error:
      self._error = error
    finally:
      if writer is None:
        client.close()
      else:
        writer.transport.abort()

  async def _serve(self, connection: "_Connection") -> bool:
    """Answers one request; whether the connection stays open."""
    head = (await connection.reader.readuntil(b"\r\n\r\n")).decode()
    fields = dict(
      line.lower().split(": ", 1) for line in head.splitlines()[1:] if line
    )
    body = await connection.reader.readexactly(
      int(fields.get("content-length", 0))
    )
    bearer = head.partition("Authorization: Bearer ")[2].partition("\r\n")[0]
    if self._api_key is not None and bearer != self._api_key:
      return connection.send(401, f"no such key: {bearer}")
    if head.startswith("GET /v1/models "):
      return self._list_models(connection)
    if not head.startswith("POST /v1/chat/completions "):
      return connection.send(404, "no such path")
    return await self._complete(connection, json.loads(body))

  def _list_models(self, connection: "_Connection") -> bool:
    if self._models is None:
      return connection.send(404, "no such path")
    data = [{"id": name, "object": "model"} for name in self._models]
    return connection.send(200, json.dumps({"object": "list", "data": data}))

  async def _complete(self, connection: "_Connection", body: dict) -> bool:
    name = identity(body)
    kind = self._fault(body, self.arrivals[name])
    if kind is not None and kind not in KINDS:
      raise ValueError(f"No such fault: {kind!r}. Use one of {KINDS}.")
    self.bodies.append(body)
    self.arrivals_s.append(time.monotonic())
    self.arrivals[name] += 1
    self.open += 1
    self.max_open = max(self.max_open, self.open)
    try:
      if kind is not None:
        self.faults[kind] += 1
        return await self._play(kind, connection, body)
      await connection.client_left(self._delay_s)
      self.answered[name] += 1
      return connection.send(200, _completion(self._answer(body)))
    finally:
      self.open -= 1

  async def _play(
    self, kind: str, connection: "_Connection", body: dict
  ) -> bool:
    content = self._answer(body)
    match kind:
      case "refused":
        self._start(self._refuse(0.05))
        return False
      case "reset":
        # Lingering for no time closes with a reset.
        connection.writer.get_extra_info("socket").setsockopt(
          socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)
        )
        return False
      case "stuck":
        await connection.client_left(None)
        return False
      case "slow":
        await connection.client_left(self._delay_s + self._slow_s)
        self.answered[identity(body)] += 1
        return connection.send(200, _completion(content))
      case "cut":
        return connection.cut(_completion(content))
      case "huge":
        connection.send(200, _completion("huge " * 2_000_000))
        await connection.writer.drain()
        return True
    status, text = {
      "rate_limited": (429, "too many requests"),
      "server_error": (500, "the engine died"),
      "malformed": (200, _completion(content)[:-1] + "]"),
      "wrong_count": (200, _completion(_miscounted(content))),
      "wrong_schema": (200, json.dumps({"choices": [{"text": content}]})),
      "empty": (200, _completion("")),
      "refusal": (200, _completion(None, refusal="I cannot judge this.")),
    }[kind]
    extra = f"Retry-After: {self._retry_after}\r\n" if status == 429 else ""
    return connection.send(status, text, extra)

  async def _refuse(self, seconds: float) -> None:
    """Listens to nobody for a while, then on the same port again."""
    self._refusing += 1
    self._close()
    await asyncio.sleep(seconds)
    self._refusing -= 1
    while not self._refusing and self._listener.fileno() == -1:
      try:
        self._listen()
      except OSError:
        await asyncio.sleep(0.01)


class _Connection:
  def __init__(
    self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
  ) -> None:
    self.reader = reader
    self.writer = writer

  def send(self, status: int, text: str, extra: str = "") -> bool:
    data = text.encode()
    head = f"HTTP/1.1 {status} -\r\nContent-Length: {len(data)}\r\n{extra}\r\n"
    self.writer.write(head.encode() + data)
    return True

  def cut(self, text: str) -> bool:
    data = text.encode()
    head = f"HTTP/1.1 200 -\r\nContent-Length: {len(data)}\r\n\r\n"
    self.writer.write(head.encode() + data[: len(data) // 2])
    return False

  async def client_left(self, seconds: float | None) -> None:
    """Waits for some seconds; raises `ConnectionError` if the client leaves."""
    with contextlib.suppress(TimeoutError):
      async with asyncio.timeout(seconds):
        # A client sends nothing more before it has its answer.
        await self.reader.read(1)
        raise ConnectionError("The client left.")


def _completion(content: str | None, **message: str) -> str:
  return json.dumps(
    {
      "object": "chat.completion",
      "choices": [
        {
          "index": 0,
          "message": {"role": "assistant", "content": content, **message},
          "finish_reason": "stop",
        }
      ],
      "usage": {"prompt_tokens": 1, "completion_tokens": 1},
    }
  )


def _miscounted(content: str) -> str:
  """One verdict too few of a whole rubric; one too many of a criterion."""
  try:
    verdicts = json.loads(content)
  except ValueError:
    verdicts = content
  if isinstance(verdicts, dict) and "1" in verdicts:
    return json.dumps(dict(list(verdicts.items())[:-1]))
  return json.dumps([verdicts, verdicts])
