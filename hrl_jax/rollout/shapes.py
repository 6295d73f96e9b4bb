"""Batches of completions, and the few sizes that their arrays come in."""

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np


class Blocks(NamedTuple):
  """Rows in blocks of one prompt each.

  Attributes:
    places_KR: the id of the row at each place, -1 where there is none.
    prompt_K: the prompt of each block; 0 for a block without rows.
  """

  places_KR: np.ndarray
  prompt_K: np.ndarray


def batches(
  groups: Sequence[tuple[tuple[int, ...], Sequence[int]]], max_rows: int
) -> Iterator[list[tuple[tuple[int, ...], Sequence[int]]]]:
  """Splits groups into batches of at most `max_rows` rows.

  Prompts of like length come together, so that little of a batch is padding.
  A group is divided only if it alone is too large.

  Args:
    groups: prompts with the ids of their rows.
    max_rows: of a batch.
  """
  batch, size = [], 0
  for prompt, ids in sorted(groups, key=lambda group: len(group[0])):
    for start in range(0, len(ids), max_rows):
      part = ids[start : start + max_rows]
      if batch and size + len(part) > max_rows:
        yield batch
        batch, size = [], 0
      batch.append((prompt, part))
      size += len(part)
  if batch:
    yield batch


def pack(
  ids_of_prompts: Sequence[Sequence[int]], *, group_size: int = 1
) -> Blocks:
  """Lays rows out in blocks of equal width, as few places as can be.

  Wide blocks read a prompt's cache for many rows at once; narrow ones leave
  fewer places empty where prompts have uneven numbers of rows. Of two layouts
  with as many places the wider wins.

  Args:
    ids_of_prompts: for each prompt the ids of its rows, at least one in all.
    group_size: a width to consider besides the powers of two.
  """
  counts = [len(ids) for ids in ids_of_prompts]
  widths = {2**power for power in range(max(counts).bit_length())}
  widths.add(group_size)

  def num_blocks(width: int) -> int:
    return round_up_count(sum(math.ceil(count / width) for count in counts))

  best = min(
    widths,
    key=lambda width: (num_blocks(width) * width, -width),
  )
  places_KR = np.full((num_blocks(best), best), -1, np.int32)
  prompt_K = np.zeros(num_blocks(best), np.int32)
  block = 0
  for prompt, ids in enumerate(ids_of_prompts):
    for start in range(0, len(ids), best):
      part = ids[start : start + best]
      places_KR[block, : len(part)] = part
      prompt_K[block] = prompt
      block += 1
  return Blocks(places_KR, prompt_K)


def round_up_count(count: int) -> int:
  """The next of 1, 2, 3, 4, 6, 8, 12, 16, 24, ...: at most half more."""
  power = 2 ** (count - 1).bit_length()
  return power * 3 // 4 if power >= 4 and count <= power * 3 // 4 else power


def round_up_length(length: int) -> int:
  """The next multiple of 16, of 32 past 128, of 64 past 256 and so on."""
  unit = max(16, 2 ** (length - 1).bit_length() // 8)
  return -(-length // unit) * unit
