import numpy as np
import pytest

from hrl_jax.rollout import shapes


def test_counts_round_up_by_at_most_half():
  rounded = [shapes.round_up_count(count) for count in range(1, 17)]
  assert rounded == [1, 2, 3, 4, 6, 6, 8, 8, 12, 12, 12, 12, 16, 16, 16, 16]


def test_lengths_round_up_to_sixteenths_and_then_to_eighths():
  expected = {1: 16, 16: 16, 17: 32, 100: 112, 128: 128, 129: 160, 500: 512}
  rounded = {length: shapes.round_up_length(length) for length in expected}
  assert rounded == expected


@pytest.mark.core
def test_even_groups_fill_wide_blocks():
  blocks = shapes.pack([[0, 1, 2], [3, 4, 5], [6, 7, 8]], group_size=3)
  np.testing.assert_array_equal(
    blocks.places_KR, [[0, 1, 2], [3, 4, 5], [6, 7, 8]]
  )
  np.testing.assert_array_equal(blocks.prompt_K, [0, 1, 2])


def test_widths_are_powers_of_two_unless_a_group_size_is_given():
  # Width 1 needs 9 blocks, rounded up to 12; width 2 six, and is wider.
  blocks = shapes.pack([[0, 1, 2], [3, 4, 5], [6, 7, 8]])
  np.testing.assert_array_equal(
    blocks.places_KR, [[0, 1], [2, -1], [3, 4], [5, -1], [6, 7], [8, -1]]
  )


def test_uneven_groups_come_in_narrow_blocks_with_fewer_empty_places():
  # Width 4 would need 3 blocks, 12 places; width 2 needs 4 blocks, 8 places;
  # width 1 needs 6 of them, which is fewer still.
  blocks = shapes.pack([[10, 11, 12, 13], [14], [15]])
  np.testing.assert_array_equal(
    blocks.places_KR, [[10], [11], [12], [13], [14], [15]]
  )
  np.testing.assert_array_equal(blocks.prompt_K, [0, 0, 0, 0, 1, 2])


def test_of_layouts_with_as_many_places_the_wider_wins():
  # Width 4: one block of 4. Width 1: four. A prompt without rows has none.
  blocks = shapes.pack([[], [5, 6, 7, 8]])
  np.testing.assert_array_equal(blocks.places_KR, [[5, 6, 7, 8]])
  np.testing.assert_array_equal(blocks.prompt_K, [1])


@pytest.mark.parametrize("seed", range(5))
def test_every_row_has_one_place_in_a_block_of_its_prompt(seed):
  counts = np.random.default_rng(seed).integers(0, 9, 7)
  counts[seed] += 1
  parts = np.split(np.arange(counts.sum()), np.cumsum(counts)[:-1])
  ids = [part.tolist() for part in parts]
  blocks = shapes.pack(ids)
  is_row_KR = blocks.places_KR >= 0
  assert sorted(blocks.places_KR[is_row_KR]) == list(range(counts.sum()))
  for place, prompt in zip(blocks.places_KR, blocks.prompt_K, strict=True):
    assert set(place[place >= 0]) <= set(ids[prompt])


def test_batches_keep_groups_together_and_like_lengths_too():
  groups = [((1,) * 9, [0, 1, 2]), ((1,) * 2, [3, 4]), ((1,) * 8, [5, 6, 7])]
  batches = list(shapes.batches(groups, max_rows=5))
  assert [[ids for _, ids in batch] for batch in batches] == [
    [[3, 4], [5, 6, 7]],
    [[0, 1, 2]],
  ]


def test_a_group_larger_than_a_batch_is_divided():
  batches = list(shapes.batches([((1,), list(range(5)))], max_rows=2))
  assert [[ids for _, ids in batch] for batch in batches] == [
    [[0, 1]],
    [[2, 3]],
    [[4]],
  ]
