"""The graders of a run: exact checkers, and the judge that the config names."""

from collections.abc import Callable, Sequence

from hrl_jax import base, protocols
from hrl_jax import config as configs
from hrl_jax.checkpoint import hf
from hrl_jax.data import package_files
from hrl_jax.data import tokenizer as tokenizers
from hrl_jax.lab import files as lab_files
from hrl_jax.lab import judge as lab_judge
from hrl_jax.model import decoder, specification, token_tree
from hrl_jax.services import (
  chat,
  checker_grader,
  credentials,
  judge_thresholds,
  likelihood,
  likelihood_judge,
  mixed_grader,
  replies,
)
from hrl_jax.services.judge import grader as llm_judge

# Makes the grader once the sizes of the model and its first weights are there.
Make = Callable[
  [specification.DecoderConfig, decoder.Params | None], protocols.Grader
]


def prepare(
  config: configs.Config,
  tokenizer: tokenizers.Tokenizer,
  banks: Sequence[base.Bank],
  kept: replies.Replies,
) -> Make:
  """Checks the config's judge, before anything is spent.

  Args:
    config: of the run.
    tokenizer: of the model.
    banks: whose criteria will be graded.
    kept: where an LLM judge's replies are kept.

  Raises:
    chat.UnreachableError: within 10 seconds if an LLM judge does not answer.
    ValueError: if the environment lacks its key, or the thresholds of the
      likelihood judge are of another model or other tasks.
    FileNotFoundError: if the file of the thresholds, or of the lab's world, is
      not there.
  """
  checker = checker_grader.CheckerGrader()
  if config.judge.kind == "none":
    return lambda sizes, first: checker
  if config.judge.kind == "llm":
    judge = _llm(config, kept)
    judge.check()
    return lambda sizes, first: mixed_grader.MixedGrader(checker, judge)
  if config.judge.kind == "lab":
    exact = lab_judge.LabJudge(lab_files.load(config.judge.world))
    return lambda sizes, first: mixed_grader.MixedGrader(checker, exact)
  thresholds = _thresholds(config, banks)

  def make(sizes, first):
    logprobs = token_tree.make_logprobs(
      sizes, config.model.dtype, head_chunk=config.updates.head_chunk
    )
    model = likelihood.Model(logprobs, first, tokenizer, sizes.max_positions)
    judge = likelihood_judge.LikelihoodJudge(model, thresholds)
    return mixed_grader.MixedGrader(checker, judge)

  return make


def _llm(config: configs.Config, kept: replies.Replies) -> llm_judge.LlmJudge:
  knobs = config.judge
  return llm_judge.LlmJudge(
    chat.Endpoint(
      url=knobs.endpoint.url,
      model=knobs.endpoint.model,
      api_key=credentials.api_key(
        knobs.endpoint.api_key_variable, "config.judge"
      ),
      max_in_flight=knobs.endpoint.max_in_flight,
      attempts=knobs.endpoint.attempts,
      timeout_s=knobs.endpoint.timeout,
      deadline_s=knobs.endpoint.deadline,
      # A verdict takes some hundred bytes; reading a megabyte of them would
      # hold up every other call.
      max_reply_bytes=131_072,
    ),
    llm_judge.Knobs(
      mode=knobs.mode,
      structured=knobs.structured,
      temperature=knobs.temperature,
      max_tokens=knobs.max_tokens,
      deadline=knobs.deadline,
    ),
    kept,
  )


def _thresholds(
  config: configs.Config, banks: Sequence[base.Bank]
) -> judge_thresholds.Thresholds:
  path = package_files.resolve(config.judge.thresholds)
  frozen = judge_thresholds.load(
    path, weights_hash=hf.weights_hash(config.model.path)
  )
  tasks = [task for bank in banks for task in bank.tasks]
  return judge_thresholds.of_tasks(frozen, tasks, path)
