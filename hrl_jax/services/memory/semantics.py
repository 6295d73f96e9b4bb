"""The criteria of the whole bank by meaning: which are related to which.

Wordings of either sign are kept apart, since only criteria of the same sign
are ever related (H-53).
"""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from hrl_jax.harness import changes, retrieval, terms
from hrl_jax.services.memory import search, wordings

SIGNS = (1, -1)

# Texts that are looked at for each query before the filters, and how many
# times as many where these leave too few.
_LOOKED_AT = 32
_WIDER = 4

Embed = Callable[[Sequence[str]], Float[np.ndarray, "N D"]]

Candidates = Callable[
  [int, Float[np.ndarray, "Q D"], int], Sequence[Sequence[terms.Target]]
]
"""`candidates(sign, queries_QD, count)`: for each query about `count` texts,
nearly always the nearest, each by the wording that brought it."""


class Undone(NamedTuple):
  """Texts that were touched when updates were undone, by sign.

  Attributes:
    gone: texts that no wording has any more, by the one that brought them.
    kept: rows of the others.
  """

  gone: dict[int, list[terms.Target]]
  kept: dict[int, list[int]]


class Semantics:
  """The wordings of a bank, and what is near to those that were asked for."""

  def __init__(self, embed: Embed, *, top_k: int, floor: float):
    """Knows no wording yet.

    Args:
      embed: unit vectors of texts.
      top_k: hits of a query, at most.
      floor: cosine that a hit reaches.
    """
    self._embed = embed
    self._top_k = top_k
    self._floor = floor
    self._tables = {sign: wordings.Table() for sign in SIGNS}

  def __contains__(self, target: terms.Target) -> bool:
    return any(target in table for table in self._tables.values())

  def table(self, sign: int) -> wordings.Table:
    """The wordings of one sign."""
    return self._tables[sign]

  def rows(self, targets: Iterable[terms.Target]) -> dict[int, tuple[int, ...]]:
    """The rows of some wordings' texts, each once, by sign."""
    rows: dict[int, dict[int, None]] = {sign: {} for sign in SIGNS}
    for target in targets:
      sign, table = self._table_of(target)
      rows[sign][table.row(target)] = None
    return {sign: tuple(each) for sign, each in rows.items()}

  def entered(self, sign: int, rows: Sequence[int]) -> list[wordings.Text]:
    """Some texts as they are entered into an index."""
    return self._tables[sign].entered(rows)

  def add(self, made: Iterable[wordings.Wording]) -> None:
    """Adds wordings, all of them active."""
    made = list(made)
    for sign, table in self._tables.items():
      table.add(each for each in made if each.version.sign == sign)
      new = table.texts[len(table.vectors) :]
      if new:
        table.vectors.extend(self._embed(new))

  def apply(self, update: changes.Update) -> None:
    """Adds what an update made, and marks as inactive what it retired."""
    task = update.candidate.task
    self.add(wordings.Wording(task, version) for version in update.made)
    for target in update.retired:
      self._table_of(target)[1].retire(target)

  def undo(self, updates: Sequence[changes.Update]) -> Undone:
    """Makes it as before some updates, the last that were applied."""
    made = [version.target for each in updates for version in each.made]
    retired = [target for each in updates for target in each.retired]
    touched = [
      (sign, row, self._tables[sign].first(row)[0])
      for sign, rows in self.rows([*made, *retired]).items()
      for row in rows
    ]
    for update in reversed(updates):
      for target in update.retired:
        self._table_of(target)[1].restore(target)
      for version in reversed(update.made):
        self._tables[version.sign].remove(version.target)
    undone = Undone({sign: [] for sign in SIGNS}, {sign: [] for sign in SIGNS})
    for sign, row, target in touched:
      if row < len(self._tables[sign].texts):
        undone.kept[sign].append(row)
      else:
        undone.gone[sign].append(target)
    return undone

  def related(
    self,
    queries: Sequence[retrieval.Query],
    candidates: Candidates | None = None,
  ) -> tuple[tuple[retrieval.Hit, ...], ...]:
    """The hits of each query, nearest first, equally near ones by name.

    They are of other tasks, of the same sign and active now, and one for each
    lineage. A text that was asked for before is only compared with what is new
    since.

    Args:
      queries: in any number.
      candidates: finds what may be near; None to compare with every text.
    """
    hits: list[tuple[retrieval.Hit, ...]] = [()] * len(queries)
    for sign, table in self._tables.items():
      places = [i for i, query in enumerate(queries) if query.sign == sign]
      if places and table.texts:
        asked = [queries[place] for place in places]
        found = self._related(sign, asked, candidates)
        for place, each in zip(places, found, strict=True):
          hits[place] = each
    return tuple(hits)

  def _table_of(self, target: terms.Target) -> tuple[int, wordings.Table]:
    """The sign of a wording, and the table that has it."""
    return next(each for each in self._tables.items() if target in each[1])

  def _related(
    self,
    sign: int,
    queries: Sequence[retrieval.Query],
    candidates: Candidates | None,
  ) -> list[tuple[retrieval.Hit, ...]]:
    """The hits of queries of one sign, of which there are wordings."""
    table = self._tables[sign]
    texts = list(dict.fromkeys(query.text for query in queries))
    vectors = dict(zip(texts, self._embed(texts), strict=True))
    cold = [text for text in texts if text not in table.near]
    self._search(sign, cold, vectors, _LOOKED_AT, candidates)
    self._catch_up(table, vectors)
    found: list[tuple[retrieval.Hit, ...]] = [()] * len(queries)
    places, count = list(range(len(queries))), _LOOKED_AT
    while places:
      for place in places:
        query = queries[place]
        found[place] = table.hits(
          query, table.near[query.text], top_k=self._top_k, floor=self._floor
        )
      places = [
        place
        for place in places
        if not self._is_certain(found[place], table.near[queries[place].text])
      ]
      count *= _WIDER
      wider = list(dict.fromkeys(queries[place].text for place in places))
      self._search(sign, wider, vectors, count, candidates)
    return found

  def _is_certain(
    self, hits: Sequence[retrieval.Hit], near: search.Near
  ) -> bool:
    """Whether no text that was not looked at can be among the hits."""
    return near.bound == -np.inf or (
      len(hits) == self._top_k and hits[-1].similarity > near.bound
    )

  def _search(
    self,
    sign: int,
    texts: Sequence[str],
    vectors: dict[str, Float[np.ndarray, " D"]],
    count: int,
    candidates: Candidates | None,
  ) -> None:
    """Searches all texts of a sign for those that are near to some."""
    if not texts:
      return
    table = self._tables[sign]
    queries_QD = np.stack([vectors[text] for text in texts])
    # A graph may not reach every text: the few queries that ask for many are
    # compared with all.
    if candidates is None or count > _WIDER * _LOOKED_AT:
      count = min(count, len(table.texts))
      found = search.nearest(
        queries_QD, table.vectors, first=0, count=count, floor=self._floor
      )
    else:
      names = candidates(sign, queries_QD, count)
      rows = [table.rows_of(each) for each in names]
      found = search.rank(queries_QD, table.vectors, rows, floor=self._floor)
    table.near.update(zip(texts, found, strict=True))

  def _catch_up(
    self,
    table: wordings.Table,
    vectors: dict[str, Float[np.ndarray, " D"]],
  ) -> None:
    """Compares texts that were asked for before with what is new since."""
    behind: dict[int, list[str]] = {}
    for text in vectors:
      seen = table.near[text].seen
      if seen < len(table.vectors):
        behind.setdefault(seen, []).append(text)
    for seen, texts in behind.items():
      found = search.nearest(
        np.stack([vectors[text] for text in texts]),
        table.vectors,
        first=seen,
        count=_LOOKED_AT,
        floor=self._floor,
      )
      for text, near in zip(texts, found, strict=True):
        kept = max(_LOOKED_AT, len(table.near[text].rows))
        table.near[text] = search.join(table.near[text], near, kept)
