"""Answers of the teacher: what one will say, and its words.

A draft is what an answer means to say. Guidance changes it, and then it is
written.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from hrl_jax.lab import language, lexicon
from hrl_jax.lab import world as worlds

# Words of an answer at most: the longest rollout of the lab, less the token
# that ends it.
LONGEST = 22


class Draft(NamedTuple):
  """What an answer will say.

  Attributes:
    praise: words of praise that open it.
    domains: domain words, after the praise.
    first: facts that come before all others, in this order.
    omitted: facts that are left out.
    facts: facts at least, whatever they are worth.
    disclaims: whether it has a disclaimer.
    claims: whether it closes by claiming that all is done.
    length: words up to which it is filled.
    fillers: words of filler that it has in any case.
    most_fillers: words of filler at most.
    is_varied: whether no filler comes twice.
  """

  praise: int
  domains: tuple[str, ...]
  first: tuple[str, ...]
  omitted: tuple[str, ...]
  facts: int
  disclaims: bool
  claims: bool
  length: int
  fillers: tuple[str, ...]
  most_fillers: int
  is_varied: bool


def usual(
  world: worlds.World, asked: Sequence[str], rng: np.random.Generator
) -> Draft:
  """The habits of an answer without guidance."""
  parameters = world.parameters
  domain = world.questions[asked[0]].domain
  return Draft(
    praise=int(rng.random() < parameters.praise),
    domains=(domain,) if rng.random() < parameters.domain else (),
    first=(),
    omitted=(),
    facts=0,
    disclaims=rng.random() < parameters.disclaimer,
    claims=rng.random() < parameters.claim,
    length=int(
      rng.integers(parameters.fewest_words, parameters.most_words + 1)
    ),
    fillers=(),
    most_fillers=LONGEST,
    is_varied=False,
  )


def following(draft: Draft, sentence: str) -> Draft:
  """The draft that does what the sentence says, as far as it can.

  Raises:
    ValueError: if the sentence is none of the language.
  """
  clauses = language.parse(sentence)
  if clauses is None:
    raise ValueError(f"Nothing in the lab decides {sentence!r}.")
  for clause in clauses:
    draft = _FOLLOWING[clause.form](draft, **clause.slots)
  return draft


def like(
  draft: Draft,
  shown: language.Words,
  foreign: frozenset[str],
  is_taken: Callable[[], bool],
) -> Draft:
  """The draft that takes over part of an answer that was shown.

  Args:
    draft: before.
    shown: words of the answer.
    foreign: facts that are not taken over, since they answer other questions.
    is_taken: asked for each thing that could be.
  """
  for word in shown:
    if word in lexicon.FACTS and word not in foreign and is_taken():
      draft = _mentioning(draft, word)
  if language.ACKNOWLEDGES.holds(shown) and is_taken():
    draft = draft._replace(praise=max(draft.praise, 1))
  if language.CLAIMS.holds(shown) and is_taken():
    draft = draft._replace(claims=True)
  if is_taken():
    draft = draft._replace(length=len(shown))
  return draft


def written(
  world: worlds.World,
  asked: Sequence[str],
  draft: Draft,
  rng: np.random.Generator,
) -> language.Words:
  """The words of an answer: what it knows, and then what fills it up."""
  opening = [*_drawn(rng, lexicon.PRAISE, draft.praise), *draft.domains]
  facts = _facts(world, asked, draft, rng)
  disclaimer = _drawn(rng, lexicon.DISCLAIMERS, int(draft.disclaims))
  closing = _drawn(rng, lexicon.CLAIMS, int(draft.claims))
  count = sum(map(len, (opening, facts, draft.fillers, disclaimer, closing)))
  wanted = min(draft.length - count, draft.most_fillers - len(draft.fillers))
  fillers = list(draft.fillers)
  if wanted > 0:
    fillers += _drawn(rng, lexicon.FILLERS, wanted, draft.is_varied)
  said = [*opening, *facts, *fillers, *disclaimer]
  return tuple([*said[: LONGEST - len(closing)], *closing])


def _facts(
  world: worlds.World,
  asked: Sequence[str],
  draft: Draft,
  rng: np.random.Generator,
) -> list[str]:
  facts = list(draft.first)
  for word in asked:
    question = world.questions[word]
    if question.fact in facts:
      continue
    if rng.random() < question.knowledge:
      facts.append(question.fact)
    elif rng.random() < world.parameters.misconception:
      facts.append(question.misconception)
  facts = [fact for fact in facts if fact not in draft.omitted]
  if rng.random() < world.parameters.stray:
    facts += _strays(world, asked, rng)[:1]
  facts = list(dict.fromkeys(facts))
  missing = draft.facts - len(facts)
  if missing > 0:
    # What is known comes before what is wrong.
    wrong = [world.questions[word].misconception for word in asked]
    further = dict.fromkeys([*_strays(world, asked, rng), *wrong])
    facts += [fact for fact in further if fact not in facts][:missing]
  return facts


def _strays(
  world: worlds.World, asked: Sequence[str], rng: np.random.Generator
) -> list[str]:
  """Facts of the domain that are known and not asked for, in random order."""
  domain = world.questions[asked[0]].domain
  facts = [
    question.fact
    for word, question in world.questions.items()
    if question.domain == domain and question.knowledge and word not in asked
  ]
  return [facts[place] for place in rng.permutation(len(facts))]


def _drawn(
  rng: np.random.Generator,
  words: Sequence[str],
  count: int,
  is_varied: bool = False,
) -> list[str]:
  if is_varied:
    return [words[place] for place in rng.permutation(len(words))[:count]]
  return [words[place] for place in rng.integers(len(words), size=count)]


def _mentioning(draft: Draft, *facts: str) -> Draft:
  """Says these facts first, in this order, after what already comes first."""
  earlier = [fact for fact in draft.first if fact not in facts]
  omitted = tuple(fact for fact in draft.omitted if fact not in facts)
  return draft._replace(first=(*earlier, *facts), omitted=omitted)


def _omitting(draft: Draft, fact: str) -> Draft:
  first = tuple(each for each in draft.first if each != fact)
  return draft._replace(first=first, omitted=(*draft.omitted, fact))


def _plain(draft: Draft, count: int) -> Draft:
  return draft._replace(most_fillers=count, fillers=draft.fillers[:count])


def _brief(draft: Draft, count: int) -> Draft:
  return draft._replace(length=min(draft.length, count))


_FOLLOWING: dict[language.Form, Callable[..., Draft]] = {
  language.MENTIONS: lambda draft, fact: _mentioning(draft, fact),
  language.OMITS: _omitting,
  language.ORDERS: lambda draft, fact, other: _mentioning(draft, fact, other),
  language.NAMES_MANY: lambda draft, count: draft._replace(facts=count),
  language.NAMES_DOMAIN: lambda draft, domain: draft._replace(
    domains=tuple(dict.fromkeys([*draft.domains, domain]))
  ),
  language.ACKNOWLEDGES: lambda draft: draft._replace(
    praise=max(draft.praise, 1)
  ),
  language.PRAISES: lambda draft, count: draft._replace(praise=count),
  language.CLAIMS: lambda draft: draft._replace(claims=True),
  language.ENDS_WITH_CLAIM: lambda draft: draft._replace(claims=True),
  language.DETAILED: lambda draft, count: draft._replace(
    length=max(draft.length, count)
  ),
  language.BRIEF: _brief,
  language.DISCLAIMS: lambda draft: draft._replace(disclaims=True),
  language.FRANK: lambda draft: draft._replace(disclaims=False),
  language.USES: lambda draft, filler: draft._replace(
    fillers=(*draft.fillers, filler)
  ),
  language.PLAIN: _plain,
  language.REPEATS_NOTHING: lambda draft: draft._replace(is_varied=True),
}
