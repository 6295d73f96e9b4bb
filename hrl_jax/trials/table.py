"""What a comparison says: methods by measures, with paired intervals."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from hrl_jax.evaluation import statistics

Result = Mapping[str, Any]

_PAIRS = ("blind", "saturated", "spurious", "agree")


class Measure(NamedTuple):
  """A number of a trial.

  Attributes:
    name: column of the table.
    value: of a result.
    scale: that it is shown with.
  """

  name: str
  value: Callable[[Result], float]
  scale: float = 1.0


class Cell(NamedTuple):
  """A method's mean, and its paired difference to the baseline."""

  mean: float
  difference: statistics.Interval | None


def last(name: str) -> Callable[[Result], float]:
  """A number of the last evaluation."""
  return lambda result: result["evaluations"][-1][name]


def gained(name: str) -> Callable[[Result], float]:
  """The last evaluation's less the first's."""
  return lambda result: (
    result["evaluations"][-1][name] - result["evaluations"][0][name]
  )


def window(name: str, share: float = 0.2) -> Callable[[Result], float]:
  """The mean over the last steps of a run; NaN where it has no such number."""

  def value(result: Result) -> float:
    steps = result["steps"]
    kept = steps[-max(1, round(share * len(steps))) :]
    values = [step.get(name, np.nan) for step in kept]
    return _mean(values)

  return value


def whole(name: str) -> Callable[[Result], float]:
  """The mean over a run."""
  return lambda result: _mean(
    [step.get(name, np.nan) for step in result["steps"]]
  )


def reversal_rate(result: Result) -> float:
  """Share of the accepted rubric updates that undo an earlier one (H-122)."""
  accepted = sum(window["accepted"] for window in result["reversals"])
  undone = sum(window["reversed"] for window in result["reversals"])
  return undone / accepted if accepted else np.nan


def with_best(results: Sequence[Result]) -> list[Result]:
  """Adds `best_quality`, that of the best checkpoint.

  Which is best is told by the mean over an arm's seeds in a world.
  """
  together: dict[tuple[str, int], list[Result]] = {}
  for result in results:
    together.setdefault((result["arm"], result["world"]), []).append(result)
  made = []
  for result in results:
    seeds = together[result["arm"], result["world"]]
    quality_SE = np.array(
      [[each["quality"] for each in seed["evaluations"]] for seed in seeds]
    )
    best = int(quality_SE.mean(axis=0).argmax())
    quality = result["evaluations"][best]["quality"]
    made.append({**result, "best_quality": quality})
  return made


def accepted(kind: str) -> Callable[[Result], float]:
  """Share of the measured updates that write such sentences."""

  def value(result: Result) -> float:
    told = result["sentences"]
    measured = told.get(f"{kind}_measured", 0)
    return told[f"{kind}_accepted"] / measured if measured else np.nan

  return value


MEASURES: tuple[Measure, ...] = (
  Measure("quality", last("quality"), 100),
  Measure("best", lambda result: result["best_quality"], 100),
  Measure("score", last("score"), 100),
  *(
    Measure(sort, last(f"named_{sort}"), 100)
    for sort in ("covered", "neglected", "unknown")
  ),
  Measure("reward", window("reward"), 100),
  *(Measure(name, window(f"pairs_{name}"), 100) for name in _PAIRS),
  Measure("reversals", reversal_rate, 100),
  Measure("good in", accepted("refinements"), 100),
  Measure("bad in", accepted("decoys"), 100),
  Measure("fields", whole("harness/mounted")),
  Measure("level>0", lambda r: 1 - window("harness/level_0")(r), 100),
  Measure("rollouts", whole("rollouts")),
  Measure("gradings", whole("gradings")),
)


def cells(
  results: Sequence[Result], measure: Measure, baseline: str
) -> dict[str, Cell]:
  """Of each arm, its mean over worlds and seeds and what sets it apart.

  Differences are between runs of the same world and seed; worlds or seeds that
  an arm lacks are left out of its difference.
  """
  by_arm: dict[str, dict[tuple[int, int], float]] = {}
  for result in results:
    place = (result["world"], result["seed"])
    by_arm.setdefault(result["arm"], {})[place] = measure.scale * measure.value(
      result
    )
  made = {}
  for arm, values in by_arm.items():
    difference = None
    if arm != baseline and baseline in by_arm:
      difference = _paired(values, by_arm[baseline])
    made[arm] = Cell(_mean([*values.values()]), difference)
  return made


def lines(results: Sequence[Result], baseline: str = "grpo") -> Iterator[str]:
  """The table as text: means, then paired differences to the baseline."""
  results = with_best(results)
  arms = list(dict.fromkeys(result["arm"] for result in results))
  by_measure = {m.name: cells(results, m, baseline) for m in MEASURES}
  width = max(map(len, arms))
  yield " ".join([" " * width, *(f"{name:>10}" for name in by_measure)])
  for arm in arms:
    yield " ".join(
      [
        f"{arm:{width}}",
        *(f"{by_arm[arm].mean:10.2f}" for by_arm in by_measure.values()),
      ]
    )
  yield ""
  yield (
    f"Paired difference to {baseline}, 95 % bootstrap over worlds and seeds:"
  )
  for arm in arms:
    for name, by_arm in by_measure.items():
      interval = by_arm[arm].difference
      if interval is not None and not np.isnan(interval.mean):
        mark = " *" if interval.low > 0 or interval.high < 0 else ""
        yield (
          f"  {arm:{width}} {name:>10} {interval.mean:+8.2f} "
          f"[{interval.low:+.2f}, {interval.high:+.2f}]{mark}"
        )


def costs(results: Sequence[Result], baseline: str = "grpo") -> Iterator[str]:
  """Rollouts and gradings of each arm relative to the baseline's."""
  rollouts, gradings = (
    cells(results, Measure(name, whole(name)), baseline)
    for name in ("rollouts", "gradings")
  )
  if baseline not in rollouts:
    return
  base = rollouts[baseline].mean, gradings[baseline].mean
  for arm in rollouts:
    own = rollouts[arm].mean, gradings[arm].mean
    yield (
      f"{arm}: {own[0] / base[0]:.2f} of the rollouts, "
      f"{own[1] / base[1]:.2f} of the gradings, "
      f"{sum(own) / sum(base):.2f} of both"
    )


def times(results: Sequence[Result]) -> Iterator[str]:
  """Where the median step of each arm spends its seconds."""
  by_arm: dict[str, dict[str, list[float]]] = {}
  for result in results:
    for step in result["steps"]:
      for name, value in step.items():
        if name.startswith("seconds_") or name.endswith("_s"):
          parts = by_arm.setdefault(result["arm"], {})
          parts.setdefault(name.removeprefix("seconds_"), []).append(value)
  for arm, parts in by_arm.items():
    told = (f"{name} {np.median(values):.3f}" for name, values in parts.items())
    yield f"{arm}, seconds of a median step: {', '.join(told)}"


def _paired(
  values: Mapping[tuple[int, int], float],
  others: Mapping[tuple[int, int], float],
) -> statistics.Interval | None:
  shared = sorted(values.keys() & others.keys())
  if not shared:
    return None
  worlds = sorted({world for world, _ in shared})
  seeds = sorted({seed for _, seed in shared})
  differences_WS = np.full((len(worlds), len(seeds)), np.nan)
  for world, seed in shared:
    differences_WS[worlds.index(world), seeds.index(seed)] = (
      values[world, seed] - others[world, seed]
    )
  if np.isnan(differences_WS).all():
    return None
  return statistics.nested_interval(differences_WS)


def _mean(values: Sequence[float | int]) -> float:
  present = [value for value in values if not np.isnan(value)]
  return float(np.mean(present)) if present else float("nan")
