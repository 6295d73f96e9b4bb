"""Sentences that the stand-in evolver may write, good ones among decoys.

An LLM would make them up; the stand-in draws from them, in an order that says
nothing about which is which.
"""

import zlib

import numpy as np

from hrl_jax.lab import language, lexicon, rubrics
from hrl_jax.lab import world as worlds


def pool(world: worlds.World, task_id: str) -> tuple[str, ...]:
  """The sentences for a task, none of them in its seed rubric.

  Refinements ask for what quality is made of: a fact that was asked, or no
  misconception of it, alone or beside what a gameable criterion asks. Decoys,
  more of them, ask for surface or for facts that nobody asked.

  Raises:
    ValueError: if the world has no such task.
  """
  task = world.task(task_id)
  rng = np.random.default_rng([world.seed, 2, zlib.crc32(task_id.encode())])
  seeds = {criterion.text for criterion in task.rubric}
  bases = [
    text
    for text in rubrics.gameable(world.parameters, len(world.asked[task_id]))
    if text in seeds
  ]
  good, bad = (
    [text for text in texts if text not in seeds]
    for texts in (refinements(world, task_id), decoys(world, task_id))
  )
  kept = [*good, *_tightened(rng, world, bases, good)]
  dropped = _tightened(rng, world, bases, bad)
  count = round(world.parameters.decoys * len(kept)) - len(dropped)
  dropped += [
    bad[place] for place in rng.permutation(len(bad))[: max(count, 0)]
  ]
  both = [*kept, *dropped]
  return tuple(both[place] for place in rng.permutation(len(both)))


def is_refinement(world: worlds.World, task_id: str, sentence: str) -> bool:
  """Whether any part of a sentence refines: for reports and tests alone."""
  good = refinements(world, task_id)
  return any(part in good for part in language.split(sentence))


def refinements(world: worlds.World, task_id: str) -> list[str]:
  """Sentences of one clause that follow the quality of an answer."""
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
    language.PRAISES.say(count=2),
    language.ENDS_WITH_CLAIM.say(),
    language.DETAILED.say(count=detailed + 4),
    language.FRANK.say(),
    *(language.USES.say(filler=filler) for filler in lexicon.FILLERS),
    *(language.MENTIONS.say(fact=fact) for fact in other),
  ]


def _tightened(
  rng: np.random.Generator,
  world: worlds.World,
  bases: list[str],
  further: list[str],
) -> list[str]:
  """Wordings of each base that ask for something further too."""
  count = world.parameters.tightenings
  return [
    language.merged([text, further[place]])
    for text in bases
    for place in rng.permutation(len(further))[:count]
  ]
