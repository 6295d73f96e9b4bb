"""The indices over the log, on disk: found again, caught up or built anew.

What lies in ChromaDB is only ever computed from the log and the seeds. A
marker in it says of which log it is an index, up to which byte; it is brought
up to date from there, or thrown away and computed anew.
"""

import contextlib
import logging
import pathlib
import shutil
import tempfile
from collections.abc import Iterator, Sequence

import numpy as np
from jaxtyping import Float

from hrl_jax.harness import history, records
from hrl_jax.services.memory import (
  entries,
  fingerprints,
  log,
  marker,
  semantics,
  store,
)

_logger = logging.getLogger(__name__)

_HASHES = "files.json"
# Tasks, and texts, that are held at the same time.
_TASKS = 512
_TEXTS = 4096


class _UnusableError(Exception):
  """An index that has to be built anew; the message says why."""


class Index:
  """The time index and the semantics index of one log."""

  def __init__(
    self,
    folder: pathlib.Path,
    owner: marker.Owner,
    kept_log: log.Log,
    meaning: semantics.Semantics,
    *,
    tasks: int,
  ):
    """Opens the index, brought up to date; says what had to be done for it.

    Args:
      folder: of nothing but the index; made if it is not there.
      owner: whose index it is.
      kept_log: the truth.
      meaning: every wording of the seeds and the log.
      tasks: number of tasks with a record in the log.

    Raises:
      OSError: if it cannot be written.
    """
    self._folder = folder
    self._owner = owner
    self._log = kept_log
    self._hashes = fingerprints.Fingerprints(folder / _HASHES)
    texts = {sign: len(meaning.table(sign).texts) for sign in semantics.SIGNS}
    counts = store.counts_of(tasks, texts)
    try:
      self._open(meaning, counts)
    except _UnusableError as error:
      _logger.warning("Builds the memory's index from the log: %s.", error)
      with store.errors_said(folder):
        self._build(meaning)
    self._hashes.record(self._path, is_closed=False)

  def histories(self, tasks: Sequence[str]) -> dict[str, history.History]:
    """The histories of those tasks that have a record."""
    with store.errors_said(self._folder):
      return {task: each.history for task, each in self._read(tasks).items()}

  def nearest(
    self, sign: int, queries_QD: Float[np.ndarray, "Q D"], count: int
  ) -> list[list[records.Target]]:
    """About `count` texts near each query, by the wordings that brought them.

    Nearly always they are the nearest.
    """
    with store.errors_said(self._folder):
      return self._store.nearest(sign, queries_QD, count)

  def catch_up(self, meaning: semantics.Semantics) -> None:
    """Enters what the log has and the index has not.

    Args:
      meaning: every wording of the log.

    Raises:
      OSError: if it cannot be written; the next call starts where this did.
    """
    with store.errors_said(self._folder):
      self._catch_up(meaning)
      self._hashes.record(self._path, is_closed=False)

  def undo(
    self,
    length: int,
    meaning: semantics.Semantics,
    undone: semantics.Undone,
  ) -> None:
    """Takes out what the log has from a byte on; the log is cut after that.

    Args:
      length: of the log that will remain.
      meaning: every wording of what will remain.
      undone: what came of undoing the rest.

    Raises:
      OSError: if it cannot be written.
    """
    with store.errors_said(self._folder):
      news = entries.news(self._log, length)
      self._mark(length, self._log.length())
      for tasks in _batches(list(news.places), _TASKS):
        old = {
          task: entries.shortened(entry, length, self._log)
          for task, entry in self._read(tasks).items()
        }
        self._put({task: each for task, each in old.items() if each.places})
        self._store.remove_histories(
          [task for task, each in old.items() if not each.places]
        )
      for sign in semantics.SIGNS:
        texts = meaning.entered(sign, undone.kept[sign])
        self._store.change_texts(sign, texts)
        self._store.remove_texts(sign, undone.gone[sign])
      self._mark(length, length)
      self._hashes.record(self._path, is_closed=False)

  def close(self) -> None:
    """Closes the files; what they are like is written down."""
    self._store.close()
    self._hashes.record(self._path, is_closed=True)

  def _open(self, meaning: semantics.Semantics, counts: dict[str, int]) -> None:
    """Opens the index that is there.

    Raises:
      _UnusableError: if it cannot be used; nothing is open then.
    """
    found = sorted(self._folder.glob("chroma-*"))
    if len(found) != 1:
      number = "more than one" if found else "none"
      raise _UnusableError(f"there is {number}")
    self._path = found[0]
    with _unusable_where_damaged():
      is_whole = self._hashes.check(self._path)
      # From here on the database changes.
      self._hashes.record(self._path, is_closed=False)
      self._store = store.Store(self._path)
    try:
      with _unusable_where_damaged():
        self._done = self._checked()
        if not is_whole:
          for tasks in _batches(self._store.tasks(), _TASKS):
            self._read(tasks)
        if self._done < self._log.length():
          _logger.info(
            "The memory's index is %d bytes behind the log, which are entered.",
            self._log.length() - self._done,
          )
        self._catch_up(meaning)
        if self._store.counts() != counts:
          raise _UnusableError(
            f"it has {self._store.counts()} entries instead of {counts}"
          )
    except _UnusableError:
      self._store.close()
      raise

  def _checked(self) -> int:
    """Bytes of the log that are in the index, if it is one of this log."""
    text = self._store.marker()
    if text is None:
      raise _UnusableError("it was not built to its end")
    found = marker.decode(text)
    if objection := marker.objection(found, self._owner, self._log):
      raise _UnusableError(objection)
    return found.done

  def _build(self, meaning: semantics.Semantics) -> None:
    """Makes an index anew, of all that the log has."""
    if self._folder.is_dir() and not self._folder.is_symlink():
      shutil.rmtree(self._folder)
    else:
      self._folder.unlink(missing_ok=True)
    self._folder.mkdir(parents=True)
    self._hashes = fingerprints.Fingerprints(self._folder / _HASHES)
    # A new name: ChromaDB remembers within a process what it had open under
    # the old one.
    self._path = pathlib.Path(tempfile.mkdtemp("", "chroma-", self._folder))
    self._store = store.Store(self._path)
    for sign in semantics.SIGNS:
      rows = range(len(meaning.table(sign).texts))
      for batch in _batches(rows, _TEXTS):
        self._store.put_texts(sign, meaning.entered(sign, batch))
    news = entries.news(self._log, 0)
    self._enter(news.places)
    end = self._log.length()
    self._mark(end, end)

  def _catch_up(self, meaning: semantics.Semantics) -> None:
    end = self._log.length()
    if self._done < end:
      news = entries.news(self._log, self._done)
      self._mark(self._done, end)
      self._enter(news.places)
      made = set(news.made)
      changed = meaning.rows([*news.made, *news.retired])
      for sign, rows in changed.items():
        texts = meaning.entered(sign, rows)
        new = [text for text in texts if text.target in made]
        old = [text for text in texts if text.target not in made]
        self._store.put_texts(sign, new)
        self._store.change_texts(sign, old)
      self._mark(end, end)

  def _enter(self, places: dict[str, list[history.Place]]) -> None:
    """Enters records into the histories of their tasks."""
    for tasks in _batches(list(places), _TASKS):
      old = self._read(tasks)
      new = {}
      for task in tasks:
        empty = entries.Entry((), history.History(task))
        entry = old.get(task, empty)
        new[task] = entries.extended(entry, places[task], self._log)
      self._put(new)

  def _read(self, tasks: Sequence[str]) -> dict[str, entries.Entry]:
    """The entries of those tasks that have one."""
    found = self._store.histories(tasks)
    try:
      return {task: entries.decode(text) for task, text in found.items()}
    except ValueError:
      self._hashes.forget()
      raise

  def _put(self, changed: dict[str, entries.Entry]) -> None:
    self._store.put_histories(
      {task: entries.encode(entry) for task, entry in changed.items()}
    )

  def _mark(self, done: int, doing: int) -> None:
    self._store.mark(marker.encode(self._owner, self._log, done, doing))
    self._done = done


@contextlib.contextmanager
def _unusable_where_damaged() -> Iterator[None]:
  """Turns whatever damage leads to into an `_UnusableError`."""
  try:
    yield
  except _UnusableError:
    raise
  except fingerprints.DamagedError as error:
    raise _UnusableError(str(error)) from error
  except BaseException as error:
    if not store.is_failure(error):
      raise
    raise _UnusableError(f"it cannot be read: {error}") from error


def _batches(items: Sequence, size: int) -> Iterator[Sequence]:
  for start in range(0, len(items), size):
    yield items[start : start + size]
