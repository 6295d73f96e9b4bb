"""HarnessRL in a world of the lab, where the truth is known.

  python scripts/lab.py --methods grpo,harnessrl --worlds 8 --seeds 3

The script makes the world (a minute) and runs this config on it; alone it is
run like any other, once the world's folder is there:

  python -m hrl_jax.main --config configs/lab.py

Hardware: two CPU cores; two minutes per method and seed, once what it needs is
compiled. Results are in docs/benchmarks.md.
"""

import ml_collections

from configs import harnessrl_quickstart


def get_config(folder: str = "runs/lab/world-0") -> ml_collections.ConfigDict:
  """Returns every knob of a run in a world.

  Args:
    folder: of the prepared world.
  """
  config = harnessrl_quickstart.get_config()
  config.num_steps = 200
  config.workdir = f"{folder}/run"
  config.model.path = f"{folder}/model"
  config.data.train = (f"{folder}/train.jsonl",)
  config.data.held_out = (f"{folder}/held_out.jsonl",)
  config.data.max_tasks = None
  config.data.max_prompt_tokens = 144
  config.judge.kind = "lab"
  config.judge.world = f"{folder}/world.json"

  config.rollout.tasks_per_step = 32
  config.rollout.max_completion_tokens = 24
  config.rollout.max_rows = 256
  config.optimizer.learning_rate = 5e-4
  config.updates.micro_batch_tokens = 8192
  config.updates.buckets_per_octave = 1
  config.updates.remat = "full"
  config.updates.head_chunk = 512
  config.evaluation.every = 20
  config.evaluation.max_completion_tokens = 24
  config.checkpoint.every = 200

  config.method.arguments = harnessrl_quickstart.harnessrl()
  config.method.arguments.memory.related_shown = 0  # Rules read no prompt.
  cold_start = config.method.arguments.cold_start
  cold_start.second_groups = 200
  cold_start.regraded_groups = 200
  return config
