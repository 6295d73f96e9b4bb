"""A file that one process has to itself."""

import fcntl
import os
import pathlib


def opened(path: pathlib.Path) -> int:
  """A descriptor that appends to the file, which is made if need be.

  Raises:
    ValueError: if another process has it open, or it cannot be opened.
  """
  try:
    path.parent.mkdir(parents=True, exist_ok=True)
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o666)
  except OSError as error:
    raise ValueError(
      f"Cannot open the harness log {str(path)[:200]!a}: {error.strerror}. "
      "Choose another config.workdir."
    ) from error
  try:
    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
  except OSError as error:
    os.close(file)
    if isinstance(error, BlockingIOError):
      raise ValueError(
        f"Another process has the harness memory {path.parent} open. Wait for "
        "it to end, or choose another config.workdir."
      ) from error
    raise ValueError(
      f"Cannot lock the harness log {path}: {error.strerror}. Choose a "
      "config.workdir on a file system with locks."
    ) from error
  return file


def sync_folder(path: pathlib.Path) -> None:
  """Makes the names of new files durable."""
  folder = os.open(path, os.O_RDONLY)
  try:
    os.fsync(folder)
  finally:
    os.close(folder)
