"""HarnessRL: task sampling, guidance and rubrics evolve with the policy.

A method of three interfaces: which tasks are drawn (levels), what a rollout
sees (fields), what the rubric says (typed operations). They share one evolver,
one memory and one cold start. Each interface can be left as it is, or follow
another method's rule; with every interface off this is `grpo`, bit for bit.

Items that docstrings name, such as H-41, are explained in docs/harnessrl.md.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import msgspec
from flax import struct

from hrl_jax import base, protocols
from hrl_jax.harness import commits, records
from hrl_jax.harness import state as states
from hrl_jax.methods import drawing, interfaces
from hrl_jax.methods.harnessrl import cold_start, evolver, parts, views


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
    harness = commits.commit(state.harness, log)
    return state.replace(harness=harness)

  def plan(state: State, step: int, key: jax.Array) -> tuple[base.Plan, State]:
    state = state.replace(harness=_capped(made, state.harness, step))

    def view(place: int) -> drawing.View:
      return _view(made, rules, state, place, step)

    weights_N = states.weights(state.harness)
    if rules.sampling:
      weights_N = rules.sampling.weights(state.own["sampling"])
    return drawing.plan(key, weights_N, view, size), state

  def learn(
    state: State,
    step: int,
    evidence: base.Evidence,
    probe: protocols.Probe,
    key: jax.Array,
  ) -> tuple[State, dict[str, float]]:
    def harness_of(place: int) -> states.TaskHarness:
      return _harness(made, rules, state, place, step)

    harness, metrics = evolver.evolve(
      made, state.harness, harness_of, step, evidence, probe, key
    )
    own = {
      name: rule.learn(state.own[name], step, evidence)
      for name, rule in rules.given().items()
    }
    return State(harness, own), metrics

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
  bank = harness.bank
  removals = [
    records.Removal(step, bank.tasks[place].id, kind, "cap")
    for place, kind in commits.over_cap(harness, cap)
  ]
  if not removals:
    return harness
  made.memory.append(removals)
  return commits.commit(harness, removals)


def _harness(
  made: parts.Parts,
  rules: interfaces.Rules,
  state: State,
  place: int,
  step: int,
) -> states.TaskHarness:
  """A task's interfaces at a step, whoever drives them."""
  harness = states.task(state.harness, place)
  if rules.rollout:
    prompts = rules.rollout.prompts(
      state.own["rollout"], place, step, made.group_size
    )
    harness = harness._replace(fields=prompts.fields)
  if rules.rubric:
    rubric = rules.rubric.rubric(state.own["rubric"], place)
    harness = harness._replace(rubric=rubric)
  return harness


def _view(
  made: parts.Parts,
  rules: interfaces.Rules,
  state: State,
  place: int,
  step: int,
) -> drawing.View:
  """A task as it is drawn at a step."""
  harness = _harness(made, rules, state, place, step)
  view = views.view(
    state.harness.bank.tasks[place],
    harness.fields,
    harness.rubric,
    group_size=made.group_size,
    condition_on=made.knobs.condition_on,
  )
  if not rules.rollout:
    return view
  prompts = rules.rollout.prompts(
    state.own["rollout"], place, step, made.group_size
  )
  return view._replace(
    sampled_under=prompts.sampled_under, trained_under=prompts.trained_under
  )


def _text(state: State) -> Any:
  return msgspec.to_builtins(states.text(state.harness))


def _with_text(state: State, document: Any) -> State:
  kept = msgspec.convert(document, states.Text)
  return state.replace(harness=states.with_text(state.harness, kept))
