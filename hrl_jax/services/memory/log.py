"""The harness log: a file that only grows, and is the truth about a run.

One record a line, its first a header. What `append` has returned from survives
a killed process and a power cut; a record that was being written then is cut
when the file is opened again.
"""

import contextlib
import hashlib
import logging
import os
import pathlib
from collections.abc import Iterable, Iterator

from hrl_jax.harness import history, records
from hrl_jax.services.memory import locked_file

_logger = logging.getLogger(__name__)

_BLOCK_BYTES = 2**20


class Log:
  """Writes and reads the log of one run; no other process may meanwhile.

  Attributes:
    path: of the file.
  """

  def __init__(self, path: pathlib.Path, bank: str, *, origin: str = ""):
    """Opens the file, which is made if it is not there.

    Args:
      path: of the file.
      bank: hash of the tasks that the records are about.
      origin: names what else a log goes on only with, "" for nothing.

    Raises:
      ValueError: if another process has it open, it is the log of another
        bank or no log, or it cannot be opened.
    """
    self.path = path
    self._file = locked_file.opened(path)
    try:
      self._length = self._without_torn_end()
      self._digest, self._digested = hashlib.sha256(), 0
      self._start = self._header(records.Header(bank=bank, origin=origin))
    except BaseException:
      os.close(self._file)
      raise

  def append(
    self, batch: Iterable[records.Record]
  ) -> tuple[history.Place, ...]:
    """Adds records; they are durable when it returns.

    Returns:
      The place of each.

    Raises:
      OSError: if they cannot be written, as on a full disk; none of them is
        in the log then, and those before are whole.
      ValueError: if a text is no Unicode text; likewise.
    """
    lines = [records.encode(record) for record in batch]
    try:
      left = memoryview(b"".join(lines))
      while left:
        left = left[os.write(self._file, left) :]
      os.fsync(self._file)
    except OSError as error:
      with contextlib.suppress(OSError):
        os.ftruncate(self._file, self._length)
      raise OSError(
        f"Could not write to the harness log {self.path}: {error}. What was in "
        "it is whole: make room and run the same command again."
      ) from error
    places = []
    for line in lines:
      places.append(history.Place(self._length, len(line)))
      self._length += len(line)
    return tuple(places)

  def read(self, place: history.Place) -> records.Record:
    """The record at a place.

    Raises:
      ValueError: if there is none.
    """
    line = os.pread(self._file, place.length, place.offset)
    return self._decoded(line, place)

  def since(
    self, offset: int = 0
  ) -> Iterator[tuple[history.Place, records.Record]]:
    """Yields the records from an offset on, where one begins, in order.

    Without the header, which stands before them all.

    Raises:
      ValueError: naming the line, if one of them is damaged.
    """
    with open(self.path, "rb", buffering=_BLOCK_BYTES) as file:
      start = max(offset, self._start)
      file.seek(start)
      for line in file:
        place = history.Place(start, len(line))
        yield place, self._decoded(line, place)
        start += len(line)

  def length(self) -> int:
    """Bytes of it, all of them durable."""
    return self._length

  def digest(self, length: int) -> str:
    """SHA-256 of its first bytes, in hexadecimal.

    Cheap for a length that is not below that of the last call.
    """
    if length < self._digested:
      self._digest, self._digested = hashlib.sha256(), 0
    while self._digested < length:
      wanted = min(length - self._digested, _BLOCK_BYTES)
      block = os.pread(self._file, wanted, self._digested)
      if not block:
        raise ValueError(
          f"{self.path} has {self._digested} bytes, fewer than {length}: "
          "another program shortened it. Bring the file back, or choose "
          "another config.workdir."
        )
      self._digest.update(block)
      self._digested += len(block)
    return self._digest.hexdigest()

  def cut(self, length: int) -> None:
    """Takes away what was written after a checkpoint.

    Args:
      length: of `length` when the checkpoint was saved; 0 for none, which
        leaves the header.

    Raises:
      ValueError: if the log is shorter, or no record ends there; nothing has
        changed then.
    """
    kept = self.checked(length)
    if kept < self._length:
      _logger.info(
        "Cut %d bytes of %s, written after the last checkpoint.",
        self._length - kept,
        self.path,
      )
      os.ftruncate(self._file, kept)
      os.fsync(self._file)
      self._length = kept

  def checked(self, length: int) -> int:
    """The length that `cut` would leave.

    Raises:
      ValueError: as `cut` does.
    """
    kept = max(length, self._start)
    if kept > self._length:
      raise ValueError(
        f"{self.path} has {self._length} bytes, but had {kept} when the "
        "checkpoint was saved: what the run wrote is lost. Bring the file "
        "back, or choose another config.workdir."
      )
    if os.pread(self._file, 1, kept - 1) != b"\n":
      raise ValueError(
        f"No record of {self.path} ends at byte {kept}, where the checkpoint "
        "was saved: the file is not the one that the run wrote. Bring it back, "
        "or choose another config.workdir."
      )
    return kept

  def close(self) -> None:
    """Closes the file; another process may open it then."""
    os.close(self._file)

  def _without_torn_end(self) -> int:
    """Cuts a last line that has no end; the length that is left."""
    length = whole = os.fstat(self._file).st_size
    while whole:
      start = max(0, whole - _BLOCK_BYTES)
      block = os.pread(self._file, whole - start, start)
      ends = block.rfind(b"\n") + 1
      if ends:
        whole = start + ends
        break
      whole = start
    if whole < length:
      _logger.warning(
        "Cut the last %d bytes of %s: a record that was not written to its "
        "end.",
        length - whole,
        self.path,
      )
      os.ftruncate(self._file, whole)
    return whole

  def _header(self, wanted: records.Header) -> int:
    """Checks the first line, or writes it; its length."""
    if not self._length:
      (place,) = self.append([wanted])
      locked_file.sync_folder(self.path.parent)
      return place.length
    with open(self.path, "rb") as file:
      line = file.readline()
    header = self._decoded(line, history.Place(0, len(line)))
    _check_header(header, wanted.bank, self.path)
    if header.origin != wanted.origin:
      raise ValueError(
        f"{self.path} was begun with another model, sampling, judge or seed "
        "than those of this run. Set them back, or choose another "
        "config.workdir."
      )
    return len(line)

  def _decoded(self, line: bytes, place: history.Place) -> records.Record:
    try:
      # A line break inside would be two damaged lines read as one.
      if len(line) != place.length or line.find(b"\n") != place.length - 1:
        raise ValueError("no record begins and ends there")
      return records.decode(line)
    except ValueError as error:
      raise ValueError(
        f"{self.path}, line {self._line_number(place.offset)} (byte "
        f"{place.offset}) is damaged: {error}. Bring the file back, or choose "
        "another config.workdir."
      ) from error

  def _line_number(self, offset: int) -> int:
    number = 1
    with open(self.path, "rb") as file:
      while offset > 0 and (block := file.read(min(offset, _BLOCK_BYTES))):
        number += block.count(b"\n")
        offset -= len(block)
    return number


def read(path: pathlib.Path, bank: str) -> list[records.Record]:
  """The records of a log that another process may be writing.

  A last line without its end is left out.

  Raises:
    ValueError: if there is no such log, it is of another bank, or a line is
      damaged.
  """
  try:
    with open(path, "rb") as file:
      lines = [line for line in file if line.endswith(b"\n")]
  except OSError as error:
    raise ValueError(
      f"Cannot read the harness log {path}: {error.strerror}. Name the file of "
      "a run."
    ) from error
  found = []
  for number, line in enumerate(lines, start=1):
    try:
      found.append(records.decode(line))
    except ValueError as error:
      raise ValueError(f"{path}, line {number} is damaged: {error}") from error
  if not found:
    raise ValueError(f"{path} is empty: it is no harness log.")
  _check_header(found[0], bank, path)
  return found[1:]


def _check_header(
  header: records.Record, bank: str, path: pathlib.Path
) -> None:
  if not isinstance(header, records.Header):
    raise ValueError(
      f"{path} does not begin with a header, so it is no harness log. "
      "Choose another config.workdir."
    )
  wanted = records.Header(bank=bank)
  if (header.bank, header.format) != (wanted.bank, wanted.format):
    raise ValueError(
      f"{path} is of the bank {header.bank[:80]!a} in format {header.format}, "
      f"but this run is of the bank {bank[:80]!a} in format {wanted.format}. "
      "Set config.data back, or choose another config.workdir."
    )
