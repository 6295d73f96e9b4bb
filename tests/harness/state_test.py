import msgspec
import numpy as np
import pytest

from hrl_jax.harness import changes, commits, rubrics
from hrl_jax.harness import state as states
from tests.harness import makes

pytestmark = pytest.mark.core

BANK = makes.bank(
  makes.seed_task(3.0, -2.0, id="a"), makes.seed_task(1.0, 2.0, 4.0, id="b")
)
LEVELS = (1.0, 0.61, 0.38, 0.17)


def test_the_seed_harness_by_hand():
  state = states.init(BANK)
  np.testing.assert_array_equal(state.level_N, [0, 0])
  np.testing.assert_array_equal(state.mass_N, [np.nan, np.nan])
  np.testing.assert_array_equal(state.field_N3, [[-1] * 3] * 2)
  np.testing.assert_array_equal(state.criterion_NC, [[0, 1, -1], [2, 3, 4]])
  np.testing.assert_array_equal(state.raw_NC, [[3, -2, 0], [1, 2, 4]])
  assert not state.anchor_NC.any()
  np.testing.assert_array_equal(state.rubric_version_N, [0, 0])
  np.testing.assert_array_equal(state.lineages_N, [2, 3])
  np.testing.assert_array_equal(state.anchored_N, [0, 0])
  np.testing.assert_array_equal(state.free_N, [3, 7])
  assert np.isnan(state.levels_4).all() and np.isnan(state.bands_22).all()
  assert [v.target for v in state.versions] == [
    ("a#0", 0),
    ("a#1", 0),
    ("b#0", 0),
    ("b#1", 0),
    ("b#2", 0),
  ]
  assert len(state.fields) == state.version == 0
  assert state.places == {"a": 0, "b": 1}


def test_the_dtypes_are_those_of_the_docstring():
  state = states.init(BANK)
  dtypes = {
    "level_N": np.int8,
    "mass_N": np.float64,
    "field_N3": np.int32,
    "criterion_NC": np.int32,
    "raw_NC": np.float64,
    "anchor_NC": np.bool_,
    "rubric_version_N": np.int32,
    "lineages_N": np.int32,
    "anchored_N": np.float64,
    "free_N": np.float64,
    "levels_4": np.float64,
    "bands_22": np.float64,
  }
  for name, dtype in dtypes.items():
    assert getattr(state, name).dtype == dtype, name


def test_a_task_is_seen_as_its_seed():
  state = states.init(BANK)
  for place, task in enumerate(BANK.tasks):
    seen = states.task(state, place)
    assert seen.rubric == rubrics.seed(task) == states.rubric(state, place)
    assert seen.rubric.weights() == tuple(c.weight for c in task.rubric)
    assert (seen.level, seen.fields) == (0, {})
    assert np.isnan(seen.mass)


def test_tasks_are_drawn_by_the_weight_of_their_level():
  state = states.init(BANK)
  # Before the cold start no level has a weight; all are at full weight.
  np.testing.assert_array_equal(states.weights(state), [1, 1])
  state = state.replace(
    level_N=np.array([0, 3], np.int8), levels_4=np.array(LEVELS)
  )
  np.testing.assert_array_equal(states.weights(state), [1.0, 0.17])


def test_mounted_fields_come_in_the_papers_order():
  adds = [
    changes.Add(kind, (("a#0", 0),), kind)
    for kind in ("critique", "reference", "criterion")
  ]
  log = [makes.update(add, task="a", step=1) for add in adds]
  state = commits.replay(BANK, log)
  fields = states.fields(state, 0)
  assert list(fields) == ["criterion", "reference", "critique"]
  assert [field.text for field in fields.values()] == list(fields)
  assert states.fields(state, 1) == {}


def test_the_texts_of_a_state_make_it_whole_again():
  log = [
    makes.update(changes.Create("is new", 1.0), task="b"),
    makes.update(changes.Rewrite("a#0", "says more"), task="a"),
    makes.update(changes.Add("critique", (("a#1", 0),), "lacks"), task="a"),
  ]
  state = commits.replay(BANK, log)
  kept = states.text(state)
  assert [version.text for version in kept.versions] == ["is new", "says more"]
  assert [field.text for field in kept.fields] == ["lacks"]
  again = msgspec.json.decode(msgspec.json.encode(kept), type=states.Text)
  empty = states.init(BANK).versions
  restored = states.with_text(state.replace(versions=empty), again)
  assert restored.versions == state.versions
  assert restored.fields == state.fields
  for place in range(2):
    assert states.task(restored, place).rubric == states.rubric(state, place)
    assert states.fields(restored, place) == states.fields(state, place)
