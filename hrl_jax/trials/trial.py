"""One run of one arm in one world, and what the world knows about it."""

import collections
import json
import logging
import pathlib
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import jax
import ml_collections
import numpy as np

from hrl_jax import base, train
from hrl_jax import config as configs
from hrl_jax.evaluation import in_domain, pairs
from hrl_jax.harness import (
  changes,
  history,
  operations,
  records,
  reversals,
  rubrics,
)
from hrl_jax.lab import pool, quality
from hrl_jax.lab import world as worlds
from hrl_jax.services.memory import log as memory_log
from hrl_jax.trials import arms

_logger = logging.getLogger(__name__)

_SENTENCES = ("refinement", "decoy")
# Numbers of a step that are kept as they are.
_KEPT = ("reward", "length", "missing_rollouts")


def run(
  config: ml_collections.ConfigDict,
  world: worlds.World,
  arm: str,
  out: pathlib.Path,
) -> dict[str, Any]:
  """Trains an arm and writes down what came of it.

  A trial whose file is there is not run again.

  Args:
    config: of HarnessRL in the prepared world, with seed and workdir.
    world: the world.
    arm: one of `arms.ARMS`.
    out: file of the result, JSON.

  Returns:
    `arm`, `seed`, `world`, `seconds`; by step: `evaluations` and `steps`; by
    window of steps: `reversals`; of the whole run: `sentences`.
  """
  if out.exists():
    return json.loads(out.read_text())
  frozen = configs.from_config_dict(arms.configured(config, arm))
  started = time.monotonic()
  setup, state = train.build(frozen)
  try:
    for log in setup.logs:
      log.cut(0)  # Of a trial that was stopped: trials are not resumed.
    state = train.prepare(setup, state)
    prepared = time.monotonic()
    train.load(setup, state, version=0)
    evaluations = [_evaluation(setup, world, 0)]
    steps = []
    for step, _, record in train.run(setup, state):
      steps.append(_step(setup, world, step, record))
      done = step + 1
      last = done == frozen.num_steps
      if last or done % frozen.evaluation.every == 0:
        evaluations.append(_evaluation(setup, world, done))
  finally:
    for log in setup.logs:
      log.close()
  log = _log(setup)
  result = {
    "arm": arm,
    "seed": frozen.seed,
    "world": world.seed,
    "seconds": time.monotonic() - started,
    "seconds_cold_start": prepared - started,
    "evaluations": evaluations,
    "steps": steps,
    "reversals": _reversals(setup, log),
    "sentences": sentences(world, log),
  }
  out.parent.mkdir(parents=True, exist_ok=True)
  # Renamed when whole: half a result must not look like one.
  unfinished = out.with_suffix(".unfinished")
  unfinished.write_text(json.dumps(result, allow_nan=True))
  unfinished.rename(out)
  return result


def _evaluation(
  setup: train.Setup, world: worlds.World, step: int
) -> dict[str, float | int]:
  """Hidden quality and score of greedy answers to the held-out tasks (H-11)."""
  result = in_domain.evaluate(
    setup.held_out,
    setup.world,
    jax.random.key(setup.config.seed),
    step=step,
    max_tokens=setup.config.evaluation.max_completion_tokens,
  )
  answers = [
    (task.id, text)
    for task, text in zip(setup.held_out.tasks, result.texts, strict=True)
  ]
  named = np.array([quality.named(world, *answer) for answer in answers])
  shares = zip(quality.Named._fields, np.nanmean(named, axis=0), strict=True)
  return {
    "step": step,
    "quality": float(
      np.mean([quality.quality(world, *answer) for answer in answers])
    ),
    **{f"named_{sort}": float(share) for sort, share in shares},
    "score": float(np.nanmean(result.scores_N)),
    "length": float(result.lengths_N.mean()),
  }


def _step(
  setup: train.Setup, world: worlds.World, step: int, record: train.Record
) -> dict[str, float | int]:
  """What a step's groups are worth, and what they cost."""
  evidence = record.evidence
  groups = evidence.groups[: len(evidence.rewards_PG)]
  names = [
    setup.bank.tasks[evidence.plan.slots[group.slot].task].id
    for group in groups
  ]
  quality_PG = np.stack(
    [
      quality.qualities(world, name, [r.text for r in group.rollouts])
      for name, group in zip(names, groups, strict=True)
    ]
  )
  counts = pairs.pair_classes(
    evidence.rewards_PG, evidence.valid_PG, quality_PG
  )
  shares = pairs.shares(pairs.pooled(counts))._asdict()
  metrics = jax.device_get(dict(record.metrics))
  harness = {
    k: float(v) for k, v in metrics.items() if k.startswith("harness/")
  }
  return {
    "step": step,
    "train_quality": float(quality_PG.mean()),
    **{name: float(metrics[name]) for name in _KEPT},
    **{f"pairs_{name}": float(share[0]) for name, share in shares.items()},
    **harness,
    "rollouts": _count(evidence, record.measured, _rollouts),
    "gradings": _count(evidence, record.measured, _gradings),
    "seconds": sum(record.seconds.values()),
    **{f"seconds_{name}": value for name, value in record.seconds.items()},
    **{f"learn/{n}_s": value for n, value in record.method_seconds.items()},
  }


def sentences(
  world: worlds.World, log: Iterable[records.Record]
) -> dict[str, int]:
  """Measured and accepted rubric updates that write refinements, or decoys.

  A critic that tells good wordings from bad ones accepts more of the former.
  Updates that write both, and secondary ones, which need no effect, are left
  out.
  """
  counts = collections.Counter(
    {f"{k}s_{what}": 0 for k in _SENTENCES for what in ("measured", "accepted")}
  )
  for record in log:
    if (
      not isinstance(record, changes.Update) or not record.candidate.is_primary
    ):
      continue
    kinds = {
      pool.is_refinement(world, record.candidate.task, text)
      for each in record.candidate.operations
      if isinstance(each, changes.RubricOperation)
      for text in operations.texts(each)
    }
    is_told = record.candidate.is_primary and len(kinds) == 1
    if not is_told or record.measurement.delta is None:
      continue
    kind = _SENTENCES[0 if kinds.pop() else 1]
    counts[f"{kind}s_measured"] += 1
    counts[f"{kind}s_accepted"] += record.decision.is_accepted
  return dict(counts)


def _log(setup: train.Setup) -> list[records.Record]:
  """What a harness wrote down; nothing of a method without one.

  A harness has its log without a memory too.
  """
  if not setup.logs:
    return []
  path = pathlib.Path(setup.config.workdir) / "memory" / "log.jsonl"
  return list(memory_log.read(path, setup.bank.hash))


def _reversals(
  setup: train.Setup, log: Sequence[records.Record]
) -> list[dict[str, int]]:
  """Accepted and reversing rubric updates by quarter of the run (H-122)."""
  if not log:
    return []
  by_task: dict[str, list[records.Record]] = {}
  for record in log:
    by_task.setdefault(history.task_of(record), []).append(record)
  stories = [
    reversals.Story(
      rubrics.seed(task),
      [r for r in by_task[task.id] if isinstance(r, changes.Update)],
      [r.step for r in by_task[task.id] if _is_draw(r)],
    )
    for task in setup.bank.tasks
    if task.id in by_task
  ]
  windows = reversals.reversal_rate(
    stories,
    steps=setup.config.num_steps,
    window=-(-setup.config.num_steps // 4),
    # The lab's sentences say what they say: another is another.
    similarity=lambda one, other: float(one == other),
    floor=0.95,
  )
  return [window._asdict() for window in windows]


def _is_draw(record: records.Record) -> bool:
  return isinstance(record, records.Group) and record.kind == "train"


def _count(
  evidence: base.Evidence,
  measured: Iterable[base.Evidence],
  what: Callable[[base.Evidence], int],
) -> int:
  return sum(map(what, (evidence, *measured)))


def _rollouts(evidence: base.Evidence) -> int:
  return sum(len(group.rollouts) for group in evidence.groups)


def _gradings(evidence: base.Evidence) -> int:
  """Criteria that were graded, of rollouts or of what a method handed in."""
  slots = evidence.plan.slots
  if evidence.groups:
    return sum(
      len(group.rollouts) * len(slots[group.slot].rubric)
      for group in evidence.groups
    )
  return sum(len(slot.rubric) for slot in slots)


def read(folder: pathlib.Path) -> list[Mapping[str, Any]]:
  """The results in a folder."""
  return [
    json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))
  ]
