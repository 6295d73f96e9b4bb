"""Held-out tasks of the training domains: greedy, no guidance, seed rubrics.

H-11. The score of a task is the reward of its one greedy answer (H-20).
"""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import jax
import numpy as np

from hrl_jax import base, collect
from hrl_jax.evaluation import parts, statistics


class Result(NamedTuple):
  """What held-out tasks say about the weights in the engine.

  Attributes:
    evidence: the answers and their grades.
    scores_N: reward per task, NaN where it could not be graded.
    checked_N: of its checked criteria alone, see `parts.by_grader`.
    judged_N: of its judged criteria alone.
    lengths_N: completion tokens.
    truncated_N: True where the answer was cut at the token limit.
    texts: the answers.
  """

  evidence: base.Evidence
  scores_N: np.ndarray
  checked_N: np.ndarray
  judged_N: np.ndarray
  lengths_N: np.ndarray
  truncated_N: np.ndarray
  texts: tuple[str, ...]


def evaluate(
  bank: base.Bank,
  world: collect.World,
  key: jax.Array,
  *,
  step: int,
  max_tokens: int,
) -> Result:
  """Answers every task once, greedily.

  Args:
    bank: the held-out tasks.
    world: its engine holds the weights to evaluate.
    key: consumed; greedy decoding does not depend on it.
    step: updates before the evaluation.
    max_tokens: length at which an answer is cut.
  """
  slots = tuple(
    base.Slot(
      task=index,
      bare=index,
      importance=1.0,
      rubric=task.rubric,
      sampled_under=(index,),
      trained_under=(index,),
    )
    for index, task in enumerate(bank.tasks)
  )
  plan = base.Plan(
    prompts=tuple(task.prompt for task in bank.tasks),
    slots=slots,
    num_groups=len(slots),
  )
  greedy = base.Sampling(
    temperature=0.0,
    top_p=1.0,
    top_k=0,
    max_tokens=max_tokens,
    stop_ids=world.tokenizer.stop_ids,
  )
  evidence = collect.gather(
    plan,
    world,
    key,
    occasion=base.Occasion(step, "evaluation"),
    sampling=greedy,
  )
  by_grader = parts.by_grader(evidence)
  rollouts = [group.rollouts[0] for group in evidence.groups]
  return Result(
    evidence=evidence,
    checked_N=by_grader["checked"][:, 0],
    judged_N=by_grader["judged"][:, 0],
    scores_N=np.array([group.rewards_G[0] for group in evidence.groups]),
    lengths_N=np.array([len(r.completion.tokens) for r in rollouts]),
    truncated_N=np.array([r.completion.finish == "length" for r in rollouts]),
    texts=tuple(rollout.text for rollout in rollouts),
  )


def summary(result: Result, bank: base.Bank) -> Mapping[str, Any]:
  """Scalars of an evaluation: score with interval, by domain, and length."""
  score = statistics.mean_interval(result.scores_N)
  domains_N = np.array([task.domain for task in bank.tasks])
  by_domain = {
    f"score_{domain}": statistics.mean_interval(
      result.scores_N[domains_N == domain]
    ).mean
    for domain in sorted(set(domains_N.tolist()))
  }
  return {
    "score": score.mean,
    "score_low": score.low,
    "score_high": score.high,
    "checked": statistics.mean_interval(result.checked_N).mean,
    "judged": statistics.mean_interval(result.judged_N).mean,
    "graded": score.count,
    "tasks": len(bank.tasks),
    "length": float(result.lengths_N.mean()),
    "truncated": float(result.truncated_N.mean()),
    **by_domain,
  }


def answers(result: Result, bank: base.Bank) -> Iterator[Mapping[str, Any]]:
  """Yields one record per task: its score, its answer and how long it is."""
  for index, task in enumerate(bank.tasks):
    yield {
      "task": task.id,
      "domain": task.domain,
      "score": float(result.scores_N[index]),
      "checked": float(result.checked_N[index]),
      "judged": float(result.judged_N[index]),
      "length": int(result.lengths_N[index]),
      "truncated": bool(result.truncated_N[index]),
      "text": result.texts[index],
    }
