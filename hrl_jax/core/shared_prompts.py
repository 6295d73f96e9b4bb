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
  prompts: int
  prompt_length: int
  blocks: int
  block_rows: int
  length: int
  prompt_tokens: int
  completion_tokens: int


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
  """The packing.bucketed shape that holds every micro-batch."""
  tables = [_prompts_of(part) for part in parts]
  lengths = [[len(prompts[prompt]) for prompt in table] for table in tables]
  sizes = [
    [len(row.tokens) for block in part for row in block] for part in parts
  ]
  held = functools.partial(packing.bucket, steps=buckets_per_octave)
  # Prompts are the smaller part of most batches: coarser buckets for them
  # waste little and save many shapes.
  coarse = functools.partial(
    packing.bucket, steps=max(1, buckets_per_octave // 4)
  )
  return _Shape(
    prompts=max(map(len, tables)),
    prompt_length=coarse(max(map(max, lengths))),
    blocks=max(map(len, parts)),
    block_rows=max(len(block) for part in parts for block in part),
    length=held(max(map(max, sizes))),
    prompt_tokens=coarse(max(map(sum, lengths))),
    completion_tokens=held(max(map(sum, sizes))),
  )


def _pack(
  prompts: Sequence[Sequence[int]], blocks: Sequence[Block], shape: _Shape
) -> tuple[batch.SharedPrompts, batch.Rows]:
  """One micro-batch; see `SharedPrompts` for what each array means."""
  flat = shape.prompt_tokens + shape.completion_tokens
  num_rows = shape.blocks * shape.block_rows
  prompt_places = shape.prompts * shape.prompt_length
  tokens = np.zeros(flat, np.int32)
  positions = np.zeros(flat, np.int32)
  place = np.full(flat, prompt_places + num_rows * shape.length, np.int32)
  prompt_tokens = np.full((shape.prompts, shape.prompt_length), flat, np.int32)
  completion_tokens = np.full((num_rows, shape.length), flat, np.int32)
  prompt_of_block = np.zeros(shape.blocks, np.int32)
  predictor = np.zeros(shape.completion_tokens, np.int32)
  target = np.zeros(shape.completion_tokens, np.int32)
  predicted = np.full(
    (num_rows, shape.length), shape.completion_tokens, np.int32
  )
  rows = packing.empty_rows((num_rows,), shape.length)

  table = _prompts_of(blocks)
  start = 0
  for index, prompt in enumerate(table):
    here = np.arange(start, start + len(prompts[prompt]))
    tokens[here] = prompts[prompt]
    positions[here] = here - start
    prompt_tokens[index, : len(here)] = here
    place[here] = index * shape.prompt_length + here - start
    start += len(here)
  start = 0
  for number, block in enumerate(blocks):
    prompt = table.index(block[0].prompt)
    prompt_of_block[number] = prompt
    prompt_size = len(prompts[block[0].prompt])
    for member, row in enumerate(block):
      at = number * shape.block_rows + member
      count = np.arange(len(row.tokens))
      here = shape.prompt_tokens + start + count
      tokens[here] = row.tokens
      positions[here] = prompt_size + count
      completion_tokens[at, : len(count)] = here
      place[here] = prompt_places + at * shape.length + count
      predictor[start + count] = here - 1
      predictor[start] = prompt_tokens[prompt, prompt_size - 1]
      target[start + count] = row.tokens
      predicted[at, : len(count)] = start + count
      packing.fill_row(rows, at, row)
      start += len(count)
  layout = batch.SharedPrompts(
    tokens,
    positions,
    prompt_tokens,
    completion_tokens.reshape(shape.blocks, shape.block_rows, shape.length),
    prompt_of_block,
    place,
    predictor,
    target,
    predicted,
  )
  return layout, rows
