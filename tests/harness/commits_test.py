import dataclasses

import msgspec
import numpy as np
import pytest

from hrl_jax.harness import changes, commits, records, rubrics, terms
from hrl_jax.harness import state as states
from tests.harness import makes

pytestmark = pytest.mark.core

BANK = makes.bank(
  makes.seed_task(3.0, 2.0, -2.0, id="a"), makes.seed_task(1.0, id="b")
)
BAND = records.Band(10.2, 28.0, 200, 9.0, 11.0)
CALIBRATION = records.Calibration(
  levels=(1.0, 0.61, 0.38, 0.17),
  rollout=BAND,
  rubric=records.Band(3.1, 27.0, 500, 3.0, 3.2),
  anchors={"a": ("a#1",)},
  masses={"b": 0.25},
)
A0, A1, B0 = ("a#0", 0), ("a#1", 0), ("b#0", 0)

Add, Drop = changes.Add, changes.Drop


def _arrays(state):
  return {
    field.name: value
    for field in dataclasses.fields(state)
    if isinstance(value := getattr(state, field.name), np.ndarray)
  }


def _done(*log, bank=BANK):
  return commits.replay(bank, log)


def _shared(before, after):
  return {
    name
    for name, array in _arrays(before).items()
    if array is getattr(after, name)
  }


def test_nothing_accepted_is_the_same_state():
  state = states.init(BANK)
  group = makes.group({A0: "11", A1: "01"}, task="a")
  log = [
    records.Header("bank"),
    group,
    makes.labels(group, {A0: "saturated"}),
    changes.Outcome("c", "a", 3, 1, (), None, None),
    makes.update(changes.Delete("a#0"), task="a", is_accepted=False),
  ]
  assert commits.commit(state, log) is state
  assert commits.commit(state, ()) is state
  assert not any(map(commits.is_change, log))


def test_a_lower_level_remembers_its_mass():
  before = _done(makes.update(changes.Lower(), task="a", mass=0.5))
  state = commits.commit(
    before, [makes.update(changes.Lower(), task="a", mass=0.125)]
  )
  np.testing.assert_array_equal(before.level_N, [1, 0])
  np.testing.assert_array_equal(before.mass_N, [0.5, np.nan])
  np.testing.assert_array_equal(state.level_N, [2, 0])
  np.testing.assert_array_equal(state.mass_N, [0.125, np.nan])
  assert (before.version, state.version) == (1, 2)
  assert states.task(state, 0).level == 2


def test_a_field_is_mounted_at_its_step():
  donor = terms.Donor("g", 1, "positive", "b", B0, 0.9)
  add = Add("reference", (A0, A1), "look", (donor,))
  state = _done(makes.update(add, task="a", step=5))
  field = terms.Field("reference", (A0, A1), "look", (donor,), 5)
  assert states.fields(state, 0) == {"reference": field}
  np.testing.assert_array_equal(state.field_N3, [[-1, 0, -1], [-1, -1, -1]])


def test_a_field_is_replaced_by_a_drop_and_an_add():
  first = makes.update(Add("critique", (A0,), "old"), task="a", step=1)
  other = makes.update(Add("criterion", (A0,), "kept"), task="a", step=2)
  # In whichever order they are named.
  swap = makes.update(
    Add("critique", (A1,), "new"), Drop("critique"), task="a", step=3
  )
  state = _done(first, other, swap)
  assert states.fields(state, 0) == {
    "criterion": makes.field("criterion", A0, text="kept", step=2),
    "critique": makes.field("critique", A1, text="new", step=3),
  }
  # The table only grows: two fields, then a third.
  assert [field.text for field in state.fields] == ["old", "kept", "new"]
  np.testing.assert_array_equal(state.field_N3[0], [1, -1, 2])


def test_removals_and_drops_withdraw_a_field():
  add = makes.update(Add("critique", (A0,), "lacks"), task="a", step=1)
  for gone in (
    makes.update(Drop("critique"), task="a", step=2),
    changes.Removal(2, "a", "critique", "cap"),
    changes.Removal(2, "a", "critique", "orphan"),
  ):
    state = _done(add, gone)
    assert states.fields(state, 0) == {}
    assert (len(state.fields), state.version) == (1, 2)


def test_a_rubric_is_changed_by_hand():
  state = _done(
    makes.update(
      changes.Rewrite("a#1", "says more"),
      changes.Create("is new", -1.0),
      changes.Delete("a#0"),
      task="a",
      step=4,
    )
  )
  np.testing.assert_array_equal(state.criterion_NC, [[4, 2, 5], [3, -1, -1]])
  np.testing.assert_array_equal(state.raw_NC, [[2, -2, -1], [1, 0, 0]])
  np.testing.assert_array_equal(state.rubric_version_N, [1, 0])
  np.testing.assert_array_equal(state.lineages_N, [4, 1])
  assert [v.text for v in state.versions[4:]] == ["says more", "is new"]
  assert states.rubric(state, 0).weights() == (5.0, -2.0, -1.0)
  assert states.rubric(state, 1) == rubrics.seed(BANK.tasks[1])


def test_a_rubric_that_shrinks_leaves_nothing_behind():
  log = [
    makes.update(changes.Delete("a#0"), task="a"),
    makes.update(changes.Delete("a#2"), task="a"),
  ]
  state = _done(CALIBRATION, log[0])
  np.testing.assert_array_equal(state.criterion_NC[0], [1, 2, -1])
  np.testing.assert_array_equal(state.raw_NC[0], [2, -2, 0])
  np.testing.assert_array_equal(state.anchor_NC[0], [True, False, False])
  state = commits.commit(state, log[1:])
  np.testing.assert_array_equal(state.criterion_NC[0], [1, -1, -1])
  np.testing.assert_array_equal(state.raw_NC[0], [2, 0, 0])


def test_an_anchor_that_moves_up_leaves_its_place():
  bank = makes.bank(makes.seed_task(3.0, 1.0, 2.0, id="a"))
  calibration = msgspec.structs.replace(
    CALIBRATION, anchors={"a": ("a#2",)}, masses={}
  )
  delete = makes.update(changes.Delete("a#1"), task="a")
  state = _done(calibration, delete, bank=bank)
  np.testing.assert_array_equal(state.criterion_NC, [[0, 2, -1]])
  np.testing.assert_array_equal(state.anchor_NC, [[False, True, False]])


def test_room_for_criteria_grows_by_doubling():
  state = states.init(BANK)
  widths = []
  for number in range(7):
    new = changes.Create(f"is new {number}", 1.0)
    state = commits.commit(state, [makes.update(new, task="b")])
    widths.append(state.criterion_NC.shape[1])
    for name in ("raw_NC", "anchor_NC"):
      assert getattr(state, name).shape == state.criterion_NC.shape
  # Task b has 2 to 8 criteria.
  assert widths == [3, 3, 6, 6, 6, 12, 12]
  assert len(states.rubric(state, 1).entries) == 8
  assert states.rubric(state, 0) == rubrics.seed(BANK.tasks[0])


def test_one_candidate_may_need_room_twice_over():
  new = [changes.Create(f"is new {number}", 1.0) for number in range(12)]
  state = _done(makes.update(*new, task="b"))
  assert state.criterion_NC.shape == (2, 24)


def test_the_calibration_sets_levels_bands_anchors_and_masses():
  state = _done(CALIBRATION)
  np.testing.assert_array_equal(state.levels_4, [1, 0.61, 0.38, 0.17])
  np.testing.assert_array_equal(state.bands_22, [[10.2, 28.0], [3.1, 27.0]])
  np.testing.assert_array_equal(state.mass_N, [np.nan, 0.25])
  np.testing.assert_array_equal(state.anchor_NC[0], [False, True, False])
  np.testing.assert_array_equal(state.anchored_N, [2, 0])
  np.testing.assert_array_equal(state.free_N, [3, 1])
  assert states.rubric(state, 0) == rubrics.seed(BANK.tasks[0], ["a#1"])
  assert state.version == 1


def test_what_a_commit_does_not_touch_is_shared():
  before = _done(CALIBRATION)
  of_rubrics = {"criterion_NC", "raw_NC", "anchor_NC", "anchored_N", "free_N"}
  fixed = {"levels_4", "bands_22"}
  lower = makes.update(changes.Lower(), task="a")
  after = commits.commit(before, [lower])
  assert _shared(before, after) == of_rubrics | fixed
  assert after.versions is before.versions
  assert after.fields is before.fields
  create = makes.update(changes.Create("is new", 1.0), task="a")
  after = commits.commit(before, [create])
  assert _shared(before, after) == fixed
  assert after.fields is before.fields
  assert after.bank is before.bank
  add = makes.update(Add("critique", (A0,), "lacks"), task="a")
  assert commits.commit(before, [add]).versions is before.versions


def test_two_states_may_grow_out_of_one():
  before = _done(makes.update(Add("critique", (A0,), "first"), task="a"))
  after = [
    commits.commit(
      before,
      [
        makes.update(changes.Create(text, 1.0), task="b"),
        makes.update(Add("criterion", (A0,), text), task="a"),
      ],
    )
    for text in ("left", "right")
  ]
  for state, text in zip(after, ("left", "right"), strict=True):
    assert states.rubric(state, 1).entries[-1].version.text == text
    assert states.fields(state, 0)["criterion"].text == text
  assert len(before.fields) == 1
  assert len(before.versions) == 4


def _mounted(bank, *fields):
  """A state with fields, `(task, kind, target, step)` each."""
  return commits.replay(
    bank,
    [
      makes.update(Add(kind, (target,), "do"), task=task, step=step)
      for task, kind, target, step in fields
    ],
  )


def test_the_cap_takes_the_oldest_field_first():
  state = _mounted(
    BANK,
    ("a", "critique", A0, 3),
    ("a", "criterion", A0, 5),
    ("a", "reference", A0, 4),
    ("b", "criterion", B0, 1),
    ("b", "reference", B0, 2),
  )
  assert commits.over_cap(state, 3) == ()
  assert commits.over_cap(state, 2) == ((0, "critique"),)
  assert commits.over_cap(state, 1) == (
    (0, "critique"),
    (0, "reference"),
    (1, "criterion"),
  )
  assert commits.over_cap(state, 0) == (
    (0, "critique"),
    (0, "reference"),
    (0, "criterion"),
    (1, "criterion"),
    (1, "reference"),
  )


def test_of_fields_as_old_the_last_kind_goes_first():
  state = _mounted(
    BANK,
    ("a", "criterion", A0, 3),
    ("a", "reference", A0, 3),
    ("a", "critique", A0, 3),
  )
  assert commits.over_cap(state, 0) == (
    (0, "critique"),
    (0, "reference"),
    (0, "criterion"),
  )


def test_a_cap_that_is_kept_leaves_no_more_to_take():
  state = _mounted(BANK, ("a", "criterion", A0, 1), ("a", "critique", A0, 2))
  gone = [
    changes.Removal(9, BANK.tasks[place].id, kind, "cap")
    for place, kind in commits.over_cap(state, 1)
  ]
  state = commits.commit(state, gone)
  assert list(states.fields(state, 0)) == ["critique"]
  assert commits.over_cap(state, 1) == ()


@pytest.mark.parametrize(
  "operation",
  [
    changes.Rewrite("a#0", "says more"),
    changes.Delete("a#0"),
    changes.Merge(("a#0", "a#1"), "both"),
    changes.Split("a#0", ("one", "two")),
  ],
)
def test_a_field_without_all_of_its_targets_is_an_orphan(operation):
  state = commits.replay(
    BANK,
    [
      makes.update(Add("criterion", (A1, A0), "do"), task="a"),
      makes.update(Add("critique", (("a#2", 0),), "do"), task="a"),
    ],
  )
  assert commits.orphans(states.task(state, 0)) == ()
  state = commits.commit(state, [makes.update(operation, task="a")])
  assert commits.orphans(states.task(state, 0)) == ("criterion",)


def test_a_reweighted_target_keeps_its_field():
  state = _mounted(BANK, ("a", "criterion", A0, 1))
  state = commits.commit(
    state, [makes.update(changes.Reweight("a#0", 2.0), task="a")]
  )
  assert commits.orphans(states.task(state, 0)) == ()


def test_mounting_leaves_the_fields_that_it_was_given():
  fields = {"critique": makes.field("critique", A0)}
  after = commits.mounted(
    fields, [Add("criterion", (A0,), "do"), Drop("critique")], step=6
  )
  assert after == {"criterion": makes.field("criterion", A0, text="do", step=6)}
  assert list(fields) == ["critique"]
