import pytest

from hrl_jax.harness import changes, terms, validity
from tests.harness import makes

pytestmark = pytest.mark.core

# Anchors of 2 and 1, others of 3, 5 and 1, penalties of 2 and 4; 1 to 5.
RUBRIC = makes.rubric(2.0, 1.0, 3.0, 5.0, 1.0, -2.0, -4.0, anchors=(0, 1))
ARCHIVED = {
  "t#8": terms.Version("t#8", 1, "was good", 1, "seed"),
  "t#9": terms.Version("t#9", 0, "was bad", -1, "create"),
}
NAN, INF = float("nan"), float("inf")

Create, Rewrite, Delete = changes.Create, changes.Rewrite, changes.Delete
Reweight, Merge, Split = changes.Reweight, changes.Merge, changes.Split


def _problem(*proposed, rubric=RUBRIC, made_for=0, **limits):
  return validity.problem(
    rubric,
    proposed,
    rubric_version=made_for,
    archived=ARCHIVED,
    limits=makes.limits(**limits),
  )


def _code(*proposed, **others):
  found = _problem(*proposed, **others)
  return found and found.code


def _words(count):
  return " ".join(["word"] * count)


@pytest.mark.parametrize(
  "proposed",
  [
    (Create("is new", 3.0),),
    (Create("is bad", -3.0),),
    (Create("was good", 3.0, "t#8"),),
    (Create("was bad", -1.0, "t#9"),),
    (Rewrite("t#2", "says more"),),
    (Delete("t#2"),),
    (Reweight("t#0", 5.0),),
    (Reweight("t#5", -1.0),),
    (Merge(("t#2", "t#4"), "both"),),
    (Merge(("t#5", "t#6"), "both"),),
    (Split("t#2", ("one", "two")),),
    (Split("t#3", ("one", "two"), (4.0, 1.0)),),
    (Split("t#6", ("one", "two"), (-1.0, -3.0)),),
    (Delete("t#2"), Delete("t#3"), Reweight("t#4", 2.0), Delete("t#5")),
  ],
)
def test_what_may_be_done_has_no_problem(proposed):
  assert _problem(*proposed) is None


def test_an_older_rubric_is_stale():
  assert _problem(Delete("t#2"), made_for=1) == validity.Problem(
    "stale", "made for rubric version 1, which is 0 now"
  )


@pytest.mark.parametrize(
  "operation",
  [
    Rewrite("t#7", "says more"),
    Delete("t#8"),
    Reweight("u#2", 3.0),
    Merge(("t#2", "t#7"), "both"),
    Split("", ("one", "two")),
    # A criterion that is there is not in the archive.
    Create("has 2.", 3.0, "t#2"),
    Create("is new", 3.0, "t#7"),
  ],
)
def test_a_criterion_that_is_not_there_is_unknown(operation):
  assert _code(operation) == "unknown"


@pytest.mark.parametrize(
  "proposed",
  [
    (Rewrite("t#2", "says more"), Reweight("t#2", 1.0)),
    (Delete("t#2"), Delete("t#2")),
    (Reweight("t#3", 1.0), Merge(("t#2", "t#3"), "both")),
    (Split("t#2", ("one", "two")), Delete("t#3"), Delete("t#2")),
    (Merge(("t#2", "t#3", "t#2"), "both"),),
  ],
)
def test_a_criterion_is_touched_once(proposed):
  assert _code(*proposed) == "twice"


@pytest.mark.parametrize(
  "operation",
  [
    Rewrite("t#0", "says more"),
    Delete("t#1"),
    Merge(("t#2", "t#0"), "both"),
    Split("t#0", ("one", "two")),
  ],
)
def test_the_words_of_an_anchor_are_fixed(operation):
  assert _code(operation) == "anchor"


@pytest.mark.parametrize(
  "operation",
  [
    Merge((), "both"),
    Merge(("t#2",), "both"),
    Merge(("t#2", "t#2"), "both"),
    Split("t#2", ()),
    Split("t#2", ("one",)),
    Split("t#2", ("one", "two"), (1.0, 1.0, 1.0)),
    Split("t#2", ("one", "two", "three"), (1.0, 2.0)),
  ],
)
def test_a_merge_takes_and_a_split_makes_at_least_two(operation):
  assert _code(operation) == "parts"


@pytest.mark.parametrize("weight", [0.0, 0.99, 5.01, -0.99, -5.01, NAN, INF])
def test_a_weight_is_of_the_size_of_a_seed_weight(weight):
  # A sign that flips is a matter of its own.
  cid = "t#2" if not weight < 0 else "t#5"
  assert _code(Create("is new", weight)) == "weight"
  assert _code(Reweight(cid, weight)) == "weight"
  archived = "t#8" if not weight < 0 else "t#9"
  assert _code(Create("was", weight, archived)) == "weight"


@pytest.mark.parametrize("weight", [1.0, 5.0, -1.0, -5.0])
def test_the_sizes_of_the_seed_are_inside(weight):
  assert _code(Create("is new", weight)) is None


@pytest.mark.parametrize(
  ("cid", "weights"),
  [
    # 3 + 1 is not 3, nor is 1.5 + 1.5000001; -2 is not 2.
    ("t#2", (3.0, 1.0)),
    ("t#2", (1.5, 1.5000001)),
    ("t#5", (1.0, 1.0)),
    # The parts are as large as a weight of the seed, too: 1 to 5.
    ("t#2", (2.5, 0.5)),
    ("t#4", None),
    ("t#2", (NAN, 3.0)),
    ("t#2", (INF, 1.0)),
  ],
)
def test_the_parts_of_a_split_are_weights_that_add_up(cid, weights):
  assert _code(Split(cid, ("one", "two"), weights)) == "weight"


def test_the_parts_of_a_split_may_miss_the_sum_by_a_rounding():
  third = 5.0 / 3
  weights = (third, third, 5.0 - 2 * third + 1e-10)
  assert _code(Split("t#3", ("one", "two", "three"), weights)) is None


@pytest.mark.parametrize(
  "operation",
  [
    Reweight("t#2", -3.0),
    Reweight("t#5", 2.0),
    Create("was good", -3.0, "t#8"),
    Create("was bad", 3.0, "t#9"),
    Merge(("t#2", "t#5"), "both"),
    # 5 - 2 is the 3 that it was, but the second part is a penalty.
    Split("t#2", ("one", "two"), (5.0, -2.0)),
  ],
)
def test_a_sign_never_flips(operation):
  assert _code(operation) == "sign"


def _saying(text):
  return [
    (Create(text, 3.0),),
    (Create(text, 3.0, "t#8"),),
    (Rewrite("t#2", text),),
    (Merge(("t#2", "t#4"), text),),
    (Split("t#2", ("one", text)),),
  ]


@pytest.mark.parametrize("text", ["", " \n", _words(129)])
def test_words_are_some_and_not_too_many(text):
  for proposed in _saying(text):
    assert _code(*proposed) == "text"


def test_as_many_words_as_allowed_are_fine():
  for proposed in _saying(_words(128)):
    assert _code(*proposed) is None


def test_without_a_judge_nobody_grades_new_words():
  for proposed in _saying("says more"):
    assert _code(*proposed, is_judged=False) == "unjudged"
  for operation in (Delete("t#2"), Reweight("t#2", 1.0)):
    assert _code(operation, is_judged=False) is None


def _cosine(pairs):
  def similarity(text, others):
    return [pairs.get(frozenset({text, other}), 0.0) for other in others]

  return similarity


def test_new_words_say_what_no_other_criterion_says():
  near = _cosine({frozenset({"says more", "has 3."}): 0.95})
  for proposed in _saying("says more"):
    assert _code(*proposed, similarity=near) == "duplicate"
  far = _cosine({frozenset({"says more", "has 3."}): 0.9499})
  for proposed in _saying("says more"):
    assert _code(*proposed, similarity=far) is None


def test_a_duplicate_is_named_with_the_closest():
  near = _cosine(
    {
      frozenset({"says more", "has 3."}): 0.96,
      frozenset({"says more", "has 4."}): 0.97,
    }
  )
  assert _problem(Create("says more", 1.0), similarity=near) == (
    "duplicate",
    "'says more' says what 'has 4.' says",
  )


def test_two_new_criteria_may_not_say_the_same():
  same = (Create("is new", 3.0), Rewrite("t#2", "is new"))
  assert _code(*same) == "duplicate"
  assert _code(Split("t#2", ("one", "one"))) == "duplicate"
  twice = (Create("was good", 3.0, "t#8"), Create("was good", 1.0, "t#8"))
  assert _code(*twice) == "duplicate"


def test_words_that_leave_the_rubric_may_be_said_again():
  near = _cosine({frozenset({"says more", "has 2."}): 0.99})
  assert _code(Rewrite("t#2", "says more"), similarity=near) is None
  moved = (Delete("t#2"), Create("says more", 3.0))
  assert _code(*moved, similarity=near) is None
  assert _code(moved[1], similarity=near) == "duplicate"


def test_a_criterion_that_is_alone_has_nothing_beside_it():
  rubric = makes.rubric(3.0)
  assert _code(Rewrite("t#0", "says more"), rubric=rubric) is None


def test_some_positive_criterion_stays_beside_the_anchors():
  rubric = makes.rubric(2.0, 3.0, -1.0, anchors=(0,))
  assert _code(Delete("t#1"), rubric=rubric) == "empty"
  assert _code(Delete("t#1"), Create("bad", -1.0), rubric=rubric) == "empty"
  assert _code(Delete("t#1"), Create("good", 1.0), rubric=rubric) is None


def test_some_positive_criterion_stays_without_anchors():
  rubric = makes.rubric(2.0, 3.0, -1.0)
  assert _code(Delete("t#0"), rubric=rubric) is None
  assert _code(Delete("t#0"), Delete("t#1"), rubric=rubric) == "empty"


def test_a_rubric_grows_up_to_its_limit():
  # 12 criteria may become 20.
  rubric = makes.rubric(*[1.0] * 12)
  new = [Create(f"is new {number}", 1.0) for number in range(9)]
  assert _code(*new[:8], rubric=rubric) is None
  assert _code(*new, rubric=rubric) == "size"
  assert _code(*new, Delete("t#0"), rubric=rubric) is None


@pytest.mark.parametrize(
  ("rubric", "proposed"),
  [
    (RUBRIC, ()),
    (RUBRIC, (Reweight("t#2", 3.0),)),
    (RUBRIC, (Rewrite("t#2", "has 2."),)),
    # The share of anchors is fixed, and so is that of a lone other one.
    (makes.rubric(2.0, 3.0, 1.0, anchors=(0,)), (Reweight("t#0", 3.0),)),
    (makes.rubric(2.0, 1.0, 3.0, anchors=(0, 1)), (Reweight("t#2", 1.0),)),
    # Twice the seed's weights, each of them.
    (
      makes.rubric(1.0, 2.0, -4.0),
      (Reweight("t#0", 2.0), Reweight("t#1", 4.0)),
    ),
  ],
)
def test_what_changes_nothing_is_ineffective(rubric, proposed):
  assert _code(*proposed, rubric=rubric) == "ineffective"


def test_a_reweight_that_moves_nothing_may_go_with_what_does():
  proposed = (Reweight("t#2", 3.0), Delete("t#4"))
  assert _code(*proposed) is None


def test_the_first_problem_is_told_in_words():
  found = _problem(Delete("t#0"), Delete("t#7"))
  assert found == ("anchor", "t#0 is an anchor: it may only be reweighted")
