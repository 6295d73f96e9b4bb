import jax
import numpy as np
import pytest

from hrl_jax.model import token_tree
from tests import tiny

LOGPROBS = token_tree.make_logprobs(tiny.DECODER, np.float32, head_chunk=8)
# Three that begin alike, one that is the beginning of another, one alone.
SEQUENCES = (
  (5, 6, 7, 8, 9),
  (5, 6, 7, 3),
  (9, 9, 1),
  (5, 6),
  (5, 6, 7, 8, 9),
)


def by_hand(sequence):
  """Log-probabilities of all tokens but the first, by the whole pass."""
  logits_TV = tiny.logits(
    tiny.DECODER, tiny.params(), sequence[:1], sequence[1:]
  )
  logprobs_TV = jax.nn.log_softmax(logits_TV)
  return [float(logprobs_TV[t, token]) for t, token in enumerate(sequence[1:])]


def by_tree(sequences, num_tokens):
  found = {}
  for tree, members in token_tree.pack(sequences, num_tokens=num_tokens):
    logprobs_F = np.asarray(LOGPROBS(tiny.params(), tree))
    for index, path in members:
      np.testing.assert_array_equal(tree.tokens_F[path], sequences[index])
      assert index not in found
      found[index] = logprobs_F[path]
  return [found[index] for index in range(len(sequences))]


def test_what_sequences_share_stands_once():
  (packed,) = token_tree.pack(SEQUENCES, num_tokens=16)
  # Alphabetic: 5 6 / 5 6 7 3 / 5 6 7 8 9 twice / 9 9 1.
  tree, members = packed
  assert tree.tokens_F.tolist() == [5, 6, 7, 3, 8, 9, 9, 9, 1] + [0] * 7
  assert tree.parents_F.tolist()[:9] == [0, 0, 1, 2, 2, 4, 6, 6, 7]
  assert tree.positions_F.tolist()[:9] == [0, 1, 2, 3, 3, 4, 0, 1, 2]
  assert {index: path.tolist() for index, path in members} == {
    3: [0, 1],
    1: [0, 1, 2, 3],
    0: [0, 1, 2, 4, 5],
    4: [0, 1, 2, 4, 5],
    2: [6, 7, 8],
  }
  assert np.flatnonzero(tree.visible_FF[5]).tolist() == [0, 1, 2, 4, 5]
  assert np.flatnonzero(tree.visible_FF[7]).tolist() == [6, 7]


@pytest.mark.parametrize("num_tokens", [16, 8, 5, 1])
def test_log_probabilities_are_those_of_each_sequence_alone(num_tokens):
  found = by_tree(SEQUENCES, num_tokens)
  for sequence, logprobs_T in zip(SEQUENCES, found, strict=True):
    assert logprobs_T[0] == 0.0
    np.testing.assert_allclose(logprobs_T[1:], by_hand(sequence), atol=1e-5)


def test_trees_do_not_depend_on_the_order_of_sequences():
  there = token_tree.pack(SEQUENCES, num_tokens=6)
  back = token_tree.pack(SEQUENCES[::-1], num_tokens=6)
  for (tree, _), (other, _) in zip(there, back, strict=True):
    jax.tree.map(np.testing.assert_array_equal, tree, other)


def test_there_are_three_shapes_until_a_sequence_is_longer():
  sizes = {
    len(tree.tokens_F)
    for count in range(1, 40)
    for tree, _ in token_tree.pack(
      [(number, 1, 2) for number in range(count)], num_tokens=32
    )
  }
  assert sizes == {8, 16, 32}
  ((tree, _),) = token_tree.pack([range(33)], num_tokens=32)
  assert len(tree.tokens_F) == 64


def test_no_sequences_make_no_tree():
  assert token_tree.pack([], num_tokens=8) == ()


def test_an_empty_sequence_is_refused():
  with pytest.raises(ValueError, match="Sequence 1 of 2 has no token"):
    token_tree.pack([(1,), ()], num_tokens=8)
