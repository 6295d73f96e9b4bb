"""The run folder: what a run writes down, cut back exactly on resume.

  config.json        every knob
  run.json           seed, and of each start of the run: step, time, conditions
  metrics.jsonl      a line per step: numbers that a resumed run repeats
  timing.jsonl       a line per step: seconds, which it does not
  rollouts.jsonl     a line per rollout
  failures.jsonl     a line for everything that was lost, with its reason
  evaluation.jsonl   a line per evaluation
  answers.jsonl      a line per held-out task and evaluation
  replies.jsonl      replies of LLMs, see `services.replies`
  log.txt            what was logged, over all starts; never cut
  tensorboard/       the numbers again, as curves

Lines are strict JSON in ASCII, so any text goes through and none breaks a
line. A number that is missing is `null`, never 0; an infinite one is the text
"Infinity" or "-Infinity", which JSON lacks as a number.
"""

import contextlib
import datetime
import fcntl
import io
import json
import logging
import os
import pathlib
from collections.abc import Iterable, Mapping
from typing import Any

import tensorboardX

from hrl_jax import base
from hrl_jax.metrics import records

LOGS = (
  "metrics.jsonl",
  "timing.jsonl",
  "rollouts.jsonl",
  "failures.jsonl",
  "evaluation.jsonl",
  "answers.jsonl",
)

_logger = logging.getLogger(__name__)


class RunFolder:
  """Writes the files of one run; a context manager.

  Used by one process of a run. `start` comes before the first record: until
  then nothing in the folder has changed but `log.txt`. A record that cannot be
  written, as on a full disk, is an OSError.
  """

  def __init__(self, path: str | os.PathLike[str]):
    """Opens the folder, which is made if it is not there.

    Raises:
      ValueError: if another process writes to it, or it cannot be a folder
        that is written to.
    """
    self.path = pathlib.Path(path)
    try:
      self._files = self._open()
    except OSError as error:
      raise ValueError(
        f"Cannot write to the run folder {str(self.path)[:200]!a}: "
        f"{error.strerror}. Choose another config.workdir."
      ) from error
    self._lock()
    self._curves: dict[str, tensorboardX.SummaryWriter] = {}
    self._handler = logging.FileHandler(
      self.path / "log.txt", encoding="utf-8", errors="backslashreplace"
    )
    self._handler.setFormatter(
      logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s")
    )
    logger = logging.getLogger("hrl_jax")
    logger.addHandler(self._handler)
    if not logger.isEnabledFor(logging.INFO):
      logger.setLevel(logging.INFO)

  def __enter__(self) -> "RunFolder":
    return self

  def __exit__(self, *_) -> None:
    self.close()

  def starts(self) -> list[dict[str, Any]]:
    """Returns what `run.json` says of each start, none in a new folder.

    Raises:
      ValueError: if that file is damaged.
    """
    path = self.path / "run.json"
    try:
      return json.loads(path.read_text())["starts"]
    except FileNotFoundError:
      return []
    except (ValueError, KeyError, TypeError) as error:
      raise ValueError(
        f"{path} is damaged: it does not say under which conditions the run "
        "was started. Bring it back, or choose another config.workdir."
      ) from error

  def start(
    self,
    step: int,
    config: Mapping[str, Any],
    conditions: Mapping[str, Any],
    lengths: Mapping[str, int],
  ) -> None:
    """Cuts the logs to where the run goes on, and records that it starts.

    Args:
      step: updates that are done already, 0 for a new run.
      config: every knob, JSON values, its seed among them.
      conditions: of `conditions.gather`.
      lengths: of `lengths` when the checkpoint was saved, empty for a new
        run. A log that it lacks was not there then, and is emptied.

    Raises:
      ValueError: if a log is shorter than when the checkpoint was saved.
    """
    self._truncate(lengths)
    now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    starts = [
      *self.starts(),
      {"step": step, "time": now, "conditions": dict(conditions)},
    ]
    self._replace("config.json", config)
    self._replace("run.json", {"seed": config["seed"], "starts": starts})
    # Step 8 is the ninth update and comes again after a checkpoint of step 8;
    # an evaluation after eight updates is older than that and stays.
    first_evaluation = step + 1 if step else 0
    for name, first in (("train", step), ("evaluation", first_evaluation)):
      self._curves[name] = tensorboardX.SummaryWriter(
        str(self.path / "tensorboard" / name),
        purge_step=first if len(starts) > 1 else None,
        # Its own names only tell seconds: a quick restart would overwrite.
        filename_suffix=f".{len(starts)}",
      )

  def record_step(
    self,
    step: int,
    metrics: Mapping[str, Any],
    timing: Mapping[str, Any],
  ) -> None:
    """Records the numbers of one step.

    Args:
      step: the number of updates before it.
      metrics: scalars that depend on seed and config only.
      timing: scalars that depend on the clock, such as seconds by phase.
    """
    self._append("metrics.jsonl", [{"step": step, **records.scalars(metrics)}])
    self._append("timing.jsonl", [{"step": step, **records.scalars(timing)}])
    self._draw("train", step, {**metrics, **timing})

  def record_evaluation(self, step: int, metrics: Mapping[str, Any]) -> None:
    """Records an evaluation after `step` updates; scalars as above."""
    self._append(
      "evaluation.jsonl", [{"step": step, **records.scalars(metrics)}]
    )
    self._draw("evaluation", step, metrics)

  def record_answers(
    self, step: int, answers: Iterable[Mapping[str, Any]]
  ) -> None:
    """Records an evaluation after `step` updates task by task; scalars."""
    self._append(
      "answers.jsonl",
      ({"step": step, **records.scalars(answer)} for answer in answers),
    )

  def record_rollouts(self, evidence: base.Evidence, bank: base.Bank) -> None:
    """Records every rollout of a step."""
    self._append("rollouts.jsonl", records.rollouts(evidence, bank))

  def record_failures(self, evidence: base.Evidence, bank: base.Bank) -> None:
    """Records everything that was lost, with its reason."""
    self._append("failures.jsonl", records.failures(evidence, bank))

  def lengths(self) -> dict[str, int]:
    """Makes the logs durable and returns their lengths in bytes."""
    for file in self._files.values():
      os.fsync(file.fileno())
    for writer in self._curves.values():
      writer.flush()
    return {
      name: os.fstat(file.fileno()).st_size
      for name, file in self._files.items()
    }

  def close(self) -> None:
    """Closes every file; the folder may then be opened again."""
    logging.getLogger("hrl_jax").removeHandler(self._handler)
    self._handler.close()
    for opened in (*self._files.values(), *self._curves.values()):
      opened.close()

  def _open(self) -> dict[str, io.FileIO]:
    self.path.mkdir(parents=True, exist_ok=True)
    with contextlib.ExitStack() as opened:
      # Unbuffered: nothing is left to write when a full disk has ended a run.
      files = {
        name: opened.enter_context(open(self.path / name, "ab", buffering=0))
        for name in LOGS
      }
      opened.pop_all()
    return files

  def _lock(self) -> None:
    try:
      fcntl.flock(self._files[LOGS[0]], fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
      for file in self._files.values():
        file.close()
      raise ValueError(
        f"Another process is writing to the run folder {self.path}. Wait for "
        "it to end, or choose another config.workdir."
      ) from error

  def _truncate(self, lengths: Mapping[str, int]) -> None:
    for name, file in self._files.items():
      recorded = lengths.get(name, 0)
      length = os.fstat(file.fileno()).st_size
      if length < recorded:
        raise ValueError(
          f"{self.path / name} has {length} bytes, but had {recorded} when the "
          "checkpoint was saved: what the run wrote is lost. Bring the file "
          "back, or choose another config.workdir."
        )
      if length > recorded:
        _logger.info(
          "Cut %d bytes of %s, written after the last checkpoint.",
          length - recorded,
          name,
        )
        os.ftruncate(file.fileno(), recorded)

  def _append(self, name: str, values: Iterable[Mapping[str, Any]]) -> None:
    lines = [json.dumps(value, allow_nan=False) for value in values]
    try:
      left = memoryview("".join(f"{line}\n" for line in lines).encode())
      while left:
        left = left[self._files[name].write(left) :]
    except OSError as error:
      # What half a write left behind is cut on resume.
      raise OSError(
        f"Could not write to {self.path / name}: {error}. The last checkpoint "
        "is whole: make room and run the same command again."
      ) from error

  def _draw(self, curve: str, step: int, metrics: Mapping[str, Any]) -> None:
    for name, value in records.scalars(metrics).items():
      if isinstance(value, int | float):
        self._curves[curve].add_scalar(name, value, step)

  def _replace(self, name: str, value: Mapping[str, Any]) -> None:
    # Whole or as before, whenever the process is killed.
    temporary = self.path / f"{name}.tmp"
    temporary.write_text(json.dumps(value, indent=2, allow_nan=False) + "\n")
    os.replace(temporary, self.path / name)
