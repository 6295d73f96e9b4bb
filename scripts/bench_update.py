"""Times one GRPO update on a fixed batch, pinned to one core.

  taskset -c 0 python scripts/bench_update.py --data DIR
  python scripts/bench_update.py --data DIR --peer NAME="PYTHON bench_NAME.py"

DIR holds `model/` (a Hugging Face checkpoint) and `batch.npz` (prompt_ids,
prompt_mask, completion_ids, completion_mask, advantages, old_logps). The step
is the whole one: loss, gradient, clip, AdamW. Each peer is a command that
prints a line "RESULT {json}" with `cpu_s_median`; peers and ours take turns,
so that all see the same machine. Prints a table, and ours as one JSON line.
"""

import argparse
import functools
import json
import os
import pathlib
import shlex
import statistics
import subprocess
import sys
import time

ROUNDS = 3
STEPS = 5
GROUPS, GROUP_SIZE = 8, 8  # Of the batch in DIR.


def main() -> None:
  """Runs the benchmark of the command line."""
  parser = argparse.ArgumentParser(description=__doc__)
  parser.add_argument("--data", required=True, type=pathlib.Path)
  parser.add_argument("--peer", action="append", default=[])
  parser.add_argument("--head-chunk", type=int, default=128)
  parser.add_argument("--remat", default="dots")
  parser.add_argument("--rounds", type=int, default=ROUNDS)
  parser.add_argument("--once", action="store_true", help="ours, in-process")
  arguments = parser.parse_args()
  if not (arguments.data / "batch.npz").exists():
    print(f"Skipped: {arguments.data} holds no batch.npz.")
    return
  if arguments.once:
    print("RESULT " + json.dumps(measure(arguments)))
    return
  # The environment of scripts/quickstart.sh; a peer's command may set it too.
  ours = ["env", "GLIBC_TUNABLES=glibc.malloc.hugetlb=1", sys.executable]
  ours += [__file__, "--once", "--data", str(arguments.data)]
  ours += ["--remat", arguments.remat]
  ours += ["--head-chunk", str(arguments.head_chunk)]
  commands = {"hrl_jax": ours}
  for peer in arguments.peer:
    name, _, command = peer.partition("=")
    commands[name] = shlex.split(command)
  results: dict[str, list[dict]] = {name: [] for name in commands}
  for _ in range(arguments.rounds):
    for name, command in commands.items():
      results[name].append(pinned(command))
  _print_table(results)
  print(json.dumps(results["hrl_jax"][-1]))


def pinned(command: list[str]) -> dict:
  """Runs a command on core 0 and returns its result."""
  environment = {**os.environ, "JAX_PLATFORMS": "cpu"}
  done = subprocess.run(
    ["taskset", "-c", "0", *command],
    capture_output=True,
    text=True,
    env=environment,
    timeout=1200,
  )
  for line in done.stdout.splitlines():
    if line.startswith("RESULT "):
      return json.loads(line.removeprefix("RESULT "))
  raise RuntimeError(f"{command} printed no result:\n{done.stderr[-2000:]}")


def measure(arguments: argparse.Namespace) -> dict:
  """Loss, gradient norm, CPU seconds and peak memory of our step."""
  import jax

  from hrl_jax.train import host_memory

  state, batch, credit, known, step = _prepared(arguments)
  state, first = step(state, batch, credit, known)
  first = jax.device_get(first)
  host_memory.give_back()  # As after every step of a run.
  pathlib.Path("/proc/self/clear_refs").write_text("5")
  seconds = []
  for _ in range(STEPS):
    start = time.process_time()
    state, metrics = step(state, batch, credit, known)
    jax.block_until_ready(metrics)
    seconds.append(time.process_time() - start)
  rate, operations = _matmul_rate(), _operations(arguments)
  median = statistics.median(seconds)
  return {
    "step1_loss": float(first["loss"]),
    "step1_grad_norm": float(first["grad_norm"]),
    "cpu_s_median": round(median, 3),
    "peak_rss_timed_MiB": round(_peak_kib() / 1024, 1),
    "matmul_gflops": round(rate / 1e9, 1),
    "share_of_matmul_rate": round(operations / median / rate, 3),
    "jax": jax.__version__,
  }


def _prepared(arguments):
  import jax
  import jax.numpy as jnp
  import numpy as np

  from hrl_jax.checkpoint import hf
  from hrl_jax.core import losses, optimizer, update
  from hrl_jax.model import policy

  config, params = hf.load(arguments.data / "model", jnp.float32)
  data = dict(np.load(arguments.data / "batch.npz"))
  batch = jax.tree.map(jnp.asarray, _packed(data))
  adamw = optimizer.adamw(
    learning_rate=1e-5,
    warmup_steps=0,
    num_steps=1,
    schedule="constant",
    b1=0.9,
    b2=0.999,
    eps=1e-8,
    weight_decay=0.0,
    max_grad_norm=1.0,
  )
  step = update.make(
    functools.partial(
      policy.row_logprobs,
      config,
      temperature=1.0,
      head_chunk=arguments.head_chunk,
      remat=arguments.remat,
    ),
    adamw,
    objective=losses.Objective(
      clip_low=0.2,
      clip_high=0.2,
      dual_clip=None,
      kl_estimator="k3",
      kl_coefficient=0.0,
      entropy_coefficient=0.0,
      correction=None,
    ),
    aggregation="sequence_mean_token_mean",
    max_tokens=64,
  )
  credit = update.Credit(
    jnp.asarray(data["advantages"].reshape(GROUPS, GROUP_SIZE)),
    jnp.ones((GROUPS, GROUP_SIZE), bool),
    jnp.ones(GROUPS),
  )
  # The rows carry the old log-probabilities where a sampler's would stand.
  known = update.Known(batch.rows.sampler_logprobs_MBT, None)
  state = update.init(jax.tree.map(jnp.asarray, params), adamw)
  return state, batch, credit, known, step


def _packed(data):
  """The rows of the batch, by training prompt."""
  from hrl_jax.core import packing, shared_prompts

  lengths_B = data["completion_mask"].sum(axis=1)
  prompts = [
    tuple(ids[mask > 0].tolist())
    for ids, mask in zip(
      data["prompt_ids"][::GROUP_SIZE],
      data["prompt_mask"][::GROUP_SIZE],
      strict=True,
    )
  ]
  rows = [
    packing.Row(
      prompt=index // GROUP_SIZE,
      tokens=data["completion_ids"][index, :length],
      sampler_logprobs=data["old_logps"][index, :length],
      rollout=index,
    )
    for index, length in enumerate(lengths_B)
  ]
  return shared_prompts.pack(
    prompts,
    rows,
    num_groups=GROUPS,
    block_rows=GROUP_SIZE,
    micro_batch_tokens=1_000_000,
    buckets_per_octave=64,
  )


def _operations(arguments: argparse.Namespace) -> float:
  """Operations of the matrix products on real tokens, without any repeated.

  Forward and backward are 6 a parameter and token; the head sees completion
  tokens only. Attention is left out: under 5 % here.
  """
  import jax
  import numpy as np

  from hrl_jax.checkpoint import hf
  from hrl_jax.model import decoder

  config, _ = hf.load(arguments.data / "model", np.float32)
  data = dict(np.load(arguments.data / "batch.npz"))
  completion = int(data["completion_mask"].sum())
  tokens = completion + int(data["prompt_mask"][::8].sum())
  layers = decoder.abstract_params(config)["layers"]
  matrices = sum(
    leaf.size for leaf in jax.tree.leaves(layers) if leaf.ndim == 3
  )
  head = config.vocab_size * config.hidden_size
  return 6.0 * (matrices * tokens + head * completion)


def _matmul_rate() -> float:
  """Operations per CPU second of XLA's float32 matmul at the MLP's shape."""
  import jax
  import jax.numpy as jnp

  left, right = jnp.ones((2974, 256)), jnp.ones((256, 1024))
  product = jax.jit(lambda left, right: left @ right)
  product(left, right).block_until_ready()
  start = time.process_time()
  for _ in range(40):
    result = product(left, right)
  result.block_until_ready()
  seconds = time.process_time() - start
  return 40 * 2 * 2974 * 256 * 1024 / seconds


def _peak_kib() -> int:
  for line in pathlib.Path("/proc/self/status").read_text().splitlines():
    if line.startswith("VmHWM:"):
      return int(line.split()[1])
  raise RuntimeError("/proc/self/status has no VmHWM.")


def _print_table(results: dict[str, list[dict]]) -> None:
  print("| program | CPU s per step | ours / it | peak MiB | step-1 loss |")
  print("|---|---|---|---|---|")
  ours = statistics.median(r["cpu_s_median"] for r in results["hrl_jax"])
  for name, found in results.items():
    seconds = statistics.median(r["cpu_s_median"] for r in found)
    peak = max(r["peak_rss_timed_MiB"] for r in found)
    print(
      f"| {name} | {seconds:.2f} | {ours / seconds:.3f} | {peak:.0f} | "
      f"{found[0]['step1_loss']:.8f} |"
    )


if __name__ == "__main__":
  main()
