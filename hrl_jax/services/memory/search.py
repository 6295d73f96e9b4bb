"""The nearest vectors by exact cosine, the same whatever is asked together.

A float32 product of matrices adds up in an order that depends on the shapes,
so its last bits depend on how many queries are asked at once. It only picks
candidates, with a margin that no rounding exceeds; what counts are products
that are exact in float64, added in one fixed order.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

# Rows of a block: with 768 numbers each, 25 MB.
_BLOCK_ROWS = 8192
# Queries whose products with a block are held at once: 16 MB.
_QUERIES = 512
# Pairs whose float64 products are held at once: 50 MB of 768 numbers each.
_PAIRS = 8192


class Near(NamedTuple):
  """Vectors close to a query, nearest first.

  Attributes:
    rows: of the vectors.
    similarities: cosine of each.
    bound: every vector of a cosine above it is here; -inf if every one that
      reaches the floor is.
    seen: vectors that were there when this was found.
  """

  rows: Int[np.ndarray, " K"]
  similarities: Float[np.ndarray, " K"]
  bound: float
  seen: int


class Vectors:
  """Unit vectors that only grow in number, in blocks that never move."""

  def __init__(self) -> None:
    self._blocks: list[np.ndarray] = []
    self._count = 0

  def __len__(self) -> int:
    return self._count

  def extend(self, vectors_ND: Float[np.ndarray, "N D"]) -> None:
    """Adds vectors; their rows count on from those that are there."""
    while len(vectors_ND):
      used = self._count % _BLOCK_ROWS
      if not used:
        shape = (_BLOCK_ROWS, vectors_ND.shape[1])
        self._blocks.append(np.empty(shape, np.float32))
      taken = vectors_ND[: _BLOCK_ROWS - used]
      self._blocks[-1][used : used + len(taken)] = taken
      self._count += len(taken)
      vectors_ND = vectors_ND[len(taken) :]

  def truncate(self, count: int) -> None:
    """Removes all but the first vectors."""
    self._count = count
    del self._blocks[-(-count // _BLOCK_ROWS) :]

  def take(self, rows: Int[np.ndarray, " N"]) -> Float[np.ndarray, "N D"]:
    """The vectors of some rows, at least one."""
    taken_ND = np.empty((len(rows), self._blocks[0].shape[1]), np.float32)
    blocks, places = np.divmod(rows, _BLOCK_ROWS)
    for block in np.unique(blocks):
      chosen = blocks == block
      taken_ND[chosen] = self._blocks[block][places[chosen]]
    return taken_ND

  def blocks(self, first: int) -> Iterator[tuple[int, np.ndarray]]:
    """Yields the vectors from a row on, as views, with their first row."""
    for index in range(first // _BLOCK_ROWS, len(self._blocks)):
      start = index * _BLOCK_ROWS
      skipped = max(first - start, 0)
      vectors_RD = self._blocks[index][skipped : self._count - start]
      if len(vectors_RD):
        yield start + skipped, vectors_RD


def cosines(
  left_ND: Float[np.ndarray, "N D"], right_ND: Float[np.ndarray, "N D"]
) -> Float[np.ndarray, " N"]:
  """Cosine of each pair of unit vectors, at most 1 in size.

  Products of float32 numbers are exact in float64, and halves are added to
  halves: one order of additions, whatever the machine and the number of pairs.
  """
  result_N = np.empty(len(left_ND))
  for start in range(0, len(left_ND), _PAIRS):
    chosen = slice(start, start + _PAIRS)
    sums_ND = left_ND[chosen].astype(np.float64) * right_ND[chosen]
    while (width := sums_ND.shape[1]) > 1:
      half = (width + 1) // 2
      sums_ND[:, : width - half] += sums_ND[:, half:]
      sums_ND = sums_ND[:, :half]
    result_N[chosen] = sums_ND[:, 0]
  return np.clip(result_N, -1.0, 1.0)


def nearest(
  queries_QD: Float[np.ndarray, "Q D"],
  vectors: Vectors,
  *,
  first: int,
  count: int,
  floor: float,
) -> list[Near]:
  """The vectors nearest to each query among those from a row on.

  Args:
    queries_QD: unit vectors.
    vectors: that are searched.
    first: row before which nothing is looked at.
    count: that are to be found for each query, where so many reach the floor.
      Those that tie with the last, or nearly so, come with it.
    floor: cosine below which nothing is wanted.
  """
  found = []
  for start in range(0, len(queries_QD), _QUERIES):
    chunk_QD = queries_QD[start : start + _QUERIES]
    found += _nearest(chunk_QD, vectors, first, count, floor)
  return found


def rank(
  queries_QD: Float[np.ndarray, "Q D"],
  vectors: Vectors,
  candidates: Sequence[Int[np.ndarray, " _"]],
  *,
  floor: float,
) -> list[Near]:
  """Some vectors by exact cosine, as if no other could be nearer than they.

  Args:
    queries_QD: unit vectors.
    vectors: that `candidates` are rows of.
    candidates: of each query; no other vector is nearer than all of them.
    floor: cosine below which nothing is wanted.
  """
  margin = _margin(queries_QD)
  query_N = np.repeat(np.arange(len(candidates)), list(map(len, candidates)))
  row_N = np.concatenate([np.zeros(0, np.int64), *candidates])
  rough_N = np.empty(len(row_N))
  for start in range(0, len(row_N), _PAIRS):
    chosen = slice(start, start + _PAIRS)
    rough_N[chosen] = np.einsum(
      "nd,nd->n", queries_QD[query_N[chosen]], vectors.take(row_N[chosen])
    )
  lowest_Q = np.full(len(candidates), np.inf)
  np.minimum.at(lowest_Q, query_N, rough_N)
  kept_N = rough_N >= floor - margin
  # One candidate below the floor shows that no other can reach it.
  bounds_Q = np.where(lowest_Q < floor - margin, -np.inf, lowest_Q)
  bounds_Q[[len(rows) == len(vectors) for rows in candidates]] = -np.inf
  return _gather(queries_QD, vectors, query_N[kept_N], row_N[kept_N], bounds_Q)


def join(old: Near, new: Near, count: int) -> Near:
  """What was near, and what came nearer since.

  Args:
    old: of the vectors up to a row.
    new: of those from that row on.
    count: to keep, with all that tie with the last.
  """
  rows = np.concatenate([old.rows, new.rows])
  similarities = np.concatenate([old.similarities, new.similarities])
  order = np.lexsort((rows, -similarities))
  rows, similarities = rows[order], similarities[order]
  bound = max(old.bound, new.bound)
  if len(rows) > count:
    kept = int(np.sum(similarities >= similarities[count - 1]))
    if kept < len(rows):
      bound = max(bound, float(similarities[kept]))
    rows, similarities = rows[:kept], similarities[:kept]
  return Near(rows, similarities, bound, new.seen)


def _margin(queries_QD: Float[np.ndarray, "Q D"]) -> float:
  """More than the float32 product of two unit vectors can be wrong by.

  Adding D products in any order errs by at most D times half the spacing of
  float32 numbers at 1 (Higham, Accuracy and Stability, section 3.1); twice
  that also covers vectors whose length is 1 in float32 only.
  """
  return (queries_QD.shape[1] + 16) * 2.0**-23


def _nearest(
  queries_QD: Float[np.ndarray, "Q D"],
  vectors: Vectors,
  first: int,
  count: int,
  floor: float,
) -> list[Near]:
  margin = _margin(queries_QD)
  # Below it, a float32 product is of no interest any more.
  lowest_Q = np.full(len(queries_QD), floor - margin, np.float32)
  best_QK = np.full((len(queries_QD), count), -np.inf, np.float32)
  queries, rows, products = [], [], []
  for start, vectors_RD in vectors.blocks(first):
    products_QR = queries_QD @ vectors_RD.T
    if np.count_nonzero(products_QR >= lowest_Q[:, None]) > best_QK.size:
      best_QK = _best(best_QK, products_QR)
      lowest_Q = np.maximum(lowest_Q, best_QK[:, 0] - np.float32(2 * margin))
    query_N, place_N = np.nonzero(products_QR >= lowest_Q[:, None])
    queries.append(query_N)
    rows.append(place_N + start)
    products.append(products_QR[query_N, place_N])
  if not rows:
    queries, rows, products = [np.zeros(0, int)], [np.zeros(0, int)], [[]]
  query_N, row_N = np.concatenate(queries), np.concatenate(rows)
  kept_N = np.concatenate(products) >= lowest_Q[query_N]
  is_cut_Q = lowest_Q > np.float32(floor - margin)
  bounds_Q = np.where(is_cut_Q, lowest_Q.astype(float) + margin, -np.inf)
  return _gather(queries_QD, vectors, query_N[kept_N], row_N[kept_N], bounds_Q)


def _best(
  best_QK: Float[np.ndarray, "Q K"], products_QR: Float[np.ndarray, "Q R"]
) -> Float[np.ndarray, "Q K"]:
  """The greatest K of both, the smallest of them first."""
  count = best_QK.shape[1]
  both = np.concatenate([best_QK, products_QR], axis=1)
  greatest_QK = np.partition(both, both.shape[1] - count, axis=1)[:, -count:]
  return np.sort(greatest_QK, axis=1)


def _gather(
  queries_QD: Float[np.ndarray, "Q D"],
  vectors: Vectors,
  query_N: Int[np.ndarray, " N"],
  row_N: Int[np.ndarray, " N"],
  bounds_Q: Float[np.ndarray, " Q"],
) -> list[Near]:
  """Candidates by query, nearest first, equally near ones by row."""
  similarities_N = np.empty(len(row_N))
  for start in range(0, len(row_N), _PAIRS):
    chosen = slice(start, start + _PAIRS)
    similarities_N[chosen] = cosines(
      queries_QD[query_N[chosen]], vectors.take(row_N[chosen])
    )
  order_N = np.lexsort((row_N, -similarities_N, query_N))
  row_N, similarities_N = row_N[order_N], similarities_N[order_N]
  ends_Q = np.cumsum(np.bincount(query_N, minlength=len(queries_QD)))
  starts_Q = np.concatenate([[0], ends_Q[:-1]])
  return [
    Near(
      row_N[start:end], similarities_N[start:end], float(bound), len(vectors)
    )
    for start, end, bound in zip(starts_Q, ends_Q, bounds_Q, strict=True)
  ]
