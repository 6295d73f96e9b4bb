"""What a run goes on from: its checkpoints, and the files as they were then."""

import hashlib
import logging
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from hrl_jax import config as configs
from hrl_jax import protocols, train
from hrl_jax.checkpoint import hf
from hrl_jax.checkpoint import state as checkpoints
from hrl_jax.data import package_files
from hrl_jax.methods import given
from hrl_jax.metrics import conditions, run_folder
from hrl_jax.services import replies

_logger = logging.getLogger(__name__)


class Saved(NamedTuple):
  """The checkpoints of a run, and the replies after the last of them.

  Attributes:
    path: folder of the checkpoints.
    identity: of the run.
    kept: replies that were paid for.
    method: whose state it is.
    logs: of the method.
  """

  path: pathlib.Path
  identity: checkpoints.Identity
  kept: replies.ReplayFile
  method: protocols.Method
  logs: Sequence[given.Log]

  def resume(
    self,
    state: train.State,
    folder: run_folder.RunFolder,
    config: configs.Config,
    anyway: bool,
  ) -> tuple[train.State, int]:
    """The newest state and its step; cuts the logs to where they were then.

    Args:
      state: of a new run; consumed.
      folder: of the run.
      config: of the run.
      anyway: whether other conditions are only logged.

    Raises:
      ValueError: if the checkpoint is of another run, or made under other
        conditions; nothing has changed then.
    """
    found = conditions.gather()
    state, start, lengths = self._restore(state, folder, found, anyway)
    self.kept.replay(lengths.get(self.kept.name, 0))
    for log in self.logs:
      log.cut(lengths.get(log.name, 0))
    folder.start(start, configs.as_dict(config), found, lengths)
    return state, start

  def save(
    self,
    step: int,
    state: train.State,
    folder: run_folder.RunFolder,
    score: float | None,
    keep_last: int,
  ) -> None:
    """Saves the state after `step` updates; the logs are durable before it."""
    lengths = {
      **folder.lengths(),
      **{log.name: log.length() for log in (self.kept, *self.logs)},
    }
    checkpoints.save(
      self.path,
      step,
      state,
      {"lengths": lengths, "text": self.method.text(state.method)},
      identity=self.identity,
      score=score,
      keep_last=keep_last,
    )

  def _restore(
    self,
    state: train.State,
    folder: run_folder.RunFolder,
    found: Mapping[str, Any],
    anyway: bool,
  ) -> tuple[train.State, int, Mapping[str, int]]:
    """The newest state, its step, and the lengths of the files at that step."""
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
    conditions.check_same(starts[-1]["conditions"], found, allowed=anyway)
    like = checkpoints.abstract(state)
    del state
    document = checkpoints.read_document(self.path, step)
    restored = checkpoints.restore(self.path, step, like)
    restored = restored._replace(
      method=self.method.with_text(restored.method, document["text"])
    )
    _logger.info("Resumes after step %d.", step)
    return restored, step, document["lengths"]


def identity(setup: train.Setup) -> checkpoints.Identity:
  """What a run must share with the checkpoint that it resumes from."""
  model = {
    "weights": hf.weights_hash(setup.config.model.path),
    "tokenizer": setup.world.tokenizer.hash,
  }
  if setup.config.judge.kind == "likelihood":
    path = package_files.resolve(setup.config.judge.thresholds)
    model["judge's thresholds"] = hashlib.sha256(path.read_bytes()).hexdigest()
  return checkpoints.Identity(
    config=configs.identity(setup.config),
    banks={"train": setup.bank.hash, "held_out": setup.held_out.hash},
    model=model,
  )
