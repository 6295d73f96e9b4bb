"""A config file, read once into frozen dataclasses that check themselves.

A `configs/*.py` file names every knob; nothing has a default here, so what a
run did can be read from its file alone. `from_config_dict` is the only way in
that a run takes; `dataclasses.replace` on the result checks again.
"""

import dataclasses
from collections.abc import Iterable, Iterator
from typing import Any

import ml_collections
from ml_collections import config_dict

from hrl_jax.config import schema, sections
from hrl_jax.data import jsonl

# A method whose draws do not depend on the length of the run: with a constant
# learning rate, its run may be prolonged and stay bit for bit the same.
_METHODS_WITHOUT_HORIZON = frozenset({"grpo"})


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config(schema.Section, place="config"):
  """A run.

  Attributes:
    seed: of all randomness.
    num_steps: policy updates.
    workdir: the run folder.
    model: the policy.
    data: the tasks.
    method: the recipe.
    rollout: sampling.
    judge: of the criteria that no checker decides.
    credit: advantages.
    loss: the objective.
    optimizer: its descent.
    update: its computation.
    evaluation: on held-out tasks.
    checkpoint: for resuming.
  """

  seed: int = schema.within("[0, 4294967295]")
  num_steps: int = schema.within("[1, inf)")
  workdir: str
  model: sections.Model
  data: sections.Data
  method: sections.Method
  rollout: sections.Rollout
  judge: sections.Judge
  credit: sections.Credit
  loss: sections.Loss
  optimizer: sections.Optimizer
  updates: sections.Updates
  evaluation: sections.Evaluation
  checkpoint: sections.Checkpoint

  def __post_init__(self):
    super().__post_init__()
    _check_together(self)


def from_config_dict(config: Any) -> Config:
  """Reads and checks a config once.

  Args:
    config: the ConfigDict that `get_config` of a config file returned.

  Raises:
    ValueError: if a knob is unknown, missing, of the wrong type, out of range
      or at odds with another one.
  """
  if not isinstance(config, ml_collections.ConfigDict):
    raise ValueError(
      "The config must be a ConfigDict, as get_config() of a config file "
      f"returns it, got {jsonl.shown(config)} of type {type(config).__name__}."
    )
  for knob in _required(config, "config"):
    raise ValueError(
      f"{knob} has no value yet. Set it on the command line, "
      f"--{knob}=VALUE, or in the config file."
    )
  return schema.build(Config, config.to_dict())


def _required(config: ml_collections.ConfigDict, place: str) -> Iterator[str]:
  """The places of values that a config file leaves to the command line."""
  for name in config:
    try:
      value = config[name]
    except config_dict.RequiredValueError:
      yield f"{place}.{name}"
      continue
    if isinstance(value, ml_collections.ConfigDict):
      yield from _required(value, f"{place}.{name}")


def as_dict(config: Config) -> dict[str, Any]:
  """Returns every knob as JSON values, nested as in the config file."""
  return schema.as_dict(config)


def identity(config: Config) -> dict[str, Any]:
  """Returns the knobs that a resumed run must share, with dotted names.

  All but those that decide only when something is written or how long it is
  waited for, where a server stands, and the paths of files whose content is
  compared by its hash. The length of a run may change
  where neither the schedule nor the method knows it.
  """
  free = {
    "checkpoint.every",
    "checkpoint.keep_last",
    "data.held_out",
    "data.train",
    "evaluation.every",
    "judge.deadline",
    "judge.endpoint.api_key_variable",
    "judge.endpoint.attempts",
    "judge.endpoint.deadline",
    "judge.endpoint.max_in_flight",
    "judge.endpoint.timeout",
    "judge.endpoint.url",
    "judge.thresholds",
    "model.path",
    "workdir",
  }
  if (
    config.optimizer.schedule == "constant"
    and config.method.name in _METHODS_WITHOUT_HORIZON
  ):
    free.add("num_steps")
  knobs = schema.flat(as_dict(config))
  return {name: value for name, value in knobs.items() if name not in free}


def _check_together(config: Config) -> None:
  rollout, loss, updates = config.rollout, config.loss, config.updates
  row = config.data.max_prompt_tokens + rollout.max_completion_tokens
  wrong = (
    (
      not config.data.train,
      "config.data.train names no file. Name the bank to train on.",
    ),
    (
      not config.workdir.strip(),
      "config.workdir is empty. Name the folder that the run is written to.",
    ),
    (
      rollout.max_rounds > 1 and not rollout.drop_constant,
      f"config.rollout.max_rounds={rollout.max_rounds} has no effect while "
      "config.rollout.drop_constant is False. Set the one to 1, or the other "
      "to True.",
    ),
    (
      loss.correction == "tis" and loss.correction_low != 0,
      f"config.loss.correction_low={loss.correction_low} has no effect on "
      "config.loss.correction='tis'. Set the one to 0, or the other to 'mis'.",
    ),
    (
      loss.correction_low >= loss.correction_high,
      f"config.loss.correction_low={loss.correction_low} is not below "
      f"config.loss.correction_high={loss.correction_high}. Lower the one or "
      "raise the other.",
    ),
    (
      updates.micro_batch_tokens < row,
      f"config.updates.micro_batch_tokens={updates.micro_batch_tokens} does "
      "not hold one prompt and its completion. Raise it to config.data."
      "max_prompt_tokens + config.rollout.max_completion_tokens "
      f"= {row} or more.",
    ),
    (
      updates.mini_batches > rollout.tasks_per_step,
      f"config.updates.mini_batches={updates.mini_batches} leaves some without "
      "a group. Lower it to config.rollout.tasks_per_step="
      f"{rollout.tasks_per_step} or less.",
    ),
    (
      config.optimizer.schedule != "constant"
      and config.optimizer.warmup_steps >= config.num_steps,
      f"config.optimizer.warmup_steps={config.optimizer.warmup_steps} leaves "
      f"no step of config.num_steps={config.num_steps} to the "
      f"{config.optimizer.schedule} schedule. Lower it.",
    ),
  )
  _refuse(wrong)
  _check_judge(config.judge)


def _check_judge(judge: sections.Judge) -> None:
  endpoint = judge.endpoint
  wrong = (
    (
      endpoint.timeout > endpoint.deadline,
      f"config.judge.endpoint.timeout={endpoint.timeout} of one try is more "
      f"than config.judge.endpoint.deadline={endpoint.deadline} of all. Lower "
      "the one or raise the other.",
    ),
    (
      judge.kind == "llm"
      and not endpoint.url.startswith(("http://", "https://")),
      f"config.judge.endpoint.url={jsonl.shown(endpoint.url)} is no address. "
      "Write it as 'http://HOST:PORT/v1'.",
    ),
    (
      judge.kind == "llm" and not endpoint.model.strip(),
      "config.judge.endpoint.model is empty. Name the model as its server "
      "does.",
    ),
  )
  _refuse(wrong)


def _refuse(wrong: Iterable[tuple[bool, str]]) -> None:
  for is_wrong, message in wrong:
    if is_wrong:
      raise ValueError(message)
