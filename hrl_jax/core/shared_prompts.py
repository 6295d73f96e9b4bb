"""Packing by training prompt, for `model.shared_prompts`; numpy on the host."""

import functools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from hrl_jax import batch
from hrl_jax.core import packing


def pack(
  prompts: Sequence[Sequence[int]],
  rows: Sequence[packing.Row],
  *,
  num_groups: int,
  block_rows: int,
  micro_batch_tokens: int,
  buckets_per_octave: int,
) -> batch.Batch:
  """Packs rows by training prompt.

  Args:
    prompts: token ids of the training prompts.
    rows: at least one row, each with at least one token.
    num_groups: see `batch.Batch`.
    block_rows: R, the most completions in a block; the group size.
    micro_batch_tokens: real tokens after which a new micro-batch begins; one
      prompt with a block of its completions is never divided.
    buckets_per_octave: see `packing.bucket`.

  Returns:
    The batch; every row is in exactly one micro-batch.

  Raises:
    ValueError: if there is no row, or an empty prompt or completion.
  """
  packing.check(prompts, rows)
  blocks = _blocks(rows, block_rows)
  parts = _micro_batches(prompts, blocks, micro_batch_tokens)
  shape = _common_shape(prompts, parts, buckets_per_octave)
  packed = [_pack(prompts, part, shape) for part in parts]
  layouts, loss_rows = zip(*packed, strict=True)
  return batch.Batch(
    rows=batch.Rows(*map(np.stack, zip(*loss_rows, strict=True))),
    layout=batch.SharedPrompts(*map(np.stack, zip(*layouts, strict=True))),
    num_groups=np.int32(num_groups),
  )


Block = tuple[packing.Row, ...]


class _Shape(NamedTuple):
  """B rows in K blocks, and as many prompts, of F tokens, C of them predicted.

  A block has R strips of T places.
  """

  rows: int
  blocks: int
  strips: int
  prompt_length: int
  length: int
  tokens: int
  predictions: int


def _blocks(rows: Sequence[packing.Row], block_rows: int) -> list[Block]:
  by_prompt: dict[int, list[packing.Row]] = {}
  for row in rows:
    by_prompt.setdefault(row.prompt, []).append(row)
  return [
    tuple(members[start : start + block_rows])
    for members in by_prompt.values()
    for start in range(0, len(members), block_rows)
  ]


def _prompts_of(blocks: Sequence[Block]) -> list[int]:
  return list(dict.fromkeys(block[0].prompt for block in blocks))


def _strips(block: Block, length: int) -> list[tuple[int, int]]:
  """The strip of each completion and its first place there.

  Completions that are short share a strip: the longest come first, each into
  the first strip that has room. Queries meet the keys of a strip, so the work
  of attention is that of the strips.
  """
  used: list[int] = []
  found = [(0, 0)] * len(block)
  for member in sorted(
    range(len(block)), key=lambda member: -len(block[member].tokens)
  ):
    size = len(block[member].tokens)
    fitting = (at for at, full in enumerate(used) if full + size <= length)
    strip = next(fitting, len(used))
    if strip == len(used):
      used.append(0)
    found[member] = (strip, used[strip])
    used[strip] += size
  return found


def _size(prompts: Sequence[Sequence[int]], blocks: Sequence[Block]) -> int:
  """Real tokens of some blocks, each prompt once."""
  return sum(len(prompts[prompt]) for prompt in _prompts_of(blocks)) + sum(
    len(row.tokens) for block in blocks for row in block
  )


def _micro_batches(
  prompts: Sequence[Sequence[int]],
  blocks: Sequence[Block],
  micro_batch_tokens: int,
) -> list[list[Block]]:
  """Divides blocks evenly: the largest first, each to the smallest part."""
  total = _size(prompts, blocks)
  count = min(len(blocks), -(-total // micro_batch_tokens))
  parts: list[list[Block]] = [[] for _ in range(count)]
  sizes = [0] * count
  for block in sorted(blocks, key=lambda block: -_size(prompts, [block])):
    smallest = sizes.index(min(sizes))
    parts[smallest].append(block)
    sizes[smallest] += _size(prompts, [block])
  return parts


def _common_shape(
  prompts: Sequence[Sequence[int]],
  parts: Sequence[Sequence[Block]],
  buckets_per_octave: int,
) -> _Shape:
  """The shape that holds every micro-batch, one of few.

  Nearly all work is done for each flat token, so only their number is rounded
  finely. What pads rows and costs attention alone is rounded more coarsely, and
  the number of predictions is not rounded again: it is what the prompts,
  rounded down, leave of the tokens.
  """
  lengths = [
    [len(prompts[prompt]) for prompt in _prompts_of(part)] for part in parts
  ]
  held, coarse, coarser = (
    functools.partial(packing.bucket, steps=max(1, buckets_per_octave // share))
    for share in (1, 2, 4)
  )
  blocks = [block for part in parts for block in part]
  length = coarse(max(len(row.tokens) for block in blocks for row in block))
  strips = [1 + max(_strips(block, length))[0] for block in blocks]
  tokens = held(max(_size(prompts, part) for part in parts))
  fewest = min(map(sum, lengths))
  rounded_down = max(
    size for size in range(1, fewest + 1) if coarse(size) == size
  )
  return _Shape(
    rows=coarse(max(sum(map(len, part)) for part in parts)),
    blocks=max(map(len, parts)),
    strips=coarser(max(strips)),
    prompt_length=coarse(max(map(max, lengths))),
    length=length,
    tokens=tokens,
    predictions=tokens - rounded_down,
  )


def _pack(
  prompts: Sequence[Sequence[int]], blocks: Sequence[Block], shape: _Shape
) -> tuple[batch.SharedPrompts, batch.Rows]:
  """One micro-batch; see `SharedPrompts` for what each array means."""
  flat = shape.tokens
  num_strips = shape.blocks * shape.strips
  prompt_places = shape.blocks * shape.prompt_length
  tokens = np.zeros(flat, np.int32)
  positions = np.zeros(flat, np.int32)
  place = np.full(flat, prompt_places + num_strips * shape.length, np.int32)
  prompt_tokens = np.full((shape.blocks, shape.prompt_length), flat, np.int32)
  completion_tokens = np.full((num_strips, shape.length), flat, np.int32)
  members = np.zeros((num_strips, shape.length), np.int32)
  prompt_of_block = np.zeros(shape.blocks, np.int32)
  predictor = np.zeros(shape.predictions, np.int32)
  target = np.zeros(shape.predictions, np.int32)
  predicted = np.full((shape.rows, shape.length), shape.predictions, np.int32)
  rows = packing.empty_rows((shape.rows,), shape.length)

  table = _prompts_of(blocks)
  start = 0
  for index, prompt in enumerate(table):
    here = np.arange(start, start + len(prompts[prompt]))
    tokens[here] = prompts[prompt]
    positions[here] = here - start
    prompt_tokens[index, : len(here)] = here
    place[here] = index * shape.prompt_length + here - start
    start += len(here)
  first, start, at = start, 0, 0
  for number, block in enumerate(blocks):
    prompt = table.index(block[0].prompt)
    prompt_of_block[number] = prompt
    prompt_size = len(prompts[block[0].prompt])
    strips = _strips(block, shape.length)
    for member, row in enumerate(block):
      strip = number * shape.strips + strips[member][0]
      count = np.arange(len(row.tokens))
      column = strips[member][1] + count
      here = first + start + count
      tokens[here] = row.tokens
      positions[here] = prompt_size + count
      completion_tokens[strip, column] = here
      members[strip, column] = member
      place[here] = prompt_places + strip * shape.length + column
      predictor[start + count] = here - 1
      predictor[start] = prompt_tokens[prompt, prompt_size - 1]
      target[start + count] = row.tokens
      predicted[at, : len(count)] = start + count
      packing.fill_row(rows, at, row)
      start += len(count)
      at += 1
  layout = batch.SharedPrompts(
    tokens,
    positions,
    prompt_tokens,
    completion_tokens.reshape(shape.blocks, shape.strips, shape.length),
    members.reshape(shape.blocks, shape.strips, shape.length),
    prompt_of_block,
    place,
    predictor,
    target,
    predicted,
  )
  return layout, rows
