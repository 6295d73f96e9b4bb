import json
import logging
import re
import resource

import hypothesis
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import strategies as st
from tensorboardX.proto import event_pb2

from hrl_jax.metrics import run_folder
from tests import messages
from tests.metrics import evidence

pytestmark = pytest.mark.core

CONFIG = {"seed": 5, "rollout": {"top_p": 1.0}}
CONDITIONS = {"python": "3.11.7"}


def _lines(path):
  return [json.loads(line) for line in path.read_bytes().splitlines()]


def _run(path, steps, *, start=0, lengths=None):
  """Records some steps, and returns the lengths after each."""
  recorded = {}
  with run_folder.RunFolder(path) as folder:
    folder.start(start, CONFIG, CONDITIONS, lengths or {})
    for step in steps:
      metrics = {"reward": step / 3, "kl": jnp.float32(0.1) * step}
      folder.record_step(step, metrics, {"seconds": 1.0})
      seen = evidence.evidence(f"text {step}", step=step)
      folder.record_rollouts(seen, evidence.bank())
      folder.record_failures(seen, evidence.bank())
      folder.record_evaluation(step + 1, {"score": 0.1 * step})
      folder.record_answers(step + 1, [{"task": "t", "score": np.nan}])
      recorded[step + 1] = folder.lengths()
  return recorded


def _events(folder):
  """The scalars and the purges of TensorBoard's event files, in order."""
  found = []
  for path in sorted(folder.iterdir(), key=lambda path: path.suffix):
    data, at = path.read_bytes(), 0
    while at < len(data):
      # A record is its length, a checksum, the event and another checksum.
      length = int.from_bytes(data[at : at + 8], "little")
      event = event_pb2.Event.FromString(data[at + 12 : at + 12 + length])
      at += length + 16
      if event.session_log.status == event_pb2.SessionLog.START:
        found.append(("purge", event.step))
      for value in event.summary.value:
        found.append((value.tag, event.step, value.simple_value))
  return found


@hypothesis.settings(max_examples=30, deadline=None)
@hypothesis.given(st.text(st.characters(), max_size=20))
@hypothesis.example("\ud800 \x00 \n \r\n \u2028 \u0085 \udfff \ufffe")
def test_any_text_comes_back_from_a_line_of_its_own(tmp_path_factory, text):
  path = tmp_path_factory.mktemp("run")
  with run_folder.RunFolder(path) as folder:
    folder.start(0, CONFIG, CONDITIONS, {})
    seen = evidence.evidence(text, raw=text)
    folder.record_rollouts(seen, evidence.bank())
    folder.record_failures(seen, evidence.bank())
  written = (path / "rollouts.jsonl").read_bytes()
  assert written.isascii()
  assert written.count(b"\n") == len(written.splitlines()) == 2
  # JSON knows no difference between a character and its two surrogates.
  expected = text.encode("utf-16", "surrogatepass").decode(
    "utf-16", "surrogatepass"
  )
  assert _lines(path / "rollouts.jsonl")[0]["text"] == expected
  assert _lines(path / "failures.jsonl")[0]["raw"] == expected


def test_a_resumed_run_leaves_the_files_of_an_uninterrupted_one(tmp_path):
  _run(tmp_path / "whole", range(6))
  lengths = _run(tmp_path / "killed", range(5))
  # The process died while it wrote a line.
  with open(tmp_path / "killed" / "rollouts.jsonl", "ab") as file:
    file.write(b'{"step": 5, "te')
  _run(tmp_path / "killed", range(3, 6), start=3, lengths=lengths[3])
  for name in run_folder.LOGS:
    whole = (tmp_path / "whole" / name).read_bytes()
    assert whole.count(b"\n") >= 6
    assert (tmp_path / "killed" / name).read_bytes() == whole


def test_a_run_without_a_checkpoint_starts_its_logs_anew(tmp_path):
  _run(tmp_path / "whole", range(2))
  _run(tmp_path / "killed", range(1))
  _run(tmp_path / "killed", range(2))
  for name in run_folder.LOGS:
    whole = (tmp_path / "whole" / name).read_bytes()
    assert (tmp_path / "killed" / name).read_bytes() == whole


def test_a_lost_log_is_an_error(tmp_path):
  lengths = _run(tmp_path, range(2))
  (tmp_path / "rollouts.jsonl").unlink()
  with (
    pytest.raises(ValueError, match=r"rollouts.jsonl has 0 bytes, but had \d+"),
    run_folder.RunFolder(tmp_path) as folder,
  ):
    folder.start(2, CONFIG, CONDITIONS, lengths[2])


def test_lengths_are_those_of_the_files(tmp_path):
  lengths = _run(tmp_path, range(2))[2]
  assert set(lengths) == set(run_folder.LOGS)
  for name, length in lengths.items():
    assert (tmp_path / name).stat().st_size == length > 0


def test_every_start_is_recorded(tmp_path):
  lengths = _run(tmp_path, range(2))
  _run(tmp_path, range(2, 3), start=2, lengths=lengths[2])
  run = json.loads((tmp_path / "run.json").read_text())
  assert run["seed"] == 5
  assert [start["step"] for start in run["starts"]] == [0, 2]
  assert run["starts"][1]["conditions"] == CONDITIONS
  assert re.fullmatch(r"[\d-]+T[\d:]+\+00:00", run["starts"][0]["time"])
  assert json.loads((tmp_path / "config.json").read_text()) == CONFIG
  with run_folder.RunFolder(tmp_path) as folder:
    assert folder.starts() == run["starts"]


def test_tensorboard_shows_each_number_once_after_a_resume(tmp_path):
  lengths = _run(tmp_path, range(3))
  _run(tmp_path, range(2, 4), start=2, lengths=lengths[2])
  train = _events(tmp_path / "tensorboard" / "train")
  assert [step for tag, step, *_ in train if tag == "reward"] == [0, 1, 2, 2, 3]
  assert ("purge", 2) in train
  assert ("seconds", 3, 1.0) in train
  evaluation = _events(tmp_path / "tensorboard" / "evaluation")
  # After two updates: older than the checkpoint, so not purged.
  assert ("purge", 3) in evaluation
  assert [step for tag, step, *_ in evaluation if tag == "score"] == [
    *(1, 2, 3),
    *(3, 4),
  ]


def test_tensorboard_shows_a_run_begun_anew_from_its_beginning(tmp_path):
  _run(tmp_path, range(1))
  _run(tmp_path, range(1))
  for curve in ("train", "evaluation"):
    events = _events(tmp_path / "tensorboard" / curve)
    assert [event for event in events if event[0] == "purge"] == [("purge", 0)]


def test_tensorboard_gets_no_number_that_is_missing(tmp_path):
  with run_folder.RunFolder(tmp_path) as folder:
    folder.start(0, CONFIG, CONDITIONS, {})
    folder.record_step(0, {"kl": np.nan, "reward": 0.5, "arm": "codex"}, {})
  assert _events(tmp_path / "tensorboard" / "train") == [("reward", 0, 0.5)]


def test_an_answer_that_was_not_graded_has_no_score(tmp_path):
  with run_folder.RunFolder(tmp_path) as folder:
    folder.start(0, CONFIG, CONDITIONS, {})
    folder.record_answers(8, [{"task": "t0", "score": np.nan, "text": "a\nb"}])
  assert _lines(tmp_path / "answers.jsonl") == [
    {"step": 8, "task": "t0", "score": None, "text": "a\nb"}
  ]


def test_the_log_keeps_what_was_said_in_every_start(tmp_path, monkeypatch):
  # As in main; and what pytest would capture must be free of surrogates.
  monkeypatch.setattr(logging.getLogger("hrl_jax"), "propagate", False)
  logger = logging.getLogger("hrl_jax.train")
  for said in ("first \ud800", "second"):
    with run_folder.RunFolder(tmp_path):
      logger.info(said)
  logger.info("after")
  lines = (tmp_path / "log.txt").read_text().splitlines()
  assert [line.partition("hrl_jax.train: ")[2] for line in lines] == [
    "first \\ud800",
    "second",
  ]


def test_a_folder_in_use_is_refused(tmp_path):
  with (
    run_folder.RunFolder(tmp_path),
    pytest.raises(ValueError, match="Another process is writing"),
  ):
    run_folder.RunFolder(tmp_path)
  run_folder.RunFolder(tmp_path).close()


@pytest.mark.parametrize("inside", ["a_file", "a_file/run", "x" * 300])
def test_a_folder_that_cannot_be_one_is_refused(tmp_path, inside):
  (tmp_path / "a_file").write_text("")
  with pytest.raises(ValueError, match=r"config\.workdir") as caught:
    run_folder.RunFolder(tmp_path / inside)
  messages.check_message(caught.value)


@pytest.mark.parametrize("content", ["", "{", "[]", "{}", "3"])
def test_a_damaged_account_of_the_starts_is_refused(tmp_path, content):
  (tmp_path / "run.json").write_text(content)
  with (
    run_folder.RunFolder(tmp_path) as folder,
    pytest.raises(ValueError, match="damaged"),
  ):
    folder.starts()


def test_a_full_disk_is_said_with_the_file(tmp_path):
  with run_folder.RunFolder(tmp_path) as folder:
    folder.start(0, CONFIG, CONDITIONS, {})
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    # As on a full disk: no file may grow beyond 10 bytes.
    resource.setrlimit(resource.RLIMIT_FSIZE, (10, before[1]))
    try:
      with pytest.raises(OSError, match=r"metrics\.jsonl.*make room"):
        folder.record_step(0, {"reward": 0.5}, {})
    finally:
      resource.setrlimit(resource.RLIMIT_FSIZE, before)
