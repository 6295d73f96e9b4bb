"""The gain above which a criterion counts as met, frozen for each of them.

How far a response's likelihood moves when a criterion is asked for depends on
the criterion more than on the response, so every criterion has a threshold of
its own. `scripts/calibrate_judge.py` freezes them from rollouts of the model's
first weights, before any training, and writes the file that is read here. They
hold for these weights, this wording and these tasks, and for no others.
"""

import hashlib
import json
import math
import os
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from hrl_jax import base
from hrl_jax.services import likelihood

Thresholds = Mapping[tuple[base.Conversation, str], float]

REMEDY = "Run `python scripts/calibrate_judge.py` to freeze thresholds anew."
_DEVIATIONS = 1.5
_DIGITS = 6
# What a file of another form raises when it is taken apart.
_MISSHAPEN = (
  ValueError,
  KeyError,
  TypeError,
  AttributeError,
  RecursionError,
)


class Frozen(NamedTuple):
  """What a file of thresholds holds.

  Attributes:
    weights_hash: of the judging model, see `checkpoint.hf.weights_hash`.
    template: the wording, `likelihood.TEMPLATE` when they were frozen.
    rollouts: of each task that they were frozen from.
    max_tokens: length at which a rollout was cut.
    seed: of the rollouts.
    tasks: by the id of a task, the hash of its prompt and the threshold of
      each judged criterion by its text.
  """

  weights_hash: str
  template: str
  rollouts: int
  max_tokens: int
  seed: int
  tasks: Mapping[str, tuple[str, Mapping[str, float]]]


def freeze(gains_N: Float[np.ndarray, " N"]) -> float:
  """The threshold of a criterion from its gains on N rollouts.

    threshold = mean + 1.5 standard deviations (`ddof=1`)

  About one in twenty rollouts of the first policy lies above it, so a group
  has contrast now and then and there is something to learn. Tried on the
  development cases: quantiles of the gains, other multiples of the deviation,
  one threshold for all criteria, and a share of the gain of a response that
  repeats the criterion. Accuracies were between 0.53 and 0.67, most within one
  standard error of each other (0.04), and penalties called for no rule of
  their own.

  Raises:
    ValueError: if there are fewer than two gains, or one is not finite.
  """
  if len(gains_N) < 2 or not np.isfinite(gains_N).all():
    raise ValueError(
      "A threshold is frozen from at least 2 finite gains, got "
      f"{gains_N.tolist()}. Sample more rollouts, or check the weights."
    )
  return float(gains_N.mean() + _DEVIATIONS * gains_N.std(ddof=1))


def prompt_hash(prompt: base.Conversation) -> str:
  """SHA-256 of a prompt, in hex."""
  turns = [[message.role, message.content] for message in prompt]
  return hashlib.sha256(json.dumps(turns).encode()).hexdigest()


def save(frozen: Frozen, path: str | os.PathLike[str]) -> None:
  """Writes thresholds so that equal ones give equal bytes."""
  tasks = {
    name: {
      "prompt_sha256": hashed,
      "thresholds": {
        text: round(value, _DIGITS) for text, value in thresholds.items()
      },
    }
    for name, (hashed, thresholds) in frozen.tasks.items()
  }
  content = json.dumps(
    {
      "weights_sha256": frozen.weights_hash,
      "template": frozen.template,
      "rollouts": frozen.rollouts,
      "max_tokens": frozen.max_tokens,
      "seed": frozen.seed,
      "tasks": tasks,
    },
    indent=2,
    sort_keys=True,
    allow_nan=False,
  )
  with open(path, "wb") as file:
    file.write(content.encode() + b"\n")


def load(path: str | os.PathLike[str], *, weights_hash: str) -> Frozen:
  """Reads the thresholds of a model.

  Args:
    path: of the file.
    weights_hash: of the model that is to judge.

  Raises:
    ValueError: if they were frozen for another model or another wording, or
      the file has another form.
  """
  frozen = _read(path)
  if frozen.weights_hash != weights_hash:
    raise ValueError(
      f"{os.fspath(path)} holds thresholds of the model with SHA-256 "
      f"{frozen.weights_hash}, but {weights_hash} is to judge: how far a "
      f"response's likelihood moves differs from model to model. {REMEDY}"
    )
  if frozen.template != likelihood.TEMPLATE:
    raise ValueError(
      f"{os.fspath(path)} holds thresholds for the wording {frozen.template!r},"
      f" but criteria are asked for as {likelihood.TEMPLATE!r}. {REMEDY}"
    )
  return frozen


def of_tasks(
  frozen: Frozen, tasks: Sequence[base.Task], path: str | os.PathLike[str]
) -> Thresholds:
  """The threshold of each judged criterion, as a judge looks it up.

  Args:
    frozen: from `load`.
    tasks: whose criteria will be judged; those with a checker need none.
    path: that the thresholds came from, for messages.

  Raises:
    ValueError: if a judged criterion has none, or its task asked for something
      else when they were frozen.
  """
  found = {}
  for task in tasks:
    judged = [each for each in task.rubric if each.checker is None]
    hashed, thresholds = frozen.tasks.get(task.id, (None, {}))
    for criterion in judged:
      if criterion.text not in thresholds:
        raise ValueError(
          f"Task {task.id!r} has the judged criterion {criterion.text!r}, for "
          f"which {os.fspath(path)} has no threshold. {REMEDY}"
        )
      if hashed != prompt_hash(task.prompt):
        raise ValueError(
          f"The prompt of task {task.id!r} is not the one for which "
          f"{os.fspath(path)} has the threshold of {criterion.text!r}. {REMEDY}"
        )
      found[task.prompt, criterion.text] = thresholds[criterion.text]
  return found


def _read(path: str | os.PathLike[str]) -> Frozen:
  place = os.fspath(path)
  try:
    with open(path, "rb") as file:
      content: Any = json.load(file)
    frozen = Frozen(
      weights_hash=content["weights_sha256"],
      template=content["template"],
      rollouts=content["rollouts"],
      max_tokens=content["max_tokens"],
      seed=content["seed"],
      tasks={
        name: (task["prompt_sha256"], dict(task["thresholds"]))
        for name, task in content["tasks"].items()
      },
    )
  except FileNotFoundError as error:
    raise ValueError(f"There are no thresholds at {place}. {REMEDY}") from error
  except _MISSHAPEN as error:
    raise ValueError(
      f"{place} does not have the form of thresholds "
      f"({type(error).__name__}: {error}). {REMEDY}"
    ) from error
  for name, (_, thresholds) in frozen.tasks.items():
    for text, value in thresholds.items():
      if type(value) not in (int, float) or not math.isfinite(value):
        raise ValueError(
          f"{place} has {value!r} as the threshold of {text!r} in task "
          f"{name!r}, which is no finite number. {REMEDY}"
        )
  return frozen
