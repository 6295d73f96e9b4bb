"""Embeddings that were paid for, each kept in a file by its text.

The file begins with a line that names the embedder and the dimension, as JSON
after its CRC-32; then come entries of one size: SHA-256 of the text, the
float32 numbers, CRC-32 of both. It only grows, and is of use to any log of any
bank.
"""

import contextlib
import hashlib
import json
import logging
import os
import pathlib
import zlib
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from jaxtyping import Float32

from hrl_jax.services.memory import embedder as embedders

_logger = logging.getLogger(__name__)

_FORMAT = 1
_KEY_BYTES = 32
_CHECK_BYTES = 4
# Texts that are embedded between two writes, and between two lines of the log.
_BATCH = 1024
_READ_ENTRIES = 4096


class EmbeddingCache:
  """Embeds every text once; used by one process at a time.

  A process killed in the middle of a write leaves an entry without its end,
  which is cut when the file is opened again; its text is embedded anew.
  """

  def __init__(self, folder: pathlib.Path, embedder: embedders.Embedder):
    """Opens the embedder's file, which is made if it is not there.

    Args:
      folder: that exists.
      embedder: asked for what the file does not have.
    """
    self._embedder = embedder
    short = hashlib.sha256(embedder.name.encode()).hexdigest()[:12]
    self._path = folder / f"embeddings-{short}.f32"
    self._file = os.open(
      self._path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o666
    )
    self._places: dict[bytes, int] = {}
    self._dimension: int | None = None
    self._length = 0
    self._read()

  def vectors(self, texts: Sequence[str]) -> Float32[np.ndarray, "N D"]:
    """The unit vector of each of one or more texts.

    Raises:
      OSError: if new ones cannot be written, as on a full disk.
      ValueError: if the embedder gives anything but finite unit vectors of
        one dimension.
    """
    self.add(texts)
    keys = [_key(text) for text in texts]
    size = 4 * self._dimension
    data = b"".join(
      os.pread(self._file, size, self._places[key] + _KEY_BYTES) for key in keys
    )
    return np.frombuffer(data, "<f4").reshape(len(keys), self._dimension)

  def add(self, texts: Iterable[str]) -> None:
    """Embeds those texts that are not there yet; raises as `vectors` does."""
    missing = {}
    for text in texts:
      key = _key(text)
      if key not in self._places:
        missing[key] = text
    items = list(missing.items())
    for start in range(0, len(items), _BATCH):
      batch = items[start : start + _BATCH]
      vectors_ND = self._embedder.embed([text for _, text in batch])
      self._check(vectors_ND, len(batch))
      entries = [
        _entry(key, vector_D.tobytes())
        for (key, _), vector_D in zip(
          batch, vectors_ND.astype("<f4"), strict=True
        )
      ]
      self._write(b"".join(entries))
      for index, (key, _) in enumerate(batch):
        behind = (len(batch) - index) * len(entries[0])
        self._places[key] = self._length - behind
      if len(items) > _BATCH:
        _logger.info("Embedded %d of %d texts.", start + len(batch), len(items))

  def close(self) -> None:
    """Closes the file."""
    os.close(self._file)

  def _check(self, vectors_ND: np.ndarray, count: int) -> None:
    """Checks what the embedder gave; the first time, names its dimension."""
    name = self._embedder.name
    if self._dimension is None and vectors_ND.ndim == 2:
      self._dimension = vectors_ND.shape[1]
      self._write(_header(name, self._dimension))
    if vectors_ND.shape != (count, self._dimension):
      raise ValueError(
        f"The embedder {name!r} gave {vectors_ND.shape} numbers for {count} "
        f"texts, but its vectors in {self._path} have {self._dimension}. Give "
        "another model another name, or delete the file."
      )
    lengths_N = np.linalg.norm(vectors_ND.astype(float), axis=1)
    if not (np.abs(lengths_N - 1) < 1e-3).all():
      raise ValueError(
        f"The embedder {name!r} gave vectors that are not of length 1, such as "
        f"one of {lengths_N[np.argmax(np.abs(lengths_N - 1))]:g}. Normalise "
        "them."
      )

  def _write(self, data: bytes) -> None:
    try:
      left = memoryview(data)
      while left:
        left = left[os.write(self._file, left) :]
    except OSError as error:
      os.ftruncate(self._file, self._length)
      raise OSError(
        f"Could not keep embeddings in {self._path}: {error}. Those before "
        "are whole: make room and run the same command again."
      ) from error
    self._length += len(data)

  def _read(self) -> None:
    """Learns what the file has, and cuts what is not whole."""
    length = os.fstat(self._file).st_size
    with open(self._path, "rb") as file:
      line = file.readline()
      self._length = self._read_header(line)
      if self._dimension is not None:
        broken = 0
        for place, entry in self._entries(file):
          data, check = entry[:-_CHECK_BYTES], entry[-_CHECK_BYTES:]
          if zlib.crc32(data).to_bytes(_CHECK_BYTES) == check:
            self._places[entry[:_KEY_BYTES]] = place
          else:
            broken += 1
          self._length = place + len(entry)
        if broken:
          _logger.warning(
            "Passed over %d damaged entries of %s; their texts are embedded "
            "again.",
            broken,
            self._path,
          )
    if self._length < length:
      _logger.warning(
        "Cut the last %d bytes of %s, which were not whole.",
        length - self._length,
        self._path,
      )
      os.ftruncate(self._file, self._length)

  def _read_header(self, line: bytes) -> int:
    """Learns the dimension; length of the line, 0 if it is not as written."""
    with contextlib.suppress(ValueError, KeyError, TypeError):
      dimension = json.loads(line[9:])["dimension"]
      if line == _header(self._embedder.name, dimension):
        self._dimension = dimension
        return len(line)
    return 0

  def _entries(self, file) -> Iterator[tuple[int, bytes]]:
    size = _KEY_BYTES + 4 * self._dimension + _CHECK_BYTES
    place = self._length
    while block := file.read(size * _READ_ENTRIES):
      for start in range(0, len(block) - size + 1, size):
        yield place + start, block[start : start + size]
      place += len(block)


def _header(name: str, dimension: int) -> bytes:
  header = {"format": _FORMAT, "embedder": name, "dimension": dimension}
  data = json.dumps(header).encode()
  return b"%08x %s\n" % (zlib.crc32(data), data)


def _key(text: str) -> bytes:
  return hashlib.sha256(text.encode(errors="surrogatepass")).digest()


def _entry(key: bytes, vector: bytes) -> bytes:
  data = key + vector
  return data + zlib.crc32(data).to_bytes(_CHECK_BYTES)
