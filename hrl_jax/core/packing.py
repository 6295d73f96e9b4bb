"""Batches: rollouts as arrays of few distinct shapes.

Two forms of the same rows. `core.shared_prompts` lays every distinct training
prompt out once, followed by blocks of the completions that continue it, all as
flat tokens without padding; `one_row` gives each rollout a padded row of its
own and is the reference. Loss and gradient are the same (tested).

Lengths are rounded up to buckets (`bucket`), so a run compiles a handful of
shapes. Everything here is numpy on the host; the arrays go to the device in
the jitted update.
"""

import functools
import itertools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from hrl_jax import batch


class Row(NamedTuple):
  """One line of a batch.

  Attributes:
    prompt: index of the training prompt.
    tokens: `[T]` int32 completion ids.
    sampler_logprobs: `[T]` float32, full-vocabulary log-probabilities that the
      engine reported, at the sampling temperature.
    rollout: index p * G + g of its rollout among the batch's groups.
  """

  prompt: int
  tokens: np.ndarray
  sampler_logprobs: np.ndarray
  rollout: int


def bucket(size: int, steps: int) -> int:
  """The smallest allowed length that holds `size`.

  Allowed are the numbers with `steps` values an octave, {steps ... 2 steps - 1}
  times a power of two, and everything up to `steps`: at most 1 / steps more
  than asked for.
  """
  if size <= steps:
    return max(size, 1)
  unit = 1 << (int(size - 1).bit_length() - steps.bit_length())
  return -(-size // unit) * unit


def one_row(
  prompts: Sequence[Sequence[int]],
  rows: Sequence[Row],
  *,
  num_groups: int,
  micro_batch_tokens: int,
  buckets_per_octave: int,
) -> batch.Batch:
  """Packs one padded row per rollout: the reference form.

  Args:
    prompts: token ids of the training prompts.
    rows: at least one row, each with at least one token.
    num_groups: see `batch.Batch`.
    micro_batch_tokens: padded tokens of a micro-batch, at least one row.
    buckets_per_octave: see `bucket`.

  Returns:
    The batch.

  Raises:
    ValueError: if there is no row, or an empty prompt or completion.
  """
  check(prompts, rows)
  held = functools.partial(bucket, steps=buckets_per_octave)
  prompt_length = held(max(len(prompts[row.prompt]) for row in rows))
  length = held(max(len(row.tokens) for row in rows))
  limit = max(1, micro_batch_tokens // (prompt_length + length))
  count = -(-len(rows) // limit)
  size = -(-len(rows) // count)
  prompt_ids = np.zeros((count, size, prompt_length), np.int32)
  prompt_mask = np.zeros(prompt_ids.shape, bool)
  completion_ids = np.zeros((count, size, length), np.int32)
  loss_rows = empty_rows((count, size), length)
  for index, row in enumerate(rows):
    at = divmod(index, size)
    start = prompt_length - len(prompts[row.prompt])
    prompt_ids[at][start:] = prompts[row.prompt]
    prompt_mask[at][start:] = True
    completion_ids[at][: len(row.tokens)] = row.tokens
    fill_row(loss_rows, at, row)
  layout = batch.OneRow(
    prompt_ids, prompt_mask, completion_ids, loss_rows.mask_MBT
  )
  return batch.Batch(loss_rows, layout, np.int32(num_groups))


def mini_batches(
  rows: Sequence[Row], *, num_groups: int, group_size: int, count: int
) -> list[tuple[list[Row], int]]:
  """Divides the groups of a step into `count` runs of them, in order.

  Args:
    rows: of all groups.
    num_groups: P.
    group_size: G.
    count: optimiser steps in one pass over the batch (H-27).

  Returns:
    The rows and the number of groups of each; those without rows are left out.
  """
  bounds = np.linspace(0, num_groups, count + 1).round().astype(int)
  parts = [
    (
      [row for row in rows if low <= row.rollout // group_size < high],
      high - low,
    )
    for low, high in itertools.pairwise(bounds)
  ]
  return [(part, int(groups)) for part, groups in parts if part]


def check(prompts: Sequence[Sequence[int]], rows: Sequence[Row]) -> None:
  """Refuses what no form can pack.

  Raises:
    ValueError: if there is no row, or an empty prompt or completion.
  """
  if not rows:
    raise ValueError("A batch needs at least one row, got none.")
  for index, row in enumerate(rows):
    if not len(row.tokens) or not len(prompts[row.prompt]):
      raise ValueError(
        "Every row needs a prompt and a completion of at least one token: row "
        f"{index} (rollout {row.rollout}) has {len(prompts[row.prompt])} and "
        f"{len(row.tokens)}. Leave such rollouts out of the batch."
      )


def empty_rows(shape: tuple[int, ...], length: int) -> batch.Rows:
  """Rows of padding, of any leading shape."""
  return batch.Rows(
    mask_MBT=np.zeros((*shape, length), bool),
    sampler_logprobs_MBT=np.zeros((*shape, length), np.float32),
    rollout_MB=np.zeros(shape, np.int32),
  )


def fill_row(rows: batch.Rows, at: int | tuple[int, int], row: Row) -> None:
  """Writes one row at a place of the leading axes."""
  length = len(row.tokens)
  rows.mask_MBT[at][:length] = True
  rows.sampler_logprobs_MBT[at][:length] = row.sampler_logprobs
  rows.rollout_MB[at] = row.rollout
