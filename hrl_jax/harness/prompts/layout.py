"""Prompts that keep to their budget: long texts are cut in the middle.

A prompt is a list of parts, each our own words, a fenced piece that stays
whole, or a long text of others. Where they are too much together, the long
texts share what room there is: short ones stay whole, and the rest lose their
middles down to one common length.
"""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

from hrl_jax import fences

# Characters of a text that is shorter than a note that it was cut.
_SHORTEST = 80


class Budget(NamedTuple):
  """How long a prompt may be.

  Attributes:
    count: tokens of a text, as the asked model's tokenizer counts them.
    tokens: of both messages together; what the chat template adds is not in it.
  """

  count: Callable[[str], int]
  tokens: int = 16_384


class Long(NamedTuple):
  """A text of others that may be cut.

  Attributes:
    tag: of its fence, which gets a key.
    text: any characters.
    share: of the room, relative to the other long texts.
  """

  tag: str
  text: str
  share: int


Part = str | Long


class TooLongError(ValueError):
  """What may not be cut is already longer than the budget."""


def fitted(parts: Sequence[Part], room: int, budget: Budget) -> str:
  """The parts as one text of at most `room` tokens.

  Args:
    parts: in order.
    room: of this text, in tokens.
    budget: counts them.

  Raises:
    TooLongError: if there is no room even without the long texts.
  """
  text = _joined(parts, math.inf)
  tokens = budget.count(text)
  if tokens <= room:
    return text
  fixed = least(parts, budget)
  if fixed > room:
    raise TooLongError(
      f"What may not be cut takes {fixed} tokens where {room} are left of "
      f"{budget.tokens}. Raise the budget of a prompt."
    )
  kept = sum(len(part.text) for part in parts if isinstance(part, Long))
  while tokens > room:
    # Tokens per character differ from text to text, so one step from their
    # mean may not be enough; the 0.98 ends the steps soon.
    kept = int(0.98 * kept * (room - fixed) / (tokens - fixed))
    text = _joined(parts, _level(parts, kept) if kept else 0.0)
    tokens = budget.count(text)
  return text


def least(parts: Sequence[Part], budget: Budget) -> int:
  """Tokens of the parts with their long texts cut to nothing."""
  return budget.count(_joined(parts, 0.0))


def _joined(parts: Sequence[Part], level: float) -> str:
  """The parts, with at most `level` characters of a long text per share."""
  return "\n".join(
    part
    if isinstance(part, str)
    else fences.keyed(part.tag, _cut(part.text, level * part.share))
    for part in parts
  )


def _cut(text: str, most: float) -> str:
  if len(text) <= max(most, _SHORTEST):
    return text
  kept = int(most)
  head, tail = (kept + 1) // 2, kept // 2
  note = f"[... {len(text) - kept} characters are left out here ...]"
  return f"{text[:head]}\n{note}\n{text[len(text) - tail :]}"


def _level(parts: Sequence[Part], characters: int) -> float:
  """Characters per share with which the long texts keep so many together."""
  long = [part for part in parts if isinstance(part, Long)]
  shares = sum(part.share for part in long)
  for part in sorted(long, key=lambda part: len(part.text) / part.share):
    if len(part.text) > characters * part.share / shares:
      return characters / shares
    characters -= len(part.text)
    shares -= part.share
  return math.inf
