"""Trains as a config says, and writes everything down.

  python -m hrl_jax.main --config configs/quickstart.py

Any knob can be set on the command line (`--config.seed=1`). Run again, it goes
on from the last checkpoint in `config.workdir`; SIGTERM finishes the step,
saves and exits with 0.
"""

import contextlib
import gc
import logging
import signal
import sys
from collections.abc import Iterator
from typing import Any

import jax
from absl import app, flags
from ml_collections import config_flags

from hrl_jax import config as configs
from hrl_jax import resume, train
from hrl_jax.checkpoint import state as checkpoints
from hrl_jax.evaluation import in_domain, report
from hrl_jax.metrics import losses, progress, run_folder
from hrl_jax.services import replies

_CONFIG = config_flags.DEFINE_config_file(
  "config", help_string="The config file, such as configs/quickstart.py."
)
_RESUME_ANYWAY = flags.DEFINE_bool(
  "resume_anyway",
  False,
  "Resume although CPUs, devices or versions differ from those of the run: the "
  "result is then not bit for bit that of an uninterrupted one.",
)

# Not __name__: that is "__main__" when this is the program.
_logger = logging.getLogger("hrl_jax.main")


def main(argv: list[str]) -> None:
  """Runs the config of the command line to its end.

  What a user can mend is one paragraph on the console and exit code 1; its
  traceback is in log.txt of the run folder.
  """
  if len(argv) > 1:
    raise app.UsageError(f"Unknown arguments: {argv[1:]}.")
  if _CONFIG.value is None:
    raise app.UsageError("Say what to run: --config configs/quickstart.py.")
  with _told():
    config = configs.from_config_dict(_CONFIG.value)
    folder = run_folder.RunFolder(config.workdir)
  # Told while the folder is open, so that log.txt has the traceback.
  with folder, _Stop() as stop, _told():
    run(config, folder, stop, resume_anyway=_RESUME_ANYWAY.value)


def run(
  config: configs.Config,
  folder: run_folder.RunFolder,
  stop: "_Stop",
  *,
  resume_anyway: bool,
) -> None:
  """Trains, records, evaluates and saves until the end or a signal.

  Raises:
    ValueError: if the config, a bank, the model or the checkpoint does not
      fit; nothing in the run folder has changed then.
    OSError: if a file or the judge cannot be reached, or a log not written.
    train.NonFiniteError: if a gradient is not finite.
    checkpoints.SaveError: if a checkpoint cannot be written.
  """
  path = folder.path / "replies.jsonl"
  with contextlib.ExitStack() as opened:
    kept = opened.enter_context(contextlib.closing(replies.ReplayFile(path)))
    setup, state = train.build(config, kept)
    for log in setup.logs:
      opened.callback(log.close)
    saved = resume.Saved(
      folder.path / "checkpoints",
      resume.identity(setup),
      kept,
      setup.method,
      setup.logs,
    )
    state, start = saved.resume(state, folder, config, resume_anyway)
    _logger.info(
      "%d tasks, %d held out; step %d of %d; everything is written to %s",
      len(setup.bank.tasks),
      len(setup.held_out.tasks),
      start,
      config.num_steps,
      folder.path,
    )
    if start == 0:
      state = train.prepare(setup, state)
      _evaluate(setup, folder, step=0)
    # What is here now stays; a collector that walks through it all stops the
    # judge's event loop for a tenth of a second.
    gc.collect()
    gc.freeze()
    done = _train(setup, state, start, folder, saved, stop)
  if done < config.num_steps:
    _logger.info("Stopped by a signal after %d steps; run again.", done)
    return
  for line in report.lines(folder.path):
    _logger.info("%s", line)
  report.plot(folder.path)
  _logger.info("Run folder: %s", folder.path)


def _train(
  setup: train.Setup,
  state: train.State,
  start: int,
  folder: run_folder.RunFolder,
  saved: resume.Saved,
  stop: "_Stop",
) -> int:
  """Trains from a step on; returns how many steps are done."""
  config = setup.config
  waiting = None
  done = start
  with progress.Progress(config.num_steps, done=start) as bar:
    before = report.read(folder.path / "metrics.jsonl")
    alarm = losses.Alarm(losses.total(before))
    steps = train.run(setup, state, start=start)
    for step, state, record in steps:
      done = step + 1
      last = done == config.num_steps
      evaluates = last or done % config.evaluation.every == 0
      saves = evaluates or stop.asked or done % config.checkpoint.every == 0
      # Metrics are read one step late, so the device need not wait; but a
      # checkpoint waits for its own.
      if waiting:
        _record(setup, folder, bar, alarm, *waiting)
      waiting = (step, record)
      if saves:
        _record(setup, folder, bar, alarm, *waiting)
        waiting = None
        score = _evaluate(setup, folder, done) if evaluates else None
        saved.save(done, state, folder, score, config.checkpoint.keep_last)
      if stop.asked:
        break
  return done


@contextlib.contextmanager
def _told() -> Iterator[None]:
  try:
    yield
  except (
    ValueError,
    OSError,
    train.NonFiniteError,
    checkpoints.SaveError,
  ) as error:
    _logger.error("%s", error, exc_info=True)
    sys.exit(1)


class _Stop:
  """Notes SIGTERM and the first Ctrl-C, so that a step can be finished."""

  def __init__(self):
    self.asked = False
    self._handlers: dict[int, Any] = {}

  def __enter__(self) -> "_Stop":
    for number in (signal.SIGTERM, signal.SIGINT):
      self._handlers[number] = signal.signal(number, self._ask)
    return self

  def __exit__(self, *_) -> None:
    for number, handler in self._handlers.items():
      signal.signal(number, handler)

  def _ask(self, number: int, _) -> None:
    self.asked = True
    _logger.info("Signal %d: finishes the step, saves and stops.", number)
    # A second one is not waited for.
    signal.signal(number, self._handlers[number])


def _record(
  setup: train.Setup,
  folder: run_folder.RunFolder,
  bar: progress.Progress,
  alarm: losses.Alarm,
  step: int,
  record: train.Record,
) -> None:
  """Waits for the numbers of a step and writes them down."""
  train.check_finite(setup, step, record)
  metrics = {
    name: value
    for name, value in jax.device_get(record.metrics).items()
    if name != "nonfinite_leaves"
  }
  seconds = sum(record.seconds.values())
  timing = {
    **record.timing,
    "tokens_per_second": record.sampled_tokens / seconds,
  }
  folder.record_step(step, metrics, timing)
  folder.record_rollouts(record.evidence, setup.bank)
  for evidence in (record.evidence, *record.measured):
    folder.record_failures(evidence, setup.bank)
  alarm.step(metrics)
  bar.update(step + 1, metrics, timing)


def _evaluate(
  setup: train.Setup, folder: run_folder.RunFolder, step: int
) -> float:
  """Evaluates the weights in the engine after `step` updates."""
  result = in_domain.evaluate(
    setup.held_out,
    setup.world,
    jax.random.key(setup.config.seed),
    step=step,
    max_tokens=setup.config.evaluation.max_completion_tokens,
  )
  summary = in_domain.summary(result, setup.held_out)
  folder.record_evaluation(step, summary)
  folder.record_answers(step, in_domain.answers(result, setup.held_out))
  folder.record_failures(result.evidence, setup.held_out)
  _logger.info("after %d steps: %s", step, report.describe(summary))
  return summary["score"]


class _Plain(logging.Formatter):
  """The message alone, without a traceback."""

  def format(self, record: logging.LogRecord) -> str:
    """Returns the message."""
    return record.getMessage()


def _log_to_console() -> None:
  handler = logging.StreamHandler(sys.stderr)
  handler.setFormatter(_Plain())
  logger = logging.getLogger("hrl_jax")
  logger.setLevel(logging.INFO)
  logger.propagate = False
  logger.addHandler(handler)
  logging.getLogger("jax").setLevel(logging.WARNING)


if __name__ == "__main__":
  _log_to_console()
  app.run(main)
