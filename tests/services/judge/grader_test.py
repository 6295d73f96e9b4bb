import asyncio
import gc
import threading
import time

import numpy as np
import pytest

from hrl_jax.services import chat, replies
from hrl_jax.services.judge import grader
from tests.services import fault_server
from tests.services.judge import asking


@pytest.mark.parametrize("mode", ["criterion", "rubric"])
@pytest.mark.parametrize("structured", [True, False])
def test_every_criterion_of_every_response_has_its_verdict(mode, structured):
  responses = [f"hello{'o' * n}" for n in range(4)]
  knobs = asking.KNOBS._replace(mode=mode, structured=structured)
  server = fault_server.FaultServer(asking.honest(responses=responses))
  with server as url:
    judge = grader.LlmJudge(asking.endpoint(url), knobs, replies.Forgetful())
    grades = list(judge.grade(map(asking.request, range(4), responses)))
  assert sorted(grade.rollout for grade in grades) == [0, 1, 2, 3]
  for grade in grades:
    assert not grade.failures
    np.testing.assert_array_equal(
      grade.scores_C, asking.expected(responses[grade.rollout])
    )
  assert len(server.bodies) == (4 if mode == "rubric" else 12)
  assert all(("response_format" in b) == structured for b in server.bodies)


def test_a_rubric_without_judged_criteria_costs_no_call():
  server = fault_server.FaultServer(asking.honest())
  with server as url:
    judge = grader.LlmJudge(
      asking.endpoint(url), asking.KNOBS, replies.Forgetful()
    )
    (grade,) = judge.grade([asking.request(rubric=())])
  assert grade.scores_C.shape == (0,)
  assert not server.bodies


def test_calls_run_side_by_side_and_never_more_than_allowed():
  # trl#3426: one after another these take 3.2 s.
  responses = [f"hello{'o' * n}" for n in range(22)]
  server = fault_server.FaultServer(
    asking.honest(responses=responses), delay_s=0.05
  )
  with server as url:
    judge = grader.LlmJudge(
      asking.endpoint(url, max_in_flight=32), asking.KNOBS, replies.Forgetful()
    )
    started = time.monotonic()
    assert (
      len(list(judge.grade(map(asking.request, range(22), responses)))) == 22
    )
    seconds = time.monotonic() - started
  assert server.max_open <= 32
  assert seconds < 1.6, f"{seconds:.2f} s for 66 calls of 50 ms"


def test_a_response_is_graded_while_the_next_is_still_decoded():
  server = fault_server.FaultServer(asking.honest(responses=["hello", "hi"]))
  with server as url:
    judge = grader.LlmJudge(
      asking.endpoint(url), asking.KNOBS, replies.Forgetful()
    )
    is_graded = threading.Event()

    def decoding():
      yield asking.request(0)
      # The first is graded although the engine has not come back.
      limit = time.monotonic() + 5
      while len(server.bodies) < 3 and time.monotonic() < limit:
        time.sleep(0.01)
      if len(server.bodies) == 3:
        is_graded.set()
      yield asking.request(1, "hi")

    assert len(list(judge.grade(decoding()))) == 2
  assert is_graded.is_set()


class Watch(replies.Forgetful):
  """Keeps nothing, but is called in the judge's loop and watches it.

  What counts is what the loop computes from a beat to the next: with other
  processes it shares the machine.
  """

  def __init__(self):
    self.held_s = []

  def get(self, key):
    if not self.held_s:
      self._beat(asyncio.get_running_loop(), time.thread_time())

  def _beat(self, loop, before):
    self.held_s.append(time.thread_time() - before)
    loop.call_later(0.005, self._beat, loop, time.thread_time())


def test_the_event_loop_never_stalls_while_responses_pour_in():
  # NeMo-RL#1798. As in `main`: a full collection would take 100 ms.
  gc.collect()
  gc.freeze()
  server = fault_server.FaultServer(asking.honest(), delay_s=0.02)
  with server as url:
    watch = Watch()
    judge = grader.LlmJudge(
      asking.endpoint(url, max_in_flight=64), asking.KNOBS, watch
    )
    assert len(list(judge.grade(map(asking.request, range(300))))) == 300
  gc.unfreeze()
  assert len(watch.held_s) > 50
  assert max(watch.held_s) < 0.05


def test_a_resumed_step_pays_for_nothing_twice(tmp_path):
  def graded(url, attempt=0):
    kept = replies.ReplayFile(tmp_path / "replies.jsonl")
    kept.replay(0)
    judge = grader.LlmJudge(asking.endpoint(url), asking.KNOBS, kept)
    (grade,) = judge.grade([asking.request(attempt=attempt)])
    kept.close()
    return grade

  server = fault_server.FaultServer(asking.honest())
  with server as url:
    first = graded(url)
    assert len(server.bodies) == 3
    again = graded(url)
    assert len(server.bodies) == 3
    np.testing.assert_array_equal(again.scores_C, first.scores_C)
    # A repeated grading is a new one (H-116).
    graded(url, attempt=1)
    assert len(server.bodies) == 6
  assert len({body["seed"] for body in server.bodies}) == 2


def test_a_judge_that_is_not_there_is_said_with_its_address():
  with fault_server.FaultServer(asking.honest()) as url:
    pass
  judge = grader.LlmJudge(
    asking.endpoint(url), asking.KNOBS, replies.Forgetful()
  )
  started = time.monotonic()
  with pytest.raises(chat.UnreachableError, match="vllm serve") as caught:
    judge.check()
  assert url in str(caught.value)
  assert time.monotonic() - started < 10


def test_a_judge_that_is_there_passes_the_check():
  with fault_server.FaultServer(asking.honest()) as url:
    grader.LlmJudge(
      asking.endpoint(url), asking.KNOBS, replies.Forgetful()
    ).check()
