"""Of which log an index is, and up to where."""

from typing import NamedTuple

import msgspec

from hrl_jax.services.memory import log


class Owner(NamedTuple):
  """Whose an index is.

  Attributes:
    bank: hash of the tasks.
    embedder: name.
    format: of the index.
  """

  bank: str
  embedder: str
  format: int = 1


class Marker(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
  """What is written into an index about itself.

  Attributes:
    owner: whose it is.
    done: bytes of the log that are in it.
    digest: SHA-256 of these bytes.
    doing: bytes of the log that may be in it too, in part; `done` if none are.
    doing_digest: SHA-256 of these.
  """

  owner: Owner
  done: int
  digest: str
  doing: int
  doing_digest: str


def encode(owner: Owner, kept_log: log.Log, done: int, doing: int) -> str:
  """A marker as text."""
  marker = Marker(
    owner=owner,
    done=done,
    digest=kept_log.digest(done),
    doing=doing,
    doing_digest=kept_log.digest(doing),
  )
  return msgspec.json.encode(marker).decode()


def decode(text: str) -> Marker:
  """The marker of a text that `encode` made.

  Raises:
    ValueError: if it is no such text.
  """
  return msgspec.json.decode(text, type=Marker)


def objection(marker: Marker, owner: Owner, kept_log: log.Log) -> str:
  """Why an index is not of this owner and log, "" if it is."""
  if marker.owner != owner:
    return f"it is of {marker.owner}, and this run of {owner}"
  if max(marker.done, marker.doing) > kept_log.length():
    return "it is ahead of the log"
  is_same = (
    kept_log.digest(marker.done) == marker.digest
    and kept_log.digest(marker.doing) == marker.doing_digest
  )
  return "" if is_same else "it is of another log"
