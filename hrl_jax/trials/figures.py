"""The curves of a comparison."""

import pathlib
from collections.abc import Callable, Mapping, Sequence

import matplotlib.axes
import matplotlib.figure
import numpy as np

from hrl_jax.trials import table

_STEPS = (
  ("reward", "reward of the step"),
  ("pairs_blind", "pairs: blind"),
  ("pairs_saturated", "pairs: saturated"),
  ("pairs_spurious", "pairs: spurious"),
  ("pairs_agree", "pairs: agree"),
  ("harness/rubric_accepted", "accepted rubric updates"),
  ("harness/rollout_accepted", "accepted guidance updates"),
  ("harness/mounted", "fields per task"),
  ("harness/level_0", "tasks at full weight"),
)


def draw(results: Sequence[table.Result], path: pathlib.Path) -> None:
  """Draws quality and what explains it over the steps, a line per arm.

  Each line is the mean over worlds and seeds, smoothed over a twentieth of the
  run; the band is one standard error over them.
  """
  figure = matplotlib.figure.Figure(figsize=(14, 11), layout="constrained")
  axes = figure.subplots(4, 3).ravel()
  for axis, name in zip(axes, ("quality", "score"), strict=False):
    lines(axis, results, _over_evaluations(name))
    axis.set_title(f"{name}, held out", fontsize="medium")
  axes[0].legend(fontsize="small")
  for axis, (name, title) in zip(axes[2:], _STEPS, strict=False):
    lines(axis, results, over_steps(name))
    axis.set_title(title, fontsize="medium")
  for axis in axes[-3:]:
    axis.set_xlabel("step")
  for axis in axes[2 + len(_STEPS) :]:
    axis.set_visible(False)
  path.parent.mkdir(parents=True, exist_ok=True)
  figure.savefig(path, dpi=110)


def _over_evaluations(
  name: str,
) -> Callable[[table.Result], list[tuple[int, float]]]:
  return lambda result: [
    (each["step"], each[name]) for each in result["evaluations"]
  ]


def over_steps(name: str) -> Callable[[table.Result], list[tuple[int, float]]]:
  """Points of a step's number, smoothed; none where a run lacks it."""

  def points(result: table.Result) -> list[tuple[int, float]]:
    steps = [s for s in result["steps"] if name in s]
    width = max(1, len(steps) // 20)
    values = np.array([step[name] for step in steps], float)
    return [
      (steps[start]["step"], float(np.nanmean(values[start : start + width])))
      for start in range(0, len(steps) - width + 1, width)
      if not np.isnan(values[start : start + width]).all()
    ]

  return points


def lines(
  axis: matplotlib.axes.Axes,
  results: Sequence[table.Result],
  points: Callable[[table.Result], Sequence[tuple[int, float]]],
) -> None:
  """Draws a line for each arm that has points."""
  by_arm: dict[str, dict[int, list[float]]] = {}
  for result in results:
    for step, value in points(result):
      by_arm.setdefault(result["arm"], {}).setdefault(step, []).append(value)
  # An arm has its colour also where another has no line.
  arms = list(dict.fromkeys(result["arm"] for result in results))
  for arm, by_step in by_arm.items():
    _line(axis, arm, by_step, f"C{arms.index(arm)}")


def _line(
  axis: matplotlib.axes.Axes,
  arm: str,
  by_step: Mapping[int, Sequence[float]],
  color: str,
) -> None:
  steps = sorted(by_step)
  means = np.array([np.mean(by_step[step]) for step in steps])
  errors = np.array(
    [np.std(by_step[s]) / np.sqrt(len(by_step[s])) for s in steps]
  )
  axis.plot(steps, means, label=arm, color=color)
  axis.fill_between(
    steps, means - errors, means + errors, alpha=0.2, color=color
  )
