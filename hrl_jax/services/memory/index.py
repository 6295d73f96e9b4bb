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

from hrl_jax.harness import history, terms
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
# Tasks whose entries need not be decoded again: two steps' at the paper's size.
_RECENT = 1024
# Records that the time index may lack: the groups of a step wait for what is
# made of them, so that the entries are written once.
_BEHIND = 1024


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
    # Nobody else writes the index. The longest unused is first.
    self._recent: dict[str, entries.Entry] = {}
    texts = {sign: len(meaning.table(sign).texts) for sign in semantics.SIGNS}
    counts = store.counts_of(tasks, texts)
    try:
      self._open(meaning, counts)
    except _UnusableError as error:
      level = logging.WARNING if tasks else logging.INFO
      _logger.log(level, "Builds the memory's index from the log: %s.", error)
      with store.errors_said(folder):
        self._build(meaning)
    self._hashes.record(self._path, is_closed=False)

  def histories(self, tasks: Sequence[str]) -> dict[str, history.History]:
    """The histories of those tasks that have a record."""
    with store.errors_said(self._folder):
      places = entries.news(self._log, self._done).places
      lacking = {task: places[task] for task in tasks if task in places}
      known = self._read([task for task in tasks if task not in lacking])
      known |= self._extended(lacking)
      return {task: each.history for task, each in known.items()}

  def nearest(
    self, sign: int, queries_QD: Float[np.ndarray, "Q D"], count: int
  ) -> list[list[terms.Target]]:
    """About `count` texts near each query, by the wordings that brought them.

    Nearly always they are the nearest.
    """
    with store.errors_said(self._folder):
      return self._store.nearest(sign, queries_QD, count)

  def catch_up(self, meaning: semantics.Semantics) -> None:
    """Enters what the log has and the index has not; a few groups may wait.

    Args:
      meaning: every wording of the log.

    Raises:
      OSError: if it cannot be written; the next call starts where this did.
    """
    with store.errors_said(self._folder):
      self._catch_up(meaning, most_behind=_BEHIND)
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
      if self._done < length:
        kept = {
          task: [place for place in places if place.offset < length]
          for task, places in entries.news(self._log, self._done).places.items()
        }
        self._enter(kept)
      self._mark(length, self._log.length())
      for tasks in _batches(list(news.places), _TASKS):
        old = {
          task: entries.shortened(entry, length, self._log)
          for task, entry in self._read(tasks).items()
        }
        self._put({task: each for task, each in old.items() if each.places})
        gone = [task for task, each in old.items() if not each.places]
        self._store.remove_histories(gone)
        for task in gone:
          del self._recent[task]
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
        self._catch_up(meaning, most_behind=0)
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
    self._recent.clear()  # Of the index that could not be used.
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

  def _catch_up(
    self, meaning: semantics.Semantics, *, most_behind: int
  ) -> None:
    """Enters what is new, unless it is little and changes no text."""
    end = self._log.length()
    if self._done == end:
      return
    news = entries.news(self._log, self._done)
    is_text = bool(news.made or news.retired)
    if not is_text and sum(map(len, news.places.values())) <= most_behind:
      return
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
      self._put(self._extended({task: places[task] for task in tasks}))

  def _extended(
    self, places: dict[str, list[history.Place]]
  ) -> dict[str, entries.Entry]:
    """The entries of tasks with further records."""
    old = self._read(list(places))
    return {
      task: entries.extended(
        old.get(task, entries.Entry((), history.History(task))),
        new,
        self._log,
      )
      for task, new in places.items()
    }

  def _read(self, tasks: Sequence[str]) -> dict[str, entries.Entry]:
    """The entries of those tasks that have one."""
    new = [task for task in tasks if task not in self._recent]
    try:
      decoded = {
        task: entries.decode(text)
        for task, text in self._store.histories(new).items()
      }
    except ValueError:
      self._hashes.forget()
      raise
    found = {t: self._recent[t] for t in tasks if t in self._recent} | decoded
    self._remember(found)
    return found

  def _put(self, changed: dict[str, entries.Entry]) -> None:
    self._store.put_histories(
      {task: entries.encode(entry) for task, entry in changed.items()}
    )
    self._remember(changed)

  def _remember(self, used: dict[str, entries.Entry]) -> None:
    for task, entry in used.items():
      self._recent.pop(task, None)
      self._recent[task] = entry
    for task in list(self._recent)[:-_RECENT]:
      del self._recent[task]

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
