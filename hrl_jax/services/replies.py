"""Replies that were paid for, kept so that a resumed step replays them.

One file of a run, one JSON object a line, only ever appended to. A key names
the one call of the run that a reply answers, whoever asked it: a resumed step
finds the replies that it had, and a repeated grading, whose attempt differs,
is a new grading (H-116).
"""

import hashlib
import json
import logging
import os
import pathlib
from typing import NamedTuple, Protocol, runtime_checkable

from hrl_jax.services import chat

_logger = logging.getLogger(__name__)


class Key(NamedTuple):
  """Names one call of a run.

  Attributes:
    step: updates before it.
    purpose: what it is for, one word.
    subject: what it is about: a task's id, or a rollout's place in the plan.
    attempt: 0 for the first of its kind; a repeated one counts up.
    ask: counts the askings of one attempt; the second follows a reply that
      could not be used.
    content: SHA-256 of what is sent, in hexadecimal.
  """

  step: int
  purpose: str
  subject: str
  attempt: int
  ask: int
  content: str


def key(
  sent: bytes,
  *,
  step: int,
  purpose: str,
  subject: str,
  attempt: int,
  ask: int,
) -> Key:
  """The key of a call; `sent` is all that the model is told."""
  content = hashlib.sha256(sent).hexdigest()
  return Key(step, purpose, subject, attempt, ask, content)


@runtime_checkable
class Replies(Protocol):
  """Remembers replies."""

  def get(self, key: Key) -> chat.Reply | None:
    """The reply to a call, None if it has not come yet."""
    ...

  def put(self, key: Key, reply: chat.Reply) -> None:
    """Keeps a reply."""
    ...


class Forgetful:
  """Keeps nothing: for a run that writes no files and cannot be resumed."""

  def get(self, key: Key) -> None:
    """Knows none."""

  def put(self, key: Key, reply: chat.Reply) -> None:
    """Drops it."""


async def complete(
  client: chat.Chat, kept: Replies, key: Key, sent: bytes
) -> chat.Reply:
  """The reply to a call: the kept one, or one that is asked for and kept.

  Raises:
    chat.CallError: if there is none.
    OSError: if it cannot be kept, as on a full disk.
  """
  reply = kept.get(key)
  if reply is None:
    reply = await client.complete(sent)
    kept.put(key, reply)
  return reply


class ReplayFile:
  """Keeps replies in a file; used by one thread of one process at a time.

  A process killed in the middle of a write leaves a last line without its end,
  which is cut by `replay`.

  Attributes:
    name: of the file.
  """

  def __init__(self, path: pathlib.Path):
    """Opens the file, which is made if it is not there."""
    self.name = path.name
    self._path = path
    self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o666)
    self._known: dict[Key, chat.Reply] = {}

  def replay(self, start: int) -> None:
    """Reads the replies that came after a checkpoint.

    Args:
      start: `length` when the checkpoint was saved; 0 for none.
    """
    with open(self._path, "rb") as file:
      file.seek(min(start, os.fstat(self._file).st_size))
      whole = file.tell()
      for line in file:
        if not line.endswith(b"\n"):
          break
        whole += len(line)
        self._remember(line)
    os.ftruncate(self._file, whole)
    if self._known:
      _logger.info("Replays %d replies.", len(self._known))

  def get(self, key: Key) -> chat.Reply | None:
    """The reply to a call, None if it has not come yet."""
    # A key names one call, so nobody asks for it again.
    return self._known.pop(key, None)

  def put(self, key: Key, reply: chat.Reply) -> None:
    """Appends a reply; it survives this process from here on.

    Raises:
      OSError: if it cannot be written, as on a full disk; those before it are
        whole.
    """
    line = json.dumps({**key._asdict(), **reply._asdict()}).encode() + b"\n"
    length = os.fstat(self._file).st_size
    try:
      written = os.write(self._file, line)
      if written < len(line):
        raise OSError(f"only {written} of {len(line)} bytes were written")
    except OSError as error:
      os.ftruncate(self._file, length)
      raise OSError(
        f"Could not keep a reply in {self._path}: {error}. The last "
        "checkpoint is whole: make room and run the same command again."
      ) from error

  def length(self) -> int:
    """Makes what was put durable and returns the length in bytes."""
    os.fsync(self._file)
    return os.fstat(self._file).st_size

  def close(self) -> None:
    """Closes the file."""
    os.close(self._file)

  def _remember(self, line: bytes) -> None:
    try:
      record = json.loads(line)
      key = Key(**{name: record[name] for name in Key._fields})
      reply = chat.Reply(*(record[name] for name in chat.Reply._fields))
    except (ValueError, KeyError, TypeError):
      # After a power cut a file may hold anything; the reply is asked again.
      _logger.warning("Passed over a broken line of %s.", self._path)
      return
    self._known[key] = reply
