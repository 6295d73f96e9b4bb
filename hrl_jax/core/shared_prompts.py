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
    block_rows: the most completions in a block; the group size.
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
  rounded_down = next(
    size for size in range(fewest, 0, -1) if coarse(size) == size
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


def _padding(shape: _Shape) -> batch.SharedPrompts:
  """A micro-batch without any token."""
  prompt_rows = (shape.blocks, shape.prompt_length)
  strips = (shape.blocks, shape.strips, shape.length)
  past_the_end = np.prod(prompt_rows) + np.prod(strips)
  return batch.SharedPrompts(
    tokens_MF=np.zeros(shape.tokens, np.int32),
    positions_MF=np.zeros(shape.tokens, np.int32),
    prompt_tokens_MUT=np.full(prompt_rows, shape.tokens, np.int32),
    completion_tokens_MKRT=np.full(strips, shape.tokens, np.int32),
    member_MKRT=np.zeros(strips, np.int32),
    prompt_MK=np.zeros(shape.blocks, np.int32),
    place_MF=np.full(shape.tokens, past_the_end, np.int32),
    predictor_MC=np.zeros(shape.predictions, np.int32),
    target_MC=np.zeros(shape.predictions, np.int32),
    predicted_MBT=np.full(
      (shape.rows, shape.length), shape.predictions, np.int32
    ),
  )


def _pack(
  prompts: Sequence[Sequence[int]], blocks: Sequence[Block], shape: _Shape
) -> tuple[batch.SharedPrompts, batch.Rows]:
  """One micro-batch; see `SharedPrompts` for what each array means."""
  layout = _padding(shape)
  rows = packing.empty_rows((shape.rows,), shape.length)
  table = _prompts_of(blocks)
  start = 0
  for index, prompt in enumerate(table):
    count = np.arange(len(prompts[prompt]))
    here = start + count
    layout.tokens_MF[here] = prompts[prompt]
    layout.positions_MF[here] = count
    layout.prompt_tokens_MUT[index, count] = here
    layout.place_MF[here] = index * shape.prompt_length + count
    start += len(count)
  first, start, at = start, 0, 0
  for number, block in enumerate(blocks):
    prompt = table.index(block[0].prompt)
    prompt_size = len(prompts[block[0].prompt])
    layout.prompt_MK[number] = prompt
    places = _strips(block, shape.length)
    for member, (row, (strip, column)) in enumerate(
      zip(block, places, strict=True)
    ):
      count = np.arange(len(row.tokens))
      here, predicted = first + start + count, start + count
      layout.tokens_MF[here] = row.tokens
      layout.positions_MF[here] = prompt_size + count
      layout.completion_tokens_MKRT[number, strip, column + count] = here
      layout.member_MKRT[number, strip, column + count] = member
      layout.place_MF[here] = (
        layout.prompt_tokens_MUT.size
        + (number * shape.strips + strip) * shape.length
        + (column + count)
      )
      layout.predictor_MC[predicted] = here - 1
      layout.predictor_MC[start] = layout.prompt_tokens_MUT[
        prompt, prompt_size - 1
      ]
      layout.target_MC[predicted] = row.tokens
      layout.predicted_MBT[at, count] = predicted
      packing.fill_row(rows, at, row)
      start += len(count)
      at += 1
  return layout, rows
