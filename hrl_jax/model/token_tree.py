"""Log-probabilities of many sequences that begin alike, each token once.

Sequences that share a beginning share its tokens: they are laid out as a tree,
flat, every token after the one that it follows, and a token attends to what
precedes it in its own sequence and to nothing else. So a prompt costs one pass
for all that continues it, a continuation of it costs only what is new, and
equal sequences cost nothing more. Forward only, on keys of the tree itself, so
for decoders whose every layer is attention.

All trees are filled up to a fixed number of tokens, and the last to that or to
a half or a quarter of it: three shapes are compiled in a run, however many
sequences there are and however long.
"""

import itertools
from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike, DTypeLike
from jaxtyping import Array, Float

from hrl_jax.model import attention, decoder, specification
from kernels.linear_logprobs import linear_logprobs


class Tree(NamedTuple):
  """F flat tokens, each after the token that it follows.

  Attributes:
    tokens_F: ids; 0 in padding.
    positions_F: how many tokens precede each in its sequence.
    parents_F: flat index of the token before; its own index where none is.
    visible_FF: True where a token (left) attends to one (right): itself and
      what precedes it.
  """

  tokens_F: ArrayLike
  positions_F: ArrayLike
  parents_F: ArrayLike
  visible_FF: ArrayLike


class Packed(NamedTuple):
  """A tree, and where its sequences stand in it.

  Attributes:
    tree: the tokens.
    members: index of each sequence, and the flat indices of its tokens.
  """

  tree: Tree
  members: tuple[tuple[int, np.ndarray], ...]


def pack(
  sequences: Sequence[Sequence[int]], *, num_tokens: int
) -> tuple[Packed, ...]:
  """Lays sequences out as trees.

  They are taken in alphabetic order of their tokens, in which each shares with
  the one before it all that it shares with any; what a tree cannot hold begins
  the next. The trees do not depend on the order in which sequences are given.

  Args:
    sequences: token ids, at least one in each; equal ones share all tokens.
    num_tokens: of a tree; doubled for one that holds a longer sequence.

  Returns:
    Trees, none for no sequences; each sequence is in exactly one.

  Raises:
    ValueError: if a sequence is empty.
  """
  if not all(map(len, sequences)):
    raise ValueError(
      f"Sequence {[len(s) for s in sequences].index(0)} of {len(sequences)} "
      "has no token, so there is nothing to predict. Leave it out."
    )
  order = sorted(range(len(sequences)), key=lambda i: tuple(sequences[i]))
  packed: list[Packed] = []
  open_tree = _OpenTree()
  for index in order:
    sequence = tuple(sequences[index])
    if open_tree.size_with(sequence) > num_tokens and open_tree.members:
      packed.append(open_tree.close(num_tokens))
      open_tree = _OpenTree()
    open_tree.add(index, sequence)
  if open_tree.members:
    packed.append(open_tree.close(num_tokens))
  return tuple(packed)


class _OpenTree:
  """A tree that is being filled, in alphabetic order."""

  def __init__(self) -> None:
    self.tokens: list[int] = []
    self.parents: list[int] = []
    self.members: list[tuple[int, np.ndarray]] = []
    self._last: tuple[int, ...] = ()
    self._path: list[int] = []

  def size_with(self, sequence: tuple[int, ...]) -> int:
    return len(self.tokens) + len(sequence) - self._shared(sequence)

  def add(self, index: int, sequence: tuple[int, ...]) -> None:
    del self._path[self._shared(sequence) :]
    for token in sequence[len(self._path) :]:
      here = len(self.tokens)
      self.tokens.append(token)
      self.parents.append(self._path[-1] if self._path else here)
      self._path.append(here)
    self._last = sequence
    self.members.append((index, np.array(self._path)))

  def close(self, num_tokens: int) -> Packed:
    size = max(1, num_tokens // 4)
    while size < len(self.tokens):
      size *= 2
    padding = size - len(self.tokens)
    positions_F = np.zeros(size, np.int32)
    parents_F = np.arange(size, dtype=np.int32)
    parents_F[: len(self.parents)] = self.parents
    visible_FF = np.eye(size, dtype=bool)
    for here, parent in enumerate(self.parents):
      if parent != here:
        positions_F[here] = positions_F[parent] + 1
        visible_FF[here] |= visible_FF[parent]
    tree = Tree(
      tokens_F=np.array([*self.tokens, *[0] * padding], np.int32),
      positions_F=positions_F,
      parents_F=parents_F,
      visible_FF=visible_FF,
    )
    return Packed(tree, tuple(self.members))

  def _shared(self, sequence: tuple[int, ...]) -> int:
    pairs = zip(self._last, sequence, strict=False)
    alike = itertools.takewhile(lambda pair: pair[0] == pair[1], pairs)
    return sum(1 for _ in alike)


def make_logprobs(
  config: specification.DecoderConfig, dtype: DTypeLike, *, head_chunk: int
) -> Callable[[decoder.Params, Tree], Float[Array, " F"]]:
  """Binds a network into a jitted `logprobs(params, tree)`.

  Args:
    config: sizes of the network.
    dtype: of the computation; parameters of another are cast.
    head_chunk: tokens whose logits are in memory at a time.

  Returns:
    A function that gives the log-probability of each token after what precedes
    it, in nats, float32, at temperature 1; 0 for the first of a sequence and
    for padding.
  """

  def logprobs(params: decoder.Params, tree: Tree) -> Float[Array, " F"]:
    params = jax.tree.map(lambda leaf: leaf.astype(dtype), params)
    layout = attention.Layout(
      tree.positions_F, lambda q, k, v: attention.row(q, k, v, tree.visible_FF)
    )
    hidden_FD = decoder.hidden(config, params, tree.tokens_F, layout)
    logprobs_F, _ = linear_logprobs(
      hidden_FD[tree.parents_F],
      decoder.head_weight(params),
      tree.tokens_F,
      temperature=1.0,
      chunk=head_chunk,
    )
    return jnp.where(tree.positions_F > 0, logprobs_F, 0.0)

  return jax.jit(logprobs)
