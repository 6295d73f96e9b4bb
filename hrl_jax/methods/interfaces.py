"""The rule of one interface: what a method is composed of.

A published method often is a rule for a single interface: SEC draws tasks,
RuscaRL scaffolds rollouts, EvoRubric rewrites criteria. Each of the three kinds
has a state of its own, which `learn` carries on from step to step.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from hrl_jax import base
from hrl_jax.harness import rubrics, terms

RuleState = Any
Init = Callable[[base.Bank], RuleState]
Learn = Callable[[RuleState, int, base.Evidence], RuleState]


class Prompts(NamedTuple):
  """What the G rollouts of a group see (H-25).

  Attributes:
    sampled_under: of each rollout.
    trained_under: likewise.
    fields: that its guided rollouts see, as the harness would call them.
  """

  sampled_under: tuple[base.Conversation, ...]
  trained_under: tuple[base.Conversation, ...]
  fields: Mapping[terms.FieldKind, terms.Field]


class Sampling(NamedTuple):
  """Which tasks are drawn.

  Attributes:
    init: `init(bank) -> state`.
    weights: `weights(state) -> weights_N`, unnormalised, positive.
    learn: `learn(state, step, evidence) -> state`.
  """

  init: Init
  weights: Callable[[RuleState], np.ndarray]
  learn: Learn


class Guidance(NamedTuple):
  """What rollouts see; members of a group may see different prompts.

  Attributes:
    init: `init(bank) -> state`.
    prompts: `prompts(state, place, step, group_size) -> Prompts` of the task at
      a place in the bank.
    learn: `learn(state, step, evidence) -> state`.
  """

  init: Init
  prompts: Callable[[RuleState, int, int, int], Prompts]
  learn: Learn


class Criteria(NamedTuple):
  """What the rubric says.

  Attributes:
    init: `init(bank) -> state`.
    rubric: `rubric(state, place) -> TaskRubric` of the task at a place in the
      bank; a criterion keeps its name as long as its words.
    learn: `learn(state, step, evidence) -> state`.
  """

  init: Init
  rubric: Callable[[RuleState, int], rubrics.TaskRubric]
  learn: Learn


class Rules(NamedTuple):
  """Rules in place of a method's own, None where it keeps its own."""

  sampling: Sampling | None = None
  rollout: Guidance | None = None
  rubric: Criteria | None = None

  def given(self) -> dict[str, Sampling | Guidance | Criteria]:
    """Those that are there, by interface."""
    return {name: rule for name, rule in self._asdict().items() if rule}
