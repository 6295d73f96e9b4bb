"""Runs the quickstart over several seeds and says whether it learns.

  python scripts/bench_quickstart.py --workdir runs/bench_quickstart

Runs that are done already are read, not run again. Prints a table with the
held-out score by checked criteria before and after for each seed, the minutes
of the steps and of the whole command, and for the score and each part of it
the paired difference with a 95 % bootstrap interval over seeds and tasks.
"""

import argparse
import pathlib
import subprocess
import sys
import time

import numpy as np

from hrl_jax.evaluation import report, statistics


def main() -> None:
  """Runs the benchmark of the command line."""
  parser = argparse.ArgumentParser(description=__doc__)
  parser.add_argument("--workdir", type=pathlib.Path, required=True)
  parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
  parser.add_argument("--config", default="configs/quickstart.py")
  arguments, knobs = parser.parse_known_args()
  print("| seed | before | after | change | length | steps min | all min |")
  print("|---|---|---|---|---|---|---|")
  folders = [arguments.workdir / f"seed_{seed}" for seed in arguments.seeds]
  for seed, folder in zip(arguments.seeds, folders, strict=True):
    command = [sys.executable, "-m", "hrl_jax.main"]
    command += ["--config", arguments.config]
    command += [f"--config.seed={seed}", f"--config.workdir={folder}", *knobs]
    started = time.monotonic()
    subprocess.run(command, check=True)
    minutes = (time.monotonic() - started) / 60
    first, *_, last = report.read(folder / "evaluation.jsonl")
    print(
      f"| {seed} | {first['checked']:.3f} | {last['checked']:.3f} | "
      f"{last['checked'] - first['checked']:+.3f} | "
      f"{first['length']:.1f} to {last['length']:.1f} | "
      f"{_minutes(folder):.1f} | {minutes:.1f} |",
      flush=True,
    )
  for part in ("checked", "judged", "score"):
    _print_change(part, [_change_N(folder, part) for folder in folders])


def _change_N(folder: pathlib.Path, part: str) -> np.ndarray:
  """After minus before for each held-out task."""
  first, *_, last = report.read(folder / "evaluation.jsonl")
  before_N = report.scores(folder, first["step"], part)
  return report.scores(folder, last["step"], part) - before_N


def _print_change(part: str, differences_SN: list[np.ndarray]) -> None:
  change = statistics.paired_interval(np.array(differences_SN))
  print(
    f"{part}: paired change {change.mean:+.3f} [{change.low:+.3f}, "
    f"{change.high:+.3f}], 95 % bootstrap over {len(differences_SN)} seeds and "
    f"{len(differences_SN[0])} held-out tasks"
  )


def _minutes(folder: pathlib.Path) -> float:
  """Of the training steps; evaluations and checkpoints are not in it."""
  timing = report.read(folder / "timing.jsonl")
  seconds = [
    value
    for record in timing
    for name, value in record.items()
    if name.startswith("seconds_")
  ]
  return sum(seconds) / 60


if __name__ == "__main__":
  main()
