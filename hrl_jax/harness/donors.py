"""Responses that a reference field may show, best first (H-40a).

A blind criterion has by definition never been met in its task's own records, so
"a positive response" cannot mean one that meets it there. Positives are, in
this order:

  1. an own rollout that met the same wording (with guidance, or in a probe)
  2. an own rollout that met an earlier wording which means the same
  3. a rollout of another task that met a criterion which means the same
  4. the own rollout with the highest reward, if it is above the group's median

The negative is the own rollout with the highest reward that fails the target;
another one follows it, for where that one is shown as the positive.
"""

import statistics
from collections.abc import Callable, Iterator
from typing import NamedTuple

from hrl_jax import base
from hrl_jax.harness import cases, history, records, retrieval, terms

Read = Callable[[history.Place], records.Group]


class Wanted(NamedTuple):
  """A criterion that guidance shall make reachable.

  Attributes:
    target: its name.
    is_penalty: whether it is one: then it is met where its behaviour is absent.
    earlier: its earlier wordings that mean the same, with their cosine.
    hits: criteria of other tasks that mean the same, nearest first.
  """

  target: terms.Target
  is_penalty: bool
  earlier: tuple[tuple[terms.Target, float], ...]
  hits: tuple[retrieval.Hit, ...]


def donations(
  wanted: Wanted,
  group: records.Group,
  own: history.History,
  others: dict[str, history.History],
  read: Read,
  about: Callable[[str], str],
) -> tuple[cases.Donation, ...]:
  """Positive responses, best first, then negative ones.

  Args:
    wanted: the target.
    group: recorded at this draw.
    own: the task's history, without this draw.
    others: histories of the tasks that `wanted.hits` are of, by id.
    read: a whole group from its place in the log.
    about: one line about a task, by id.
  """
  positives: list[cases.Donation] = []
  for target, similarity in [(wanted.target, None), *wanted.earlier]:
    positives += _met(wanted, target, own, read, similarity, None)
  for hit in wanted.hits:
    line = about(hit.task)
    positives += _met(
      wanted, hit.target, others[hit.task], read, hit.similarity, line
    )
  return (*positives, *of_group(group, wanted.target, wanted.is_penalty))


def of_group(
  group: records.Group, target: terms.Target, is_penalty: bool
) -> tuple[cases.Donation, ...]:
  """What a recorded group itself has to show: its best, then what fails."""
  index = group.criteria.index(target)
  rewards = {
    place: rollout.reward
    for place, rollout in enumerate(group.rollouts)
    if rollout.reward is not None
  }
  ranked = sorted(rewards, key=lambda place: (-rewards[place], place))
  best = [
    place
    for place in ranked[:1]
    if rewards[place] > statistics.median(rewards.values())
  ]
  failing = [
    place
    for place in ranked
    if not desired(group.rollouts[place], index, is_penalty)
  ]
  return (
    *(_donation(group, i, "positive", target, None, None) for i in best),
    *(_donation(group, i, "negative", target, None, None) for i in failing[:2]),
  )


def desired(rollout: records.Rollout, index: int, is_penalty: bool) -> bool:
  """Whether a valid rollout reaches the desired form of a criterion (H-61)."""
  score = rollout.scores[index]
  return score is not None and (score == 0 if is_penalty else score > 0)


def summary(prompt: base.Conversation, limit: int = 120) -> str:
  """One line about a task: the start of its last user turn."""
  text = next(
    (turn.content for turn in reversed(prompt) if turn.role == "user"), ""
  )
  line = " ".join(text.split())
  return line if len(line) <= limit else f"{line[:limit]}..."


def _met(
  wanted: Wanted,
  target: terms.Target,
  known: history.History,
  read: Read,
  similarity: float | None,
  about: str | None,
) -> Iterator[cases.Donation]:
  """The best rollout of the newest group of a task that met a criterion."""
  for seen in reversed(known.seen):
    if not any(t.target == target and t.reached > 0 for t in seen.tallies):
      continue
    group = read(seen.place)
    index = group.criteria.index(target)
    met = [
      place
      for place, rollout in enumerate(group.rollouts)
      if rollout.reward is not None
      and desired(rollout, index, wanted.is_penalty)
    ]
    if met:
      best = max(met, key=lambda place: (group.rollouts[place].reward, -place))
      yield _donation(group, best, "positive", target, similarity, about)
      return


def _donation(
  group: records.Group,
  place: int,
  sign: str,
  target: terms.Target,
  similarity: float | None,
  about: str | None,
) -> cases.Donation:
  donor = terms.Donor(
    group=group.id,
    rollout=place,
    sign=sign,
    task=group.task,
    target=target,
    similarity=similarity,
  )
  return cases.Donation(donor, group.rollouts[place].text, about)
