import logging
import pathlib
import resource
import subprocess
import sys
import time

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import optax
import pytest
from jax.sharding import NamedSharding, PartitionSpec

from hrl_jax.checkpoint import state

IDENTITY = state.Identity(
  config={"seed": 0, "rollout.top_p": 1.0, "loss.dual_clip": None},
  banks={"train": "aa", "held_out": "bb"},
  model={"weights": "cc"},
)


def _save(folder, step, arrays=None, document=None, score=None, keep_last=2):
  state.save(
    folder,
    step,
    {"w": jnp.full(3, float(step))} if arrays is None else arrays,
    {"step": step} if document is None else document,
    identity=IDENTITY,
    score=score,
    keep_last=keep_last,
  )


@jax.jit
def _train_state():
  key = jax.random.key(0)
  params = {
    "embed": jax.random.normal(key, (5, 4)),
    "layers": {"w": jax.random.normal(key, (2, 4, 4)).astype(jnp.bfloat16)},
    "nothing": jnp.zeros((0, 4)),
  }
  optimizer = optax.chain(
    optax.clip_by_global_norm(1.0),
    optax.adamw(optax.linear_schedule(1e-3, 0.0, 10)),
  )
  optimizer_state = optimizer.init(params)
  for _ in range(3):
    updates, optimizer_state = optimizer.update(params, optimizer_state, params)
    params = optax.apply_updates(params, updates)
  return params, optimizer_state, jnp.int32(3)


def _method_state():
  return {
    "level_N": np.array([1.0, 0.1, np.nan, -0.0]),
    "count_N": np.arange(4, dtype=np.int64) + 2**40,
    "anchor_NC": np.array([[True, False], [False, True]]),
    "half": np.arange(3).astype(ml_dtypes.bfloat16),
    "nobody": np.zeros((0, 3), np.float64),
    "scalar": np.array(0.3),
    "generic": np.float64(0.3),
    "steps": 7,
    "rate": 0.1,
    "flag": True,
  }


def _assert_same(actual, expected):
  assert jax.tree.structure(actual) == jax.tree.structure(expected)
  for a, b in zip(
    jax.tree.leaves(actual), jax.tree.leaves(expected), strict=True
  ):
    assert type(a) is type(b)
    assert np.asarray(a).dtype == np.asarray(b).dtype
    assert np.asarray(a).shape == np.asarray(b).shape
    assert np.asarray(a).tobytes() == np.asarray(b).tobytes()


@pytest.mark.core
def test_every_kind_of_leaf_comes_back_bit_for_bit(tmp_path):
  arrays = {"train": _train_state(), "method": _method_state()}
  _save(tmp_path, 3, arrays)
  restored = state.restore(tmp_path, 3, state.abstract(arrays))
  _assert_same(restored, arrays)
  assert isinstance(restored["train"][1], tuple)
  assert all(
    leaf.committed and not leaf.weak_type
    for leaf in jax.tree.leaves(restored["train"])
  )


def test_shapes_without_sharding_are_restored_on_the_first_device(tmp_path):
  train_state = _train_state()
  _save(tmp_path, 3, train_state)
  restored = state.restore(tmp_path, 3, jax.eval_shape(_train_state))
  _assert_same(restored, train_state)
  assert all(
    leaf.devices() == {jax.devices()[0]} for leaf in jax.tree.leaves(restored)
  )


def test_a_table_that_grew_comes_back_whole(tmp_path):
  saved = {"table": np.arange(6.0).reshape(2, 3)}
  _save(tmp_path, 1, arrays=saved)
  restored = state.restore(tmp_path, 1, {"table": np.zeros((2, 2))})
  np.testing.assert_array_equal(restored["table"], saved["table"])
  for other in (np.zeros((2, 4)), np.zeros(2), np.zeros((2, 2), np.float32)):
    with pytest.raises(ValueError, match="does not fit the checkpoint"):
      state.restore(tmp_path, 1, {"table": other})


def test_restored_arrays_may_be_donated(tmp_path):
  _save(tmp_path, 1, {"w": jnp.arange(4096.0)})
  w = state.restore(tmp_path, 1, {"w": jnp.zeros(4096)})["w"]
  doubled = jax.jit(lambda x: 2 * x, donate_argnums=0)(w)
  assert w.is_deleted()
  np.testing.assert_array_equal(doubled, 2 * np.arange(4096.0))


@pytest.mark.core
def test_a_sharded_array_is_restored_to_any_sharding(tmp_path):
  mesh = jax.make_mesh(
    (4, 2), ("a", "b"), axis_types=(jax.sharding.AxisType.Auto,) * 2
  )
  w = np.arange(64.0, dtype=np.float32).reshape(8, 8)
  saved = jax.device_put(w, NamedSharding(mesh, PartitionSpec("a", "b")))
  other = NamedSharding(mesh, PartitionSpec(None, "a"))
  like = jax.ShapeDtypeStruct(saved.shape, saved.dtype, sharding=other)
  _save(tmp_path, 1, saved)
  restored = state.restore(tmp_path, 1, like)
  assert restored.sharding == other
  np.testing.assert_array_equal(restored, w)


def test_any_text_comes_back(tmp_path):
  document = {"text": ["\ud800", "\x00", "\u2028", "ä\n"], "nested": {"": None}}
  _save(tmp_path, 1, document=document)
  assert state.read_document(tmp_path, 1) == document


def test_an_empty_folder_has_no_checkpoint(tmp_path):
  assert state.latest(tmp_path / "absent") is None
  assert state.best(tmp_path / "absent") is None
  assert state.steps(tmp_path) == ()


def test_the_last_and_the_best_are_kept(tmp_path):
  scores = {1: float("nan"), 2: 0.5, 3: 0.7, 4: None, 5: 0.7, 6: 0.1, 7: None}
  kept = {}
  for step, score in scores.items():
    _save(tmp_path, step, score=score, keep_last=2)
    kept[step] = state.steps(tmp_path)
  # Two newest; beside them 2, the first with a score, then 3, the highest and
  # the earlier of the two with 0.7.
  assert kept == {
    1: (1,),
    2: (1, 2),
    3: (2, 3),
    4: (3, 4),
    5: (3, 4, 5),
    6: (3, 5, 6),
    7: (3, 6, 7),
  }
  assert state.latest(tmp_path) == 7
  assert state.best(tmp_path) == 3
  assert sorted(path.name for path in tmp_path.iterdir()) == [
    "00000003",
    "00000006",
    "00000007",
  ]


def test_a_negative_score_is_a_score(tmp_path):
  _save(tmp_path, 1, score=-0.5, keep_last=1)
  _save(tmp_path, 2, score=None, keep_last=1)
  assert state.best(tmp_path) == 1
  assert state.steps(tmp_path) == (1, 2)


def test_a_step_is_saved_once(tmp_path):
  _save(tmp_path, 1)
  with pytest.raises(ValueError, match="Step 1 is saved already"):
    _save(tmp_path, 1)


@pytest.mark.parametrize(
  ("change", "message"),
  [
    (
      {"banks": {"train": "aa", "held_out": "zz"}},
      'of another bank: held_out: "bb" -> "zz". Set config.data back',
    ),
    (
      {"model": {"weights": "zz"}},
      'of another model: weights: "cc" -> "zz". Set config.model.path',
    ),
    (
      {"config": {"seed": 1, "rollout.top_p": 1.0, "loss.dual_clip": 3.0}},
      "of another config: seed: 0 -> 1; loss.dual_clip: null -> 3.0. Set the",
    ),
  ],
)
def test_a_checkpoint_of_another_run_is_refused(tmp_path, change, message):
  _save(tmp_path, 1)
  state.check(tmp_path, 1, IDENTITY)
  with pytest.raises(ValueError) as error:
    state.check(tmp_path, 1, IDENTITY._replace(**change))
  assert message in str(error.value)
  assert str(tmp_path / "00000001") in str(error.value)


@pytest.mark.parametrize(
  ("like", "message"),
  [
    (
      {"w": np.zeros(4, np.float32)},
      'leaves that differ: 1, such as w: ["float32", [3]] -> ["float32", [4]]',
    ),
    ({"w": np.zeros(3, np.float64)}, '-> ["float64", [3]]'),
    ({"v": np.zeros(3, np.float32)}, "leaves that differ: 2, such as w"),
    ({"w": 1.0}, '-> ["float", []]'),
  ],
)
def test_another_state_is_refused_by_leaf(tmp_path, like, message):
  _save(tmp_path, 1)
  with pytest.raises(ValueError, match="does not fit the checkpoint") as error:
    state.restore(tmp_path, 1, like)
  assert message in str(error.value)


@pytest.mark.parametrize(
  ("leaf", "message"),
  [
    (jax.random.key(0), "The leaf train/key is a random key"),
    ("text", "The leaf train/key is a str"),
    (object(), "The leaf train/key is a object"),
  ],
)
def test_a_leaf_that_is_no_number_is_refused(tmp_path, leaf, message):
  with pytest.raises(ValueError, match=message):
    _save(tmp_path, 1, {"train": {"key": leaf}})
  assert state.steps(tmp_path) == ()


def test_leaves_of_one_path_are_refused(tmp_path):
  with pytest.raises(ValueError, match="contains a slash"):
    _save(tmp_path, 1, {"a/b": np.zeros(1), "a": {"b": np.zeros(1)}})


@pytest.mark.core
def test_a_failed_save_leaves_the_earlier_checkpoints_and_the_next_works(
  tmp_path,
):
  big = {"w": np.random.default_rng(0).standard_normal(100_000)}
  _save(tmp_path, 1, big, keep_last=1)
  limits = resource.getrlimit(resource.RLIMIT_FSIZE)
  # No file may pass 100 kB: to a writer the same as a full disk.
  resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, limits[1]))
  try:
    with pytest.raises(state.SaveError, match="checkpoint of step 2"):
      _save(tmp_path, 2, big, keep_last=1)
  finally:
    resource.setrlimit(resource.RLIMIT_FSIZE, limits)
  assert [path.name for path in tmp_path.iterdir()] == ["00000001"]
  _assert_same(state.restore(tmp_path, 1, big), big)
  _save(tmp_path, 2, big, keep_last=1)
  assert state.steps(tmp_path) == (2,)


_SAVER = """
import pathlib, sys
import numpy as np
from hrl_jax.checkpoint import state
for step in range(1, 1000):
  generator = np.random.default_rng(step)
  state.save(
    pathlib.Path(sys.argv[1]), step,
    {str(i): generator.standard_normal(100_000) for i in range(20)},
    {"step": step},
    identity=state.Identity({}, {}, {}), score=None, keep_last=1,
  )
"""


def _kill_in_a_save(process, folder, delay):
  deadline = time.monotonic() + 60
  while state.latest(folder) is None or not list(folder.glob("*tmp*")):
    assert time.monotonic() < deadline and process.poll() is None
  time.sleep(delay)
  process.kill()
  process.wait()


def test_a_killed_save_leaves_the_earlier_checkpoint_whole(tmp_path):
  delays = {tmp_path / str(delay): delay for delay in (0.0, 0.02, 0.06)}
  processes = {
    folder: subprocess.Popen(
      [sys.executable, "-c", _SAVER, str(folder)],
      cwd=pathlib.Path(__file__).parents[2],
    )
    for folder in delays
  }
  for folder, delay in delays.items():
    _kill_in_a_save(processes[folder], folder, delay)
  assert list(tmp_path.glob("*/*tmp*")), "No kill met a save."

  for folder in delays:
    step = state.latest(folder)
    generator = np.random.default_rng(step)
    expected = {str(i): generator.standard_normal(100_000) for i in range(20)}
    _assert_same(state.restore(folder, step, expected), expected)
    assert state.read_document(folder, step) == {"step": step}
    _save(folder, step + 1, keep_last=1)
    assert [path.name for path in folder.iterdir()] == [f"{step + 1:08d}"]


def test_half_a_deletion_is_no_checkpoint(tmp_path):
  _save(tmp_path, 1)
  (tmp_path / "00000001").rename(tmp_path / "00000001.deleted")
  assert state.steps(tmp_path) == ()
  _save(tmp_path, 2)
  assert [path.name for path in tmp_path.iterdir()] == ["00000002"]


def test_saving_and_restoring_say_nothing(tmp_path, caplog, capfd):
  caplog.set_level(logging.INFO, "absl")
  with caplog.at_level(logging.INFO):
    _save(tmp_path, 1)
    state.restore(tmp_path, 1, {"w": np.zeros(3, np.float32)})
  assert not caplog.records
  assert capfd.readouterr() == ("", "")
