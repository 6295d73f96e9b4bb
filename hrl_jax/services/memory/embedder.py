"""Texts as vectors: close in meaning, close in angle."""

import hashlib
import itertools
import os
import pathlib
import re
from collections.abc import Iterator, Sequence
from typing import Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float, Float32

from hrl_jax.data import package_files


@runtime_checkable
class Embedder(Protocol):
  """Turns texts into unit vectors.

  Attributes:
    name: of the vectors; the same name always means the same vectors.
  """

  name: str

  def embed(self, texts: Sequence[str]) -> Float32[np.ndarray, "N D"]:
    """One unit vector for each of one or more texts."""
    ...


def normalized(vectors_ND: Float[np.ndarray, "N D"], name: str) -> np.ndarray:
  """Vectors of length 1, in float32.

  Args:
    vectors_ND: of any length but 0.
    name: of the embedder, for the error.

  Raises:
    ValueError: if a vector has no direction.
  """
  lengths_N1 = np.linalg.norm(vectors_ND.astype(float), axis=1, keepdims=True)
  usable_N1 = np.isfinite(lengths_N1) & (lengths_N1 > 0)
  if not usable_N1.all():
    raise ValueError(
      f"The embedder {name!r} gave {int((~usable_N1).sum())} of "
      f"{len(vectors_ND)} vectors that are zero or not finite. Choose another "
      "one."
    )
  return (vectors_ND / lengths_N1).astype(np.float32)


class HashEmbedder:
  """Counts words and pairs of words, hashed to coordinates.

  It knows spelling, not meaning: "brief" and "short" are as far apart as any
  two words. It needs no model and gives the same vectors everywhere; for
  tests, the lab and tiny runs.

  Attributes:
    name: says its dimension.
  """

  def __init__(self, dimension: int = 256):
    """Makes one.

    Raises:
      ValueError: if the dimension is not positive.
    """
    if dimension < 1:
      raise ValueError(
        f"The dimension of an embedding must be positive, got {dimension}."
      )
    self.name = f"hash-{dimension}"
    self._dimension = dimension

  def embed(self, texts: Sequence[str]) -> Float32[np.ndarray, "N D"]:
    """One unit vector for each of one or more texts."""
    counts_ND = np.zeros((len(texts), self._dimension))
    for counts_D, text in zip(counts_ND, texts, strict=True):
      for feature in _features(text):
        self._count(counts_D, feature)
      if not counts_D.any():
        # No words, or all of them cancel out.
        self._count(counts_D, "text " + text)
    return normalized(counts_ND, self.name)

  def _count(self, counts_D: Float[np.ndarray, " D"], feature: str) -> None:
    data = feature.encode(errors="surrogatepass")
    number = int.from_bytes(hashlib.blake2b(data, digest_size=8).digest())
    sign = 1.0 if number % 2 else -1.0
    counts_D[number // 2 % self._dimension] += sign


def _features(text: str) -> Iterator[str]:
  words = re.findall(r"\w+", text.lower())
  yield from words
  for pair in itertools.pairwise(words):
    yield " ".join(pair)


class SentenceEmbedder:
  """A model of sentence-transformers, without any prompt (H-54).

  Attributes:
    name: tells its weights, not where they lie.
  """

  def __init__(self, model: str, *, batch_size: int = 1):
    """Loads the model.

    Args:
      model: a path, "package:NAME/PATH" for one inside an installed package,
        or a name on the model hub, which is downloaded.
      batch_size: texts of one forward pass. With 1, a vector does not depend
        on what is embedded beside it, and on a CPU more is no faster; on an
        accelerator more is, and the last bits may differ.

    Raises:
      ImportError: if sentence-transformers is not installed.
      ValueError: if the model cannot be loaded.
    """
    if batch_size < 1:
      raise ValueError(f"batch_size must be positive, got {batch_size}.")
    try:
      import sentence_transformers
    except ImportError as error:
      raise ImportError(
        "A sentence embedder needs sentence-transformers, which is not "
        f"installed ({error}). Run `pip install 'hrl_jax[embed]'`, or choose "
        "an embedder that needs none."
      ) from error
    try:
      self._model = sentence_transformers.SentenceTransformer(_place(model))
    except (OSError, ValueError) as error:
      raise ValueError(
        f"Cannot load the sentence embedder {model[:200]!a}: "
        f"{str(error)[:300]} Give the path of a model of "
        "sentence-transformers, package:NAME/PATH, or a name on the model hub."
      ) from error
    self._batch_size = batch_size
    self.name = f"{pathlib.PurePath(model).name}-{_fingerprint(self._model)}"

  def embed(self, texts: Sequence[str]) -> Float32[np.ndarray, "N D"]:
    """One unit vector for each of one or more texts."""
    vectors_ND = self._model.encode(
      list(texts),
      # Not None, which would mean the model's own prompt for queries.
      prompt="",
      batch_size=self._batch_size,
      normalize_embeddings=True,
      convert_to_numpy=True,
      show_progress_bar=False,
    )
    return normalized(np.asarray(vectors_ND, np.float32), self.name)


def _place(model: str) -> str:
  if model.startswith(package_files.PREFIX) or os.path.exists(model):
    return str(package_files.resolve(model))
  return model


def _fingerprint(model) -> str:
  """Tells a model by its weights and by what is done with its output."""
  digest = hashlib.sha256(repr(model).encode())
  for name, weights in sorted(model.state_dict().items()):
    digest.update(name.encode())
    digest.update(weights.detach().cpu().float().numpy().tobytes())
  return digest.hexdigest()[:12]
