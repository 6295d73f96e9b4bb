import collections

import hypothesis
import pytest

from hrl_jax import base
from hrl_jax.harness import changes, operations, rubrics, terms
from tests.harness import drawn, makes

pytestmark = pytest.mark.core

# An anchor of 2, others of 3, 5 and 1, a penalty of 2 and one of 4.
RUBRIC = makes.rubric(2.0, 3.0, 5.0, 1.0, -2.0, -4.0, anchors=(0,))
CHANGED = RUBRIC._replace(version=4, lineages=9)


def _apply(*proposed, step=7):
  return operations.apply(CHANGED, proposed, step=step)


def _new(number, text, sign, origin, *parents):
  return terms.Version(f"t#{number}", 0, text, sign, origin, parents, 7)


def _raws(change):
  return {e.version.cid: e.raw for e in change.rubric.entries}


def test_create_by_hand():
  change = _apply(changes.Create("is new", -3.0))
  made = _new(9, "is new", -1, "create")
  assert change.made == (made,)
  assert change.retired == ()
  assert change.rubric == CHANGED._replace(
    entries=(*CHANGED.entries, rubrics.Entry(made, -3.0)),
    version=5,
    lineages=10,
  )


def test_a_restored_criterion_begins_a_lineage_and_names_the_old_one():
  change = _apply(changes.Create("was good", 3.0, restores="t#6"))
  assert change.made == (_new(9, "was good", 1, "restore", "t#6"),)


def test_rewrite_keeps_lineage_place_weight_and_origin():
  rewritten = _apply(changes.Rewrite("t#2", "says more")).rubric
  change = operations.apply(
    rewritten, (changes.Rewrite("t#2", "says it all"),), step=8
  )
  version = terms.Version("t#2", 2, "says it all", 1, "seed", (), 8)
  assert change.made == (version,)
  assert change.retired == (("t#2", 1),)
  assert change.rubric.entries[2] == rubrics.Entry(version, 5.0)
  assert change.rubric.entries[:2] == CHANGED.entries[:2]
  assert change.rubric.entries[3:] == CHANGED.entries[3:]
  assert (change.rubric.version, change.rubric.lineages) == (6, 9)


def test_other_words_are_no_longer_decided_by_the_exact_checker():
  task = makes.seed_task(3.0)._replace(
    rubric=(base.Criterion("is short", 3.0, "max_words", {"words": 9}),)
  )
  change = operations.apply(
    rubrics.seed(task), (changes.Rewrite("t#0", "is terse"),), step=7
  )
  assert change.rubric.criteria() == (base.Criterion("is terse", 3.0),)


def test_reweight_changes_a_weight_only():
  change = _apply(changes.Reweight("t#0", 4.0))
  assert change.made == change.retired == ()
  assert change.rubric == CHANGED._replace(
    entries=(CHANGED.entries[0]._replace(raw=4.0), *CHANGED.entries[1:]),
    version=5,
  )


def test_a_deleted_share_goes_to_the_others():
  change = _apply(changes.Delete("t#2"))
  assert change.retired == (("t#2", 0),)
  assert change.made == ()
  # The free weight of 3 + 5 + 1 is now that of 3 + 1: a factor of 9 / 4.
  assert change.rubric.weights() == (2.0, 6.75, 2.25, -2.0, -4.0)
  assert change.rubric.lineages == 9


def test_merge_by_hand():
  change = _apply(changes.Merge(("t#3", "t#1"), "does both"))
  made = _new(9, "does both", 1, "merge", "t#3", "t#1")
  assert change.made == (made,)
  assert change.retired == (("t#1", 0), ("t#3", 0))
  assert change.rubric.entries[-1] == rubrics.Entry(made, 4.0)
  assert list(_raws(change)) == ["t#0", "t#2", "t#4", "t#5", "t#9"]


@pytest.mark.parametrize(
  ("cids", "weight"),
  [
    # 3 + 5 is above the seed's largest, 5; so is 2 + 4 of penalties.
    (("t#1", "t#2"), 5.0),
    (("t#4", "t#5"), -5.0),
  ],
)
def test_a_merged_weight_is_capped(cids, weight):
  assert _raws(_apply(changes.Merge(cids, "both")))["t#9"] == weight


def test_a_split_weight_is_shared_equally():
  change = _apply(changes.Split("t#5", ("one", "two")))
  assert change.made == (
    _new(9, "one", -1, "split", "t#5"),
    _new(10, "two", -1, "split", "t#5"),
  )
  assert change.retired == (("t#5", 0),)
  assert _raws(change)["t#9"] == _raws(change)["t#10"] == -2.0
  assert change.rubric.lineages == 11


def test_a_split_weight_is_shared_as_told():
  change = _apply(changes.Split("t#2", ("one", "two"), (4.0, 1.0)))
  assert (_raws(change)["t#9"], _raws(change)["t#10"]) == (4.0, 1.0)


def test_operations_of_a_candidate_count_as_one_change():
  change = _apply(
    changes.Split("t#2", ("one", "two")),
    changes.Rewrite("t#1", "says more"),
    changes.Delete("t#3"),
    changes.Create("is new", 1.0),
    changes.Reweight("t#5", -1.0),
  )
  assert [
    (e.version.target, e.version.text, e.raw) for e in change.rubric.entries
  ] == [
    (("t#0", 0), "has 0.", 2.0),
    (("t#1", 1), "says more", 3.0),
    (("t#4", 0), "has 4.", -2.0),
    (("t#5", 0), "has 5.", -1.0),
    (("t#9", 0), "one", 2.5),
    (("t#10", 0), "two", 2.5),
    (("t#11", 0), "is new", 1.0),
  ]
  assert [version.cid for version in change.made] == [
    "t#1",
    "t#9",
    "t#10",
    "t#11",
  ]
  assert change.retired == (("t#1", 0), ("t#2", 0), ("t#3", 0))
  assert (change.rubric.version, change.rubric.lineages) == (5, 12)


@pytest.mark.parametrize(
  ("operation", "touched", "texts"),
  [
    (changes.Create("a", 1.0, restores="t#6"), (), ("a",)),
    (changes.Rewrite("t#1", "a"), ("t#1",), ("a",)),
    (changes.Delete("t#1"), ("t#1",), ()),
    (changes.Reweight("t#1", 1.0), ("t#1",), ()),
    (changes.Merge(("t#1", "t#2"), "a"), ("t#1", "t#2"), ("a",)),
    (changes.Split("t#1", ("a", "b")), ("t#1",), ("a", "b")),
  ],
)
def test_what_an_operation_names_and_says(operation, touched, texts):
  assert operations.touches(operation) == touched
  assert operations.texts(operation) == texts


@hypothesis.given(drawn.RANDOMS)
def test_made_and_retired_tell_one_rubric_from_the_other(random):
  before = drawn.rubric(random)
  change = operations.apply(before, drawn.operations(random, before), step=3)
  old = collections.Counter(e.version.target for e in before.entries)
  new = collections.Counter(e.version.target for e in change.rubric.entries)
  assert max(new.values()) == 1
  made = collections.Counter(version.target for version in change.made)
  assert old + made - collections.Counter(change.retired) == new
  assert all(version.step == 3 for version in change.made)
  # No lineage is given out twice.
  numbers = {int(cid.partition("#")[2]) for cid, _ in [*old, *new]}
  assert len({cid for cid, _ in new}) == len(new)
  assert max(numbers) < change.rubric.lineages
