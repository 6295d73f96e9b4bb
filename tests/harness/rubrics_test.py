import hypothesis
import numpy as np
import pytest

from hrl_jax import base
from hrl_jax.harness import changes, operations, rubrics, terms
from tests.harness import drawn, makes

pytestmark = pytest.mark.core


def _changed(rubric, *raws):
  """The rubric with other weights as set, in order."""
  entries = tuple(
    entry._replace(raw=raw)
    for entry, raw in zip(rubric.entries, raws, strict=True)
  )
  return rubric._replace(entries=entries)


def test_weights_by_hand():
  # Anchors have 2 + 1 of the positive 10, the others 3 + 4.
  rubric = makes.rubric(2.0, 1.0, 3.0, -2.0, 4.0, anchors=(0, 1))
  assert (rubric.anchored, rubric.free) == (3.0, 7.0)
  assert rubric.kappa == 10.0
  # Anchors now sum to 4, the others to 14: factors of 3/4 and 7/14.
  changed = _changed(rubric, 1.0, 3.0, 4.0, -1.0, 10.0)
  assert changed.weights() == (0.75, 2.25, 2.0, -1.0, 5.0)


def test_a_lone_anchor_cannot_be_moved():
  rubric = makes.rubric(2.0, 3.0, anchors=(0,))
  assert _changed(rubric, 5.0, 3.0).weights() == (2.0, 3.0)


def test_without_anchors_all_positive_weights_share():
  assert _changed(makes.rubric(1.0, 3.0), 3.0, 1.0).weights() == (3.0, 1.0)
  assert _changed(makes.rubric(1.0, 3.0), 1.0, 1.0).weights() == (2.0, 2.0)


@hypothesis.given(drawn.RANDOMS)
def test_an_untouched_rubric_has_the_weights_of_the_seed_to_the_bit(random):
  rubric = drawn.rubric(random)
  assert rubric.weights() == tuple(entry.raw for entry in rubric.entries)


@hypothesis.given(drawn.RANDOMS)
def test_weights_that_were_put_back_are_those_of_the_seed_to_the_bit(random):
  rubric = drawn.rubric(random)
  there = operations.apply(rubric, _reweights(random, rubric), step=0).rubric
  back = [changes.Reweight(e.version.cid, e.raw) for e in rubric.entries]
  again = operations.apply(there, back, step=1).rubric
  assert again.weights() == rubric.weights()


def _reweights(random, rubric):
  return [
    changes.Reweight(
      entry.version.cid,
      entry.version.sign * random.uniform(rubric.lowest, rubric.highest),
    )
    for entry in rubric.entries
  ]


@hypothesis.given(drawn.RANDOMS)
def test_whatever_is_done_keeps_total_anchors_and_penalties(random):
  rubric = drawn.rubric(random)
  proposed = drawn.operations(random, rubric)
  after = operations.apply(rubric, proposed, step=1).rubric
  pairs = list(zip(after.entries, after.weights(), strict=True))
  seed = [entry.raw for entry in rubric.entries]
  total = sum(raw for raw in seed if raw > 0)
  anchored = sum(entry.raw for entry in rubric.entries if entry.is_anchor)
  positive = sum(weight for _, weight in pairs if weight > 0)
  of_anchors = sum(weight for entry, weight in pairs if entry.is_anchor)
  assert abs(positive - total) <= 1e-9 * total
  assert abs(of_anchors - anchored) <= 1e-9 * total
  assert after.kappa * positive == pytest.approx(100, rel=1e-9)
  for entry, weight in pairs:
    assert np.sign(weight) == entry.version.sign
    if weight < 0:
      assert weight == entry.raw


@hypothesis.given(drawn.RANDOMS)
def test_rescaling_what_is_rescaled_changes_nothing(random):
  rubric = drawn.rubric(random)
  proposed = drawn.operations(random, rubric)
  once = operations.apply(rubric, proposed, step=1).rubric
  twice = _changed(once, *once.weights())
  np.testing.assert_allclose(twice.weights(), once.weights(), rtol=1e-12)


@hypothesis.given(drawn.RANDOMS)
def test_weights_do_not_depend_on_the_order_of_operations(random):
  rubric = drawn.rubric(random)
  proposed = drawn.operations(random, rubric)
  mixed = random.sample(proposed, len(proposed))

  def weights(of):
    after = operations.apply(rubric, of, step=1).rubric
    texts = [entry.version.text for entry in after.entries]
    return dict(zip(texts, after.weights(), strict=True))

  expected, actual = weights(proposed), weights(mixed)
  assert actual.keys() == expected.keys()
  for text, weight in expected.items():
    assert actual[text] == pytest.approx(weight, rel=1e-9)


def test_a_rubric_that_lost_its_free_weight_has_no_weights():
  rubric = makes.rubric(2.0, 3.0, anchors=(0,))
  with pytest.raises(ZeroDivisionError):
    rubric._replace(entries=rubric.entries[:1]).weights()


def test_the_seed_has_the_words_and_checkers_of_its_task():
  length = base.Criterion("is short", -2.0, "max_words", {"words": 9})
  task = makes.seed_task(3.0)._replace(
    rubric=(base.Criterion("is good", 3.0), length)
  )
  first, second = rubrics.seed_versions(task)
  assert first == terms.Version("t#0", 0, "is good", 1, "seed")
  assert second == terms.Version(
    "t#1", 0, "is short", -1, "seed", (), -1, "max_words", {"words": 9}
  )
  rubric = rubrics.seed(task, ["t#0"])
  assert rubric.entries == (
    rubrics.Entry(first, 3.0, True),
    rubrics.Entry(second, -2.0, False),
  )
  assert (rubric.task, rubric.version, rubric.lineages) == ("t", 0, 2)
  assert rubric.criteria() == task.rubric


def test_graders_take_the_rescaled_weights():
  rubric = _changed(makes.rubric(1.0, 3.0), 1.0, 1.0)
  assert [c.weight for c in rubric.criteria()] == [2.0, 2.0]


def test_a_criterion_is_found_by_its_lineage():
  rubric = makes.rubric(1.0, 3.0)
  assert rubric.find("t#1") is rubric.entries[1]
  assert rubric.find("t#2") is None


def test_limits_come_from_the_seed():
  rubric = makes.rubric(2.0, -5.0, 3.0, anchors=(0,))
  assert (rubric.lowest, rubric.highest) == (2.0, 5.0)


@pytest.mark.parametrize(
  ("count", "most"), [(1, 20), (13, 20), (14, 21), (15, 23), (40, 60)]
)
def test_a_rubric_may_grow_to_twenty_or_by_half(count, most):
  # 1.5 * 15 = 22.5, rounded up.
  assert makes.rubric(*[1.0] * count).most == most
