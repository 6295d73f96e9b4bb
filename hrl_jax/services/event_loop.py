"""Calls of a model side by side, for a caller that is not asynchronous.

Requests are handed in from the caller's thread while the calls of earlier
ones run in an event loop of its own.
"""

import asyncio
import contextlib
import logging
import queue
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import uvloop

from hrl_jax.services import chat

_logger = logging.getLogger(__name__)

# Starts the calls of a request and returns the coroutine of its result.
Start = Callable[["Loop", Any], Awaitable[Awaitable[Any]]]


def check(endpoint: chat.Endpoint) -> None:
  """Looks whether an endpoint answers and serves the model.

  Raises:
    chat.UnreachableError: within 10 seconds, saying how to start one.
  """
  with Loop(endpoint, "check") as loop:
    loop.run(loop.client.check(), timeout=15.0)


class Loop(contextlib.AbstractContextManager):
  """An event loop in a thread with one client, for one batch of requests.

  A context manager; leaving it ends everything that is under way.

  Attributes:
    client: of the endpoint; only for use within the loop.
  """

  def __init__(self, endpoint: chat.Endpoint, name: str):
    """Starts nothing yet.

    Args:
      endpoint: that is asked.
      name: of the thread, and of who asks in what is logged.
    """
    self._name = name
    self._waiting = 0
    self.client = chat.Chat(endpoint)
    # Some more than are in flight, so that the next are written when one gets
    # through; the others wait as requests, not as texts.
    self._places = asyncio.Semaphore(endpoint.max_in_flight + 8)
    self._is_late = False
    self._handed_in: asyncio.Queue[Any] = asyncio.Queue()
    self._finished: queue.SimpleQueue[asyncio.Task] = queue.SimpleQueue()
    self._calls: set[asyncio.Task] = set()
    self._tasks: set[asyncio.Task] = set()
    self._loop = uvloop.new_event_loop()
    self._thread = threading.Thread(
      target=self._loop.run_forever, name=name, daemon=True
    )

  def __enter__(self) -> "Loop":
    self._thread.start()
    self.run(self.client.__aenter__())
    return self

  def __exit__(self, *_) -> None:
    self.run(self._close())
    self._loop.call_soon_threadsafe(self._loop.stop)
    self._thread.join(30.0)
    self._loop.close()

  def serve(self, start: Start) -> None:
    """From now on starts each request that is handed in, in order."""
    self._loop.call_soon_threadsafe(self._follow, self._serve(start))

  def hand_in(self, request: Any) -> None:
    """Hands in a request, to be started when its turn comes."""
    self._waiting += 1
    self._loop.call_soon_threadsafe(self._handed_in.put_nowait, request)

  async def call(self, call: Callable[[], Any]) -> asyncio.Task:
    """Starts one call, a coroutine function, when there is a place for it."""
    await self._places.acquire()
    task = self._loop.create_task(call())
    self._calls.add(task)
    task.add_done_callback(self._calls.discard)
    task.add_done_callback(lambda _: self._places.release())
    if self._is_late:
      task.cancel()
    return task

  def finished(self, wait: float | None = None) -> Iterator[Any]:
    """Yields the results that are there, in the order in which they came.

    Args:
      wait: seconds to wait for the first, None not to wait.

    Raises:
      Exception: what a start or a result raised.
    """
    while True:
      try:
        task = self._finished.get(wait is not None, wait)
      except queue.Empty:
        return
      wait = None
      self._waiting -= 1
      yield task.result()

  def rest(self, deadline_s: float) -> Iterator[Any]:
    """Yields the results of everything that was handed in.

    Args:
      deadline_s: seconds from now on after which every call that is under
        way, waits for its turn or is to come is cancelled.

    Raises:
      Exception: what a start or a result raised.
    """
    late = time.monotonic() + deadline_s
    while self._waiting:
      left = late - time.monotonic()
      if left <= 0:
        self._loop.call_soon_threadsafe(self._cancel_calls)
      yield from self.finished(wait=left if left > 0 else 1.0)

  def run(self, coroutine: Any, timeout: float = 30.0) -> None:
    """Waits for a coroutine, at most `timeout` seconds."""
    future = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
    future.result(timeout)

  def report(self) -> None:
    """Says which tries had to be repeated."""
    if self.client.tally:
      _logger.info(
        "Failed tries of the %s, most of them repeated: %s.",
        self._name,
        ", ".join(f"{n} {what}" for what, n in self.client.tally.items()),
      )

  async def _serve(self, start: Start) -> None:
    while True:
      request = await self._handed_in.get()
      self._follow(await start(self, request))

  def _cancel_calls(self) -> None:
    if self._is_late:
      return
    self._is_late = True
    for call in self._calls:
      call.cancel()

  def _follow(self, coroutine: Any) -> None:
    """Runs a task whose result, or failure, `finished` yields."""
    task = self._loop.create_task(coroutine)
    self._tasks.add(task)
    task.add_done_callback(self._tasks.discard)
    task.add_done_callback(self._finished.put)

  async def _close(self) -> None:
    tasks = [*self._tasks, *self._calls]
    for task in tasks:
      task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await self.client.__aexit__(None, None, None)
