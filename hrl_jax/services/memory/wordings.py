"""The wordings of one sign, by text, and which of them are near to a query."""

import bisect
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from hrl_jax.harness import retrieval, terms
from hrl_jax.services.memory import search


class Wording(NamedTuple):
  """A criterion at one wording, and the task that it belongs to."""

  task: str
  version: terms.Version


class Text(NamedTuple):
  """A text as it is entered into an index.

  Attributes:
    target: the wording that brought it.
    task: of that wording.
    text: the statement.
    is_active: whether a rubric has it now.
    vector: its embedding.
  """

  target: terms.Target
  task: str
  text: str
  is_active: bool
  vector: Float[np.ndarray, " D"]


class Table:
  """The wordings of one sign, never erased, only marked inactive (H-55).

  Equal texts share a row, so a text that thousands of rubrics have in common
  is compared once.

  Attributes:
    texts: each once, in the order in which they came.
    vectors: of the texts.
    near: texts close to one that was asked for.
  """

  def __init__(self) -> None:
    self.texts: list[str] = []
    self.vectors = search.Vectors()
    self.near: dict[str, search.Near] = {}
    self._rows: dict[str, int] = {}
    # Of each text its wordings, in the order of their names.
    self._wordings: list[tuple[tuple[terms.Target, str], ...]] = []
    # The wording that brought it.
    self._first: list[tuple[terms.Target, str]] = []
    self._row_of: dict[terms.Target, int] = {}
    self._retired: set[terms.Target] = set()

  def __contains__(self, target: terms.Target) -> bool:
    return target in self._row_of

  def add(self, wordings: Iterable[Wording]) -> None:
    """Adds wordings; the vectors of new texts are the caller's to add."""
    for task, version in wordings:
      wording = (version.target, task)
      row = self._rows.setdefault(version.text, len(self.texts))
      if row == len(self.texts):
        self.texts.append(version.text)
        self._first.append(wording)
        self._wordings.append((wording,))
      else:
        shared = list(self._wordings[row])
        bisect.insort(shared, wording)
        self._wordings[row] = tuple(shared)
      self._row_of[version.target] = row

  def retire(self, target: terms.Target) -> None:
    """Marks a wording that is here as inactive."""
    self._retired.add(target)

  def restore(self, target: terms.Target) -> None:
    """Marks a wording as active again."""
    self._retired.remove(target)

  def remove(self, target: terms.Target) -> None:
    """Removes the last wording that was added, as if it had never been."""
    row = self._row_of.pop(target)
    self._wordings[row] = tuple(
      each for each in self._wordings[row] if each[0] != target
    )
    if not self._wordings[row]:
      del self._rows[self.texts.pop()]
      del self._first[row], self._wordings[row]
      self.vectors.truncate(row)
      # What is near to a text may name the row.
      self.near.clear()

  def row(self, target: terms.Target) -> int:
    """The row of a wording's text."""
    return self._row_of[target]

  def first(self, row: int) -> tuple[terms.Target, str]:
    """The wording that brought a text, and its task."""
    return self._first[row]

  def entered(self, rows: Sequence[int]) -> list[Text]:
    """Some texts as they are entered into an index."""
    if not rows:
      return []
    vectors_ND = self.vectors.take(np.array(rows))
    return [
      Text(*self._first[row], self.texts[row], self._is_active(row), vector_D)
      for row, vector_D in zip(rows, vectors_ND, strict=True)
    ]

  def rows_of(self, targets: Sequence[terms.Target]) -> Int[np.ndarray, " N"]:
    """The rows of some wordings' texts."""
    return np.array([self._row_of[target] for target in targets], np.int64)

  def hits(
    self, query: retrieval.Query, near: search.Near, *, top_k: int, floor: float
  ) -> tuple[retrieval.Hit, ...]:
    """The best wordings among the texts that are near to a query.

    They are of other tasks and active now; of each lineage the nearest;
    equally near ones in the order of their names.
    """
    found: list[retrieval.Hit] = []
    lineages: set[str] = set()
    last = np.inf
    for row, similarity in zip(
      near.rows.tolist(), near.similarities.tolist(), strict=True
    ):
      is_full = len(lineages) >= top_k and similarity < last
      if is_full or similarity < floor:
        break
      last = similarity
      hits = self._hits(query, row, similarity, top_k)
      found += hits
      lineages |= {hit.target[0] for hit in hits}
    found.sort(key=lambda hit: (-hit.similarity, hit.target))
    best: dict[str, retrieval.Hit] = {}
    for hit in found:
      best.setdefault(hit.target[0], hit)
    return tuple(best.values())[:top_k]

  def _is_active(self, row: int) -> bool:
    return any(target not in self._retired for target, _ in self._wordings[row])

  def _hits(
    self, query: retrieval.Query, row: int, similarity: float, top_k: int
  ) -> list[retrieval.Hit]:
    """The first wordings of a text, as many as can ever be needed.

    Of their lineages, fewer than `top_k` may have a nearer wording.
    """
    found: dict[str, retrieval.Hit] = {}
    for target, task in self._wordings[row]:
      if task != query.task and target not in self._retired:
        hit = retrieval.Hit(target, task, self.texts[row], similarity)
        found.setdefault(target[0], hit)
        if len(found) == 2 * top_k:
          break
    return list(found.values())
