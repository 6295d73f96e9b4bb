import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hrl_jax.services.memory import search
from tests.services.memory import things


def stored(vectors_ND):
  vectors = search.Vectors()
  vectors.extend(vectors_ND)
  return vectors


def brute_force(query_D, vectors_ND, count, floor):
  """The nearest rows, by sums that are rounded once."""
  exact = [
    math.fsum(np.multiply(query_D, row, dtype=float)) for row in vectors_ND
  ]
  order = sorted(range(len(exact)), key=lambda row: (-exact[row], row))
  return [row for row in order if exact[row] >= floor][:count]


def test_the_cosine_of_exact_numbers_is_exact():
  # (3, 4) / 5 and (4, 3) / 5: 24 / 25; a vector with itself and its opposite.
  left = np.array([[0.6, 0.8], [0.6, 0.8], [1, 0]], np.float32)
  right = np.array([[0.8, 0.6], [0.6, 0.8], [-1, 0]], np.float32)
  np.testing.assert_allclose(
    search.cosines(left, right), [0.96, 1, -1], rtol=1e-7
  )


@pytest.mark.parametrize("dimension", [1, 2, 3, 7, 64, 100, 768])
def test_cosines_agree_with_a_sum_that_is_rounded_once(dimension):
  left, right = things.points(20, dimension), things.points(20, dimension, 1)
  expected = [
    math.fsum(np.multiply(a, b, dtype=float))
    for a, b in zip(left, right, strict=True)
  ]
  np.testing.assert_allclose(
    search.cosines(left, right), np.clip(expected, -1, 1), rtol=0, atol=1e-15
  )


def test_cosines_do_not_depend_on_what_is_computed_beside_them():
  left, right = things.points(9000, 8), things.points(9000, 8, 1)
  together = search.cosines(left, right)
  for chosen in ([0], [8999], slice(5, 8700), slice(0, 9000, 7)):
    np.testing.assert_array_equal(
      search.cosines(left[chosen], right[chosen]), together[chosen]
    )


def test_a_cosine_is_at_most_one():
  row = np.full((1, 3), np.float32(0.57735032))
  # 3 * 0.57735032 ** 2 is a little more than 1.
  assert search.cosines(row, row)[0] == 1.0


@given(
  count=st.integers(1, 40),
  floor=st.sampled_from([-1.0, 0.0, 0.7, 0.95, 1.0]),
  seed=st.integers(0, 5),
)
def test_nearest_is_brute_force(count, floor, seed):
  vectors_ND = things.points(300, 16, seed)
  queries_QD = things.points(7, 16, seed + 10)
  found = search.nearest(
    queries_QD, stored(vectors_ND), first=0, count=count, floor=floor
  )
  for query_D, near in zip(queries_QD, found, strict=True):
    expected = brute_force(query_D, vectors_ND, count, floor)
    reached = near.similarities >= floor
    assert near.rows[reached][:count].tolist() == expected
    assert near.seen == 300
    if near.bound > -np.inf:
      # What is not here is not above the bound.
      missing = np.setdiff1d(np.arange(300), near.rows)
      assert (vectors_ND[missing] @ query_D).max() <= near.bound
      assert sum(near.similarities > near.bound) >= count - 1


def test_nearest_of_more_blocks_and_chunks_than_one(monkeypatch):
  vectors_ND, queries_QD = things.points(500, 16), things.points(30, 16, 1)
  whole = search.nearest(
    queries_QD, stored(vectors_ND), first=0, count=5, floor=0.2
  )
  monkeypatch.setattr(search, "_BLOCK_ROWS", 64)
  monkeypatch.setattr(search, "_QUERIES", 7)
  monkeypatch.setattr(search, "_PAIRS", 11)
  parts = search.nearest(
    queries_QD, stored(vectors_ND), first=0, count=5, floor=0.2
  )
  for one, other in zip(whole, parts, strict=True):
    assert one.rows[:5].tolist() == other.rows[:5].tolist()
    assert one.similarities[:5].tolist() == other.similarities[:5].tolist()


def test_what_is_found_does_not_depend_on_what_is_asked_beside_it():
  vectors = stored(things.points(2000, 768))
  queries_QD = things.points(65, 768, 1)
  together = search.nearest(queries_QD, vectors, first=0, count=4, floor=-1.0)
  for index in (0, 13, 64):
    (alone,) = search.nearest(
      queries_QD[index : index + 1], vectors, first=0, count=4, floor=-1.0
    )
    beside = together[index]
    assert alone.rows[:4].tolist() == beside.rows[:4].tolist()
    assert alone.similarities[:4].tobytes() == beside.similarities[:4].tobytes()


def test_equal_vectors_come_in_the_order_of_their_rows():
  vectors_ND = np.repeat(things.points(3, 16, per_topic=1), 4, axis=0)
  (near,) = search.nearest(
    vectors_ND[4:5], stored(vectors_ND), first=0, count=2, floor=0.9
  )
  # All that tie are there, so that others may decide between them.
  assert near.rows.tolist() == [4, 5, 6, 7]
  assert len(set(near.similarities.tolist())) == 1


def test_nothing_before_the_first_row_is_looked_at():
  vectors_ND = things.points(100, 16)
  (near,) = search.nearest(
    vectors_ND[:1], stored(vectors_ND), first=60, count=200, floor=-1.0
  )
  assert sorted(near.rows.tolist()) == list(range(60, 100))


def test_vectors_added_in_parts_are_those_added_at_once(monkeypatch):
  monkeypatch.setattr(search, "_BLOCK_ROWS", 8)
  vectors_ND = things.points(50, 4)
  vectors = search.Vectors()
  for start, end in ((0, 3), (3, 8), (8, 9), (9, 41), (41, 50)):
    vectors.extend(vectors_ND[start:end])
  assert len(vectors) == 50
  rows = np.array([49, 0, 8, 7, 8])
  np.testing.assert_array_equal(vectors.take(rows), vectors_ND[rows])
  for first in (0, 5, 8, 49):
    starts, blocks = zip(*vectors.blocks(first), strict=True)
    assert starts[0] == first
    np.testing.assert_array_equal(np.concatenate(blocks), vectors_ND[first:])
  assert not list(vectors.blocks(50))


@given(
  split=st.integers(0, 200), count=st.integers(1, 30), seed=st.integers(0, 3)
)
def test_what_was_near_joined_with_what_is_new_is_a_new_search(
  split, count, seed
):
  vectors_ND, floor = things.points(200, 16, seed), 0.1
  queries_QD = things.points(3, 16, seed + 20)
  old = search.nearest(
    queries_QD, stored(vectors_ND[:split]), first=0, count=count, floor=floor
  )
  vectors = stored(vectors_ND)
  new = search.nearest(
    queries_QD, vectors, first=split, count=count, floor=floor
  )
  both = search.nearest(queries_QD, vectors, first=0, count=count, floor=floor)
  for before, since, fresh in zip(old, new, both, strict=True):
    joined = search.join(before, since, count)
    reached = sum(fresh.similarities >= floor)
    kept = min(count, reached)
    assert joined.rows[:kept].tolist() == fresh.rows[:kept].tolist()
    assert joined.seen == 200
    # Whatever is above its bound is in it.
    above = fresh.rows[fresh.similarities > max(joined.bound, floor)]
    assert set(above.tolist()) <= set(joined.rows.tolist())


def test_a_join_keeps_those_that_tie_with_the_last():
  old = search.Near(np.array([4, 1]), np.array([0.9, 0.5]), -np.inf, 5)
  new = search.Near(np.array([7, 6]), np.array([0.5, 0.3]), -np.inf, 8)
  joined = search.join(old, new, 2)
  assert joined.rows.tolist() == [4, 1, 7]
  # 0.3 was left out.
  assert joined.bound == 0.3


def test_candidates_are_ranked_by_exact_cosine():
  vectors_ND = things.points(200, 16)
  queries_QD = things.points(5, 16, 1)
  rng = np.random.default_rng(0)
  candidates = [rng.choice(200, 20, replace=False) for _ in queries_QD]
  found = search.rank(queries_QD, stored(vectors_ND), candidates, floor=-1.0)
  for query_D, rows, near in zip(queries_QD, candidates, found, strict=True):
    expected = brute_force(query_D, vectors_ND[rows], 20, -1.0)
    assert near.rows.tolist() == rows[expected].tolist()
    # Anything nearer than the last of them would have been a candidate.
    assert near.bound == pytest.approx(near.similarities[-1], abs=1e-6)


def test_candidates_below_the_floor_show_that_there_are_no_more():
  vectors_ND = np.eye(4, dtype=np.float32)
  query_D = np.array([[0.8, 0.6, 0, 0]], np.float32)
  (near,) = search.rank(
    query_D, stored(vectors_ND), [np.array([1, 0, 2])], floor=0.7
  )
  assert near.rows.tolist() == [0]
  assert near.bound == -np.inf


def test_candidates_that_are_all_there_is_leave_nothing_open():
  vectors_ND = things.points(6, 16)
  (near,) = search.rank(
    vectors_ND[:1], stored(vectors_ND), [np.arange(6)], floor=-1.0
  )
  assert near.bound == -np.inf
