"""Runs the quickstart over several seeds and says whether it learns.

  python scripts/bench_quickstart.py --workdir runs/bench_quickstart

Runs that are done already are read, not run again. Prints a table with the
held-out score before and after for each seed, the paired difference with a
95 % bootstrap interval over seeds and tasks, and the minutes that each took.
"""

import argparse
import json
import pathlib
import subprocess
import sys

import numpy as np

from hrl_jax.evaluation import report, statistics


def main() -> None:
  """Runs the benchmark of the command line."""
  parser = argparse.ArgumentParser(description=__doc__)
  parser.add_argument("--workdir", type=pathlib.Path, required=True)
  parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
  parser.add_argument("--config", default="configs/quickstart.py")
  arguments, knobs = parser.parse_known_args()
  before, after = [], []
  print("| seed | before | after | change | length | minutes of steps |")
  print("|---|---|---|---|---|---|")
  for seed in arguments.seeds:
    folder = arguments.workdir / f"seed_{seed}"
    command = [sys.executable, "-m", "hrl_jax.main"]
    command += ["--config", arguments.config]
    command += [f"--config.seed={seed}", f"--config.workdir={folder}", *knobs]
    subprocess.run(command, check=True)
    first, *_, last = report.read(folder / "evaluation.jsonl")
    before.append(report.scores(folder, first["step"]))
    after.append(report.scores(folder, last["step"]))
    print(
      f"| {seed} | {first['score']:.3f} | {last['score']:.3f} | "
      f"{np.nanmean(after[-1] - before[-1]):+.3f} | "
      f"{first['length']:.1f} to {last['length']:.1f} | "
      f"{_minutes(folder):.1f} |"
    )
  change = statistics.paired_interval(np.array(after) - np.array(before))
  print(
    f"\npaired change {change.mean:+.3f} [{change.low:+.3f}, "
    f"{change.high:+.3f}], 95 % bootstrap over {len(arguments.seeds)} seeds "
    f"and {len(before[0])} held-out tasks"
  )
  print(json.dumps(change._asdict()))


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
