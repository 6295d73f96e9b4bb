"""HealthBench: conversations about health with physicians' signed criteria.

See "HealthBench: Evaluating Large Language Models Towards Improved Human
Health" (https://arxiv.org/abs/2505.08775). A line of the released file is an
object with `prompt_id`, `prompt` (a conversation) and `rubrics`, a list of
{`criterion`, `points`}. Tags are passed over; ideal completions describe the
corpus and are never read (H-37a). Every criterion is for a judge.
"""

import os
from collections.abc import Mapping
from typing import Any, NamedTuple

from hrl_jax import base
from hrl_jax.data import jsonl, schema

DOMAIN = "medical"


class Source(NamedTuple):
  """What one file held.

  Attributes:
    tasks: one per eligible row, in file order.
    criteria: number of criteria of all rows as released.
    merged: how many of them repeated the text of another of their row. Each
      text is kept once, at its first place, with the weights summed (H-113).
    ineligible: ids of the rows without positive points, which are left out
      (H-100): no response could earn anything there.
  """

  tasks: tuple[base.Task, ...]
  criteria: int
  merged: int
  ineligible: tuple[str, ...]


def read(path: str | os.PathLike[str]) -> Source:
  """Reads a file in HealthBench's own format.

  Raises:
    ValueError: at the first thing that is wrong, naming file and line.
  """
  tasks: list[base.Task] = []
  ineligible: list[str] = []
  criteria = merged = 0
  for number, row in jsonl.read(path):
    try:
      points = _points(row)
      criteria += len(row["rubrics"])
      merged += len(row["rubrics"]) - len(points)
      if all(value <= 0 for value in points.values()):
        ineligible.append(row["prompt_id"])
      else:
        tasks.append(schema.parse(_record(row, points), checkers=()))
    except (KeyError, TypeError, ValueError) as error:
      raise ValueError(
        f"{os.fspath(path)}, line {number}: not a row of HealthBench: "
        f"{type(error).__name__}: {error}"
      ) from error
  return Source(tuple(tasks), criteria, merged, tuple(ineligible))


def _points(row: Mapping[str, Any]) -> dict[str, int | float]:
  points: dict[str, int | float] = {}
  for entry in row["rubrics"]:
    text = entry["criterion"]
    points[text] = points.get(text, 0) + entry["points"]
  return points


def _record(
  row: Mapping[str, Any], points: Mapping[str, int | float]
) -> dict[str, Any]:
  return {
    "id": row["prompt_id"],
    "domain": DOMAIN,
    "prompt": [
      {"role": message["role"], "content": message["content"]}
      for message in row["prompt"]
    ],
    "rubric": [
      {"text": text, "weight": weight} for text, weight in points.items()
    ],
  }
