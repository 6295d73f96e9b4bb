"""Runs of `main`, in this process or in one of their own."""

import os
import pathlib
import subprocess
import sys

import jax

from hrl_jax import main, train
from hrl_jax.checkpoint import state as checkpoints
from hrl_jax.metrics import run_folder

# What a resumed run must repeat bit for bit; timing.jsonl holds the clock.
REPEATED = (
  "metrics.jsonl",
  "rollouts.jsonl",
  "evaluation.jsonl",
  "answers.jsonl",
  "failures.jsonl",
)
# Those of a method with a memory.
HARNESS = ("memory/log.jsonl", "cold_start.jsonl")


class Stop:
  """Asks to stop once `after` looks at it were answered with no."""

  def __init__(self, after=10**9):
    self.left = after

  @property
  def asked(self):
    self.left -= 1
    return self.left < 0


def run(config, stop=None, resume_anyway=False):
  with run_folder.RunFolder(config.workdir) as folder:
    main.run(config, folder, stop or Stop(), resume_anyway=resume_anyway)


def logs(workdir):
  folder = pathlib.Path(workdir)
  kept = [name for name in HARNESS if (folder / name).exists()]
  return {name: (folder / name).read_bytes() for name in (*REPEATED, *kept)}


def weights(config):
  folder = pathlib.Path(config.workdir) / "checkpoints"
  setup, state = train.build(config)
  for log in setup.logs:
    log.close()
  restored = checkpoints.restore(
    folder, checkpoints.latest(folder), checkpoints.abstract(state)
  )
  return jax.tree.leaves(restored)


def start(made, tmp_path, *flags, **environment):
  """A process that runs a config.

  Args:
    made: source of an expression that makes it, with `tiny` and `Path`.
    tmp_path: where the config file is written to.
    flags: further arguments.
    environment: further variables.
  """
  script = tmp_path / "config.py"
  script.write_text(
    "from pathlib import Path\n"
    "from tests import tiny\n"
    f"get_config = lambda: {made}\n"
  )
  root = pathlib.Path(__file__).parents[1]
  command = [sys.executable, "-m", "hrl_jax.main", "--config", str(script)]
  cache = jax.config.jax_compilation_cache_dir
  variables = {
    **os.environ,
    "PYTHONPATH": str(root),
    "JAX_COMPILATION_CACHE_DIR": cache,
    "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0.2",
    **environment,
  }
  return subprocess.Popen(
    [*command, *flags],
    cwd=root,
    env=variables,
    stderr=subprocess.PIPE,
    text=True,
  )
