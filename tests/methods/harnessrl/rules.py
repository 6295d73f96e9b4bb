"""A tiny rule for each interface, in place of the evolver's."""

import numpy as np

from hrl_jax import base
from hrl_jax.harness import rubrics, terms
from hrl_jax.methods import interfaces


def _counted(state, step, evidence):
  """A state that counts the groups it has learnt from."""
  del step
  return state + len(evidence.groups)


def favours(place: int) -> interfaces.Sampling:
  """Draws one task more often with every group that was seen."""

  def weights(state):
    weights_N = np.ones(6)
    weights_N[place] += state
    return weights_N

  return interfaces.Sampling(lambda bank: 0, weights, _counted)


def scaffold(letter: str) -> interfaces.Guidance:
  """The first two rollouts of a group are told a letter, and trained bare."""

  def init(bank):
    return bank

  def prompts(bank, place, step, group_size):
    bare = bank.tasks[place].prompt
    tip = (base.Message("user", f"{bare[0].content}<tip {step}>Has {letter}."),)
    field = terms.Field("criterion", (), f"Has {letter}.", (), step)
    return interfaces.Prompts(
      sampled_under=(tip,) * 2 + (bare,) * (group_size - 2),
      trained_under=(bare,) * group_size,
      fields={"criterion": field},
    )

  return interfaces.Guidance(init, prompts, lambda state, step, seen: state)


def replaced(before: str, after: str) -> interfaces.Criteria:
  """Has another wording for a criterion once anything was seen."""

  def init(bank):
    return bank, 0

  def rubric(state, place):
    bank, groups = state
    seed = rubrics.seed(bank.tasks[place])
    if not groups:
      return seed
    entries = tuple(
      entry._replace(version=_reworded(entry.version, after))
      if entry.version.text == before
      else entry
      for entry in seed.entries
    )
    return seed._replace(entries=entries, version=1)

  def learn(state, step, evidence):
    bank, groups = state
    return bank, _counted(groups, step, evidence)

  return interfaces.Criteria(init, rubric, learn)


def _reworded(version: terms.Version, text: str) -> terms.Version:
  return terms.Version(
    version.cid, 1, text, version.sign, version.origin, step=0
  )
