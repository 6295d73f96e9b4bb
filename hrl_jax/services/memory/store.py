"""The collections of ChromaDB in which the memory's indices lie.

  time                 an entry per task: its history
  semantics            an entry per text of a criterion of positive weight
  semantics-penalties  likewise, of negative weight

A text that several wordings share has one entry, under the name of the first
of them: equal vectors that are linked to each other only would cut the graph
into pieces. ChromaDB is given its vectors, never a text to embed, and sends
nothing anywhere.
"""

import contextlib
import pathlib
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import chromadb
import numpy as np
from jaxtyping import Float

from hrl_jax.harness import terms
from hrl_jax.services.memory import wordings

_TIME = "time"
_SEMANTICS = {1: "semantics", -1: "semantics-penalties"}

# Of what is looked up by its id alone the graph is of no use, so it is small.
_TIME_GRAPH = {
  "max_neighbors": 4,
  "ef_construction": 10,
  "ef_search": 10,
  "sync_threshold": 1000,
}
# With these, 99.8 % of the exact top 4 of 200,000 vectors are found. The graph
# goes to its files after so many changes, which takes 0.1 s of a large one;
# those that it lacks are entered again, 10 ms each, after the first query of
# a process.
_SEMANTICS_GRAPH = {
  "max_neighbors": 16,
  "ef_construction": 100,
  "ef_search": 128,
  "sync_threshold": 500,
}
# At most 5,461 are taken at once.
_BATCH = 2048


class Store:
  """Reads and writes the collections in one folder; a thin layer."""

  def __init__(self, path: pathlib.Path):
    """Opens the collections, which are made if they are not there."""
    self._client = chromadb.PersistentClient(
      str(path), chromadb.Settings(anonymized_telemetry=False)
    )
    try:
      self._time = self._collection(_TIME, _TIME_GRAPH)
      self._semantics = {
        sign: self._collection(name, _SEMANTICS_GRAPH)
        for sign, name in _SEMANTICS.items()
      }
    except BaseException:
      self._client.close()
      raise

  def marker(self) -> str | None:
    """What `mark` wrote last, None if it never did."""
    return (self._time.metadata or {}).get("marker")

  def mark(self, marker: str) -> None:
    """Writes a text beside the entries, after all that was written before."""
    self._time.modify(metadata={"marker": marker})

  def tasks(self) -> list[str]:
    """The tasks that have an entry."""
    return self._time.get(include=[])["ids"]

  def histories(self, tasks: Sequence[str]) -> dict[str, str]:
    """The entries of those tasks that have one."""
    found = {}
    for start in range(0, len(tasks), _BATCH):
      batch = list(tasks[start : start + _BATCH])
      got = self._time.get(ids=batch, include=["metadatas"])
      for task, metadata in zip(got["ids"], got["metadatas"], strict=True):
        found[task] = metadata["history"]
    return found

  def put_histories(self, entries: Mapping[str, str]) -> None:
    """Writes entries of tasks over those that were there."""
    for batch in _batches(list(entries.items())):
      # As metadata: ChromaDB indexes every three letters of a document, which
      # takes ten times as long.
      self._time.upsert(
        ids=[task for task, _ in batch],
        embeddings=[_direction(task) for task, _ in batch],
        metadatas=[{"history": entry} for _, entry in batch],
      )

  def remove_histories(self, tasks: Sequence[str]) -> None:
    """Removes the entries of tasks."""
    for batch in _batches(tasks):
      self._time.delete(ids=list(batch))

  def put_texts(self, sign: int, texts: Iterable[wordings.Text]) -> None:
    """Enters texts, over what was there under the same names."""
    for batch in _batches(list(texts)):
      self._semantics[sign].upsert(
        ids=[_name(each.target) for each in batch],
        embeddings=np.stack([each.vector for each in batch]),
        documents=[each.text for each in batch],
        metadatas=[_metadata(sign, each) for each in batch],
      )

  def change_texts(self, sign: int, texts: Iterable[wordings.Text]) -> None:
    """Says of texts that are there whether a rubric has them now.

    Cheaper than to enter them again, which links them anew in the graph.
    """
    for batch in _batches(list(texts)):
      self._semantics[sign].update(
        ids=[_name(each.target) for each in batch],
        metadatas=[_metadata(sign, each) for each in batch],
      )

  def remove_texts(self, sign: int, targets: Sequence[terms.Target]) -> None:
    """Removes the texts that some wordings brought."""
    for batch in _batches(targets):
      self._semantics[sign].delete(ids=list(map(_name, batch)))

  def nearest(
    self, sign: int, queries_QD: Float[np.ndarray, "Q D"], count: int
  ) -> list[list[terms.Target]]:
    """The wordings that brought the texts nearest to each query, or nearly."""
    found = []
    for batch in _batches(queries_QD):
      got = self._semantics[sign].query(
        query_embeddings=batch, n_results=count, include=[]
      )
      found += [list(map(_target, ids)) for ids in got["ids"]]
    return found

  def counts(self) -> dict[str, int]:
    """Number of entries by the name of the collection."""
    collections = [self._time, *self._semantics.values()]
    return {each.name: each.count() for each in collections}

  def close(self) -> None:
    """Closes the files."""
    self._client.close()

  def _collection(
    self, name: str, graph: Mapping[str, int]
  ) -> chromadb.Collection:
    return self._client.get_or_create_collection(
      name,
      embedding_function=None,
      configuration={
        "hnsw": {
          "space": "cosine",
          "batch_size": 100,
          **graph,
        }
      },
    )


def counts_of(tasks: int, texts: Mapping[int, int]) -> dict[str, int]:
  """What `counts` should say.

  Args:
    tasks: with a history.
    texts: by sign.
  """
  named = {_SEMANTICS[sign]: number for sign, number in texts.items()}
  return {_TIME: tasks, **named}


def is_failure(error: BaseException) -> bool:
  """Whether it may be ChromaDB's answer to damaged files.

  Where its own code meets any, that ends in a panic, which is no Exception.
  """
  is_panic = type(error).__name__ == "PanicException"
  return is_panic or isinstance(error, Exception)


@contextlib.contextmanager
def errors_said(path: pathlib.Path) -> Iterator[None]:
  """Says of any failure of ChromaDB what to do about it.

  Raises:
    OSError: in its place.
  """
  try:
    yield
  except BaseException as error:
    if not is_failure(error):
      raise
    raise OSError(
      f"The memory's index in {path} failed: {error}. The log beside it is "
      "whole, and the next start brings the index up to date from it: make "
      "room and run the same command again."
    ) from error


def _batches(items: Sequence | np.ndarray) -> Iterator[Any]:
  for start in range(0, len(items), _BATCH):
    yield items[start : start + _BATCH]


def _metadata(sign: int, text: wordings.Text) -> dict[str, str | int | bool]:
  return {"task": text.task, "sign": sign, "active": text.is_active}


def _name(target: terms.Target) -> str:
  return f"{target[0]}@{target[1]}"


def _target(name: str) -> terms.Target:
  cid, _, version = name.rpartition("@")
  return cid, int(version)


def _direction(task: str) -> list[float]:
  """A vector for an entry that nobody looks up by one; ChromaDB wants one."""
  angle = zlib.crc32(task.encode(errors="surrogatepass")) / 2**32 * 2 * np.pi
  return [float(np.cos(angle)), float(np.sin(angle))]
