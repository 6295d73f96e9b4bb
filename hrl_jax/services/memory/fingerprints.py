"""Whether the files of an index are as this program left them.

ChromaDB notices no damage to its files: a changed byte changes what it finds,
or ends the process. So their hashes are kept beside them. The graphs' files are
written rarely, hence known at any time; the database changes with every write,
so its hash is known only after `close`, and otherwise SQLite's own check has
to do.
"""

import contextlib
import hashlib
import json
import os
import pathlib
import sqlite3

DATABASE = "chroma.sqlite3"


class DamagedError(Exception):
  """The files are not as they were left; the message says which."""


class Fingerprints:
  """The hashes of a folder's files, in a file beside it."""

  def __init__(self, path: pathlib.Path):
    """Reads nothing yet.

    Args:
      path: of the file of hashes.
    """
    self._path = path
    # By name: size, time of the last change, and hash.
    self._known: dict[str, tuple[int, int, str]] = {}
    self._is_forgotten = False

  def check(self, folder: pathlib.Path) -> bool:
    """Checks that the folder is as it was left.

    Returns:
      Whether every byte is. False after a kill: then SQLite finds its pages in
      order, but what is in them is for the caller to check.

    Raises:
      DamagedError: if not, or nobody can tell.
    """
    try:
      recorded = json.loads(self._path.read_text())["files"]
      wanted = dict(recorded)
    except (OSError, ValueError, KeyError, TypeError):
      raise DamagedError("the hashes of its files cannot be read") from None
    found = self._hashes(folder, has_database=DATABASE in wanted)
    for name in sorted(wanted.keys() | found.keys()):
      if wanted.get(name) != found.get(name):
        raise DamagedError(f"its file {name} is not as it was left")
    if DATABASE not in wanted:
      _check_database(folder / DATABASE)
    return DATABASE in wanted

  def forget(self) -> None:
    """From now on nobody can tell any more, so the next start builds anew."""
    self._is_forgotten = True
    self._path.unlink(missing_ok=True)

  def record(self, folder: pathlib.Path, *, is_closed: bool) -> None:
    """Writes down how the files are now.

    Args:
      folder: of the index.
      is_closed: whether its database has no reader or writer any more.
    """
    if self._is_forgotten:
      return
    found = self._hashes(folder, has_database=is_closed)
    temporary = self._path.with_name(self._path.name + ".tmp")
    temporary.write_text(json.dumps({"files": found}) + "\n")
    os.replace(temporary, self._path)

  def _hashes(
    self, folder: pathlib.Path, *, has_database: bool
  ) -> dict[str, str]:
    """Hash by name; of files that did not change since, the one known."""
    known = {}
    for path in sorted(folder.rglob("*")):
      name = str(path.relative_to(folder))
      is_of_database = name.startswith(DATABASE)
      if not path.is_file() or (is_of_database and not has_database):
        continue
      status = path.stat()
      size, changed = status.st_size, status.st_mtime_ns
      old = self._known.get(name)
      if old is not None and old[:2] == (size, changed):
        known[name] = old
      else:
        known[name] = (size, changed, _hash(path))
    self._known = known
    return {name: digest for name, (_, _, digest) in known.items()}


def _hash(path: pathlib.Path) -> str:
  with open(path, "rb") as file:
    return hashlib.file_digest(file, "sha256").hexdigest()


def _check_database(path: pathlib.Path) -> None:
  """SQLite's own check of its pages; also ends what a kill interrupted."""
  if not path.is_file():
    raise DamagedError(f"its file {DATABASE} is missing")
  try:
    with contextlib.closing(sqlite3.connect(path, timeout=10.0)) as database:
      rows = database.execute("PRAGMA quick_check(1)").fetchall()
  except sqlite3.Error as error:
    raise DamagedError(f"its file {DATABASE} is damaged: {error}") from None
  if rows != [("ok",)]:
    raise DamagedError(f"its file {DATABASE} is damaged: {rows[0][0]}")
