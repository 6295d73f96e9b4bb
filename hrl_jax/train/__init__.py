"""One training step as a story, and the run as a generator.

    plan -> collect -> credit -> update -> learn -> load -> record

The trainer never asks which method runs. `run` yields after every step, so
recording, saving and evaluating are the caller's: `main` writes a run folder,
a notebook does

  setup, state = train.build(config)
  for step, state, record in train.run(setup, state):
    ...
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from hrl_jax import base, batch, collect, protocols
from hrl_jax import clock as clocks
from hrl_jax.core import rewards, update
from hrl_jax.evaluation import parts
from hrl_jax.model import decoder
from hrl_jax.train import host_memory
from hrl_jax.train import setup as setups

Setup = setups.Setup
State = setups.State
build = setups.build


class Record(NamedTuple):
  """What a step leaves behind.

  Attributes:
    evidence: its rollouts and grades.
    measured: what the method measured besides, in order.
    metrics: scalars, some of them still being computed on the device.
    seconds: by phase.
    method_seconds: by part of what the method does in the phase "learn".
    sampled_tokens: completion tokens, those of dropped groups included.
  """

  evidence: base.Evidence
  measured: tuple[base.Evidence, ...]
  metrics: Mapping[str, Any]
  seconds: Mapping[str, float]
  method_seconds: Mapping[str, float]
  sampled_tokens: int

  @property
  def timing(self) -> dict[str, float]:
    """The seconds of phases, and of their parts, as the logs name them."""
    return {
      **{f"seconds_{name}": value for name, value in self.seconds.items()},
      **{f"learn/{n}_s": value for n, value in self.method_seconds.items()},
    }


class NonFiniteError(RuntimeError):
  """A gradient was not finite; the parameters are as before that step."""


def run(
  setup: Setup, state: State, *, start: int = 0
) -> Iterator[tuple[int, State, Record]]:
  """Trains from step `start` to the config's last.

  Yields `(step, state, record)` with the state after the step. It is consumed
  by the next step: save or copy it before asking for that.
  """
  key = jax.random.key(setup.config.seed)
  load(setup, state, version=start)
  for step_index in range(start, setup.config.num_steps):
    step_key = jax.random.fold_in(key, step_index)
    state, record = step(setup, state, step_index, step_key)
    host_memory.give_back()
    yield step_index, state, record


def prepare(setup: Setup, state: State) -> State:
  """The method's cold start on the first policy, before step 0."""
  load(setup, state, version=0)
  # Beside the steps' keys, which are folded in from 0 on.
  key = jax.random.fold_in(jax.random.key(setup.config.seed), 2**32 - 1)
  probe = Probe(setup, step=0, measured=[])
  method_state = setup.method.prepare(state.method, probe, key)
  return State(state.train, method_state)


def load(setup: Setup, state: State, version: int) -> None:
  """Hands the policy's weights to the engine."""
  setup.world.engine.load(state.train.params, version=version)


def step(
  setup: Setup, state: State, step_index: int, key: jax.Array
) -> tuple[State, Record]:
  """One policy update and all around it; `state` is consumed."""
  plan_key, collect_key, learn_key = jax.random.split(key, 3)
  clock = clocks.Clock()
  plan, method_state = setup.method.plan(state.method, step_index, plan_key)
  batches, evidence = collect.collect(
    plan,
    setup.world,
    collect_key,
    occasion=base.Occasion(step_index, "train"),
    sampling=setup.sampling,
    pack=setup.pack,
  )
  clock.lap("collect")
  advantages_PG = setup.credit(
    jnp.asarray(evidence.rewards_PG, jnp.float32),
    jnp.asarray(evidence.valid_PG),
  )
  credit = update.Credit(
    advantages_PG,
    jnp.asarray(evidence.valid_PG),
    jnp.asarray(evidence.importance_P, jnp.float32),
  )
  train_state, metrics = _update(setup, state.train, batches, credit)
  clock.lap("update")
  probe = Probe(setup, step_index, measured=[])
  learnt = setup.method.learn(
    method_state, step_index, evidence, probe, learn_key
  )
  clock.lap("learn")
  state = State(jax.block_until_ready(train_state), learnt.state)
  clock.lap("update")
  load(setup, state, version=step_index + 1)
  clock.lap("load")
  sampled_tokens = sum(
    len(rollout.completion.tokens)
    for group in evidence.groups
    for rollout in group.rollouts
  )
  metrics = {**_rollout_metrics(evidence), **metrics, **learnt.metrics}
  return state, Record(
    evidence,
    tuple(probe.measured),
    metrics,
    clock.seconds,
    learnt.seconds,
    sampled_tokens,
  )


class Probe(NamedTuple):
  """Measures with the engine, which still holds theta_t; a `protocols.Probe`.

  Attributes:
    setup: whose world is asked.
    step: updates before it.
    measured: grows by what each call returned.
  """

  setup: Setup
  step: int
  measured: list[base.Evidence]

  def sample(self, plan: base.Plan, key: jax.Array) -> base.Evidence:
    """Samples and grades fresh groups; nothing of it is ever trained on."""
    # The key tells one probe of a step from another, also when it is resumed.
    name = "-".join(f"{word:08x}" for word in jax.random.key_data(key).tolist())
    evidence = collect.gather(
      plan,
      self.setup.world,
      key,
      occasion=base.Occasion(self.step, f"probe {name}"),
      sampling=self.setup.sampling,
    )
    self.measured.append(evidence)
    return evidence

  def grade(
    self, submissions: Sequence[protocols.Submission], purpose: str
  ) -> Sequence[np.ndarray]:
    """Grades responses anew; `[C]` scores of each."""
    scores, evidence = collect.grade(
      submissions,
      self.setup.world,
      occasion=base.Occasion(self.step, purpose),
    )
    self.measured.append(evidence)
    return scores


def check_finite(setup: Setup, step_index: int, record: Record) -> None:
  """Stops a run whose gradient was not finite; waits for the step's metrics.

  Raises:
    NonFiniteError: naming the step, its tasks and the parameters concerned.
  """
  if float(record.metrics.get("finite", 1.0)) == 1.0:
    return
  flags = np.asarray(record.metrics["nonfinite_leaves"])
  paths = [
    jax.tree_util.keystr(path, simple=True, separator="/")
    for path, _ in jax.tree.leaves_with_path(
      decoder.abstract_params(setup.decoder)
    )
  ]
  named = [path for path, flag in zip(paths, flags, strict=True) if flag]
  plan = record.evidence.plan
  tasks = sorted({setup.bank.tasks[slot.task].id for slot in plan.slots})
  raise NonFiniteError(
    f"Step {step_index}: the gradient is not finite in {len(named)} of "
    f"{len(paths)} parameters ({', '.join(named[:4])}), loss "
    f"{float(record.metrics['loss'])}, tasks {', '.join(tasks)}. It changed no "
    "parameter. Look at the step's rollouts and log-probabilities; a lower "
    "learning rate or max_grad_norm helps if the weights had diverged."
  )


def _update(
  setup: Setup,
  state: update.TrainState,
  batches: Sequence[batch.Batch],
  credit: update.Credit,
) -> tuple[update.TrainState, dict[str, Any]]:
  """Every optimiser step on the batches; means of their metrics."""
  batches = [jax.tree.map(jnp.asarray, part) for part in batches]
  several = len(batches) * setup.config.updates.epochs > 1
  known = [
    update.Known(
      # One update per batch: the policy's own are the old ones (H-27).
      setup.logprobs(state.params, part.layout) if several else None,
      None
      if setup.reference is None
      else setup.logprobs(setup.reference, part.layout),
    )
    for part in batches
  ]
  measured = []
  for _ in range(setup.config.updates.epochs):
    for part, fixed in zip(batches, known, strict=True):
      state, metrics = setup.update(state, part, credit, fixed)
      measured.append(metrics)
  if not measured:
    return state, {}
  return state, jax.tree.map(lambda *all: sum(all) / len(all), *measured)


def _rollout_metrics(evidence: base.Evidence) -> dict[str, float]:
  """What the rollouts of the batch say; means over what is there."""
  groups = evidence.groups[: len(evidence.rewards_PG)]
  completions = [
    rollout.completion for group in groups for rollout in group.rollouts
  ]
  rewards_PG = np.where(evidence.valid_PG, evidence.rewards_PG, np.nan)
  counted = zip(evidence.rewards_PG, evidence.valid_PG, strict=True)
  constant_P = rewards.is_constant(evidence.rewards_PG, evidence.valid_PG)
  by_grader = parts.by_grader(evidence)
  return {
    "reward": _mean(rewards_PG),
    "checked": _mean(by_grader["checked"]),
    "judged": _mean(by_grader["judged"]),
    "reward_std": _mean(
      [np.std(row_G[valid_G]) for row_G, valid_G in counted if valid_G.any()]
    ),
    "groups": len(groups),
    "constant_groups": int(np.sum(constant_P)),
    "thin_groups": sum(group.fate == "thin" for group in groups),
    "dropped_groups": len(evidence.groups) - len(groups),
    "rollouts": evidence.valid_PG.size,
    "missing_rollouts": int(np.isnan(evidence.rewards_PG).sum()),
    "failures": len(evidence.failures),
    "length": _mean([len(c.tokens) for c in completions]),
    "truncated": _mean([c.finish == "length" for c in completions]),
  }


def _mean(values: Any) -> float:
  values = np.asarray(values, np.float64)
  present = values[~np.isnan(values)]
  return float(present.mean()) if present.size else float("nan")
