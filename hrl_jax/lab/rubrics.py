"""Seed rubrics: a few criteria that track quality among many that do not."""

from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np

from hrl_jax import base
from hrl_jax.lab import language
from hrl_jax.lab.parameters import Parameters

Kind = Literal["aligned", "gameable", "saturated", "blind", "penalty"]

# Draws of a rubric until its size is wrong for good.
_ATTEMPTS = 1000

_Statements = list[tuple[Kind, str]]


class Question(NamedTuple):
  """A question word and what is true about it.

  Attributes:
    domain: where it is asked.
    fact: the right one.
    misconception: the wrong one that goes with it.
    knowledge: rate at which the first policy gives the fact; 0 for never.
    is_neglected: whether seed rubrics pass it over.
  """

  domain: str
  fact: str
  misconception: str
  knowledge: float
  is_neglected: bool

  @property
  def is_covered(self) -> bool:
    """Whether seed rubrics ask for it as something within reach."""
    return self.knowledge > 0 and not self.is_neglected


def is_possible(asked: Sequence[Question]) -> bool:
  """Whether these questions give criteria of every kind.

  One fact within reach must be there to ask for, one out of reach, and one to
  leave out.
  """
  covered = sum(question.is_covered for question in asked)
  unknown = sum(question.knowledge == 0 for question in asked)
  return covered >= 1 and unknown >= 1 and len(asked) >= 3


def draw(
  rng: np.random.Generator, parameters: Parameters, asked: Sequence[Question]
) -> tuple[base.Rubric, tuple[Kind, ...]]:
  """A rubric for a task that asks these questions, and its criteria's kinds.

  Some asked fact is always left out. The order of the criteria is random.

  Raises:
    ValueError: if the parameters of the kinds make no rubric of that size.
  """
  fewest, most = parameters.fewest_criteria, parameters.most_criteria
  for _ in range(_ATTEMPTS):
    statements = _statements(rng, parameters, asked)
    if fewest <= len(statements) <= most:
      break
  else:
    raise ValueError(
      f"No rubric of {fewest} to {most} criteria for {len(asked)} questions "
      f"in {_ATTEMPTS} draws; the last had {len(statements)}. Change those "
      "sizes, or the numbers of each kind."
    )
  order = rng.permutation(len(statements))
  weights = rng.integers(1, parameters.highest_weight + 1, len(statements))
  rubric, kinds = [], []
  for place in order:
    kind, text = statements[place]
    sign = -1 if kind == "penalty" else 1
    rubric.append(base.Criterion(text, float(sign * weights[place])))
    kinds.append(kind)
  return tuple(rubric), tuple(kinds)


def _statements(
  rng: np.random.Generator, parameters: Parameters, asked: Sequence[Question]
) -> _Statements:
  covered, unknown = _covered(rng, parameters, asked)
  texts: _Statements = [
    ("aligned", language.MENTIONS.say(fact=each.fact)) for each in covered
  ]
  texts += [
    ("blind", language.MENTIONS.say(fact=each.fact)) for each in unknown
  ]
  if len(unknown) < parameters.most_blind and rng.random() < parameters.ordered:
    other = covered[rng.integers(len(covered))]
    order = language.ORDERS.say(fact=unknown[0].fact, other=other.fact)
    texts.append(("blind", order))
  texts += _chosen(
    rng,
    "gameable",
    gameable(parameters, len(asked)),
    parameters.fewest_gameable,
    parameters.most_gameable,
  )
  texts += _chosen(
    rng,
    "saturated",
    _saturated(parameters, asked),
    parameters.fewest_saturated,
    parameters.most_saturated,
  )
  if rng.random() < parameters.penalised:
    penalties = [
      language.MENTIONS.say(fact=asked[rng.integers(len(asked))].misconception),
      language.DISCLAIMS.say(),
    ]
    count = parameters.penalties
    texts += _chosen(rng, "penalty", penalties, count, count)
  return texts


def _covered(
  rng: np.random.Generator, parameters: Parameters, asked: Sequence[Question]
) -> tuple[list[Question], list[Question]]:
  """Questions that the rubric asks for: within reach, and out of it."""
  within = [question for question in asked if question.is_covered]
  beyond = [question for question in asked if question.knowledge == 0]
  beyond = beyond[: min(parameters.most_blind, len(asked) - 2)]
  left = len(asked) - 1 - len(beyond)
  count = rng.integers(1, min(len(within), parameters.most_aligned, left) + 1)
  places = sorted(rng.permutation(len(within))[:count])
  return [within[place] for place in places], beyond


def gameable(parameters: Parameters, num_asked: int) -> list[str]:
  """Statements that surface words meet."""
  return [
    language.ACKNOWLEDGES.say(),
    language.CLAIMS.say(),
    language.DETAILED.say(count=parameters.detailed_words),
    language.NAMES_MANY.say(count=num_asked - 1),
  ]


def _saturated(parameters: Parameters, asked: Sequence[Question]) -> list[str]:
  return [
    language.NAMES_DOMAIN.say(domain=asked[0].domain),
    language.DETAILED.say(count=parameters.short_words),
    language.BRIEF.say(count=2 * parameters.detailed_words),
  ]


def _chosen(
  rng: np.random.Generator,
  kind: Kind,
  texts: Sequence[str],
  fewest: int,
  most: int,
) -> _Statements:
  count = rng.integers(fewest, most + 1)
  return [(kind, texts[place]) for place in rng.permutation(len(texts))[:count]]
