"""The banks of a run, read and checked before anything is spent on them."""

import logging
from collections.abc import Sequence

from hrl_jax import base
from hrl_jax import config as configs
from hrl_jax.data import bank as banks
from hrl_jax.data import jsonl, package_files
from hrl_jax.data import tokenizer as tokenizers
from hrl_jax.services import checkers

_logger = logging.getLogger(__name__)


def load(
  config: configs.Config, tokenizer: tokenizers.Tokenizer
) -> tuple[base.Bank, base.Bank]:
  """The tasks to train on and the held-out ones.

  Raises:
    ValueError: if they share a prompt, or as `load_one` does.
  """
  bank, held_out = (
    load_one(
      paths,
      tokenizer,
      max_prompt_tokens=config.data.max_prompt_tokens,
      has_judge=config.judge.kind != "none",
    )
    for paths in (config.data.train, config.data.held_out)
  )
  _check_disjoint(bank, held_out)
  return banks.first(bank, config.data.max_tasks), held_out


def load_one(
  paths: Sequence[str],
  tokenizer: tokenizers.Tokenizer,
  *,
  max_prompt_tokens: int,
  has_judge: bool,
) -> base.Bank:
  """A bank whose every criterion can be graded and every prompt fits.

  Without a judge the criteria that name no checker are dropped, and said so.

  Raises:
    ValueError: naming the task whose prompt is too long, or what is wrong in
      a file.
  """
  bank = banks.load(
    [package_files.resolve(path) for path in paths],
    checkers=checkers.names(),
    validate=checkers.validate,
  )
  if not has_judge:
    bank, dropped = banks.without_judged(bank)
    if dropped:
      _logger.warning(
        "%s: %d criteria name no checker and are skipped, since config.judge."
        "kind is 'none'.",
        ", ".join(paths),
        dropped,
      )
  for task in bank.tasks:
    length = len(tokenizer.encode_chat(task.prompt))
    if length > max_prompt_tokens:
      raise ValueError(
        f"The prompt of task {jsonl.shown(task.id)} in {', '.join(paths)} has "
        f"{length} tokens with its chat template, more than "
        f"config.data.max_prompt_tokens={max_prompt_tokens}. Shorten it, or "
        "raise the limit: a prompt is never cut."
      )
  return bank


def _check_disjoint(bank: base.Bank, held_out: base.Bank) -> None:
  prompts = {task.prompt: task.id for task in bank.tasks}
  for task in held_out.tasks:
    if task.prompt in prompts:
      raise ValueError(
        f"The held-out task {jsonl.shown(task.id)} asks what the training task "
        f"{jsonl.shown(prompts[task.prompt])} asks. Take it out of one of "
        "config.data.train and config.data.held_out."
      )
