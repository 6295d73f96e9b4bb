import pytest

from hrl_jax import base
from hrl_jax.harness import donors, history, records, retrieval, terms
from tests.harness import makes

pytestmark = pytest.mark.core

# The target in its second wording, its first wording, and another criterion.
NEW, OLD, OTHER = makes.target(0, 1), makes.target(0), makes.target(1)
FAR = makes.target(4, task="far")
NEAR = makes.target(2, 3, task="near")

# No rollout meets the target.
NOW = makes.group(
  {NEW: "0000", OTHER: "011?"},
  rewards=(0.2, 0.7, 0.6, None),
  texts=("a", "b", "c", "d"),
  id="now",
  step=9,
)


class Memory:
  """Groups at places, and which of them were read."""

  def __init__(self, *groups):
    self.groups = groups
    self.read = []

  def history(self, task):
    """Of those that are about a task."""
    known = history.History(task)
    for offset, group in enumerate(self.groups):
      if group.task == task:
        place = history.Place(offset, 1)
        known = history.extend(known, group, place)
    return known

  def __call__(self, place):
    self.read.append(self.groups[place.offset].id)
    return self.groups[place.offset]


def _donations(*groups, now=NOW, is_penalty=False, earlier=(), hits=()):
  memory = Memory(*groups)
  given = donors.donations(
    donors.Wanted(NEW, is_penalty, earlier, hits),
    now,
    memory.history("t"),
    {name: memory.history(name) for name in ("near", "far")},
    memory,
    lambda task: f"about {task}",
  )
  return given, memory.read


def _named(donations):
  return [(each.donor.sign, each.donor.group, each.text) for each in donations]


def _met(target, id, **others):
  """A group of which the second rollout meets a criterion."""
  texts = tuple(f"{id} {place}" for place in range(3))
  return makes.group(
    {target: "010", OTHER: "101"}, id=id, texts=texts, **others
  )


HITS = (
  retrieval.Hit(NEAR, "near", "names it", 0.95),
  retrieval.Hit(FAR, "far", "says it", 0.83),
)
SAME = _met(NEW, "same", kind="probe")
BEFORE = _met(OLD, "before")
ABROAD = _met(NEAR, "abroad", task="near")
AFAR = _met(FAR, "afar", task="far")
EARLIER = ((OLD, 0.9),)

# What the recorded group itself has: its best, which fails as all do, then the
# two best of those that fail.
OWN = [
  ("positive", "now", "b"),
  ("negative", "now", "b"),
  ("negative", "now", "c"),
]


def test_own_rollouts_with_the_same_words_come_first():
  given, _ = _donations(AFAR, ABROAD, BEFORE, SAME, earlier=EARLIER, hits=HITS)
  assert _named(given) == [
    ("positive", "same", "same 1"),
    ("positive", "before", "before 1"),
    ("positive", "abroad", "abroad 1"),
    ("positive", "afar", "afar 1"),
    *OWN,
  ]
  assert [each.donor for each in given[:4]] == [
    terms.Donor("same", 1, "positive", "t", NEW, None),
    terms.Donor("before", 1, "positive", "t", OLD, 0.9),
    terms.Donor("abroad", 1, "positive", "near", NEAR, 0.95),
    terms.Donor("afar", 1, "positive", "far", FAR, 0.83),
  ]
  # Only a response to another task needs a line about it.
  assert [each.about for each in given] == [
    None,
    None,
    "about near",
    "about far",
    *[None] * 3,
  ]


def test_each_of_the_four_may_be_the_best_at_hand():
  everything = [SAME, BEFORE, ABROAD]
  found = []
  for count in range(4):
    given, _ = _donations(*everything[count:], earlier=EARLIER, hits=HITS)
    found.append(given[0].donor.group)
  assert found == ["same", "before", "abroad", "now"]


def test_words_that_mean_something_else_are_not_asked_for():
  given, read = _donations(BEFORE, ABROAD)
  assert _named(given) == OWN
  assert read == []


def test_the_newest_group_that_met_it_gives_its_best():
  groups = [
    _met(NEW, "older"),
    makes.group(
      {NEW: "0111", OTHER: "1011"},
      rewards=(1.0, 0.5, 0.75, 0.75),
      id="newer",
    ),
    makes.group({NEW: "000", OTHER: "111"}, id="newest"),
  ]
  given, read = _donations(*groups)
  assert given[0].donor.group == "newer"
  # The first of the two that have most reward among those that met it.
  assert (given[0].donor.rollout, given[0].text) == (2, "response 2")
  assert read == ["newer"]


def test_a_rollout_without_reward_gives_nothing():
  whole, lost = {NEW: "10", OTHER: "?0"}, {NEW: "101", OTHER: "?01"}
  given, _ = _donations(_met(NEW, "older"), makes.group(whole, id="newer"))
  assert given[0].donor.group == "older"
  given, _ = _donations(_met(NEW, "older"), makes.group(lost, id="newer"))
  assert (given[0].donor.group, given[0].donor.rollout) == ("newer", 2)


def test_a_penalty_is_met_where_it_is_absent():
  weights = {NEW: -1.0}
  group = makes.group(
    {NEW: "110", OTHER: "111"}, weights=weights, id="before", texts="abc"
  )
  now = makes.group(
    {NEW: "111", OTHER: "100"}, weights=weights, id="now", texts="xyz"
  )
  given, _ = _donations(group, now=now, is_penalty=True)
  assert _named(given) == [
    ("positive", "before", "c"),
    ("positive", "now", "x"),
    ("negative", "now", "x"),
    ("negative", "now", "y"),
  ]


def _own(patterns, rewards, is_penalty=False):
  group = makes.group(patterns, rewards=rewards, texts="abcd")
  return [
    (each.donor.sign, each.text)
    for each in donors.of_group(group, NEW, is_penalty)
  ]


def test_the_best_of_a_group_is_above_its_median():
  met = {NEW: "1111", OTHER: "1111"}
  # Medians: 0.5, 0.45 and 0.3.
  assert _own(met, (0.5, 0.5, 0.5, 0.4)) == []
  assert _own(met, (0.4, 0.5, 0.5, 0.4)) == [("positive", "b")]
  assert _own(met, (0.2, None, 0.9, 0.3)) == [("positive", "c")]


def test_negatives_are_the_two_best_that_fail():
  met = {NEW: "1000", OTHER: "1111"}
  rewards = (0.5, 0.3, 0.2, 0.4)
  assert _own(met, rewards) == [
    ("positive", "a"),
    ("negative", "d"),
    ("negative", "b"),
  ]
  # Of equal ones the first; one without reward never.
  assert _own(met, (0.5, 0.4, None, 0.4))[1:] == [
    ("negative", "b"),
    ("negative", "d"),
  ]
  assert _own({NEW: "1101", OTHER: "1111"}, rewards)[1:] == [("negative", "c")]
  assert _own({NEW: "1111", OTHER: "1111"}, rewards)[1:] == []


def test_where_all_fail_the_best_is_good_for_want_of_a_better_one():
  # Shown as the good one, it leaves another one to be shown as the bad one.
  assert _own({NEW: "0000", OTHER: "1111"}, (0.9, 0.2, 0.3, 0.4)) == [
    ("positive", "a"),
    ("negative", "a"),
    ("negative", "d"),
  ]


def test_a_penalty_fails_where_it_is_present():
  assert _own({NEW: "1100"}, (0.2, 0.4, 0.9, 0.8), is_penalty=True) == [
    ("positive", "c"),
    ("negative", "b"),
    ("negative", "a"),
  ]


def test_a_group_without_rewards_gives_nothing():
  assert _own({NEW: "0000"}, (None,) * 4) == []


@pytest.mark.parametrize(
  ("score", "is_penalty", "is_desired"),
  [
    (1.0, False, True),
    (0.5, False, True),
    (0.0, False, False),
    (0.0, True, True),
    (0.5, True, False),
    (None, False, False),
    (None, True, False),
  ],
)
def test_what_is_desired_of_a_rollout(score, is_penalty, is_desired):
  rollout = records.Rollout("a", 1, "stop", 0.5, (1.0, score))
  assert donors.desired(rollout, 1, is_penalty) == is_desired


def test_a_task_in_a_line_is_the_start_of_its_last_user_turn():
  prompt = (
    base.Message("system", "Be brief."),
    base.Message("user", "Why?"),
    base.Message("assistant", "Because."),
    base.Message("user", "And  how\nlong? " + "word " * 30),
    base.Message("assistant", "Well"),
  )
  assert donors.summary(prompt, limit=18) == "And how long? word..."
  assert donors.summary(prompt[:3]) == "Why?"
  assert donors.summary(prompt[:1]) == ""
  assert donors.summary((base.Message("user", "a" * 120),)) == "a" * 120
  assert donors.summary((base.Message("user", "a" * 121),)) == "a" * 120 + "..."
