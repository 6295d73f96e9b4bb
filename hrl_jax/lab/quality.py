"""The hidden quality of an answer, and the exact order that it gives.

Nothing that trains, samples, grades or changes a harness reads this module: it
is what the lab measures them with.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from hrl_jax.lab import language, lexicon, rubrics
from hrl_jax.lab import world as worlds

_FACTS = frozenset(lexicon.FACTS)
_FILLERS = frozenset(lexicon.FILLERS)


def quality(world: worlds.World, task_id: str, response: str) -> float:
  """How good a response is, in [-1, 1].

    share of the asked facts that it mentions
    - wrong_cost * share of the facts it mentions that nobody asked for
    - filler_cost * words of filler - repetition_cost * words said before

  Where it mentions no fact the second share is 0.

  Raises:
    ValueError: if the world has no such task.
  """
  asked = frozenset(world.facts(task_id))
  words = language.words(response)
  named = _FACTS.intersection(words)
  parameters = world.parameters
  value = (
    len(named & asked) / len(asked)
    - parameters.wrong_cost * len(named - asked) / max(len(named), 1)
    - parameters.filler_cost * sum(word in _FILLERS for word in words)
    - parameters.repetition_cost * (len(words) - len(set(words)))
  )
  # What is equal by the formula is equal: sums of floats need not be.
  return round(min(max(value, -1.0), 1.0), 9)


def qualities(
  world: worlds.World, task_id: str, responses: Sequence[str]
) -> Float[np.ndarray, " G"]:
  """The quality of each response of a group."""
  return np.array(
    [quality(world, task_id, response) for response in responses], np.float64
  )


class Named(NamedTuple):
  """Shares of the asked facts that a response mentions; NaN where none is.

  Attributes:
    covered: within reach, and seed rubrics may ask for them.
    neglected: within reach, but no seed rubric asks for them.
    unknown: never said by the first policy unasked.
  """

  covered: float
  neglected: float
  unknown: float


def named(world: worlds.World, task_id: str, response: str) -> Named:
  """What a response says of each sort of asked facts."""
  said = frozenset(language.words(response))
  asked = [world.questions[word] for word in world.asked[task_id]]

  def share(sort: Callable[[rubrics.Question], bool]) -> float:
    facts = [question.fact for question in asked if sort(question)]
    return sum(fact in said for fact in facts) / len(facts) if facts else np.nan

  return Named(
    covered=share(lambda question: question.is_covered),
    neglected=share(lambda q: q.knowledge > 0 and q.is_neglected),
    unknown=share(lambda question: question.knowledge == 0),
  )


def order(
  qualities: Float[np.ndarray, "*axes G"],
) -> Int[np.ndarray, "*axes G G"]:
  """The oracle's view of each pair: 1 where the left is better, -1, 0 a tie."""
  difference = qualities[..., :, None] - qualities[..., None, :]
  return np.sign(difference).astype(np.int64)
