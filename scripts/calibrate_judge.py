"""Freezes the thresholds of the likelihood judge.

  python scripts/calibrate_judge.py

Samples rollouts of every task that has judged criteria from the first weights,
measures the gain of each criterion on each of them, and writes one threshold
for each criterion (`hrl_jax.services.judge_thresholds`). To be run again when
the model, the wording, a prompt or a judged criterion has changed. The same
arguments on the same machine give the same file. Ten minutes on two CPU cores.
"""

import argparse
import pathlib
import time
from collections.abc import Sequence

import jax
import numpy as np

from hrl_jax import base
from hrl_jax.checkpoint import hf
from hrl_jax.data import bank, package_files, tokenizer
from hrl_jax.model import token_tree
from hrl_jax.rollout import jax_engine
from hrl_jax.services import checkers, judge_thresholds, likelihood

TASKS = pathlib.Path(__file__).parents[1] / "hrl_jax" / "data" / "tasks"
# Tasks that are sampled together.
_AT_ONCE = 8


def main() -> None:
  """Writes the thresholds that the command line asks for."""
  arguments = _arguments()
  loaded = bank.load(
    arguments.tasks, checkers=checkers.names(), validate=checkers.validate
  )
  tasks = [task for task in loaded.tasks if judged(task)]
  judge, engine = load_model(arguments.model)
  frozen = {}
  start = time.monotonic()
  for place in range(0, len(tasks), _AT_ONCE):
    part = tasks[place : place + _AT_ONCE]
    texts = rollouts(
      part,
      judge,
      engine,
      count=arguments.rollouts,
      max_tokens=arguments.max_tokens,
      seed=arguments.seed,
    )
    for task, responses in zip(part, texts, strict=True):
      frozen[task.id] = (
        judge_thresholds.prompt_hash(task.prompt),
        _thresholds(task, responses, judge),
      )
    print(
      f"{place + len(part)} of {len(tasks)} tasks, "
      f"{time.monotonic() - start:.0f} s",
      flush=True,
    )
  judge_thresholds.save(
    judge_thresholds.Frozen(
      weights_hash=hf.weights_hash(arguments.model),
      template=likelihood.TEMPLATE,
      rollouts=arguments.rollouts,
      max_tokens=arguments.max_tokens,
      seed=arguments.seed,
      tasks=frozen,
    ),
    arguments.output,
  )


def judged(task: base.Task) -> list[base.Criterion]:
  """The criteria of a task that name no checker."""
  return [each for each in task.rubric if each.checker is None]


def load_model(
  path: str,
) -> tuple[likelihood.Model, jax_engine.JaxEngine]:
  """The judge and an engine with the same weights."""
  config, params = hf.load(path, np.float32)
  engine = jax_engine.JaxEngine(config, np.float32)
  engine.load(params, version=0)
  model = likelihood.Model(
    token_tree.make_logprobs(config, np.float32, head_chunk=128),
    jax.tree.map(jax.numpy.asarray, params),
    tokenizer.load(package_files.resolve(path), {}),
    config.max_positions,
  )
  return model, engine


def _arguments() -> argparse.Namespace:
  parser = argparse.ArgumentParser(
    description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
  )
  parser.add_argument("--model", default=hf.QUICKSTART)
  parser.add_argument(
    "--tasks",
    type=pathlib.Path,
    nargs="+",
    default=[TASKS / "train.jsonl", TASKS / "held_out.jsonl"],
  )
  parser.add_argument(
    "--output", type=pathlib.Path, default=TASKS / "thresholds.json"
  )
  parser.add_argument("--rollouts", type=int, default=8)
  parser.add_argument("--max-tokens", type=int, default=48)
  parser.add_argument("--seed", type=int, default=0)
  return parser.parse_args()


def rollouts(
  tasks: Sequence[base.Task],
  judge: likelihood.Model,
  engine: jax_engine.JaxEngine,
  *,
  count: int,
  max_tokens: int,
  seed: int,
) -> list[list[str]]:
  """Responses of the first policy to each task, `count` each."""
  requests = [
    base.Request(judge.tokenizer.encode_chat(task.prompt), int(own))
    for task in tasks
    for own in jax.random.bits(_key(task, seed), (count,))
  ]
  sampling = base.Sampling(
    temperature=1.0,
    top_p=1.0,
    top_k=0,
    max_tokens=max_tokens,
    stop_ids=judge.tokenizer.stop_ids,
  )
  texts = [""] * len(requests)
  for completion in engine.generate(requests, sampling):
    texts[completion.request] = judge.tokenizer.decode(completion.tokens)
  return [texts[start : start + count] for start in range(0, len(texts), count)]


def _key(task: base.Task, seed: int) -> jax.Array:
  # By what is asked: another task in the bank changes nothing for this one.
  digits = judge_thresholds.prompt_hash(task.prompt)[:8]
  return jax.random.fold_in(jax.random.key(seed), int(digits, 16))


def _thresholds(
  task: base.Task, responses: Sequence[str], judge: likelihood.Model
) -> dict[str, float]:
  criteria = judged(task)
  questions = [
    likelihood.question(judge, task.prompt, each.text, response)
    for each in criteria
    for response in responses
    if response.strip()
  ]
  gains_CR = likelihood.gains(judge, questions).reshape(len(criteria), -1)
  return {
    each.text: judge_thresholds.freeze(gains_R)
    for each, gains_R in zip(criteria, gains_CR, strict=True)
  }


if __name__ == "__main__":
  main()
