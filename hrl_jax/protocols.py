"""What the trainer asks of the outside world, and what a method is."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

import jax

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


@runtime_checkable
class Probe(Protocol):
  """Measures on the weights that made the recorded groups (theta_t)."""

  def sample(self, plan: base.Plan, key: jax.Array) -> base.Evidence:
    """Samples and grades fresh groups; nothing of it is ever trained on."""
    ...

  def regrade(
    self, plan: base.Plan, group: base.Group, rubric: base.Rubric, attempt: int
  ) -> base.Evidence:
    """Grades recorded rollouts anew under a rubric; one group comes back."""
    ...


class Method(NamedTuple):
  """A training recipe: four functions over one immutable state.

  The state is a pytree of host arrays (text beside them in a static field);
  no function changes it in place.

  Attributes:
    init: `init(bank) -> state`.
    prepare: `prepare(state, probe, key) -> state`: the cold start; the
      identity where a method has none.
    plan: `plan(state, step, key) -> (Plan, state)`: scheduled changes, draws.
    learn: `learn(state, step, evidence, probe, key) -> state`: measures at
      theta_t; what it accepts holds from the next step on.
  """

  init: Callable[[base.Bank], State]
  prepare: Callable[[State, Probe, jax.Array], State]
  plan: Callable[[State, int, jax.Array], tuple[base.Plan, State]]
  learn: Callable[[State, int, base.Evidence, Probe, jax.Array], State]
