"""The cosine from which on two criteria count as related (H-54)."""

import math
from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from hrl_jax.services.memory import search

# Criteria that are compared with all others at once.
_CHUNK = 512
# A floor that a person reads and writes: rounded down to this.
_STEP = 1e-4


def calibrate_floor(
  embeddings_ND: Float[np.ndarray, "N D"],
  tasks: Sequence[str],
  signs: Sequence[int],
  share: float,
) -> float:
  """The floor at which a share of criteria have a hit.

  A cosine means something else for every embedder. The paper's floor, 0.82,
  belongs to its own; another embedder gets the floor that relates the same
  share of criteria to at least one of another task and of the same sign.

  Args:
    embeddings_ND: unit vector of each criterion.
    tasks: whose rubric each is in.
    signs: of its weight.
    share: of criteria, above 0 and at most 1.

  Returns:
    A cosine, rounded down to four decimals. The share is reached, and nearly
    no more than that.

  Raises:
    ValueError: if the share is not in range, or too few criteria have another
      task's of their sign beside them.
  """
  if not 0 < share <= 1:
    raise ValueError(f"The share must be in (0, 1], got {share}.")
  best_N = _best(embeddings_ND, tasks, signs)
  wanted = math.ceil(share * len(best_N) - 1e-9)
  comparable = int(np.isfinite(best_N).sum())
  if wanted > comparable:
    raise ValueError(
      f"Only {comparable} of {len(best_N)} criteria have another task's of "
      f"their sign to compare with, so no floor gives {wanted} of them a hit. "
      "Lower the share, or calibrate on more tasks."
    )
  floor = np.sort(best_N)[len(best_N) - wanted]
  return max(-1.0, round(math.floor(floor / _STEP) * _STEP, 4))


def _best(
  embeddings_ND: Float[np.ndarray, "N D"],
  tasks: Sequence[str],
  signs: Sequence[int],
) -> Float[np.ndarray, " N"]:
  """The greatest cosine of each criterion, -inf if there is none to take."""
  _, task_N = np.unique(
    np.array(tasks, dtype=object).astype(str), return_inverse=True
  )
  sign_N = np.array(signs)
  vectors_ND = embeddings_ND.astype(np.float32)
  best_N = np.full(len(vectors_ND), -np.inf)
  for start in range(0, len(vectors_ND), _CHUNK):
    chunk = slice(start, start + _CHUNK)
    cosine_CN = vectors_ND[chunk] @ vectors_ND.T
    cosine_CN[task_N[chunk, None] == task_N[None]] = -np.inf
    cosine_CN[sign_N[chunk, None] != sign_N[None]] = -np.inf
    nearest_C = np.argmax(cosine_CN, axis=1)
    exact_C = search.cosines(vectors_ND[chunk], vectors_ND[nearest_C])
    is_found_C = np.isfinite(np.max(cosine_CN, axis=1))
    best_N[chunk] = np.where(is_found_C, exact_C, -np.inf)
  return best_N
