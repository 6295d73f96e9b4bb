"""A whole run in small: a random model of two layers, four tasks, a config."""

import dataclasses
import functools
import json
import pathlib
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
import tokenizers
from jaxtyping import Array, Float
from ml_collections import ConfigDict
from tokenizers import decoders, models, pre_tokenizers

from configs import harnessrl_quickstart, quickstart
from hrl_jax import base
from hrl_jax.checkpoint import hf
from hrl_jax.data import bank, tokenizer
from hrl_jax.model import attention, decoder, specification
from hrl_jax.services import checkers

DECODER = specification.DecoderConfig(
  family="llama",
  vocab_size=260,
  hidden_size=32,
  intermediate_size=48,
  num_layers=2,
  num_heads=4,
  num_kv_heads=2,
  head_dim=8,
  rope_theta=10_000.0,
  norm_eps=1e-5,
  tie_embeddings=True,
  attention_bias=False,
  qk_norm=False,
  max_positions=64,
)
TEMPLATE = (
  "{% for message in messages %}<|im_start|>{{ message['role'] }}:"
  "{{ message['content'] }}<|im_end|>{% endfor %}"
  "{% if add_generation_prompt %}<|im_start|>{% endif %}"
)


def text() -> tokenizer.Tokenizer:
  """One token a byte, and two control tokens."""
  alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
  codec = tokenizers.Tokenizer(
    models.BPE({symbol: index for index, symbol in enumerate(alphabet)}, [])
  )
  codec.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
  codec.decoder = decoders.ByteLevel()
  codec.add_special_tokens(["<|im_start|>", "<|im_end|>"])
  settings = {"eos_token": "<|im_end|>", "chat_template": TEMPLATE}
  return tokenizer.from_files(
    {
      "tokenizer.json": codec.to_str().encode(),
      "tokenizer_config.json": json.dumps(settings).encode(),
    },
    {},
  )


@functools.cache
def params(
  config: specification.DecoderConfig = DECODER, seed: int = 0
) -> decoder.Params:
  """Random everywhere, norms and biases too, so that a swapped pair is seen.

  Large enough that a token depends on what precedes it.
  """
  leaves, structure = jax.tree.flatten(
    decoder.init(config, jax.random.key(seed))
  )
  keys = jax.random.split(jax.random.key(seed + 1), len(leaves))
  return structure.unflatten(
    leaf + 0.2 * jax.random.normal(key, leaf.shape)
    for leaf, key in zip(leaves, keys, strict=True)
  )


def arrays(
  config: specification.DecoderConfig = DECODER, dtype: type = np.float32
) -> decoder.Params:
  """`params` as numpy arrays."""
  return jax.tree.map(lambda leaf: np.asarray(leaf, dtype), params(config))


def logits(
  config: specification.DecoderConfig,
  params: decoder.Params,
  prompt: Sequence[int],
  completion: Sequence[int],
) -> Float[Array, "T V"]:
  """Logits before each token of the completion, by the whole forward pass."""
  row = [*prompt, *completion]
  tokens_1T = np.zeros((1, -(-len(row) // 32) * 32), np.int32)
  tokens_1T[0, : len(row)] = row
  logits_TV = _forward(config, params, tokens_1T, len(row))
  return logits_TV[len(prompt) - 1 : len(row) - 1]


@functools.partial(jax.jit, static_argnums=0)
def _forward(config, params, tokens_1T, length):
  layout = attention.rows(jnp.arange(tokens_1T.shape[1])[None] < length)
  hidden_1TD = decoder.hidden(config, params, tokens_1T, layout)
  return decoder.logits(params, hidden_1TD)[0]


def _task(name: str) -> base.Task:
  def matches(letters: str, weight: float) -> base.Criterion:
    return base.Criterion(
      text=f"Has one of {letters}.",
      weight=weight,
      checker="contains_pattern",
      arguments={"pattern": f"[{letters}]"},
    )

  return base.Task(
    id=name,
    domain="test",
    prompt=(base.Message("user", f"Say {name}"),),
    rubric=(matches("a-m", 2.0), matches("n-z", 1.0), matches("0-9", -1.0)),
  )


def config(folder: pathlib.Path) -> ConfigDict:
  """The quickstart's config on the small model; its files are in `folder`."""
  if not (folder / "model").exists():
    hf.save(folder / "model", DECODER, params(), text())
    bank.save([_task(name) for name in "abcd"], folder / "train.jsonl")
    bank.save([_task(name) for name in "xy"], folder / "held_out.jsonl")
  made = quickstart.get_config()
  made.num_steps = 4
  made.workdir = str(folder / "run")
  made.model.path = str(folder / "model")
  made.judge.kind = "none"
  made.data.train = (str(folder / "train.jsonl"),)
  made.data.held_out = (str(folder / "held_out.jsonl"),)
  made.data.max_prompt_tokens = 32
  made.rollout.tasks_per_step = 3
  made.rollout.group_size = 4
  made.rollout.max_completion_tokens = 8
  made.evaluation.max_completion_tokens = 8
  made.evaluation.every = 2
  made.checkpoint.every = 1
  made.optimizer.learning_rate = 1e-2
  made.updates.micro_batch_tokens = 1024
  made.updates.buckets_per_octave = 1  # Few shapes: tests compile, then run.
  return made


def judged_config(folder: pathlib.Path, url: str) -> ConfigDict:
  """`config` with criteria for a judge behind an address, and 6 steps."""
  made = config(folder)
  made.num_steps = 6
  return _judged(made, folder, url)


def judged_harness_config(folder: pathlib.Path, url: str) -> ConfigDict:
  """`harness_config` with criteria for a judge behind an address."""
  return _judged(harness_config(folder), folder, url)


def _judged(made: ConfigDict, folder: pathlib.Path, url: str) -> ConfigDict:
  made.judge.kind = "llm"
  made.judge.endpoint.url = url
  made.judge.endpoint.max_in_flight = 4
  for name in ("train", "held_out"):
    (plain,) = map(pathlib.Path, made.data[name])
    path = folder / f"judged_{plain.name}"
    if not path.exists():
      tasks = bank.load([plain], checkers=checkers.names()).tasks
      bank.save([_with_judged(task) for task in tasks], path)
    made.data[name] = (str(path),)
  return made


def _with_judged(task: base.Task) -> base.Task:
  criteria = (
    base.Criterion(f"Sounds like {task.id}.", 2.0),
    base.Criterion(f"Is as rude as {task.id}.", -1.0),
  )
  return task._replace(rubric=task.rubric + criteria)


def harness_config(folder: pathlib.Path) -> ConfigDict:
  """`config` with HarnessRL on six tasks, cold start included."""
  made = config(folder)
  long = dataclasses.replace(DECODER, max_positions=512)
  if not (folder / "long").exists():
    hf.save(folder / "long", long, params(long), text())
    tasks = [_harness_task(name) for name in "abcdef"]
    bank.save(tasks, folder / "harness_train.jsonl")
  made.model.path = str(folder / "long")
  made.data.train = (str(folder / "harness_train.jsonl"),)
  made.data.max_prompt_tokens = 448
  made.num_steps = 6
  made.method.name = "harnessrl"
  made.method.arguments = harnessrl_quickstart.harnessrl()
  made.method.arguments.probe_share = 1.0
  made.method.arguments.cold_start.second_groups = 6
  made.method.arguments.cold_start.regraded_groups = 6
  made.method.arguments.cold_start.minimum_pairs = 2
  return made


def _harness_task(name: str) -> base.Task:
  """Criteria of which some separate, one is full and one is hardly ever met."""
  patterns = (
    ("[a-m]", 2.0),
    ("[n-z]", 1.0),
    ("[A-M]", 2.0),
    (".", 1.0),
    ("xyz", 3.0),
    ("[0-9]", -1.0),
  )
  return base.Task(
    id=name,
    domain="test",
    prompt=(base.Message("user", f"Say {name}"),),
    rubric=tuple(
      base.Criterion(
        text=f"Matches {pattern}.",
        weight=weight,
        checker="contains_pattern",
        arguments={"pattern": pattern},
      )
      for pattern, weight in patterns
    ),
  )
