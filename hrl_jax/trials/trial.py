"""One run of one arm in one world, and what the world knows about it."""

import json
import logging
import pathlib
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import jax
import ml_collections
import numpy as np

from hrl_jax import base, train
from hrl_jax import config as configs
from hrl_jax.config import schema
from hrl_jax.evaluation import in_domain, pairs
from hrl_jax.harness import (
  records,
)
from hrl_jax.lab import files, quality
from hrl_jax.lab import world as worlds
from hrl_jax.services.memory import log as memory_log
from hrl_jax.trials import arms, updates

_logger = logging.getLogger(__name__)

# Settings that say where files lie.
_PLACES = (
  "workdir",
  "model.path",
  "data.train",
  "data.held_out",
  "judge.world",
)
# Numbers of a step that are kept as they are.
_KEPT = ("reward", "length", "missing_rollouts")


def run(
  config: ml_collections.ConfigDict,
  world: worlds.World,
  arm: str,
  out: pathlib.Path,
) -> dict[str, Any]:
  """Trains an arm and writes down what came of it.

  A trial whose file is there is read, not run again.

  Args:
    config: of HarnessRL in the prepared world, with seed and workdir.
    world: the world.
    arm: one of `arms.ARMS`.
    out: file of the result, JSON.

  Returns:
    `arm`, `seed`, `world`, `seconds`; by step: `evaluations` and `steps`; by
    window of steps: `reversals`; of the whole run: `sentences`; and the
    `settings` that it was run with.

  Raises:
    ValueError: if the file is of a trial with other settings.
  """
  frozen = configs.from_config_dict(arms.configured(config, arm))
  settings = _settings(frozen, world)
  if out.exists():
    return _read(out, settings)
  result = {
    "arm": arm,
    "seed": frozen.seed,
    "world": world.seed,
    **_trained(frozen, world),
    "settings": settings,
  }
  out.parent.mkdir(parents=True, exist_ok=True)
  # Renamed when whole: half a result must not look like one.
  unfinished = out.with_suffix(".unfinished")
  unfinished.write_text(json.dumps(result, allow_nan=True))
  unfinished.rename(out)
  return result


def _trained(config: configs.Config, world: worlds.World) -> dict[str, Any]:
  """What came of training, and how long it took."""
  started = time.monotonic()
  setup, state = train.build(config)
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
      if done == config.num_steps or done % config.evaluation.every == 0:
        evaluations.append(_evaluation(setup, world, done))
  finally:
    for log in setup.logs:
      log.close()
  log = _log(setup)
  return {
    "seconds": time.monotonic() - started,
    "seconds_cold_start": prepared - started,
    "evaluations": evaluations,
    "steps": steps,
    "reversals": updates.reversal_windows(setup.bank, log, config.num_steps),
    "sentences": updates.sentences(world, log),
  }


def _settings(config: configs.Config, world: worlds.World) -> dict[str, Any]:
  """All that a trial depends on by dotted name; where files lie is left out."""
  knobs = schema.flat(configs.as_dict(config))
  kept = {name: value for name, value in knobs.items() if name not in _PLACES}
  return {**kept, "world": files.content_hash(world)}


def _read(path: pathlib.Path, settings: Mapping[str, Any]) -> dict[str, Any]:
  result = json.loads(path.read_text())
  differences = schema.differences(result["settings"], settings)
  if differences:
    raise ValueError(
      f"{path} is of a trial with other settings: {'; '.join(differences)}. "
      "Give another folder, or delete the file."
    )
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
    **record.timing,
  }


def _log(setup: train.Setup) -> list[records.Record]:
  """What a harness wrote down; nothing of a method without one.

  A harness has its log without a memory too.
  """
  if not setup.logs:
    return []
  path = pathlib.Path(setup.config.workdir) / "memory" / "log.jsonl"
  return list(memory_log.read(path, setup.bank.hash))


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
