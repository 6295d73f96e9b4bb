"""The lines of a run folder: records of a step as JSON objects."""

import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from hrl_jax import base


def rollouts(
  evidence: base.Evidence, bank: base.Bank
) -> Iterable[dict[str, Any]]:
  """Yields one JSON object per rollout, in the order of the evidence.

  `prompt` is the conversation that the rollout was sampled under;
  `trained_prompt` is there only where it differs.
  """
  plan = evidence.plan
  for group in evidence.groups:
    slot = plan.slots[group.slot]
    for index, rollout in enumerate(group.rollouts):
      record = {
        **evidence.occasion._asdict(),
        "slot": group.slot,
        "rollout": rollout.index,
        "task": bank.tasks[slot.task].id,
        "arm": slot.arm,
        "importance": slot.importance,
        "fate": group.fate,
        "valid": bool(group.valid_G[index]),
        "reward": scalar(group.rewards_G[index]),
        "scores": [
          {
            "criterion": criterion.text,
            "weight": criterion.weight,
            "score": scalar(score),
          }
          for criterion, score in zip(
            slot.rubric, group.scores_GC[index], strict=True
          )
        ],
        "prompt": _turns(plan.prompts[rollout.sampled_under]),
        "text": rollout.text,
        "tokens": len(rollout.completion.tokens),
        "finish": rollout.completion.finish,
        "seed": rollout.seed,
        "weights_version": rollout.completion.weights_version,
      }
      if rollout.trained_under != rollout.sampled_under:
        record["trained_prompt"] = _turns(plan.prompts[rollout.trained_under])
      yield record


def failures(
  evidence: base.Evidence, bank: base.Bank
) -> Iterable[dict[str, Any]]:
  """Yields one JSON object per failure, in the order of the evidence."""
  for failure in evidence.failures:
    slot = evidence.plan.slots[failure.slot]
    yield {
      **evidence.occasion._asdict(),
      "slot": failure.slot,
      "rollout": failure.rollout,
      "task": bank.tasks[slot.task].id,
      "criterion": (
        None
        if failure.criterion is None
        else slot.rubric[failure.criterion].text
      ),
      "reason": failure.reason,
      "raw": failure.raw,
    }


def scalars(values: Mapping[str, Any]) -> dict[str, Any]:
  """Returns a record with each of its values as `scalar` does."""
  return {name: scalar(value) for name, value in values.items()}


def scalar(value: Any) -> bool | int | float | str | None:
  """Returns a number of any kind, or a text, as a JSON value.

  NaN is None. An infinity is the text "Infinity" or "-Infinity".
  """
  if value is None or isinstance(value, str):
    return value
  number = np.asarray(value).item()
  if isinstance(number, float) and not math.isfinite(number):
    if math.isnan(number):
      return None
    return "Infinity" if number > 0 else "-Infinity"
  return number


def _turns(conversation: base.Conversation) -> list[dict[str, str]]:
  return [message._asdict() for message in conversation]
