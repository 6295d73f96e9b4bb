"""Times sampling with SmolLM2-135M against the `generate` of transformers.

  python scripts/bench_sampler.py
  python scripts/bench_sampler.py --rows 64 --top-p 0.9 --json sampler.json

Eight completions of each prompt, of equal length on all sides: nothing stops
early. Every contender is a process of its own, on the same cores and with one
thread on each; they take turns, so that all see the same machine. Times are of
the whole call, prompts included, after one call that compiles. Next to tokens
per second of the clock stand those per second of CPU time, which other work on
the machine disturbs less.

Without torch and transformers only ours is timed.
"""

import argparse
import importlib.util
import json
import multiprocessing
import multiprocessing.connection
import os
import pathlib
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence

GROUP = 8
QUESTIONS = (
  "Explain to a child of ten why the sky is blue and the evening sun is red.",
  "Write a polite letter to a neighbour whose dog barks at night.",
  "List five ways to save water in a small flat, with one sentence on each.",
  "Compare cycling and walking as a way to work in a town with many hills.",
  "Summarise the plot of a story about a lighthouse keeper and a lost ship.",
  "Give a recipe for a vegetable soup that four people can eat for two days.",
  "What should a traveller know before a first long journey by night train?",
  "Describe how bread rises, and what goes wrong when the oven is too cold.",
)


def main() -> None:
  """Runs the benchmark of the command line."""
  arguments = _arguments()
  os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: arguments.threads])
  contenders = ["hrl_jax float32"]
  if all(map(importlib.util.find_spec, ("torch", "transformers"))):
    contenders += [f"transformers {dtype}" for dtype in arguments.dtypes]
  else:
    print("torch and transformers are not installed: only ours is timed.")
  with tempfile.TemporaryDirectory() as folder:
    model = _write_model(pathlib.Path(folder))
    workers = {name: _start(name, model, arguments) for name in contenders}
    results = _take_turns(workers, arguments)
    for _, pipe in workers.values():
      pipe.send(None)
    for process, _ in workers.values():
      process.join()
  _print_table(results)
  if arguments.json:
    arguments.json.write_text(json.dumps(results, indent=2) + "\n")


def _arguments() -> argparse.Namespace:
  parser = argparse.ArgumentParser(
    description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
  )
  parser.add_argument("--rows", type=int, nargs="+", default=[16, 64])
  parser.add_argument("--new-tokens", type=int, default=48)
  parser.add_argument("--temperature", type=float, default=1.0)
  parser.add_argument("--top-p", type=float, default=1.0)
  parser.add_argument("--top-k", type=int, default=0)
  parser.add_argument("--threads", type=int, default=2)
  parser.add_argument(
    "--dtypes",
    nargs="*",
    choices=("float32", "bfloat16"),
    default=["float32", "bfloat16"],
    help="of transformers; ours is float32",
  )
  parser.add_argument("--repeats", type=int, default=5)
  parser.add_argument("--json", type=pathlib.Path)
  arguments = parser.parse_args()
  for rows in arguments.rows:
    if rows % GROUP or not 0 < rows <= GROUP * len(QUESTIONS):
      parser.error(
        f"--rows must be multiples of {GROUP} up to "
        f"{GROUP * len(QUESTIONS)}, got {rows}."
      )
  return arguments


def _write_model(folder: pathlib.Path) -> pathlib.Path:
  """The weights as a directory that every contender reads."""
  import numpy as np

  from hrl_jax.checkpoint import hf
  from hrl_jax.data import package_files, tokenizer

  path = package_files.resolve(hf.QUICKSTART)
  config, params = hf.load(path, np.float32)
  hf.save(folder / "model", config, params, tokenizer.load(path, {}))
  return folder / "model"


def _start(
  name: str, model: pathlib.Path, arguments: argparse.Namespace
) -> tuple[multiprocessing.Process, multiprocessing.connection.Connection]:
  context = multiprocessing.get_context("spawn")
  ours, theirs = context.Pipe()
  process = context.Process(
    target=_work, args=(name, model, arguments, theirs), daemon=True
  )
  process.start()
  return process, ours


def _work(
  name: str,
  model: pathlib.Path,
  arguments: argparse.Namespace,
  pipe: multiprocessing.connection.Connection,
) -> None:
  """Answers each number of rows with seconds of the clock and of the CPU."""
  library, dtype = name.split()
  make = {"hrl_jax": _hrl_jax, "transformers": _transformers}[library]
  generate = make(model, dtype, arguments)
  prompts = _prompts(model)
  while (rows := pipe.recv()) is not None:
    clock, cpu = time.perf_counter(), time.process_time()
    tokens = generate(prompts[: rows // GROUP])
    seconds = time.perf_counter() - clock, time.process_time() - cpu
    if tokens != rows * arguments.new_tokens:
      raise RuntimeError(
        f"{name} made {tokens} tokens, not {rows} x {arguments.new_tokens}."
      )
    pipe.send(seconds)


def _prompts(model: pathlib.Path) -> list[tuple[int, ...]]:
  from hrl_jax import base
  from hrl_jax.data import tokenizer

  encode = tokenizer.load(model, {}).encode_chat
  return [encode((base.Message("user", text),)) for text in QUESTIONS]


def _hrl_jax(
  model: pathlib.Path, dtype: str, arguments: argparse.Namespace
) -> Callable[[Sequence[tuple[int, ...]]], int]:
  from hrl_jax import base
  from hrl_jax.checkpoint import hf
  from hrl_jax.rollout import jax_engine

  config, params = hf.load(model, dtype)
  engine = jax_engine.JaxEngine(config, dtype)
  engine.load(params, version=0)
  sampling = base.Sampling(
    temperature=arguments.temperature,
    top_p=arguments.top_p,
    top_k=arguments.top_k,
    max_tokens=arguments.new_tokens,
    stop_ids=(),
  )

  def generate(prompts: Sequence[tuple[int, ...]]) -> int:
    requests = [
      base.Request(prompt, GROUP * place + member)
      for place, prompt in enumerate(prompts)
      for member in range(GROUP)
    ]
    return sum(len(each.tokens) for each in engine.generate(requests, sampling))

  return generate


def _transformers(
  model: pathlib.Path, dtype: str, arguments: argparse.Namespace
) -> Callable[[Sequence[tuple[int, ...]]], int]:
  import torch
  import transformers

  torch.set_num_threads(arguments.threads)
  network = transformers.AutoModelForCausalLM.from_pretrained(
    model, dtype=getattr(torch, dtype), attn_implementation="sdpa"
  ).eval()
  # No token stops a row, as on our side.
  network.generation_config.eos_token_id = None

  @torch.inference_mode()
  def generate(prompts: Sequence[tuple[int, ...]]) -> int:
    width = max(map(len, prompts))
    ids = torch.zeros(len(prompts), width, dtype=torch.long)
    mask = torch.zeros_like(ids)
    for place, prompt in enumerate(prompts):
      ids[place, width - len(prompt) :] = torch.tensor(prompt)
      mask[place, width - len(prompt) :] = 1
    rows = network.generate(
      ids,
      attention_mask=mask,
      do_sample=True,
      temperature=arguments.temperature,
      top_p=arguments.top_p,
      top_k=arguments.top_k,
      max_new_tokens=arguments.new_tokens,
      num_return_sequences=GROUP,
      pad_token_id=0,
      use_cache=True,
    )
    return rows[:, width:].numel()

  return generate


def _take_turns(workers: dict, arguments: argparse.Namespace) -> list[dict]:
  """Median seconds of each contender at each number of rows."""
  results = []
  for rows in arguments.rows:
    seconds = {name: [] for name in workers}
    for _ in range(1 + arguments.repeats):
      for name, (_, pipe) in workers.items():
        pipe.send(rows)
        seconds[name].append(pipe.recv())
    for name, runs in seconds.items():
      clock, cpu = zip(*runs[1:], strict=True)
      tokens = rows * arguments.new_tokens
      results.append(
        {
          "contender": name,
          "rows": rows,
          "new_tokens": arguments.new_tokens,
          "threads": arguments.threads,
          "temperature": arguments.temperature,
          "top_p": arguments.top_p,
          "top_k": arguments.top_k,
          "tokens_per_second": tokens / statistics.median(clock),
          "tokens_per_cpu_second": tokens / statistics.median(cpu),
          "clock_seconds": clock,
          "cpu_seconds": cpu,
          "first_call_seconds": runs[0][0],
        }
      )
  return results


def _print_table(results: list[dict]) -> None:
  print(f"{'rows':>4}  {'contender':22}  tokens/s  tokens/CPU s  first call s")
  for each in results:
    print(
      f"{each['rows']:>4}  {each['contender']:22}"
      f"  {each['tokens_per_second']:8.0f}"
      f"  {each['tokens_per_cpu_second']:12.0f}"
      f"  {each['first_call_seconds']:12.1f}"
    )


if __name__ == "__main__":
  main()
