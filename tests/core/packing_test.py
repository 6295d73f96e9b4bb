import jax
import numpy as np
import pytest

from hrl_jax.core import packing, shared_prompts

PROMPTS = ((11, 12, 13), (21, 22))


def row(prompt, tokens, rollout):
  return packing.Row(
    prompt=prompt,
    tokens=np.array(tokens, np.int32),
    sampler_logprobs=-np.arange(1.0, len(tokens) + 1, dtype=np.float32),
    rollout=rollout,
  )


ROWS = (row(0, [1, 2], 0), row(1, [3], 1), row(0, [4, 5, 6], 2))


@pytest.mark.parametrize(
  ("size", "steps", "expected"),
  [
    (1, 8, 1),
    (8, 8, 8),
    (9, 8, 9),
    (17, 8, 18),
    (31, 8, 32),
    (2590, 8, 2816),
    (9, 4, 10),
    (65, 4, 80),
  ],
)
def test_bucket_by_hand(size, steps, expected):
  # Eight values an octave: 16, 18, ..., 30, 32; four: 8, 10, 12, 14, 16.
  assert packing.bucket(size, steps) == expected


def test_bucket_wastes_at_most_its_share_and_is_idempotent():
  for size in range(1, 5000):
    held = packing.bucket(size, 8)
    assert size <= held <= max(size, 8) * 1.125
    assert packing.bucket(held, 8) == held


def test_shared_prompts_by_hand():
  made = shared_prompts.pack(
    PROMPTS,
    ROWS,
    num_groups=2,
    block_rows=4,
    micro_batch_tokens=100,
    buckets_per_octave=64,
  )
  layout = made.layout
  # 5 prompt tokens, 6 completion tokens: with so many buckets no padding.
  prompt_row = np.split(layout.tokens_MF[0], [5])[0]
  assert sorted(prompt_row.tolist()) == [11, 12, 13, 21, 22]
  # Prompt 0 has more tokens with its block: it comes first.
  np.testing.assert_array_equal(
    layout.tokens_MF[0], [11, 12, 13, 21, 22, 1, 2, 4, 5, 6, 3]
  )
  np.testing.assert_array_equal(
    layout.positions_MF[0], [0, 1, 2, 0, 1, 3, 4, 3, 4, 5, 2]
  )
  np.testing.assert_array_equal(
    layout.prompt_tokens_MUT[0], [[0, 1, 2], [3, 4, 11]]
  )
  np.testing.assert_array_equal(
    layout.completion_tokens_MKRT[0],
    [[[7, 8, 9], [5, 6, 11]], [[10, 11, 11], [11, 11, 11]]],
  )
  np.testing.assert_array_equal(
    layout.member_MKRT[0], [[[1, 1, 1], [0, 0, 0]], [[0, 0, 0], [0, 0, 0]]]
  )
  np.testing.assert_array_equal(layout.prompt_MK[0], [0, 1])
  # Each completion token is predicted by the token before it; the first by
  # the last of its prompt.
  np.testing.assert_array_equal(layout.predictor_MC[0], [2, 5, 2, 7, 8, 4])
  np.testing.assert_array_equal(layout.target_MC[0], [1, 2, 4, 5, 6, 3])
  np.testing.assert_array_equal(
    layout.predicted_MBT[0], [[0, 1, 6], [2, 3, 4], [5, 6, 6]]
  )
  np.testing.assert_array_equal(made.rows.rollout_MB[0], [0, 2, 1])
  np.testing.assert_array_equal(
    made.rows.sampler_logprobs_MBT[0],
    [[-1, -2, 0], [-1, -2, -3], [-1, 0, 0]],
  )


def test_short_completions_share_a_strip_by_hand():
  made = shared_prompts.pack(
    PROMPTS,
    (row(0, [1, 2], 0), row(0, [7], 1), row(0, [4, 5, 6], 2)),
    num_groups=1,
    block_rows=4,
    micro_batch_tokens=100,
    buckets_per_octave=64,
  )
  layout = made.layout
  np.testing.assert_array_equal(
    layout.tokens_MF[0], [11, 12, 13, 1, 2, 7, 4, 5, 6]
  )
  # The longest has a strip of its own, the two others fill the second.
  np.testing.assert_array_equal(
    layout.completion_tokens_MKRT[0], [[[6, 7, 8], [3, 4, 5]]]
  )
  np.testing.assert_array_equal(layout.member_MKRT[0], [[[2, 2, 2], [0, 0, 1]]])
  # Places count through the three of the prompt first.
  np.testing.assert_array_equal(layout.place_MF[0], [0, 1, 2, 6, 7, 8, 3, 4, 5])
  np.testing.assert_array_equal(
    layout.predicted_MBT[0], [[0, 1, 6], [2, 6, 6], [3, 4, 5]]
  )


def test_shapes_are_few_and_hold_everything():
  # Four prompts of 55 to 81 tokens, 32 completions of up to 48 tokens.
  rng = np.random.default_rng(0)
  shapes = set()
  for _ in range(200):
    prompts = [range(n) for n in rng.integers(55, 82, 4)]
    rows = [row(i // 8, [1] * n, i) for i, n in enumerate(_lengths(rng))]
    made = shared_prompts.pack(
      prompts,
      rows,
      num_groups=4,
      block_rows=8,
      micro_batch_tokens=2048,
      buckets_per_octave=4,
    )
    real = sum(map(len, prompts)) + sum(len(r.tokens) for r in rows)
    assert real <= made.layout.tokens_MF.size <= real * 1.25
    assert made.rows.mask_MBT.sum() == sum(len(r.tokens) for r in rows)
    shapes.add(tuple(array.shape for array in jax.tree.leaves(made)))
  assert len(shapes) <= 200 / 10, shapes


def _lengths(rng):
  return rng.integers(10, rng.integers(24, 49), 32)


def test_place_is_the_inverse_of_the_rows():
  layout = shared_prompts.pack(
    PROMPTS,
    ROWS,
    num_groups=2,
    block_rows=4,
    micro_batch_tokens=100,
    buckets_per_octave=64,
  ).layout
  source = np.concatenate(
    [layout.prompt_tokens_MUT[0].ravel(), layout.completion_tokens_MKRT.ravel()]
  )
  flat = layout.tokens_MF.shape[1]
  for token, place in enumerate(layout.place_MF[0]):
    if place < len(source):
      assert source[place] == token
  assert np.sum(source < flat) == np.sum(layout.place_MF[0] < len(source)) == 11


@pytest.mark.parametrize("micro_batch_tokens", [1, 5, 8, 100])
def test_every_row_is_in_exactly_one_micro_batch(micro_batch_tokens):
  for made in (
    shared_prompts.pack(
      PROMPTS,
      ROWS,
      num_groups=2,
      block_rows=1,
      micro_batch_tokens=micro_batch_tokens,
      buckets_per_octave=64,
    ),
    packing.one_row(
      PROMPTS,
      ROWS,
      num_groups=2,
      micro_batch_tokens=micro_batch_tokens,
      buckets_per_octave=64,
    ),
  ):
    real_MB = made.rows.mask_MBT.any(axis=2)
    assert sorted(made.rows.rollout_MB[real_MB].tolist()) == [0, 1, 2]
    assert made.rows.mask_MBT.sum() == 6


def test_one_row_by_hand():
  made = packing.one_row(
    PROMPTS, ROWS, num_groups=2, micro_batch_tokens=12, buckets_per_octave=64
  )
  # Rows of 3 + 3 places: two in a micro-batch.
  np.testing.assert_array_equal(
    made.layout.prompts_MBT,
    [[[11, 12, 13], [0, 21, 22]], [[11, 12, 13], [0, 0, 0]]],
  )
  np.testing.assert_array_equal(
    made.layout.completions_MBT,
    [[[1, 2, 0], [3, 0, 0]], [[4, 5, 6], [0, 0, 0]]],
  )
  assert made.layout.prompt_mask_MBT.sum() == 8


def test_mini_batches_keep_whole_groups_in_order():
  # Five groups of two; groups 0..1, 2..3 (rounded) and so on, empty ones gone.
  rows = [row(0, [1], rollout) for rollout in (0, 1, 2, 3, 8, 9)]
  parts = packing.mini_batches(rows, num_groups=5, group_size=2, count=2)
  assert [[r.rollout for r in part] for part, _ in parts] == [
    [0, 1, 2, 3],
    [8, 9],
  ]
  assert [groups for _, groups in parts] == [2, 3]
  whole = packing.mini_batches(rows, num_groups=5, group_size=2, count=1)
  assert [groups for _, groups in whole] == [5]


@pytest.mark.parametrize(
  ("prompts", "rows", "message"),
  [
    (PROMPTS, (), "at least one row"),
    (PROMPTS, (row(0, [], 3),), "rollout 3"),
    (((),), (row(0, [1], 0),), "prompt and a completion"),
  ],
)
def test_what_cannot_be_packed_is_refused(prompts, rows, message):
  with pytest.raises(ValueError, match=message):
    packing.one_row(
      prompts, rows, num_groups=1, micro_batch_tokens=10, buckets_per_octave=64
    )
