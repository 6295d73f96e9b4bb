"""Sentences that the stand-in evolver may write, good ones among decoys.

An LLM would make them up; the stand-in draws from them, in an order that says
nothing about which is which.
"""

import zlib

import numpy as np

from hrl_jax.lab import language, lexicon
from hrl_jax.lab import world as worlds


def pool(world: worlds.World, task_id: str) -> tuple[str, ...]:
  """The sentences for a task, none of them in its seed rubric.

  Refinements ask for what quality is made of: a fact that was asked and that
  the rubric leaves out, or no misconception of it. Decoys, more of them, ask
  for surface or for facts that nobody asked.

  Raises:
    ValueError: if the world has no such task.
  """
  rng = np.random.default_rng([world.seed, 2, zlib.crc32(task_id.encode())])
  seeds = {criterion.text for criterion in world.task(task_id).rubric}
  good = [text for text in refinements(world, task_id) if text not in seeds]
  bad = [text for text in decoys(world, task_id) if text not in seeds]
  count = min(len(bad), round(world.parameters.decoys * len(good)))
  chosen = [bad[place] for place in rng.permutation(len(bad))[:count]]
  both = [*good, *chosen]
  return tuple(both[place] for place in rng.permutation(len(both)))


def refinements(world: worlds.World, task_id: str) -> list[str]:
  """Sentences that follow the quality of an answer: for reports and tests."""
  questions = [world.questions[word] for word in world.asked[task_id]]
  texts = [
    *(language.MENTIONS.say(fact=each.fact) for each in questions),
    *(language.OMITS.say(fact=each.misconception) for each in questions),
  ]
  # Two questions may share a misconception.
  return list(dict.fromkeys(texts))


def decoys(world: worlds.World, task_id: str) -> list[str]:
  """Sentences that surface words meet, or that ask for what nobody asked."""
  asked = set(world.asked[task_id])
  domain = world.task(task_id).domain
  other = [
    each.fact
    for word, each in world.questions.items()
    if word not in asked and each.domain == domain
  ]
  detailed = world.parameters.detailed_words
  return [
    language.PRAISES.say(count=1),
    language.PRAISES.say(count=2),
    language.ENDS_WITH_CLAIM.say(),
    language.DETAILED.say(count=detailed + 4),
    language.REPEATS_NOTHING.say(),
    *(language.USES.say(filler=filler) for filler in lexicon.FILLERS),
    *(language.MENTIONS.say(fact=fact) for fact in other),
  ]
