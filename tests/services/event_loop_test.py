import asyncio
import functools
import threading
import time

import pytest

from hrl_jax.services import event_loop
from tests.services import calls

ENDPOINT = calls.endpoint("http://127.0.0.1:1/v1", max_in_flight=2)


def _sleeping(begun):
  """Starts a call that takes so long; its result is "late" if cancelled."""

  async def sleep(seconds):
    begun.append(seconds)
    await asyncio.sleep(seconds)
    return seconds

  async def start(loop, seconds):
    task = await loop.call(functools.partial(sleep, seconds))

    async def result():
      await asyncio.wait([task])
      return "late" if task.cancelled() else task.result()

    return result()

  return start


def test_results_come_as_they_are_done_and_late_ones_are_cancelled():
  begun = []
  with event_loop.Loop(ENDPOINT, "sleeper") as loop:
    loop.serve(_sleeping(begun))
    for seconds in (0.2, 60.0, 0.01):
      loop.hand_in(seconds)
    begin = time.monotonic()
    assert list(loop.rest(0.5)) == [0.01, 0.2, "late"]
    assert 0.4 < time.monotonic() - begin < 3
    # What is handed in afterwards is late at once.
    loop.hand_in(50.0)
    assert list(loop.rest(0.5)) == ["late"]
  assert begun == [0.2, 60.0, 0.01]
  assert not [t for t in threading.enumerate() if t.name == "sleeper"]


def test_a_call_begins_when_there_is_a_place_for_it():
  begun = []
  with event_loop.Loop(ENDPOINT, "sleeper") as loop:
    loop.serve(_sleeping(begun))
    for _ in range(30):
      loop.hand_in(60.0)
    assert list(loop.rest(0.3)) == ["late"] * 30
  # Two in flight and eight that are prepared.
  assert len(begun) == 10


@pytest.mark.parametrize("where", ["start", "result"])
def test_what_a_request_raises_reaches_the_caller(where):
  async def result():
    raise RuntimeError("of result")

  async def start(loop, request):
    if where == "start":
      raise RuntimeError("of start")
    return result()

  begin = time.monotonic()
  with (
    pytest.raises(RuntimeError, match=f"of {where}"),
    event_loop.Loop(ENDPOINT, "sleeper") as loop,
  ):
    loop.serve(start)
    loop.hand_in(1)
    list(loop.rest(10.0))
  assert time.monotonic() - begin < 5
  assert not [t for t in threading.enumerate() if t.name == "sleeper"]
