"""Compares methods in worlds where hidden quality is known.

  python scripts/lab.py --methods grpo,harnessrl --seeds 3 --worlds 8
  python scripts/lab.py --methods harnessrl --worlds 1 --seeds 1 --steps 40

Every trial is a file under --out, and one that is there is not run again, so a
comparison can be stopped, prolonged and widened. Prints methods by measures
with paired intervals (worlds resampled first, then seeds) and draws the curves.
"""

import argparse
import concurrent.futures
import json
import multiprocessing
import os
import pathlib
from collections.abc import Sequence
from typing import Any

import jax
import tqdm

from configs import lab as config_file
from hrl_jax.lab import files
from hrl_jax.lab import world as worlds
from hrl_jax.lab.parameters import Parameters
from hrl_jax.trials import arms, figures, table, trial


def main() -> None:
  """Runs the comparison of the command line."""
  arguments = _arguments()
  planned = [
    (arguments, world, seed, arm)
    for world in range(
      arguments.first_world, arguments.first_world + arguments.worlds
    )
    for seed in range(arguments.seeds)
    for arm in arguments.methods
  ]
  context = multiprocessing.get_context("spawn")
  with concurrent.futures.ProcessPoolExecutor(
    arguments.processes, mp_context=context
  ) as pool:
    list(pool.map(_prepare, _worlds(arguments)))
    running = [pool.submit(_run, each) for each in planned]
    done = concurrent.futures.as_completed(running)
    for future in tqdm.tqdm(done, total=len(running), unit="trial"):
      future.result()
  results = [future.result() for future in running]
  print(*table.lines(results, arguments.baseline), sep="\n")
  print(*table.costs(results, arguments.baseline), sep="\n")
  print(*table.times(results), sep="\n")
  path = arguments.out / "curves.png"
  figures.draw(results, path)
  print(f"Curves: {path}")


def _arguments() -> argparse.Namespace:
  parser = argparse.ArgumentParser(
    description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
  )
  parser.add_argument(
    "--methods",
    type=lambda text: text.split(","),
    default=["grpo", "harnessrl"],
    help=f"of {', '.join(arms.ARMS)}",
  )
  parser.add_argument("--baseline", default="grpo")
  parser.add_argument("--seeds", type=int, default=3)
  parser.add_argument("--worlds", type=int, default=8)
  parser.add_argument("--first-world", type=int, default=0)
  parser.add_argument("--steps", type=int, default=200)
  parser.add_argument(
    "--set",
    nargs="*",
    default=[],
    metavar="KNOB=VALUE",
    help="knobs of configs/lab.py, values in JSON",
  )
  parser.add_argument(
    "--parameters",
    nargs="*",
    default=[],
    metavar="NAME=VALUE",
    help="of the worlds, see hrl_jax/lab/parameters.py; give another --out",
  )
  parser.add_argument("--processes", type=int, default=os.cpu_count())
  parser.add_argument("--out", type=pathlib.Path, default="runs/lab")
  arguments = parser.parse_args()
  unknown = set(arguments.methods) - arms.ARMS.keys()
  if unknown:
    parser.error(f"no such methods: {sorted(unknown)}, see --help")
  return arguments


def _worlds(
  arguments: argparse.Namespace,
) -> list[tuple[worlds.World, pathlib.Path]]:
  numbers = range(
    arguments.first_world, arguments.first_world + arguments.worlds
  )
  return [
    (_world(arguments, number), arguments.out / f"world-{number}")
    for number in numbers
  ]


def _world(arguments: argparse.Namespace, number: int) -> worlds.World:
  """The world of a seed, with the parameters of the command line."""
  return worlds.draw(number, Parameters(**_values(arguments.parameters)))


def _values(pairs: Sequence[str]) -> dict[str, Any]:
  named = (text.partition("=") for text in pairs)
  return {name: json.loads(value) for name, _, value in named}


def _keep_compiled(folder: pathlib.Path) -> None:
  """Lets trials share what they compile: in every world shapes are the same."""
  jax.config.update("jax_compilation_cache_dir", str(folder.resolve()))
  jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
  # Or the folder's path is part of every key.
  jax.config.update("jax_persistent_cache_enable_xla_caches", "none")


def _prepare(made: tuple[worlds.World, pathlib.Path]) -> None:
  files.prepare(*made)


def _out(
  arguments: argparse.Namespace, world: int, seed: int, arm: str
) -> pathlib.Path:
  return arguments.out / "trials" / f"{arm}-{world}-{seed}.json"


def _run(planned: tuple[argparse.Namespace, int, int, str]) -> dict[str, Any]:
  arguments, number, seed, arm = planned
  _keep_compiled(arguments.out / "compiled")
  folder = arguments.out / f"world-{number}"
  config = config_file.get_config(str(folder))
  config.num_steps = arguments.steps
  config.seed = seed
  config.workdir = str(folder / f"{arm}-{seed}")
  config.update_from_flattened_dict(_values(arguments.set))
  world = _world(arguments, number)
  return trial.run(config, world, arm, _out(arguments, number, seed, arm))


if __name__ == "__main__":
  main()
