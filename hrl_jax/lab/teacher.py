"""Generated texts from which the first policy learns to answer.

An answer knows the hidden map imperfectly, likes to praise and to claim that
all is done, and pads. Guidance raises what it asks for, not always: what a
field says is done at the rate of its kind, and facts that it asks for come
first.
"""

import dataclasses
import functools
from collections.abc import Sequence
from typing import NamedTuple, TypeVar

import numpy as np

from hrl_jax import base
from hrl_jax.harness import guidance, terms
from hrl_jax.lab import drafts, language, lexicon
from hrl_jax.lab import world as worlds

_T = TypeVar("_T")

# Shares of guided texts that have one, two and three fields.
_FIELD_COUNTS = (0.75, 0.2, 0.05)
# Share of guided texts among those without noise.
_CLEAR_GUIDED = 0.75
# Shares of what a field asks for: an asked fact that is known, an order of one
# and any other, any word that may be a fact, anything else, and not to do
# something.
_WISHES = (0.2, 0.15, 0.4, 0.2, 0.05)
# Share of sentences that are joined from two.
_JOINED = 0.15
# Share of references that show an answer to another task, and a bad answer too.
_ELSEWHERE = 0.5
_NEGATIVE = 0.3


class Example(NamedTuple):
  """A text of the lesson.

  Attributes:
    prompt: with its guidance, as the policy will see it.
    response: the words of the answer.
  """

  prompt: base.Conversation
  response: language.Words


def example(world: worlds.World, rng: np.random.Generator) -> Example:
  """The next text; `rng` moves on."""
  parameters = world.parameters
  asked = worlds.draw_asked(rng, parameters, world.questions)
  prompt = worlds.prompt(world.questions, asked)
  draft = drafts.usual(world, asked, rng)
  if rng.random() >= parameters.guided:
    return Example(prompt, drafts.written(world, asked, draft, rng))
  count = 1 + rng.choice(len(_FIELD_COUNTS), p=_FIELD_COUNTS)
  kinds = rng.permutation(len(terms.FIELD_KINDS))[:count]
  texts: dict[terms.FieldKind, str] = {}
  for place in sorted(kinds):
    kind = terms.FIELD_KINDS[place]
    texts[kind], draft = _FIELDS[kind](world, asked, draft, rng)
  response = drafts.written(world, asked, draft, rng)
  return Example(guidance.render(prompt, texts), response)


def clear(world: worlds.World) -> worlds.World:
  """The world as a teacher without noise would have it.

  What the first policy may know it always says, nothing wrong or needless
  beside it, and guidance is always followed.
  """
  questions = {
    word: question._replace(knowledge=float(question.knowledge > 0))
    for word, question in world.questions.items()
  }
  parameters = dataclasses.replace(
    world.parameters,
    misconception=0.0,
    stray=0.0,
    disclaimer=0.0,
    fewest_words=0,
    most_words=0,
    follows_criterion=1.0,
    follows_reference=1.0,
    follows_critique=1.0,
    shown=1.0,
    guided=_CLEAR_GUIDED,
  )
  return world._replace(questions=questions, parameters=parameters)


def _criterion(world, asked, draft, rng):
  lines, draft = _wishes(
    world, asked, draft, rng, world.parameters.follows_criterion
  )
  return "\n".join(lines), draft


def _critique(world, asked, draft, rng):
  lines, draft = _wishes(
    world, asked, draft, rng, world.parameters.follows_critique
  )
  return guidance.critique(lines), draft


def _reference(world, asked, draft, rng):
  """Good and bad answers; what is shown is often taken over."""
  parameters = world.parameters
  other_task, shown = None, asked
  if rng.random() < _ELSEWHERE:
    while not set(shown) & set(asked) or shown == asked:
      shown = worlds.draw_asked(rng, parameters, world.questions)
    other_task = worlds.prompt(world.questions, shown)[0].content
  facts = [
    world.questions[word].fact
    for word in shown
    if world.questions[word].knowledge and rng.random() < parameters.shown
  ]
  if rng.random() < parameters.odd:
    facts.insert(rng.integers(len(facts) + 1), _any(rng, world.words))
  shining = drafts.usual(world, shown, rng)._replace(first=tuple(facts))
  positive = drafts.written(world, shown, shining, rng)
  negative = None
  if rng.random() < _NEGATIVE:
    usual = drafts.usual(world, asked, rng)
    negative = " ".join(drafts.written(world, asked, usual, rng))
  draft = drafts.like(
    draft,
    positive,
    _foreign(world, asked),
    lambda: rng.random() < parameters.follows_reference,
  )
  text = guidance.reference(" ".join(positive), negative, other_task=other_task)
  return text, draft


def _foreign(world: worlds.World, asked: Sequence[str]) -> frozenset[str]:
  """Facts that are known to answer other questions."""
  return frozenset(
    question.fact
    for word, question in world.questions.items()
    if question.knowledge and word not in asked
  )


_FIELDS = {
  "criterion": _criterion,
  "reference": _reference,
  "critique": _critique,
}


def _wishes(world, asked, draft, rng, rate):
  """Lines of a field, and the draft that follows each of them at the rate."""
  lines = []
  for _ in range(rng.integers(1, guidance.MOST_TARGETS + 1)):
    line, sentence = _wish(world, asked, rng)
    if rng.random() < rate:
      draft = drafts.following(draft, sentence)
    lines.append(line)
  return lines, draft


def _wish(
  world: worlds.World, asked: Sequence[str], rng: np.random.Generator
) -> tuple[str, str]:
  """A line of a field, and the sentence that holds where it is followed."""
  kind = int(rng.choice(len(_WISHES), p=_WISHES))
  if kind == len(_WISHES) - 1:
    return _prohibition(world, asked, rng)
  sentence = _sentence(world, asked, rng, kind)
  if rng.random() < _JOINED:
    other_kind = int(rng.integers(len(_WISHES) - 1))
    other = _sentence(world, asked, rng, other_kind)
    sentence = language.merged([sentence, other])
  return sentence, sentence


def _sentence(
  world: worlds.World,
  asked: Sequence[str],
  rng: np.random.Generator,
  kind: int,
) -> str:
  # Facts that are unknown are asked for like any word: an answer may copy
  # them, and learns no question for which they are right.
  known = [
    world.questions[word].fact
    for word in asked
    if world.questions[word].knowledge
  ]
  if kind == 0:
    return language.MENTIONS.say(fact=_any(rng, known))
  if kind == 1:
    pair = [_any(rng, known), _any(rng, world.words)]
    first, second = rng.permutation(2)
    return language.ORDERS.say(fact=pair[first], other=pair[second])
  if kind == 2:
    return language.MENTIONS.say(fact=_any(rng, world.words))
  return _any(rng, _OTHERS)(world, asked, rng)


def _prohibition(world, asked, rng):
  if rng.random() < 0.5:
    bad, good = language.DISCLAIMS.say(), language.FRANK.say()
  else:
    fact = world.questions[_any(rng, asked)].misconception
    bad, good = language.MENTIONS.say(fact=fact), language.OMITS.say(fact=fact)
  return f"{guidance.AVOID}: {bad}", good


def _any(rng: np.random.Generator, things: Sequence[_T]) -> _T:
  return things[rng.integers(len(things))]


def _counted(form, low, high, world, asked, rng):
  return form.say(count=int(rng.integers(low, high + 1)))


_OTHERS = (
  lambda world, asked, rng: language.OMITS.say(
    fact=world.questions[_any(rng, asked)].misconception
  ),
  lambda world, asked, rng: language.NAMES_DOMAIN.say(
    domain=_any(rng, lexicon.DOMAINS)
  ),
  lambda world, asked, rng: language.USES.say(
    filler=_any(rng, lexicon.FILLERS)
  ),
  lambda world, asked, rng: language.ACKNOWLEDGES.say(),
  lambda world, asked, rng: language.CLAIMS.say(),
  lambda world, asked, rng: language.ENDS_WITH_CLAIM.say(),
  lambda world, asked, rng: language.DISCLAIMS.say(),
  lambda world, asked, rng: language.FRANK.say(),
  lambda world, asked, rng: language.REPEATS_NOTHING.say(),
  functools.partial(_counted, language.NAMES_MANY, 2, 6),
  functools.partial(_counted, language.PRAISES, 2, 3),
  functools.partial(_counted, language.DETAILED, 4, 18),
  functools.partial(_counted, language.BRIEF, 6, 16),
  functools.partial(_counted, language.PLAIN, 1, 4),
)
