"""Trains as a config says, and writes everything down.

  python -m hrl_jax.main --config configs/quickstart.py

Any knob can be set on the command line (`--config.seed=1`). Run again, it goes
on from the last checkpoint in `config.workdir`; SIGTERM finishes the step,
saves and exits with 0.
"""

import hashlib
import logging
import pathlib
import signal
import sys
from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
from absl import app, flags
from ml_collections import config_flags

from hrl_jax import config as configs
from hrl_jax import train
from hrl_jax.checkpoint import hf
from hrl_jax.checkpoint import state as checkpoints
from hrl_jax.evaluation import in_domain, report
from hrl_jax.metrics import conditions, progress, run_folder

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
  """Runs the config of the command line to its end."""
  if len(argv) > 1:
    raise app.UsageError(f"Unknown arguments: {argv[1:]}.")
  if _CONFIG.value is None:
    raise app.UsageError("Say what to run: --config configs/quickstart.py.")
  config = configs.from_config_dict(_CONFIG.value)
  with run_folder.RunFolder(config.workdir) as folder, _Stop() as stop:
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
    train.NonFiniteError: if a gradient is not finite.
    checkpoints.SaveError: if a checkpoint cannot be written.
  """
  setup, state = train.build(config)
  saved = _Saved(folder.path / "checkpoints", _identity(setup))
  state, start, lengths = saved.restore(state, folder, resume_anyway)
  folder.start(start, configs.as_dict(config), conditions.gather(), lengths)
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
  waiting = None
  with progress.Progress(config.num_steps, done=start) as bar:
    steps = train.run(setup, state, start=start)
    for step, state, record in steps:
      done = step + 1
      last = done == config.num_steps
      evaluates = last or done % config.evaluation.every == 0
      saves = evaluates or stop.asked or done % config.checkpoint.every == 0
      # Metrics are read one step late, so the device need not wait; but a
      # checkpoint waits for its own.
      if waiting:
        _record(setup, folder, bar, *waiting)
      waiting = (step, record)
      if saves:
        _record(setup, folder, bar, *waiting)
        waiting = None
        score = _evaluate(setup, folder, done) if evaluates else None
        saved.save(done, state, folder, score, config.checkpoint.keep_last)
      if stop.asked:
        _logger.info("Stopped by a signal after %d steps; run again.", done)
        return
  for line in report.lines(folder.path):
    _logger.info("%s", line)
  report.plot(folder.path)
  _logger.info("Run folder: %s", folder.path)


class _Saved(NamedTuple):
  """The checkpoints of a run."""

  path: pathlib.Path
  identity: checkpoints.Identity

  def restore(
    self, state: train.State, folder: run_folder.RunFolder, anyway: bool
  ) -> tuple[train.State, int, Mapping[str, int]]:
    """The newest state, its step, and the lengths of the logs at that step."""
    step = checkpoints.latest(self.path)
    if step is None:
      return state, 0, {}
    checkpoints.check(self.path, step, self.identity)
    starts = folder.starts()
    if not starts:
      raise ValueError(
        f"{folder.path} has a checkpoint of step {step} but no run.json, which "
        "says under which conditions it was made. Bring the file back, or "
        "choose another config.workdir."
      )
    conditions.check_same(
      starts[-1]["conditions"], conditions.gather(), allowed=anyway
    )
    like = checkpoints.abstract(state)
    del state
    document = checkpoints.read_document(self.path, step)
    restored = checkpoints.restore(self.path, step, like)
    _logger.info("Resumes after step %d.", step)
    return restored, step, document["lengths"]

  def save(
    self,
    step: int,
    state: train.State,
    folder: run_folder.RunFolder,
    score: float | None,
    keep_last: int,
  ) -> None:
    """Saves the state after `step` updates; the logs are durable before it."""
    checkpoints.save(
      self.path,
      step,
      state,
      {"lengths": folder.lengths()},
      identity=self.identity,
      score=score,
      keep_last=keep_last,
    )


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


def _identity(setup: train.Setup) -> checkpoints.Identity:
  files = setup.world.tokenizer.files
  tokenizer = hashlib.sha256()
  for name in sorted(files):
    tokenizer.update(name.encode() + b"\0" + files[name] + b"\0")
  return checkpoints.Identity(
    config=configs.identity(setup.config),
    banks={"train": setup.bank.hash, "held_out": setup.held_out.hash},
    model={
      "weights": hf.weights_hash(setup.config.model.path),
      "tokenizer": tokenizer.hexdigest(),
    },
  )


def _record(
  setup: train.Setup,
  folder: run_folder.RunFolder,
  bar: progress.Progress,
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
    **{f"seconds_{name}": value for name, value in record.seconds.items()},
    "tokens_per_second": record.sampled_tokens / seconds,
  }
  folder.record_step(step, metrics, timing)
  folder.record_rollouts(step, record.evidence, setup.bank)
  bar.update(step + 1, metrics, timing)


def _evaluate(
  setup: train.Setup, folder: run_folder.RunFolder, step: int
) -> float:
  """Evaluates the weights in the engine after `step` updates."""
  result = in_domain.evaluate(
    setup.held_out,
    setup.world,
    jax.random.key(setup.config.seed),
    max_tokens=setup.config.evaluation.max_completion_tokens,
  )
  summary = in_domain.summary(result, setup.held_out)
  folder.record_evaluation(step, summary)
  folder.record_answers(step, in_domain.answers(result, setup.held_out))
  _logger.info("after %d steps: %s", step, report.describe(summary))
  return summary["score"]


def _log_to_console() -> None:
  handler = logging.StreamHandler(sys.stderr)
  handler.setFormatter(logging.Formatter("%(message)s"))
  logger = logging.getLogger("hrl_jax")
  logger.setLevel(logging.INFO)
  logger.propagate = False
  logger.addHandler(handler)
  logging.getLogger("jax").setLevel(logging.WARNING)


if __name__ == "__main__":
  _log_to_console()
  app.run(main)
