"""What a run has reached, in a few lines and one picture."""

import json
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib.figure
import numpy as np

from hrl_jax.evaluation import statistics

_DRAWN = (
  ("reward", "reward of the rollouts"),
  ("length", "completion length, tokens"),
  ("entropy", "entropy, nats per token"),
  ("kl", "KL to the reference, nats per token"),
)


def describe(evaluation: Mapping[str, Any]) -> str:
  """One line on an evaluation: score, interval, length."""
  return (
    f"held-out score {evaluation['score']:.3f} "
    f"[{evaluation['score_low']:.3f}, {evaluation['score_high']:.3f}], mean "
    f"length {evaluation['length']:.1f} tokens, {evaluation['truncated']:.0%} "
    f"cut at the limit ({evaluation['graded']} of {evaluation['tasks']} tasks "
    "graded)"
  )


def lines(folder: pathlib.Path) -> list[str]:
  """Before, after, and the paired difference over the held-out tasks.

  Args:
    folder: of a run with at least one evaluation.
  """
  evaluations = read(folder / "evaluation.jsonl")
  before, after = evaluations[0], evaluations[-1]
  differences_N = scores(folder, after["step"]) - scores(folder, before["step"])
  change = statistics.mean_interval(differences_N)
  return [
    f"before: {describe(before)}",
    f"after {after['step']} steps: {describe(after)}",
    f"change: {change.mean:+.3f} [{change.low:+.3f}, {change.high:+.3f}] per "
    "task (95 % bootstrap over tasks)",
  ]


def scores(folder: pathlib.Path, step: int) -> np.ndarray:
  """`[N]` held-out scores after `step` updates, NaN where missing."""
  return np.array(
    [
      np.nan if answer["score"] is None else answer["score"]
      for answer in read(folder / "answers.jsonl")
      if answer["step"] == step
    ]
  )


def read(path: pathlib.Path) -> list[dict[str, Any]]:
  """The records of a JSON Lines file of the run folder."""
  with open(path, encoding="utf-8") as file:
    return [json.loads(line) for line in file]


def plot(folder: pathlib.Path) -> pathlib.Path:
  """Draws `curves.png` into the run folder and returns its path."""
  metrics = read(folder / "metrics.jsonl")
  evaluations = read(folder / "evaluation.jsonl")
  figure = matplotlib.figure.Figure(figsize=(10, 6), layout="constrained")
  axes = figure.subplots(2, 2)
  for axis, (name, label) in zip(axes.flat, _DRAWN, strict=True):
    _draw(axis, metrics, name, label)
  steps = [evaluation["step"] for evaluation in evaluations]
  low, mean, high = (
    np.array([evaluation[name] for evaluation in evaluations], float)
    for name in ("score_low", "score", "score_high")
  )
  axes[0, 0].errorbar(
    steps,
    mean,
    [mean - low, high - mean],
    fmt="o-",
    capsize=3,
    label="held-out",
  )
  axes[0, 0].legend()
  path = folder / "curves.png"
  figure.savefig(path, dpi=120)
  return path


def _draw(
  axis: Any, metrics: Sequence[Mapping[str, Any]], name: str, label: str
) -> None:
  known = [record for record in metrics if record.get(name) is not None]
  if not known:
    axis.set_title("not measured")
  axis.plot(
    [record["step"] for record in known],
    [record[name] for record in known],
    color="0.4",
    label="training",
  )
  axis.set_xlabel("step")
  axis.set_ylabel(label)
  axis.grid(alpha=0.3)
