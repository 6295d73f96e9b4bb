"""Times the judge against a server that takes 50 ms for every reply.

  python scripts/bench_judge.py
  python scripts/bench_judge.py --calls 20000 --json judge.json

With n calls in flight and nothing but the server to wait for, n / 50 ms are
answered in a second: the ideal. What is missing to it is what the judge costs.
The server is a process on another core, where there is one. `chat` is the HTTP
client alone, `judge` the whole grader, from requests to grades.

A stall is how late a task that wants to run every 5 ms gets to run: for so
long nothing else in the event loop moves either. Other work on the machine
disturbs that and the throughput, so the load at the start stands beside them,
and with them what it disturbs less: the part of the worst stall that the loop
itself computed, and the CPU time of the whole process for a call.
"""

import argparse
import asyncio
import contextlib
import gc
import json
import multiprocessing
import multiprocessing.connection
import os
import pathlib
import time
from collections.abc import Callable, Iterator

import numpy as np

from hrl_jax import base
from hrl_jax.services import chat, replies
from hrl_jax.services.judge import grader

CRITERIA = 8
BEAT_S = 0.005
TASK = (
  "Write to the members of a sports club that the hall stays closed for three "
  "weeks while its roof is mended, and where they can train meanwhile. "
)
RESPONSE = (
  "Dear members, from Monday on the roof of our hall is being mended. Until "
  "the end of the month we meet at the school in Mill Lane, at the same hours. "
)
CRITERION = "Names the place where the members train in the three weeks."
REPLY = json.dumps(
  {
    "reason": "The response says that they meet at the school in Mill Lane.",
    "met": True,
  }
)


def main() -> None:
  """Runs the benchmark of the command line."""
  arguments = _arguments()
  cores = sorted(os.sched_getaffinity(0))
  os.sched_setaffinity(0, cores[:1])
  # As in `hrl_jax.main`: a collector that walks through all of jax takes a
  # tenth of a second.
  gc.collect()
  gc.freeze()
  results = []
  with _server(arguments.delay, cores[-1]) as url:
    endpoint = chat.Endpoint(
      url=url,
      model="judge",
      api_key=None,
      max_in_flight=arguments.in_flight,
      attempts=1,
      timeout_s=60.0,
      deadline_s=60.0,
    )
    for _ in range(arguments.repeats):
      for name in arguments.parts:
        results.append(_measure(name, endpoint, arguments))
  _print_table(results)
  if arguments.json:
    arguments.json.write_text(json.dumps(results, indent=2) + "\n")


def _arguments() -> argparse.Namespace:
  parser = argparse.ArgumentParser(
    description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
  )
  parser.add_argument("--calls", type=int, default=20_000)
  parser.add_argument("--in-flight", type=int, default=64)
  parser.add_argument(
    "--delay", type=float, default=0.05, help="seconds of the server per reply"
  )
  parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
  parser.add_argument("--repeats", type=int, default=3)
  parser.add_argument("--json", type=pathlib.Path)
  arguments = parser.parse_args()
  if arguments.calls < 1 or arguments.calls % CRITERIA:
    parser.error(
      f"--calls must be a multiple of {CRITERIA}, got {arguments.calls}."
    )
  return arguments


class Heart:
  """Beats in the event loop of what is measured.

  Attributes:
    worst_s: the latest that a beat came.
    own_s: the most CPU time that the loop took from a beat to the next, less
      the time between two beats.
  """

  def __init__(self) -> None:
    self.worst_s = self.own_s = 0.0
    self._is_beating = False

  def start(self) -> None:
    """Starts beating in the running loop, unless it does already."""
    if not self._is_beating:
      self._is_beating = True
      self._wait()

  def _wait(self) -> None:
    # A timer, not a task: the loop may close over it.
    asyncio.get_running_loop().call_later(
      BEAT_S, self._beat, time.perf_counter(), time.thread_time()
    )

  def _beat(self, clock: float, cpu: float) -> None:
    late_s = time.perf_counter() - clock - BEAT_S
    self.worst_s = max(self.worst_s, late_s)
    self.own_s = max(self.own_s, time.thread_time() - cpu - BEAT_S)
    self._wait()


def _chat(endpoint: chat.Endpoint, calls: int, heart: Heart) -> int:
  """Asks with the client alone; the number of replies."""

  async def ask() -> int:
    heart.start()
    sent = (chat.encode(endpoint, _body(index)) for index in range(calls))

    async def work(client: chat.Chat) -> int:
      got = [(await client.complete(each)).text == REPLY for each in sent]
      return sum(got)

    async with chat.Chat(endpoint) as client:
      workers = (work(client) for _ in range(2 * endpoint.max_in_flight))
      return sum(await asyncio.gather(*workers))

  return asyncio.run(ask())


def _body(index: int) -> dict:
  text = (
    f"<task>{6 * TASK}</task><response>{6 * RESPONSE}</response>{CRITERION}"
  )
  return {
    "messages": [{"role": "user", "content": text}],
    "temperature": 0.6,
    "max_tokens": 1024,
    "seed": index,
  }


class _Kept(replies.Forgetful):
  """Keeps no reply; asked in the judge's event loop, it starts the heart."""

  def __init__(self, heart: Heart):
    self._heart = heart

  def get(self, key: replies.Key) -> None:
    self._heart.start()


def _judge(endpoint: chat.Endpoint, calls: int, heart: Heart) -> int:
  """Grades responses; the number of scores."""
  knobs = grader.Knobs(
    mode="criterion",
    structured=True,
    temperature=0.6,
    max_tokens=1024,
    deadline=600.0,
  )
  judge = grader.LlmJudge(endpoint, knobs, _Kept(heart))
  requests = (
    base.GradeRequest(
      occasion=base.Occasion(0, "train"),
      slot=slot,
      rollout=0,
      attempt=0,
      prompt=(base.Message("user", 6 * TASK),),
      response=6 * RESPONSE,
      rubric=(base.Criterion(CRITERION, 1.0),) * CRITERIA,
    )
    for slot in range(calls // CRITERIA)
  )
  return sum(int(np.nansum(grade.scores_C)) for grade in judge.grade(requests))


PARTS = {"chat": _chat, "judge": _judge}


def _measure(
  name: str, endpoint: chat.Endpoint, arguments: argparse.Namespace
) -> dict:
  part: Callable[[chat.Endpoint, int, Heart], int] = PARTS[name]
  load, heart = os.getloadavg()[0], Heart()
  clock, cpu = time.perf_counter(), time.process_time()
  answered = part(endpoint, arguments.calls, heart)
  seconds, cpu_s = time.perf_counter() - clock, time.process_time() - cpu
  if answered != arguments.calls:
    raise RuntimeError(f"{name}: {answered} of {arguments.calls} answered.")
  ideal = arguments.in_flight / arguments.delay
  return {
    "part": name,
    "calls": arguments.calls,
    "in_flight": arguments.in_flight,
    "delay_seconds": arguments.delay,
    "calls_per_second": arguments.calls / seconds,
    "share_of_ideal": arguments.calls / seconds / ideal,
    "worst_stall_seconds": heart.worst_s,
    "worst_stall_own_seconds": heart.own_s,
    "cpu_seconds_per_call": cpu_s / arguments.calls,
    "load": load,
  }


@contextlib.contextmanager
def _server(delay_s: float, core: int) -> Iterator[str]:
  context = multiprocessing.get_context("spawn")
  ours, theirs = context.Pipe()
  process = context.Process(
    target=_serve, args=(delay_s, core, theirs), daemon=True
  )
  process.start()
  try:
    yield f"http://127.0.0.1:{ours.recv()}/v1"
  finally:
    process.terminate()
    process.join()


def _serve(
  delay_s: float, core: int, pipe: multiprocessing.connection.Connection
) -> None:
  os.sched_setaffinity(0, [core])

  async def serve() -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(
      lambda: _Answers(loop, delay_s), "127.0.0.1", 0, backlog=1024
    )
    pipe.send(server.sockets[0].getsockname()[1])
    await server.serve_forever()

  asyncio.run(serve())


class _Answers(asyncio.Protocol):
  """Answers every request with the same, some time after it was whole."""

  def __init__(self, loop: asyncio.AbstractEventLoop, delay_s: float):
    self._loop = loop
    # Timers of the loop wait for whole milliseconds, rounded up: half of one
    # too long on average.
    self._delay_s = max(delay_s - 0.0005, 0.0)
    self._read = b""
    message = {"role": "assistant", "content": REPLY}
    body = json.dumps(
      {"choices": [{"message": message, "finish_reason": "stop"}]}
    ).encode()
    head = f"HTTP/1.1 200 OK\r\nContent-Length: {len(body)}\r\n\r\n"
    self._answer = head.encode() + body

  def connection_made(self, transport: asyncio.Transport) -> None:
    self._transport = transport

  def data_received(self, data: bytes) -> None:
    self._read += data
    head, end, body = self._read.partition(b"\r\n\r\n")
    length = head.lower().partition(b"content-length: ")[2].partition(b"\r")[0]
    if end and len(body) == int(length):
      self._read = b""
      self._loop.call_later(self._delay_s, self._transport.write, self._answer)


def _print_table(results: list[dict]) -> None:
  print("part   calls/s  of ideal  worst stall ms  own ms  CPU ms/call  load")
  for each in results:
    print(
      f"{each['part']:5}"
      f"  {each['calls_per_second']:7.0f}"
      f"  {each['share_of_ideal']:8.1%}"
      f"  {1000 * each['worst_stall_seconds']:14.1f}"
      f"  {1000 * each['worst_stall_own_seconds']:6.1f}"
      f"  {1000 * each['cpu_seconds_per_call']:11.2f}"
      f"  {each['load']:4.1f}"
    )


if __name__ == "__main__":
  main()
