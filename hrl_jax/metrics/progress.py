"""A bar on a terminal; elsewhere a line in the log for each step."""

import contextlib
import io
import logging
import math
import sys
import time
from collections.abc import Mapping
from typing import Any

import tqdm
from tqdm.contrib import logging as tqdm_logging

# Metric, label and format; a metric that is missing is not shown.
_SHOWN = (
  ("reward", "reward", "{:.3f}"),
  ("kl", "KL", "{:.2g}"),
  ("entropy", "entropy", "{:.2f}"),
  ("clip_fraction", "clipped", "{:.1%}"),
  ("harness/accepted", "accepted", "{:.0f}"),
  ("harness/rejected", "rejected", "{:.0f}"),
  ("harness/mounted", "fields", "{:.2f}"),
  ("harness/effective_sample", "ESS", "{:.0%}"),
  ("tokens_per_second", "tok/s", "{:.0f}"),
)

_logger = logging.getLogger(__name__)


class Progress:
  """Shows how a run gets on; a context manager."""

  def __init__(
    self, num_steps: int, *, done: int, stream: io.TextIOBase | None = None
  ):
    """Shows nothing yet.

    Args:
      num_steps: policy updates of the whole run.
      done: of them, those done before it was resumed.
      stream: where the bar goes, if it is a terminal; None is stderr.
    """
    stream = stream or sys.stderr
    self._num_steps = num_steps
    self._done_before = done
    self._started = time.monotonic()
    self._contexts = contextlib.ExitStack()
    self._bar = None
    if stream.isatty():
      # Log lines go above the bar instead of through it.
      loggers = [logging.getLogger(), logging.getLogger("hrl_jax")]
      self._contexts.enter_context(tqdm_logging.logging_redirect_tqdm(loggers))
      self._bar = self._contexts.enter_context(
        tqdm.tqdm(
          total=num_steps,
          initial=done,
          file=stream,
          unit="step",
          dynamic_ncols=True,
        )
      )

  def __enter__(self) -> "Progress":
    return self

  def __exit__(self, *_) -> None:
    self._contexts.close()

  def update(
    self, done: int, metrics: Mapping[str, Any], timing: Mapping[str, Any]
  ) -> None:
    """Shows one more step.

    Args:
      done: updates that are done now.
      metrics: of the step; shown are `reward`, `kl`, `entropy` and
        `clip_fraction`.
      timing: of the step; shown is `tokens_per_second`.
    """
    shown = describe({**metrics, **timing})
    if self._bar is not None:
      self._bar.set_postfix_str(shown, refresh=False)
      self._bar.update(done - self._bar.n)
      return
    left = seconds_left(
      time.monotonic() - self._started,
      finished=done - self._done_before,
      remaining=self._num_steps - done,
    )
    _logger.info(
      "step %d/%d: %s, %s left",
      done,
      self._num_steps,
      shown,
      tqdm.tqdm.format_interval(left),
    )


def seconds_left(elapsed: float, *, finished: int, remaining: int) -> float:
  """Returns how long the remaining steps take at the pace of the finished."""
  return elapsed / finished * remaining


def describe(metrics: Mapping[str, Any]) -> str:
  """Returns the numbers worth watching in one line, the missing left out."""
  return ", ".join(
    f"{label} {form.format(float(metrics[name]))}"
    for name, label, form in _SHOWN
    if metrics.get(name) is not None and not math.isnan(float(metrics[name]))
  )
