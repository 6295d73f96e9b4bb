import contextlib
import math
import threading
import time

import numpy as np
import pytest

from hrl_jax import base
from hrl_jax.core import rewards
from hrl_jax.services import replies
from hrl_jax.services.judge import grader
from tests.services import fault_server
from tests.services.judge import asking


# Two equal verdicts on one criterion are a verdict.
@pytest.mark.parametrize(
  "kind", sorted({*fault_server.KINDS} - {"wrong_count"})
)
def test_a_failure_is_missing_with_its_reason_and_harms_no_other(kind):
  # NeMo-Gym PR#2805: one permanent failure costs its own score only.
  server = fault_server.FaultServer(
    asking.honest(), asking.lossy(kind), slow_s=5.0
  )
  with server as url:
    judge = grader.LlmJudge(
      asking.endpoint(url, timeout_s=0.4, deadline_s=3.0, attempts=4),
      asking.KNOBS,
      replies.Forgetful(),
    )
    (grade,) = judge.grade([asking.request()])
  np.testing.assert_array_equal(
    grade.scores_C, [np.nan, *asking.expected("hello")[1:]]
  )
  (failure,) = grade.failures
  assert (failure.slot, failure.rollout, failure.criterion) == (0, 0, 0)
  assert failure.reason and "\n" not in failure.reason
  if kind in ("server_error", "malformed", "refusal", "wrong_count"):
    assert failure.raw


@pytest.mark.parametrize("kind", fault_server.KINDS)
def test_what_fails_once_is_asked_again(kind):
  # "slow" is slow only; a verdict in the wrong form is asked for once more.
  server = fault_server.FaultServer(
    asking.honest(), asking.lossy(kind, times=1), retry_after="0.1"
  )
  with server as url:
    judge = grader.LlmJudge(
      asking.endpoint(url), asking.KNOBS, replies.Forgetful()
    )
    (grade,) = judge.grade([asking.request()])
  assert not grade.failures
  np.testing.assert_array_equal(grade.scores_C, asking.expected("hello"))


def test_seven_verdicts_for_eight_criteria_are_none():
  # ART PR#825: asked again once, then missing.
  rubric = tuple(base.Criterion(f"Criterion {n}.", 1.0) for n in range(8))
  server = fault_server.FaultServer(
    asking.honest(rubric), asking.lossy("wrong_count", lost="Criterion 0.")
  )
  with server as url:
    judge = grader.LlmJudge(
      asking.endpoint(url),
      asking.KNOBS._replace(mode="rubric"),
      replies.Forgetful(),
    )
    (grade,) = judge.grade([asking.request(rubric=rubric)])
  assert np.isnan(grade.scores_C).all()
  (failure,) = grade.failures
  assert failure.criterion is None
  assert "7 verdicts for 8 criteria" in failure.reason
  assert len(server.bodies) == 2


def test_failures_on_penalties_raise_no_reward():
  # As verl and RuscaRL do it, a lost penalty is a gift.
  def fault(body, arrival):
    return "server_error" if asking.asks(body, asking.RUDE.text) else None

  server = fault_server.FaultServer(lambda body: '{"met": true}', fault)
  with server as url:
    judge = grader.LlmJudge(
      asking.endpoint(url, attempts=1), asking.KNOBS, replies.Forgetful()
    )
    (grade,) = judge.grade([asking.request()])
  weights_1C = np.array([[criterion.weight for criterion in asking.RUBRIC]])
  reward_11, valid_11 = rewards.rubric_rewards(
    grade.scores_C[None, None], weights_1C
  )
  assert math.isnan(reward_11[0, 0]) and not valid_11[0, 0]


def test_a_stuck_call_holds_a_step_no_longer_than_its_deadline():
  # verl#7155: one lost prompt of 512 must not hang the run.
  server = fault_server.FaultServer(asking.honest(), asking.lossy("stuck"))
  with server as url:
    judge = grader.LlmJudge(
      asking.endpoint(url, timeout_s=60.0, deadline_s=60.0),
      asking.KNOBS._replace(deadline=0.7),
      replies.Forgetful(),
    )
    started = time.monotonic()
    (grade,) = judge.grade([asking.request()])
    seconds = time.monotonic() - started
  assert 0.6 < seconds < 4.0
  np.testing.assert_array_equal(np.isnan(grade.scores_C), [True, False, False])
  assert "not graded within 0.7 s" in grade.failures[0].reason


def test_a_step_that_is_given_up_closes_its_connections():
  server = fault_server.FaultServer(asking.honest(), asking.lossy("stuck"))
  with server as url:
    judge = grader.LlmJudge(
      asking.endpoint(url, timeout_s=60.0, deadline_s=60.0),
      asking.KNOBS,
      replies.Forgetful(),
    )

    def broken():
      yield asking.request()
      limit = time.monotonic() + 5
      while not server.faults["stuck"] and time.monotonic() < limit:
        time.sleep(0.01)
      raise RuntimeError("the engine died")

    with pytest.raises(RuntimeError, match="the engine died"):
      list(judge.grade(broken()))
    limit = time.monotonic() + 5
    while server.open and time.monotonic() < limit:
      time.sleep(0.01)
    assert server.open == 0
  assert not [t for t in threading.enumerate() if t.name == "judge"]


def test_what_was_never_answered_is_asked_again_on_resume(tmp_path):
  path = tmp_path / "replies.jsonl"
  server = fault_server.FaultServer(
    asking.honest(), asking.lossy("server_error", times=2)
  )
  with server as url:
    for missing in (1, 0):
      kept = replies.ReplayFile(path)
      kept.replay(0)
      judge = grader.LlmJudge(asking.endpoint(url), asking.KNOBS, kept)
      (grade,) = judge.grade([asking.request()])
      assert np.isnan(grade.scores_C).sum() == missing
      kept.close()
  assert len(server.bodies) == 3 + 1 + 1


def test_a_judge_that_dies_in_the_middle_costs_what_it_had_not_answered():
  # verl#7155: neither does the step hang, nor is anything lost in silence.
  server = fault_server.FaultServer(asking.honest())
  with contextlib.ExitStack() as running:
    url = running.enter_context(server)
    judge = grader.LlmJudge(
      asking.endpoint(url, deadline_s=1.0), asking.KNOBS, replies.Forgetful()
    )

    def decoding():
      yield asking.request(0)
      limit = time.monotonic() + 5
      while sum(server.answered.values()) < 3 and time.monotonic() < limit:
        time.sleep(0.01)
      running.close()
      yield asking.request(1)

    started = time.monotonic()
    grades = {grade.rollout: grade for grade in judge.grade(decoding())}
  assert time.monotonic() - started < 10
  np.testing.assert_array_equal(grades[0].scores_C, asking.expected("hello"))
  assert np.isnan(grades[1].scores_C).all()
  assert [failure.criterion for failure in grades[1].failures] == [0, 1, 2]


def test_calls_that_had_not_begun_are_given_up_too():
  # Two are stuck at a time; all the others still wait for their turn.
  server = fault_server.FaultServer(
    asking.honest(), lambda body, arrival: "stuck"
  )
  with server as url:
    judge = grader.LlmJudge(
      asking.endpoint(url, max_in_flight=2, timeout_s=60.0, deadline_s=60.0),
      asking.KNOBS._replace(deadline=0.5),
      replies.Forgetful(),
    )
    started = time.monotonic()
    grades = list(judge.grade(map(asking.request, range(40))))
  assert time.monotonic() - started < 10
  assert len(grades) == 40
  for grade in grades:
    assert np.isnan(grade.scores_C).all()
    assert [failure.criterion for failure in grade.failures] == [0, 1, 2]
