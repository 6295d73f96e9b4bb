import math

import pytest

from hrl_jax import base
from hrl_jax.harness import changes, operations, reversals, rubrics

pytestmark = pytest.mark.core

TASK = base.Task(
  "t",
  "science",
  (base.Message("user", "?"),),
  (
    base.Criterion("names the reagent", 3.0),
    base.Criterion("gives a yield", 2.0),
    base.Criterion("rambles", -2.0),
    base.Criterion("cites a source", 5.0),
  ),
)
REAGENT, YIELD, RAMBLES, SOURCE = (f"t#{number}" for number in range(4))
# The next lineages of the task.
FIFTH, SIXTH, SEVENTH = "t#4", "t#5", "t#6"

ALIKE = {frozenset({"names the reagent", "names its reagent"}): 0.95}


def similarity(left, right):
  assert left != right
  return ALIKE.get(frozenset({left, right}), 0.949)


def story(*steps, draws=None):
  """Accepted updates, `(step, *operations)` each; drawn at their steps."""
  seed = rubric = rubrics.seed(TASK)
  updates = []
  for step, *typed in steps:
    change = operations.apply(rubric, typed, step=step)
    rubric = change.rubric
    updates.append(update(step, typed, change.made, change.retired))
  if draws is None:
    draws = [step for step, *_ in steps]
  return reversals.Story(seed, tuple(updates), tuple(draws))


def update(step, typed, made=(), retired=(), **others):
  candidate = changes.Candidate(
    id=f"c{step}",
    step=step,
    task="t",
    interface=others.get("interface", "rubric"),
    operations=tuple(typed),
    is_primary=True,
    round=0,
    rubric_version=0,
    potential=0.0,
    is_grounded=False,
    evidence=(),
    rationale="",
    author="rules",
  )
  decision = changes.Decision(others.get("is_accepted", True), "within")
  return changes.Update(
    candidate, changes.Measurement("ok", ""), decision, made, retired
  )


def undone(*steps, **others):
  marks = reversals.marks(
    story(*steps, **others), similarity=similarity, floor=0.95
  )
  return [mark.undone for mark in marks]


Rewrite, Reweight, Delete = changes.Rewrite, changes.Reweight, changes.Delete
Create, Merge, Split = changes.Create, changes.Merge, changes.Split


def test_rewrite_back_by_word():
  assert undone(
    (0, Rewrite(REAGENT, "names it")),
    (1, Rewrite(REAGENT, "names the reagent")),
  ) == [None, "c0"]


def test_rewrite_back_by_meaning():
  # Cosine 0.95 to the seed's wording, which is just enough.
  back = Rewrite(REAGENT, "names its reagent")
  assert undone((0, Rewrite(REAGENT, "names it")), (1, back)) == [None, "c0"]
  marks = reversals.marks(
    story((0, Rewrite(REAGENT, "names it")), (1, back)),
    similarity=similarity,
    floor=0.96,
  )
  assert [mark.undone for mark in marks] == [None, None]


def test_rewrite_on_and_rewrite_of_another_criterion():
  assert undone(
    (0, Rewrite(REAGENT, "names it")),
    (1, Rewrite(REAGENT, "names and dates it")),
    (2, Rewrite(YIELD, "names the reagent")),
  ) == [None, None, None]


def test_rewrite_near_the_present_wording_is_no_way_back():
  assert undone(
    (0, Rewrite(YIELD, "names the reagent")),
    (1, Rewrite(YIELD, "names its reagent")),
  ) == [None, None]


def test_rewrite_back_over_two_versions():
  assert undone(
    (0, Rewrite(REAGENT, "names it")),
    (1, Rewrite(REAGENT, "dates it")),
    (2, Rewrite(REAGENT, "names the reagent")),
  ) == [None, None, "c1"]


def test_first_rewrite_near_the_seed_is_none():
  # No earlier update, so nothing to undo.
  assert undone((0, Rewrite(REAGENT, "names its reagent"))) == [None]


def test_delete_of_a_create():
  assert undone((0, Create("new", 2.0)), (1, Delete(FIFTH))) == [None, "c0"]
  assert undone((0, Create("new", 2.0)), (1, Delete(YIELD))) == [None, None]


def test_delete_of_a_rewritten_create():
  assert undone(
    (0, Create("new", 2.0)),
    (1, Rewrite(FIFTH, "newer")),
    (2, Delete(FIFTH)),
  ) == [None, None, "c0"]


def test_restore_of_a_delete_and_its_delete():
  restore = Create("gives a yield", 2.0, restores=YIELD)
  assert undone((0, Delete(YIELD)), (1, restore), (2, Delete(FIFTH))) == [
    None,
    "c0",
    "c1",
  ]


def test_restore_in_other_words():
  restore = Create("tells how much", 2.0, restores=YIELD)
  assert undone((0, Delete(YIELD)), (1, restore)) == [None, "c0"]


def test_create_that_says_what_was_deleted_restores_it():
  again = Create("names its reagent", 2.0)
  assert undone((0, Delete(REAGENT)), (1, again)) == [None, "c0"]
  other = Create("names it", 2.0)
  assert undone((0, Delete(REAGENT)), (1, other)) == [None, None]


def test_reweight_back():
  assert undone((0, Reweight(REAGENT, 5.0)), (1, Reweight(REAGENT, 3.0))) == [
    None,
    "c0",
  ]


def test_reweight_to_the_former_weight_of_another_criterion():
  assert undone((0, Reweight(YIELD, 4.0)), (1, Reweight(REAGENT, 2.0))) == [
    None,
    None,
  ]


@pytest.mark.parametrize(
  ("cid", "weights", "expected"),
  [
    # Opposite, but not back to 3.
    (REAGENT, (5.0, 4.0), [None, None]),
    # On, in the same direction.
    (REAGENT, (4.0, 5.0), [None, None]),
    # In two steps back to 3: opposite to the first.
    (REAGENT, (5.0, 4.0, 3.0), [None, None, "c0"]),
    # Back to 3 from the other side: the second is undone only in part.
    (REAGENT, (5.0, 2.0, 3.0), [None, None, None]),
    # A penalty: -2 to -4 and back.
    (RAMBLES, (-4.0, -2.0), [None, "c0"]),
  ],
)
def test_reweights_in_a_row(cid, weights, expected):
  steps = [(step, Reweight(cid, w)) for step, w in enumerate(weights)]
  assert undone(*steps) == expected


def test_reweight_back_to_a_weight_that_a_merge_made():
  # 3 + 2 = 5 is the weight before.
  assert undone(
    (0, Merge((REAGENT, YIELD), "both")),
    (1, Reweight(FIFTH, 3.0)),
    (2, Reweight(FIFTH, 5.0)),
  ) == [None, None, "c1"]


def test_split_of_a_merge():
  assert undone(
    (0, Merge((REAGENT, YIELD), "both")),
    (1, Split(FIFTH, ("one", "two"))),
  ) == [None, "c0"]
  assert undone(
    (0, Merge((REAGENT, YIELD), "both")),
    (1, Split(SOURCE, ("one", "two"))),
  ) == [None, None]


def test_merge_of_a_split():
  split = (0, Split(SOURCE, ("one", "two", "three")))
  assert undone(split, (1, Merge((FIFTH, SEVENTH), "both"))) == [None, "c0"]
  # One part of it with something else is a step on.
  assert undone(split, (1, Merge((SIXTH, YIELD), "both"))) == [None, None]


def test_one_operation_of_several_is_enough():
  assert undone(
    (0, Create("new", 2.0), Rewrite(REAGENT, "names it")),
    (1, Reweight(YIELD, 3.0), Delete(FIFTH)),
  ) == [None, "c0"]


def test_latest_of_two_that_are_undone_is_named():
  assert undone(
    (0, Create("new", 2.0)),
    (1, Reweight(YIELD, 4.0)),
    (2, Reweight(YIELD, 2.0), Delete(FIFTH)),
  ) == [None, None, "c1"]


@pytest.mark.parametrize(
  ("draws", "expected"),
  [
    ([0, 30], "c0"),
    ([0, 11, 30], "c0"),
    # Step 0 is the third draw before.
    ([0, 11, 20, 30], None),
    # Twice in a step is one draw; the order does not matter.
    ([30, 0, 11, 11], "c0"),
    # Later draws do not count.
    ([0, 11, 30, 31, 32], "c0"),
  ],
)
def test_only_the_two_draws_before_count(draws, expected):
  steps = ((0, Create("new", 2.0)), (30, Delete(FIFTH)))
  assert undone(*steps, draws=draws) == [None, expected]


def test_only_accepted_rubric_updates_count():
  create, delete = story((0, Create("new", 2.0)), (2, Delete(FIFTH))).updates
  rejected = update(1, [Rewrite(REAGENT, "names it")], is_accepted=False)
  guidance = update(1, [changes.Drop("critique")], interface="rollout")
  mixed = reversals.Story(
    rubrics.seed(TASK), (create, rejected, guidance, delete), (0, 1, 2)
  )
  marks = reversals.marks(mixed, similarity=similarity, floor=0.95)
  assert marks == (
    reversals.Mark("c0", 0, None),
    reversals.Mark("c2", 2, "c0"),
  )


def test_update_without_its_draw_is_refused():
  with pytest.raises(
    ValueError, match=r"c7 answers a draw at step 7.*\[0, 3\]"
  ):
    undone((7, Delete(YIELD)), draws=[3, 0, 3])


def test_log_that_does_not_follow_from_the_seed_is_refused():
  whole = story((0, Create("new", 2.0)), (1, Create("more", 2.0)))
  # The first update is lost: the second would have begun lineage 4.
  holed = whole._replace(updates=whole.updates[1:])
  with pytest.raises(ValueError, match=r"c1 made \[\('t#5', 0\)\] in the log"):
    reversals.marks(holed, similarity=similarity, floor=0.95)


def test_rate_by_window():
  there_and_back = story(
    (0, Create("new", 2.0)), (9, Delete(FIFTH)), (20, Reweight(YIELD, 3.0))
  )
  alone = story((10, Delete(YIELD)))
  windows = reversals.reversal_rate(
    [there_and_back, alone],
    steps=25,
    window=10,
    similarity=similarity,
    floor=0.95,
  )
  assert windows == ((0, 2, 1), (10, 1, 0), (20, 1, 0))
  assert [each.rate for each in windows] == [0.5, 0.0, 0.0]


def test_window_without_updates_has_no_rate():
  (empty,) = reversals.reversal_rate(
    [], steps=5, window=10, similarity=similarity, floor=0.95
  )
  assert empty == (0, 0, 0) and math.isnan(empty.rate)


def test_update_beyond_the_run_is_refused():
  with pytest.raises(ValueError, match="c9 lies at step 9, but the run has 9"):
    reversals.reversal_rate(
      [story((9, Delete(YIELD)))],
      steps=9,
      window=10,
      similarity=similarity,
      floor=0.95,
    )
