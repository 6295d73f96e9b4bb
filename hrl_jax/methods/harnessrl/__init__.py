"""HarnessRL: task sampling, guidance and rubrics evolve with the policy.

A method of three interfaces: which tasks are drawn (levels), what a rollout
sees (fields), what the rubric says (typed operations). They share one evolver,
one memory and one cold start. Each interface can be left as it is, or follow
another method's rule; with every interface off this is `grpo`, bit for bit.

Items that docstrings name, such as H-41, are explained in docs/harnessrl.md.
"""

import logging
from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import msgspec
import numpy as np
from flax import struct

from hrl_jax import base, protocols
from hrl_jax.core import task_sampling
from hrl_jax.harness import changes, commits, rubrics
from hrl_jax.harness import state as states
from hrl_jax.methods import drawing, interfaces
from hrl_jax.methods.harnessrl import (
  cold_start,
  evolver,
  parts,
  tallying,
  views,
)

_logger = logging.getLogger(__name__)

# Share of its draws that importance weights should leave a step (H-32).
_LEAST_EFFECTIVE = 0.5


@struct.dataclass
class State:
  """What the method knows between steps.

  Attributes:
    harness: the three interfaces.
    own: states of the rules that interfaces follow instead, by interface.
  """

  harness: states.HarnessState
  own: Mapping[str, Any]


class Start(NamedTuple):
  """How a run begins.

  Attributes:
    file: of the cold start's records.
    knobs: of the cold start.
  """

  file: cold_start.File
  knobs: cold_start.Knobs


def make(
  size: drawing.Size,
  made: parts.Parts,
  start: Start,
  rules: interfaces.Rules,
) -> protocols.Method:
  """Binds the evolver and the size of a step.

  Args:
    size: of a step.
    made: the evolver.
    start: how a run begins.
    rules: of the interfaces that do not evolve but follow another method.

  Raises:
    ValueError: if an interface follows another rule and evolves too.
  """
  _check(made.knobs.interfaces, rules)

  def init(bank: base.Bank) -> State:
    own = {name: rule.init(bank) for name, rule in rules.given().items()}
    return State(states.init(bank), own)

  def prepare(state: State, probe: protocols.Probe, key: jax.Array) -> State:
    bank = state.harness.bank
    log = cold_start.run(bank, start.file, probe, key, start.knobs)
    made.memory.append(log)
    return state.replace(harness=commits.commit(state.harness, log))

  def plan(state: State, step: int, key: jax.Array) -> tuple[base.Plan, State]:
    state = state.replace(harness=_capped(made, state.harness, step))

    def view(place: int) -> drawing.View:
      return _view(made, rules, state, place, step)

    return drawing.plan(key, _weights(rules, state), view, size), state

  def learn(
    state: State,
    step: int,
    evidence: base.Evidence,
    probe: protocols.Probe,
    key: jax.Array,
  ) -> protocols.Learnt:
    own = {
      name: rule.learn(state.own[name], step, evidence)
      for name, rule in rules.given().items()
    }
    seen = evolver.Seen(
      step,
      evidence,
      lambda place: _harness(made, rules, state, place, step),
      lambda after, place: _rubric(rules, State(after, own), place),
      probe,
    )
    evolved = evolver.evolve(made, state.harness, seen, key)
    after = State(evolved.state, own)
    weights_N = _weights(rules, after)
    _warn_of_weights(_weights(rules, state), weights_N)
    standing = tallying.standing(evolved.state, weights_N)
    return evolved._replace(
      state=after, metrics={**evolved.metrics, **standing}
    )

  return protocols.Method(init, prepare, plan, learn, _text, _with_text)


def _check(evolved: tuple[str, ...], rules: interfaces.Rules) -> None:
  both = sorted(set(rules.given()).intersection(evolved))
  if both:
    raise ValueError(
      f"The interfaces {', '.join(both)} follow another rule and evolve too. "
      "Take them out of config.method.arguments.interfaces."
    )


def _capped(
  made: parts.Parts, harness: states.HarnessState, step: int
) -> states.HarnessState:
  """The harness without the fields that the schedule takes away (H-39)."""
  cap = views.cap(step, made.num_steps)
  if step and cap == views.cap(step - 1, made.num_steps):
    return harness
  removals = [
    changes.Removal(step, harness.bank.tasks[place].id, kind, "cap")
    for place, kind in commits.over_cap(harness, cap)
  ]
  if not removals:
    return harness
  made.memory.append(removals)
  return commits.commit(harness, removals)


def _weights(rules: interfaces.Rules, state: State) -> np.ndarray:
  """`[N]` weights with which tasks are drawn, whoever sets them."""
  if rules.sampling:
    return rules.sampling.weights(state.own["sampling"])
  return states.weights(state.harness)


def _rubric(
  rules: interfaces.Rules, state: State, place: int
) -> rubrics.TaskRubric:
  """A task's rubric, whoever writes it."""
  if rules.rubric:
    return rules.rubric.rubric(state.own["rubric"], place)
  return states.rubric(state.harness, place)


def _prompts(
  made: parts.Parts,
  rules: interfaces.Rules,
  state: State,
  place: int,
  step: int,
) -> interfaces.Prompts:
  """What the rollouts of a task see at a step, whoever guides them."""
  if rules.rollout:
    own = state.own["rollout"]
    return rules.rollout.prompts(own, place, step, made.group_size)
  return views.prompts(
    state.harness.bank.tasks[place],
    states.fields(state.harness, place),
    group_size=made.group_size,
    condition_on=made.knobs.condition_on,
  )


def _harness(
  made: parts.Parts,
  rules: interfaces.Rules,
  state: State,
  place: int,
  step: int,
) -> states.TaskHarness:
  """A task's interfaces at a step, whoever drives them."""
  return states.task(state.harness, place)._replace(
    fields=_prompts(made, rules, state, place, step).fields,
    rubric=_rubric(rules, state, place),
  )


def _view(
  made: parts.Parts,
  rules: interfaces.Rules,
  state: State,
  place: int,
  step: int,
) -> drawing.View:
  """A task as it is drawn at a step."""
  return views.view(
    state.harness.bank.tasks[place],
    _prompts(made, rules, state, place, step),
    _rubric(rules, state, place),
  )


def _warn_of_weights(before_N: np.ndarray, after_N: np.ndarray) -> None:
  """Says when a step has made the weights too uneven; once, not every step."""
  before, after = map(task_sampling.effective_sample_size, (before_N, after_N))
  if after < _LEAST_EFFECTIVE <= before:
    _logger.warning(
      "The weights of tasks leave %.0f %% of a step's draws as its effective "
      "size: importance weights make the gradient noisy.",
      100 * after,
    )


def _text(state: State) -> Any:
  return msgspec.to_builtins(states.text(state.harness))


def _with_text(state: State, document: Any) -> State:
  kept = msgspec.convert(document, states.Text)
  return state.replace(harness=states.with_text(state.harness, kept))
