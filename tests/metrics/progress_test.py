import io
import logging

import numpy as np
import pytest

from hrl_jax.metrics import progress

pytestmark = pytest.mark.core

METRICS = {
  "reward": np.float32(0.25),
  "kl": 0.00123,
  "entropy": 2.5,
  "clip_fraction": 0.015,
  "loss": 7.0,
}


class _Terminal(io.StringIO):
  def isatty(self) -> bool:
    return True


def test_the_numbers_worth_watching_are_in_the_line():
  assert progress.describe(METRICS | {"tokens_per_second": 99.6}) == (
    "reward 0.250, KL 0.0012, entropy 2.50, clipped 1.5%, tok/s 100"
  )


def test_a_missing_number_is_not_shown():
  metrics = {"reward": float("nan"), "kl": None, "entropy": 0.0}
  assert progress.describe(metrics) == "entropy 0.00"


def test_without_a_terminal_there_is_a_log_line_per_step(caplog):
  caplog.set_level(logging.INFO)
  stream = io.StringIO()
  with progress.Progress(4, done=2, stream=stream) as shown:
    shown.update(3, METRICS, {"tokens_per_second": 10})
    shown.update(4, METRICS, {})
  assert stream.getvalue() == ""
  first, second = (record.getMessage() for record in caplog.records)
  assert first.startswith("step 3/4: reward 0.250, KL 0.0012, entropy 2.50")
  assert first.endswith("tok/s 10, 00:00 left")
  assert second.startswith("step 4/4: ")


def test_on_a_terminal_there_is_a_bar_and_no_log_line(caplog):
  caplog.set_level(logging.INFO)
  stream = _Terminal()
  with progress.Progress(4, done=2, stream=stream) as shown:
    shown.update(3, METRICS, {"tokens_per_second": 10})
  assert not caplog.records
  last = stream.getvalue().split("\r")[-1]
  assert "3/4" in last
  assert "reward 0.250" in last
  assert "tok/s 10" in last


def test_the_time_left_is_that_of_the_pace_so_far():
  # 30 s for two steps, so eight more take 120 s.
  assert progress.seconds_left(30.0, finished=2, remaining=8) == 120.0
