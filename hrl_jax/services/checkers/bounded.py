"""Runs the checkers whose arguments are regular expressions, in bounded time.

A pattern such as `(a+)+$` backtracks for centuries over forty letters. Python
cannot stop its matcher from another thread, since the matcher holds the
interpreter. So these checkers run in a process of their own, `worker`, which
is killed where one takes too long, and started again for the next.
"""

import atexit
import json
import os
import select
import subprocess
import sys
import threading
from typing import Any

from hrl_jax.services.checkers import contract

# A match takes milliseconds. The start loads a package and its data.
SECONDS = 5.0
_SECONDS_TO_START = 120.0

_one_at_a_time = threading.Lock()
_running: list[subprocess.Popen[bytes]] = []


class _NoAnswerError(Exception):
  """The process did not answer in time, or ended; the message says which."""


def prepare(name: str, arguments: contract.Arguments) -> None:
  """Makes sure that the checker can run with these arguments.

  Raises:
    ValueError: if it cannot, or if it takes too long over a few short texts.
  """
  try:
    reply = _ask({"name": name, "arguments": dict(arguments)})
  except _NoAnswerError as error:
    raise ValueError(
      f"Checker {name!r}: over a text of 60 characters, {error}. A regular "
      "expression with a repetition inside a repetition, such as (a+)+, does "
      "not end: write it without."
    ) from error
  if "invalid" in reply:
    raise ValueError(reply["invalid"])


def decide(name: str, response: str, arguments: contract.Arguments) -> float:
  """Returns the score of a response, 0 or 1.

  Raises:
    ValueError: as `prepare`.
    contract.CheckerError: if the checker cannot decide about this response,
      or not in time.
  """
  question = {"name": name, "arguments": dict(arguments), "response": response}
  try:
    reply = _ask(question)
  except _NoAnswerError as error:
    raise contract.CheckerError(
      contract.undecided(name, response, str(error))
    ) from error
  if "invalid" in reply:
    raise ValueError(reply["invalid"])
  if "undecided" in reply:
    raise contract.CheckerError(reply["undecided"])
  return reply["score"]


def _ask(question: dict[str, Any]) -> dict[str, Any]:
  line = json.dumps(question).encode() + b"\n"
  with _one_at_a_time:
    if not _running:
      _running.append(_start())
    try:
      _write(_running[0], line)
      # First that it is ready: the package may still have to be loaded.
      _read(_running[0], _SECONDS_TO_START)
      return _read(_running[0], SECONDS)
    except BaseException:
      # Whatever happened, the next question must not get this one's answer.
      _stop()
      raise


def _start() -> subprocess.Popen[bytes]:
  return subprocess.Popen(
    [sys.executable, "-m", "hrl_jax.services.checkers.worker"],
    bufsize=0,
    stdin=subprocess.PIPE,
    stdout=subprocess.PIPE,
    env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    # Ctrl-C is for the trainer, which still finishes its step.
    start_new_session=True,
  )


def _write(worker: subprocess.Popen[bytes], line: bytes) -> None:
  left = memoryview(line)
  try:
    while left:
      left = left[worker.stdin.write(left) :]
  except BrokenPipeError as error:
    raise _NoAnswerError(_ended(worker)) from error


def _read(worker: subprocess.Popen[bytes], seconds: float) -> dict[str, Any]:
  if not select.select([worker.stdout], [], [], seconds)[0]:
    raise _NoAnswerError(f"it takes longer than {seconds:g} s")
  line = worker.stdout.readline()
  if not line:
    raise _NoAnswerError(_ended(worker))
  return json.loads(line)


def _ended(worker: subprocess.Popen[bytes]) -> str:
  return f"its process ended with status {worker.wait()}"


def _stop() -> None:
  while _running:
    with _running.pop() as worker:  # Closes the pipes and waits.
      worker.kill()


atexit.register(_stop)
