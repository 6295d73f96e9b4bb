"""A config file, read once into frozen dataclasses that check themselves.

A `configs/*.py` file names every knob; nothing has a default here, so what a
run did can be read from its file alone. `from_config_dict` is the only way in
that a run takes; `dataclasses.replace` on the result checks again.
"""

import dataclasses
from typing import Any

import ml_collections

from hrl_jax.config import schema, sections

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
  credit: sections.Credit
  loss: sections.Loss
  optimizer: sections.Optimizer
  updates: sections.Updates
  evaluation: sections.Evaluation
  checkpoint: sections.Checkpoint

  def __post_init__(self):
    super().__post_init__()
    _check_together(self)


def from_config_dict(config: ml_collections.ConfigDict) -> Config:
  """Reads and checks a config once.

  Raises:
    ValueError: if a knob is unknown, missing, of the wrong type, out of range
      or at odds with another one.
  """
  return schema.build(Config, config.to_dict())


def as_dict(config: Config) -> dict[str, Any]:
  """Returns every knob as JSON values, nested as in the config file."""
  return schema.as_dict(config)


def identity(config: Config) -> dict[str, Any]:
  """Returns the knobs that a resumed run must share, with dotted names.

  All but those that decide only when something is written, and the paths of
  files whose content is compared by its hash. The length of a run may change
  where neither the schedule nor the method knows it.
  """
  free = {
    "checkpoint.every",
    "checkpoint.keep_last",
    "data.held_out",
    "data.train",
    "evaluation.every",
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
  for is_wrong, message in wrong:
    if is_wrong:
      raise ValueError(message)
