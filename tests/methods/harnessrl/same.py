"""Whether two things are equal bit for bit."""

import jax
import numpy as np


def states(one, other) -> None:
  """Checks that two states have the same arrays and the same texts."""
  left, right = jax.tree.leaves(one), jax.tree.leaves(other)
  assert len(left) == len(right)
  for a, b in zip(left, right, strict=True):
    assert np.asarray(a).dtype == np.asarray(b).dtype
    np.testing.assert_array_equal(a, b)
  assert one.versions == other.versions
  assert one.fields == other.fields


def evidence(one, other) -> None:
  """Checks that two steps saw the same plan, rollouts, scores and rewards."""
  assert one.plan == other.plan
  assert one.failures == other.failures
  for name in ("rewards_PG", "valid_PG", "importance_P"):
    np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
  for a, b in zip(one.groups, other.groups, strict=True):
    assert (a.slot, a.fate) == (b.slot, b.fate)
    np.testing.assert_array_equal(a.scores_GC, b.scores_GC)
    assert [(r.seed, r.text) for r in a.rollouts] == [
      (r.seed, r.text) for r in b.rollouts
    ]
