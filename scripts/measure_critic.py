"""Measures how often the critic accepts candidates that do nothing.

  python scripts/measure_critic.py --world 2 --repeats 4

In a world of the lab, on its first policy: the rates of H-87 for adds, drops
and rubric candidates, and what it does to choose them by the recorded group
(H-87a).
"""

import argparse
import pathlib

import jax

from configs import lab as config_file
from hrl_jax import config as configs
from hrl_jax import methods, train
from hrl_jax.lab import files
from hrl_jax.lab import world as worlds
from hrl_jax.lab.parameters import Parameters
from hrl_jax.trials import arms, nulls


def main() -> None:
  """Prints the table."""
  parser = argparse.ArgumentParser(
    description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
  )
  parser.add_argument("--world", type=int, default=0)
  parser.add_argument("--repeats", type=int, default=4)
  parser.add_argument("--seed", type=int, default=0)
  parser.add_argument("--out", type=pathlib.Path, default="runs/lab")
  options = parser.parse_args()
  folder = options.out / f"world-{options.world}"
  files.prepare(worlds.draw(options.world, Parameters()), folder)
  config = config_file.get_config(str(folder))
  # Without a harness nothing is written; the bands come from its cold start.
  _, arguments = methods.recipe(
    config.method.name, config.method.arguments.to_dict()
  )
  frozen = configs.from_config_dict(arms.configured(config, "grpo"))
  setup, state = train.build(frozen)
  train.load(setup, state, version=0)
  knobs = arguments.cold_start.knobs(
    group_size=frozen.rollout.group_size, chunk=frozen.rollout.tasks_per_step
  )
  bands_22, seen = nulls.observe(
    setup.bank,
    train.Probe(setup, 0, measured=[]),
    jax.random.key(options.seed),
    knobs,
    options.repeats,
  )
  for name, (lower, upper) in zip(("rollout", "rubric"), bands_22, strict=True):
    print(f"{name} band: {lower:.1f} to {upper:.1f} points")
  print(*nulls.lines([*nulls.rates(seen, bands_22)]), sep="\n")


if __name__ == "__main__":
  main()
