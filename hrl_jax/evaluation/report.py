"""What a run has reached, in a few lines and one picture."""

import collections
import json
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib.figure
import numpy as np

from hrl_jax.evaluation import statistics
from hrl_jax.harness import records
from hrl_jax.metrics import losses

_DRAWN = (
  ("reward", "reward"),
  ("checked", "reward by checked criteria"),
  ("judged", "reward by judged criteria"),
  ("length", "completion length, tokens"),
  ("entropy", "entropy, nats per token"),
  ("kl", "KL to the reference, nats per token"),
)


_LABELS = b'{"record":"labels"'


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
  told = [
    f"before: {describe(before)}",
    f"after {after['step']} steps: {describe(after)}",
    f"change: {_change(folder, before['step'], after['step'], 'score')} per "
    "task (95 % bootstrap over tasks)",
  ]
  if after["judged"] is not None:
    told += [
      f"  by {part} criteria alone: "
      f"{_change(folder, before['step'], after['step'], part)}"
      for part in ("checked", "judged")
    ]
  return [*told, *_lost(folder), *_thin_tasks(folder)]


def _change(folder: pathlib.Path, before: int, after: int, part: str) -> str:
  differences_N = scores(folder, after, part) - scores(folder, before, part)
  change = statistics.mean_interval(differences_N)
  return f"{change.mean:+.3f} [{change.low:+.3f}, {change.high:+.3f}]"


def _lost(folder: pathlib.Path) -> list[str]:
  """What has no score, with the reasons; no line where nothing was lost."""
  counts = losses.total(read(folder / "metrics.jsonl"))
  told = []
  if counts.missing or counts.thin:
    alarm = " (MORE THAN 1 %)" if counts.excess() else ""
    told.append(f"lost in training: {counts.describe()}{alarm}")
  reasons = collections.Counter(
    failure["reason"] for failure in read(folder / "failures.jsonl")
  )
  told += [
    f"  {count} times: {reason}" for reason, count in reasons.most_common(10)
  ]
  if len(reasons) > 10:
    told.append(f"  and {len(reasons) - 10} further reasons in failures.jsonl")
  return told


def _thin_tasks(folder: pathlib.Path) -> list[str]:
  """The tasks that a harness never had enough grades of (H-115)."""
  path = folder / "memory" / "log.jsonl"
  if not path.exists():
    return []
  thin: dict[str, bool] = {}
  with open(path, "rb") as file:
    # Rollouts are most of a log, and need not be read.
    for line in filter(lambda line: line.startswith(_LABELS), file):
      record = records.decode(line)
      is_thin = record.code == "thin_group"
      thin[record.task] = is_thin and thin.get(record.task, True)
  tasks = sorted(task for task, is_always in thin.items() if is_always)
  if not tasks:
    return []
  more = f" and {len(tasks) - 10} more" if len(tasks) > 10 else ""
  return [
    f"{len(tasks)} tasks had too few graded rollouts in every draw, so their "
    f"harness never changed: {', '.join(tasks[:10])}{more}"
  ]


def scores(folder: pathlib.Path, step: int, part: str = "score") -> np.ndarray:
  """`[N]` held-out scores after `step` updates, NaN where missing.

  Args:
    folder: of a run.
    step: of an evaluation.
    part: "score", or "checked" or "judged" for that part of it alone.
  """
  return np.array(
    [
      np.nan if answer[part] is None else answer[part]
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
  figure = matplotlib.figure.Figure(figsize=(12, 6), layout="constrained")
  axes = figure.subplots(2, 3)
  for axis, (name, label) in zip(axes.flat, _DRAWN, strict=True):
    _draw(axis, metrics, name, label)
  _draw_evaluations(axes.flat, evaluations)
  path = folder / "curves.png"
  figure.savefig(path, dpi=120)
  return path


def _draw_evaluations(
  axes: Any, evaluations: Sequence[Mapping[str, Any]]
) -> None:
  """Held-out points over the curves of reward, checked and judged."""
  steps = [evaluation["step"] for evaluation in evaluations]
  low, score, high, checked, judged = (
    np.array([evaluation[name] for evaluation in evaluations], float)
    for name in ("score_low", "score", "score_high", "checked", "judged")
  )
  reward_axis, checked_axis, judged_axis = axes[:3]
  reward_axis.errorbar(
    steps,
    score,
    [score - low, high - score],
    fmt="o-",
    capsize=3,
    label="held-out",
  )
  for axis, values in ((checked_axis, checked), (judged_axis, judged)):
    axis.plot(steps, values, "o-", label="held-out")
  for axis in axes[:3]:
    axis.legend()


def _draw(
  axis: Any, metrics: Sequence[Mapping[str, Any]], name: str, label: str
) -> None:
  known = [record for record in metrics if record.get(name) is not None]
  if not known:
    axis.set_axis_off()
    axis.set_title(f"not measured: {label}", fontsize="medium")
    return
  axis.plot(
    [record["step"] for record in known],
    [record[name] for record in known],
    color="0.4",
    label="training",
  )
  axis.set_xlabel("step")
  axis.set_ylabel(label)
  axis.grid(alpha=0.3)
