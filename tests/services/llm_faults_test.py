import contextlib
import itertools
import json
import time

import hypothesis
import pytest
from hypothesis import strategies as st

from hrl_jax.services import chat, llm, replies
from tests.services import calls, fault_server, questioning


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch):
  monkeypatch.setattr(chat, "_FIRST_PAUSE_S", 0.05)


def lossy(kind, lost=1, times=10**9):
  """Plays the first calls of one number this fault."""
  counted = itertools.count()

  def fault(body, arrival):
    is_lost = questioning.number(body) == lost and next(counted) < times
    return kind if is_lost else None

  return fault


REASONS = {
  "refused": "connection ",
  "reset": "connection closed",
  "rate_limited": "HTTP 429 (1 try; told to wait 60 s",
  "server_error": "HTTP 500",
  "slow": "no reply within",
  "stuck": "no reply within",
  "cut": "reply cut off",
  "malformed": "reply is not JSON",
  "wrong_count": "2 JSON objects where one was asked for (2 replies)",
  "wrong_schema": "reply is no chat completion",
  "empty": "the reply is empty (2 replies)",
  "refusal": "no JSON object in: 'I cannot judge this.' (2 replies)",
  "huge": "reply of more than 1,000,000 bytes",
}


@pytest.mark.parametrize("kind", fault_server.KINDS)
def test_a_fault_is_a_missing_answer_with_its_reason_and_harms_no_other(kind):
  server = fault_server.FaultServer(
    questioning.honest, lossy(kind), slow_s=5.0, retry_after="60"
  )
  with server as url:
    # A refused connection refuses everybody's for a moment.
    service = questioning.service(
      url, attempts=6 if kind == "refused" else 2, timeout_s=0.4
    )
    # One that is told to wait for long makes the others wait as well.
    numbers = [1] if kind == "rate_limited" else [0, 1, 2]
    got = service.answers([questioning.call(n) for n in numbers])
  for number, answer in zip(numbers, got, strict=True):
    if number != 1:
      assert answer == questioning.good(number)
      continue
    assert answer.value is None
    assert answer.reason.startswith(REASONS[kind])
    assert answer.reason.isprintable()
    assert len(answer.raw) <= 10_000
    if kind == "server_error":
      assert answer.raw == "the engine died"
    replied = "2 replies" in answer.reason
    assert (answer.calls, answer.tokens) == ((2, 4) if replied else (1, None))


@pytest.mark.parametrize("kind", fault_server.KINDS)
def test_what_fails_once_is_asked_again(kind):
  # "slow" is slow only.
  server = fault_server.FaultServer(
    questioning.honest, lossy(kind, times=1), retry_after="0.1"
  )
  with server as url:
    service = questioning.service(url, attempts=4)
    got = service.answers([questioning.call(n) for n in range(3)])
  repaired = kind in ("wrong_count", "empty", "refusal")
  assert got == tuple(
    questioning.good(n, calls=2 if repaired and n == 1 else 1) for n in range(3)
  )


class Cut(replies.Forgetful):
  """Knows the first reply to each call: whole, but amid prose and cut."""

  def get(self, key):
    text = "Here: " + json.dumps(questioning.value(0)) + " Or"
    return chat.Reply(text, "length", 9) if key.ask == 0 else None


def test_a_reply_cut_at_its_limit_is_repaired():
  server = fault_server.FaultServer(questioning.honest)
  with server as url:
    (got,) = questioning.service(url, Cut()).answers([questioning.call()])
  assert got == questioning.good(0)._replace(tokens=9 + 2, calls=2)
  (body,) = server.bodies
  assert "cut at its token limit" in questioning.text(body)


@pytest.mark.parametrize("in_flight", [2, 64])
def test_a_stuck_server_holds_a_batch_no_longer_than_its_deadline(in_flight):
  server = fault_server.FaultServer(
    questioning.honest,
    lambda body, arrival: "stuck" if questioning.number(body) else None,
  )
  with server as url:
    service = questioning.service(
      url,
      deadline=0.6,
      max_in_flight=in_flight,
      timeout_s=60.0,
      deadline_s=60.0,
    )
    started = time.monotonic()
    got = service.answers([questioning.call(n) for n in range(30)])
    seconds = time.monotonic() - started
  assert 0.5 < seconds < 4.0
  assert got[0] == questioning.good(0)
  for answer in got[1:]:
    assert answer[:3] == (None, "not answered within 0.6 s", "")
    assert answer.tokens is None
  assert sum(answer.calls for answer in got) == min(30, in_flight + 8 + 1)


def test_a_repair_that_comes_too_late_says_so_and_shows_the_first_reply():
  def fault(body, arrival):
    is_repair = questioning.REPAIR in questioning.text(body)
    return "stuck" if is_repair else None

  server = fault_server.FaultServer(lambda body: "Not today.", fault)
  with server as url:
    service = questioning.service(
      url, deadline=0.5, timeout_s=60.0, deadline_s=60.0
    )
    (got,) = service.answers([questioning.call()])
  assert got == llm.Answer(
    None, "not answered within 0.5 s", "Not today.", 2, 2
  )


def test_a_server_that_dies_costs_what_it_had_not_answered():
  server = fault_server.FaultServer(questioning.honest)
  with contextlib.ExitStack() as running:
    url = running.enter_context(server)
    service = questioning.service(url, deadline_s=1.0)
    assert service.answers([questioning.call()]) == (questioning.good(0),)
    running.close()
    (got,) = service.answers([questioning.call()])
  assert got.value is None and "connection refused" in got.reason


def test_nobody_there_is_a_reason_for_each_call():
  url = f"http://127.0.0.1:{calls.closed_port()}/v1"
  got = questioning.service(url).answers(
    [questioning.call(n) for n in range(20)]
  )
  assert {answer.value for answer in got} == {None}
  assert all("connection refused" in answer.reason for answer in got)


def test_what_was_never_answered_is_asked_again_on_resume(tmp_path):
  server = fault_server.FaultServer(
    questioning.honest, lossy("server_error", times=2)
  )
  got = []
  with server as url:
    for _ in range(2):
      kept = replies.ReplayFile(tmp_path / "replies.jsonl")
      kept.replay(0)
      asked = [questioning.call(n) for n in range(3)]
      got.append(questioning.service(url, kept).answers(asked))
      kept.close()
  assert [answer.value is None for answer in got[0]] == [False, True, False]
  assert got[1] == tuple(map(questioning.good, range(3)))
  assert len(server.bodies) == 4 + 1


class Full(replies.Forgetful):
  """A full disk."""

  def put(self, key, reply):
    raise OSError("no space left")


def test_a_reply_that_cannot_be_kept_stops_the_run():
  with (
    fault_server.FaultServer(questioning.honest) as url,
    pytest.raises(OSError, match="no space left"),
  ):
    questioning.service(url, Full()).answers([questioning.call()])


@hypothesis.settings(max_examples=2, deadline=None)
@hypothesis.given(
  st.lists(
    st.one_of(
      st.text(st.characters(exclude_categories=()), max_size=40),
      st.binary(max_size=40).map(lambda raw: raw.decode("latin-1")),
      st.sampled_from(
        ['{"why": "", "number": 1e999}', "{" * 9000, "<think>", "[]", "null"]
      ),
    ),
    min_size=400,
    max_size=400,
  )
)
def test_a_batch_of_garbage_is_a_batch_of_missing_answers(garbage):
  server = fault_server.FaultServer(
    lambda body: garbage[questioning.number(body)]
  )
  with server as url:
    got = questioning.service(url, max_in_flight=32).answers(
      [questioning.call(n) for n in range(len(garbage))]
    )
  for answer in got:
    assert answer.value is None
    assert answer.reason and answer.reason.isprintable()
    assert answer.calls == 2
