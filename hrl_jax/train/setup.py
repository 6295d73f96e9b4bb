"""From a config to the parts of a run; everything is checked on the way.

What is wrong with a config, a bank or a model is said here, before any time is
spent on compiling or sampling.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from hrl_jax import base, batch, collect, methods, protocols
from hrl_jax import config as configs
from hrl_jax.checkpoint import hf
from hrl_jax.core import (
  advantages,
  losses,
  optimizer,
  packing,
  shared_prompts,
  token_terms,
  update,
)
from hrl_jax.data import package_files
from hrl_jax.data import tokenizer as tokenizers
from hrl_jax.methods import given
from hrl_jax.model import decoder, policy, specification
from hrl_jax.rollout import jax_engine
from hrl_jax.services import replies
from hrl_jax.train import bank_files, giving, graders


class Setup(NamedTuple):
  """The parts of a run that never change.

  Attributes:
    config: the checked config.
    bank: tasks to train on.
    held_out: tasks to evaluate on.
    decoder: sizes of the policy.
    world: engine, grader and tokenizer.
    method: the training recipe.
    logs: files that it writes; whoever built it closes them.
    sampling: how rollouts are drawn.
    pack: rollouts to batches, see `collect.collect`.
    credit: `(rewards_PG, valid_PG) -> advantages_PG`.
    update: one optimiser step, see `core.update.make`.
    logprobs: see `core.update.make_logprobs`.
    reference: parameters of the frozen reference, None where nothing asks for
      its log-probabilities.
  """

  config: configs.Config
  bank: base.Bank
  held_out: base.Bank
  decoder: specification.DecoderConfig
  world: collect.World
  method: protocols.Method
  logs: tuple[given.Log, ...]
  sampling: base.Sampling
  pack: collect.Pack
  credit: advantages.Estimator
  update: Callable[..., Any]
  logprobs: Callable[..., Any]
  reference: decoder.Params | None


class State(NamedTuple):
  """Everything that a run changes; all of it goes into a checkpoint.

  Attributes:
    train: parameters and optimiser; consumed by the next step.
    method: the method's own state.
  """

  train: update.TrainState
  method: Any


def build(
  config: configs.Config, kept: replies.Replies | None = None
) -> tuple[Setup, State]:
  """Loads and checks everything, and makes the state before the first step.

  Args:
    config: of the run.
    kept: where an LLM judge's replies are kept, None to keep none.

  Raises:
    ValueError: if a part of the config, a bank or the model does not fit.
    FileNotFoundError: if a file is not there.
    chat.UnreachableError: if an LLM judge is not there.
  """
  tokenizer = tokenizers.load(
    package_files.resolve(config.model.path), config.model.template_options
  )
  bank, held_out = bank_files.load(config, tokenizer)
  recipe, arguments = methods.recipe(
    config.method.name, config.method.arguments
  )
  kept = kept or replies.Forgetful()
  # A judge that is not there, or not for these tasks, is told before a model
  # is loaded.
  make_grader = graders.prepare(config, tokenizer, (bank, held_out), kept)
  decoder_config, host_params = hf.load(config.model.path, jnp.float32)
  _check_length(config, decoder_config)
  params = jax.tree.map(jnp.asarray, host_params)
  has_reference = config.loss.kl_coefficient > 0 or config.loss.measure_kl
  needs_first = has_reference or config.judge.kind == "likelihood"
  # Its own buffers: those of the state are donated to every update.
  first = jax.tree.map(jnp.copy, params) if needs_first else None
  optimiser = make_optimizer(config)
  row_logprobs = _row_logprobs(config, decoder_config)
  # Last, for it opens files that nobody would close if the rest failed.
  made = recipe.make(giving.given(config, bank, tokenizer, kept), arguments)
  setup = Setup(
    config=config,
    bank=bank,
    held_out=held_out,
    decoder=decoder_config,
    world=collect.World(
      engine=jax_engine.JaxEngine(
        decoder_config,
        config.model.dtype,
        max_rows=config.rollout.max_rows,
      ),
      grader=make_grader(decoder_config, first),
      tokenizer=tokenizer,
    ),
    method=made.method,
    logs=made.logs,
    sampling=_sampling(config, tokenizer),
    pack=functools.partial(pack, config=config),
    credit=advantages.estimator(
      config.credit.estimator,
      ddof=config.credit.ddof,
      epsilon=config.credit.epsilon,
    ),
    update=_update(config, row_logprobs, optimiser),
    logprobs=update.make_logprobs(row_logprobs),
    reference=first if has_reference else None,
  )
  state = State(update.init(params, optimiser), made.method.init(bank))
  return setup, state


def make_optimizer(config: configs.Config) -> Any:
  """AdamW of the config; its schedule counts optimiser steps."""
  per_step = config.updates.epochs * config.updates.mini_batches
  return optimizer.adamw(
    num_steps=config.num_steps * per_step,
    **vars(config.optimizer),
  )


def make_objective(loss: Any) -> losses.Objective:
  """The knobs of the loss, as `core` takes them."""
  correction = None
  if loss.correction is not None:
    correction = token_terms.Correction(
      kind=loss.correction,
      level=loss.correction_level,
      low=loss.correction_low,
      high=loss.correction_high,
    )
  return losses.Objective(
    clip_low=loss.clip_low,
    clip_high=loss.clip_high,
    dual_clip=loss.dual_clip,
    kl_estimator=loss.kl_estimator,
    kl_coefficient=loss.kl_coefficient,
    entropy_coefficient=loss.entropy_coefficient,
    correction=correction,
  )


def pack(
  prompts: Sequence[Sequence[int]],
  rows: Sequence[packing.Row],
  *,
  num_groups: int,
  group_size: int,
  config: configs.Config,
) -> tuple[batch.Batch, ...]:
  """One batch per optimiser step, in the form that the config names."""
  knobs = config.updates
  parts = packing.mini_batches(
    rows,
    num_groups=num_groups,
    group_size=group_size,
    count=knobs.mini_batches,
  )
  forms = {
    "shared_prompt": functools.partial(
      shared_prompts.pack, block_rows=group_size
    ),
    "one_row": packing.one_row,
  }
  return tuple(
    forms[knobs.form](
      prompts,
      part,
      num_groups=groups,
      micro_batch_tokens=knobs.micro_batch_tokens,
      buckets_per_octave=knobs.buckets_per_octave,
    )
    for part, groups in parts
  )


def _sampling(
  config: configs.Config, tokenizer: tokenizers.Tokenizer
) -> base.Sampling:
  return base.Sampling(
    temperature=config.rollout.temperature,
    top_p=config.rollout.top_p,
    top_k=config.rollout.top_k,
    max_tokens=config.rollout.max_completion_tokens,
    stop_ids=tokenizer.stop_ids,
  )


def _update(
  config: configs.Config, row_logprobs: update.RowLogprobs, optimiser: Any
) -> Callable[..., Any]:
  return update.make(
    row_logprobs,
    optimiser,
    objective=make_objective(config.loss),
    aggregation=config.loss.aggregation,
    max_tokens=config.rollout.max_completion_tokens,
  )


def _row_logprobs(
  config: configs.Config, decoder_config: specification.DecoderConfig
) -> update.RowLogprobs:
  dtype = jnp.dtype(config.model.dtype)

  def row_logprobs(params, layout):
    # Float32 masters, computed with in the config's dtype.
    params = jax.tree.map(lambda leaf: leaf.astype(dtype), params)
    return policy.row_logprobs(
      decoder_config,
      params,
      layout,
      temperature=config.rollout.temperature,
      head_chunk=config.updates.head_chunk,
      remat=config.updates.remat,
    )

  return row_logprobs


def _check_length(
  config: configs.Config, decoder_config: specification.DecoderConfig
) -> None:
  longest = config.data.max_prompt_tokens + max(
    config.rollout.max_completion_tokens,
    config.evaluation.max_completion_tokens,
  )
  if longest > decoder_config.max_positions:
    raise ValueError(
      f"Prompts and completions may have {longest} tokens together, but the "
      f"model {config.model.path} was made for {decoder_config.max_positions}. "
      "Lower config.data.max_prompt_tokens or the completions' "
      "max_completion_tokens."
    )
