"""What a run offers to the maker of its method."""

import functools
import hashlib
import json
import pathlib
from collections.abc import Callable

from hrl_jax import base
from hrl_jax import config as configs
from hrl_jax.checkpoint import hf
from hrl_jax.data import tokenizer as tokenizers
from hrl_jax.harness import stand_in
from hrl_jax.lab import files as lab_files
from hrl_jax.lab import lexicon
from hrl_jax.lab import pool as lab_pool
from hrl_jax.methods import drawing
from hrl_jax.methods import given as offers
from hrl_jax.services import replies

# What a reader of the lab's answers would call empty words.
_SURFACE = (
  *lexicon.PRAISE,
  *lexicon.CLAIMS,
  *lexicon.DISCLAIMERS,
  *lexicon.FILLERS,
)


def given(
  config: configs.Config,
  bank: base.Bank,
  tokenizer: tokenizers.Tokenizer,
  kept: replies.Replies,
) -> offers.Given:
  """What the run offers to its method."""
  pool, phrases = _sentences(config)
  return offers.Given(
    size=drawing.Size(
      num_groups=config.rollout.tasks_per_step,
      group_size=config.rollout.group_size,
      drop_constant=config.rollout.drop_constant,
      max_rounds=config.rollout.max_rounds,
    ),
    num_steps=config.num_steps,
    bank=bank,
    folder=pathlib.Path(config.workdir),
    kept=kept,
    identity=_first_policy(config, tokenizer),
    prompt_tokens=config.data.max_prompt_tokens,
    count_prompt=lambda prompt: len(tokenizer.encode_chat(prompt)),
    count_text=lambda text: len(tokenizer.encode(text)),
    is_judged=config.judge.kind in ("llm", "lab"),
    pool=pool,
    phrases=phrases,
  )


def _sentences(
  config: configs.Config,
) -> tuple[Callable[[str], tuple[str, ...]], tuple[str, ...]]:
  """What a stand-in may write, and the phrases that it takes for surface."""
  if config.judge.kind != "lab":
    return lambda task: (), stand_in.PHRASES
  world = lab_files.load(config.judge.world)
  return functools.partial(lab_pool.pool, world), _SURFACE


def _first_policy(
  config: configs.Config, tokenizer: tokenizers.Tokenizer
) -> str:
  """Names what makes the first policy's rollouts and their grades."""
  parts = ("seed", "model.", "rollout.", "judge.")
  knobs = {
    name: value
    for name, value in configs.identity(config).items()
    if name.startswith(parts)
  }
  knobs["weights"] = hf.weights_hash(config.model.path)
  knobs["tokenizer"] = tokenizer.hash
  text = json.dumps(knobs, sort_keys=True, default=str)
  return hashlib.sha256(text.encode()).hexdigest()
