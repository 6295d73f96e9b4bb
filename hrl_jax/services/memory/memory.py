"""The memory of a run's harness: what was seen, tried and decided (H-50).

  log.jsonl          every record, in order: the truth
  embeddings-*.f32   the vector of every text that was ever embedded
  index/             ChromaDB: the history of every task, and every text of a
                     criterion by meaning; computed from the two above

A folder is open in one process at a time.
"""

import contextlib
import functools
import os
import pathlib
from collections.abc import Iterable, Sequence
from typing import Literal

import numpy as np

from hrl_jax.harness import changes, history, records, retrieval, terms
from hrl_jax.services.memory import embedder as embedders
from hrl_jax.services.memory import (
  embedding_cache,
  index,
  log,
  marker,
  search,
  semantics,
  wordings,
)

# Whole groups that need not be read again: examples of related criteria.
_RECENT_GROUPS = 1024


class Memory(contextlib.AbstractContextManager):
  """Remembers by task and by meaning; a context manager.

  Attributes:
    name: of the log among a run's files.
  """

  name = "memory/log.jsonl"

  def __init__(
    self,
    folder: str | os.PathLike[str],
    bank_hash: str,
    seeds: Sequence[tuple[str, Sequence[terms.Version]]],
    embedder: embedders.Embedder,
    *,
    top_k: int = 4,
    floor: float,
    search: Literal["exact", "approximate"],
  ):
    """Opens the folder, which is made if it is not there.

    The whole log is read, and an index that is not of this log, bank and
    embedder is brought up to date or built anew, which is logged.

    Args:
      folder: of the memory alone.
      bank_hash: of the tasks.
      seeds: every task of the bank and the criteria of its seed rubric.
      embedder: of the criteria's texts.
      top_k: hits of a query, at most (H-53).
      floor: cosine that a hit reaches; each embedder has its own, see
        `calibration`.
      search: "exact" compares with every text, the same bits on every start;
        "approximate" asks ChromaDB's graph for what may be near, so a few of
        a thousand hits are missed, but the time hardly grows with the bank.

    Raises:
      ValueError: if another process has the folder open, its log is of another
        bank or damaged, the seeds contradict themselves, or an argument is
        out of range.
      OSError: if it cannot be written.
    """
    if top_k < 1 or not -1 <= floor <= 1:
      raise ValueError(
        "top_k must be positive and the floor a cosine, got "
        f"top_k={top_k}, floor={floor}."
      )
    self._folder = pathlib.Path(folder)
    self._is_exact = search == "exact"
    self._group = functools.lru_cache(_RECENT_GROUPS)(self._read_group)
    self._knobs = {"top_k": top_k, "floor": floor}
    self._seeds = [
      wordings.Wording(task, version)
      for task, versions in seeds
      for version in versions
    ]
    self._tasks = {task for task, _ in seeds}
    with contextlib.ExitStack() as opened:
      self._log = log.Log(self._folder / "log.jsonl", bank_hash)
      opened.callback(self._log.close)
      self._cache = embedding_cache.EmbeddingCache(self._folder, embedder)
      opened.callback(self._cache.close)
      self._meaning, tasks = self._read()
      self._index = index.Index(
        self._folder / "index",
        marker.Owner(bank_hash, embedder.name),
        self._log,
        self._meaning,
        tasks=tasks,
      )
      opened.callback(self._index.close)
      self._opened = opened.pop_all()

  def __exit__(self, *_) -> None:
    self.close()

  def append(
    self, batch: Iterable[records.Record]
  ) -> tuple[history.Place, ...]:
    """Adds records; they are durable and can be found when it returns.

    Returns:
      The place of each in the log.

    Raises:
      ValueError: if a record is of a task that is not in the bank, makes a
        criterion that there is or retires one that there is not; nothing has
        changed then.
      OSError: if they cannot be written.
    """
    batch = list(batch)
    updates = self._checked(batch)
    # Before anything is written, since an endpoint may be gone.
    self._cache.add(each.text for update in updates for each in update.made)
    places = self._log.append(batch)
    for update in updates:
      self._meaning.apply(update)
    self._index.catch_up(self._meaning)
    return places

  def histories(self, tasks: Sequence[str]) -> tuple[history.History, ...]:
    """What is known of each task, in the order of the log (H-52)."""
    found = self._index.histories(list(dict.fromkeys(tasks)))
    return tuple(
      found[task] if task in found else history.History(task) for task in tasks
    )

  def group(self, place: history.Place) -> records.Group:
    """The whole record of a group.

    Raises:
      ValueError: if the log has no group there.
    """
    return self._group(place)

  def _read_group(self, place: history.Place) -> records.Group:
    record = self._log.read(place)
    if not isinstance(record, records.Group):
      raise ValueError(
        f"The record at byte {place.offset} of {self._log.path} is no group "
        f"but a {type(record).__name__}."
      )
    return record

  def related(
    self, queries: Sequence[retrieval.Query]
  ) -> tuple[tuple[retrieval.Hit, ...], ...]:
    """The criteria of other tasks nearest to each query (H-53).

    Of those with a cosine of at least the floor, the same sign and a place in
    a rubric now, the `top_k` nearest, one for each lineage; equally near ones
    in the order of their names.

    Raises:
      OSError: if the index cannot be read.
      services.chat.UnreachableError: if the embedder is an endpoint that is
        gone.
    """
    candidates = None if self._is_exact else self._index.nearest
    return self._meaning.related(queries, candidates)

  def similarities(self, text: str, others: Sequence[str]) -> list[float]:
    """Cosines of a text to others (H-43, V4)."""
    if not others:
      return []
    vectors = self._cache.vectors([text, *others])
    return search.cosines(
      np.broadcast_to(vectors[:1], vectors[1:].shape), vectors[1:]
    ).tolist()

  def length(self) -> int:
    """Bytes of the log, all of them durable: what a checkpoint records."""
    return self._log.length()

  def cut(self, length: int) -> None:
    """Forgets what came after a checkpoint, in the log and the indices.

    Args:
      length: of `length` when the checkpoint was saved; 0 for none.

    Raises:
      ValueError: if the log is not the one that the checkpoint was saved with;
        nothing has changed then.
      OSError: if it cannot be written.
    """
    kept = self._log.checked(length)
    if kept < self._log.length():
      updates = [
        record
        for _, record in self._log.since(kept)
        if isinstance(record, changes.Update)
      ]
      undone = self._meaning.undo(updates)
      self._group.cache_clear()
      try:
        self._index.undo(kept, self._meaning, undone)
        self._log.cut(kept)
      except BaseException:
        for update in updates:
          self._meaning.apply(update)
        raise

  def close(self) -> None:
    """Closes every file; the folder may then be opened again."""
    self._opened.close()

  def _read(self) -> tuple[semantics.Semantics, int]:
    """Every wording, and how many tasks the log is about.

    Raises:
      ValueError: if the log is damaged.
    """
    tasks: set[str | None] = set()
    updates: list[changes.Update] = []
    for _, record in self._log.since():
      tasks.add(history.task_of(record))
      if isinstance(record, changes.Update):
        updates.append(record)
    meaning = semantics.Semantics(self._cache.vectors, **self._knobs)
    _check_names(self._seeds, meaning)
    versions = [version for _, version in self._seeds]
    versions += [version for update in updates for version in update.made]
    self._cache.add(version.text for version in versions)
    meaning.add(self._seeds)
    for update in updates:
      meaning.apply(update)
    return meaning, len(tasks - {None})

  def _checked(self, batch: Sequence[records.Record]) -> list[changes.Update]:
    """The updates among records that may be appended."""
    for record in batch:
      task = history.task_of(record)
      if task is not None and task not in self._tasks:
        raise ValueError(
          f"A record is of the task {task[:80]!a}, which is not in the bank. "
          "Its tasks are those that the memory was opened with."
        )
    updates = [each for each in batch if isinstance(each, changes.Update)]
    known: set[terms.Target] = set()
    for update in updates:
      for target in update.retired:
        if target not in self._meaning and target not in known:
          raise ValueError(
            f"The candidate {update.candidate.id!r} retires the criterion "
            f"{target}, which was never made."
          )
      made = [wordings.Wording("", version) for version in update.made]
      _check_names(made, self._meaning, known)
      known |= {version.target for version in update.made}
    return updates


def _check_names(
  made: Iterable[wordings.Wording],
  meaning: semantics.Semantics,
  known: Iterable[terms.Target] = (),
) -> None:
  """Refuses a wording whose name there is already."""
  names = set(known)
  for _, version in made:
    if version.target in names or version.target in meaning:
      raise ValueError(
        f"The criterion {version.target} is made twice, the second time as "
        f"{version.text[:80]!r}. Give every wording a version of its own."
      )
    names.add(version.target)
