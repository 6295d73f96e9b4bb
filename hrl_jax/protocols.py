"""What the trainer asks of the outside world, and what a method is."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

import jax
import numpy as np

from hrl_jax import base

State = Any


@runtime_checkable
class Engine(Protocol):
  """Samples from the policy; owns its copy of the weights."""

  def load(self, params: base.PyTree, version: int) -> None:
    """Copies the weights into buffers of its own; later rollouts say so."""
    ...

  def generate(
    self, requests: Sequence[base.Request], sampling: base.Sampling
  ) -> Iterator[base.Completion]:
    """Yields one completion per request, in the order in which they finish."""
    ...


@runtime_checkable
class Grader(Protocol):
  """Turns responses into scores."""

  def grade(
    self, requests: Iterable[base.GradeRequest]
  ) -> Iterator[base.Grade]:
    """Yields one grade per request, in any order.

    Requests are taken as they come, so a finished response is graded while
    others still decode. A score that cannot be had is NaN with a failure.
    """
    ...


class Submission(NamedTuple):
  """A response that a method wants graded, beside the step's own gradings.

  Attributes:
    task: index of the task in the bank.
    prompt: of the task, without guidance.
    response: the text under judgement.
    rubric: the criteria to grade it by.
  """

  task: int
  prompt: base.Conversation
  response: str
  rubric: base.Rubric


@runtime_checkable
class Probe(Protocol):
  """Measures on the weights that made the recorded groups (theta_t)."""

  def sample(self, plan: base.Plan, key: jax.Array) -> base.Evidence:
    """Samples and grades fresh groups; nothing of it is ever trained on."""
    ...

  def grade(
    self, submissions: Sequence[Submission], purpose: str
  ) -> Sequence[np.ndarray]:
    """Grades responses anew; no grading of the step is taken for it (H-116).

    Args:
      submissions: what to grade.
      purpose: a word that no other call of this step has.

    Returns:
      Of each, `[C]` float64 scores in [0, 1], NaN where missing.
    """
    ...


class Learnt(NamedTuple):
  """What a method makes of a step.

  Attributes:
    state: of the next step.
    metrics: scalars by name, the same in every repetition.
    seconds: by part of its work: what the clock said.
  """

  state: State
  metrics: Mapping[str, float] = {}
  seconds: Mapping[str, float] = {}


class Method(NamedTuple):
  """A training recipe: a few functions over one immutable state.

  The state is a pytree of host arrays (text beside them in static fields); no
  function changes it in place.

  Attributes:
    init: `init(bank) -> state`.
    prepare: `prepare(state, probe, key) -> state`: the cold start; the
      identity where a method has none.
    plan: `plan(state, step, key) -> (Plan, state)`: scheduled changes, draws.
    learn: `learn(state, step, evidence, probe, key) -> Learnt`: measures at
      theta_t; what it accepts holds from the next step on.
    text: `text(state) -> document`: what the state's arrays do not hold, as a
      JSON value; None where a method has none.
    with_text: `with_text(state, document) -> state`: the state of restored
      arrays with that text.
  """

  init: Callable[[base.Bank], State]
  prepare: Callable[[State, Probe, jax.Array], State]
  plan: Callable[[State, int, jax.Array], tuple[base.Plan, State]]
  learn: Callable[[State, int, base.Evidence, Probe, jax.Array], Learnt]
  text: Callable[[State], Any] = lambda state: None
  with_text: Callable[[State, Any], State] = lambda state, document: state
