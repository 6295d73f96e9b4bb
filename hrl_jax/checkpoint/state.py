"""Checkpoints of a run, each whole or absent.

A checkpoint is one Orbax `Composite`, written beside its place and renamed
into it, so a process killed at any point leaves the earlier ones as they were:

  arrays     every leaf of the state, by its path in the pytree
  document   JSON of the caller: text state, log lengths, ...
  summary    JSON of this module: step, identity, score, leaves

No manager lives between two saves: after a failed one it would forget the
checkpoint before it. Saving is synchronous, so no log can grow meanwhile.
"""

import contextlib
import logging
import pathlib
import shutil
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import orbax.checkpoint as ocp

from hrl_jax import base
from hrl_jax.config import schema

_DELETED = ".deleted"
_UNFINISHED = ".orbax-checkpoint-tmp"


class SaveError(RuntimeError):
  """A checkpoint could not be written; the earlier ones are whole."""


class Identity(NamedTuple):
  """What a run must share with the checkpoint that it resumes from.

  Attributes:
    config: of `config.identity`.
    banks: hash of each bank by its name, such as "train".
    model: hash of each part that the policy started from, such as "weights"
      and "tokenizer".
  """

  config: Mapping[str, Any]
  banks: Mapping[str, str]
  model: Mapping[str, str]


def save(
  folder: pathlib.Path,
  step: int,
  arrays: base.PyTree,
  document: Mapping[str, Any],
  *,
  identity: Identity,
  score: float | None,
  keep_last: int,
) -> None:
  """Writes a checkpoint, then deletes those that are no longer kept.

  Kept are the `keep_last` newest and the one with the highest score, the
  earliest of several. Every process of a run enters.

  Args:
    folder: of the run's checkpoints.
    step: updates that are done.
    arrays: a pytree of jax or numpy arrays and Python numbers.
    document: JSON values; any text goes through.
    identity: see `Identity`.
    score: held-out score of these weights, None or NaN if not evaluated.
    keep_last: at least 1.

  Raises:
    ValueError: if the step is saved already, or a leaf cannot be saved.
    SaveError: if writing failed.
  """
  named = _named(arrays)
  summary = {
    "step": step,
    "identity": identity._asdict(),
    "score": None if score is None or np.isnan(score) else float(score),
    "leaves": {name: _description(name, leaf) for name, leaf in named.items()},
  }
  path = _path(folder, step)
  if path.exists():
    raise ValueError(
      f"Step {step} is saved already in {path}. Save each step once, or choose "
      "another config.workdir."
    )
  _sweep(folder)
  stored = {name: leaf for name, leaf in named.items() if np.size(leaf)}
  try:
    with _checkpointer() as writer:
      writer.save(
        path.absolute(),
        args=ocp.args.Composite(
          arrays=ocp.args.StandardSave(stored),
          document=ocp.args.JsonSave(dict(document)),
          summary=ocp.args.JsonSave(summary),
        ),
      )
  except Exception as error:
    _sweep(folder)
    raise SaveError(
      f"Could not write the checkpoint of step {step} to {path}: "
      f"{str(error).partition(chr(10))[0]} The earlier checkpoints are whole: "
      "make room and run the same command again."
    ) from error
  if jax.process_index() == 0:
    kept = {*steps(folder)[-keep_last:], best(folder)}
    for old in set(steps(folder)) - kept:
      _delete(_path(folder, old))


def steps(folder: pathlib.Path) -> tuple[int, ...]:
  """Returns the steps of the checkpoints that are whole, in order."""
  if not folder.is_dir():
    return ()
  names = [path.name for path in folder.iterdir()]
  return tuple(sorted(int(name) for name in names if name.isdigit()))


def latest(folder: pathlib.Path) -> int | None:
  """Returns the newest step, None if there is none."""
  return max(steps(folder), default=None)


def best(folder: pathlib.Path) -> int | None:
  """Returns the step with the highest score, None if none has a score."""
  scores = {
    step: _read(folder, step, "summary")["score"] for step in steps(folder)
  }
  scored = [step for step, score in scores.items() if score is not None]
  return max(scored, key=lambda step: (scores[step], -step), default=None)


def check(folder: pathlib.Path, step: int, identity: Identity) -> None:
  """Refuses a checkpoint of another bank, model or config.

  Reads no array, so it costs no time.

  Raises:
    ValueError: naming what differs, with both values.
  """
  saved = Identity(**_read(folder, step, "summary")["identity"])
  for what, knob, pair in (
    ("bank", "config.data", (saved.banks, identity.banks)),
    ("model", "config.model.path", (saved.model, identity.model)),
    ("config", "the knobs", (saved.config, identity.config)),
  ):
    differences = schema.differences(*pair)
    if differences:
      raise ValueError(
        f"The checkpoint {_path(folder, step)} is of another {what}: "
        f"{'; '.join(differences)}. Set {knob} back to resume it, or choose "
        "another config.workdir."
      )


def read_document(folder: pathlib.Path, step: int) -> dict[str, Any]:
  """Returns the JSON that was saved with a step."""
  return _read(folder, step, "document")


def abstract(arrays: base.PyTree) -> base.PyTree:
  """Returns what `restore` needs to know of some arrays.

  A jax array becomes its shape, dtype and sharding, so that its memory can be
  freed; other leaves stay as they are.
  """

  def described(leaf):
    if not isinstance(leaf, jax.Array):
      return leaf
    return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=leaf.sharding)

  return jax.tree.map(described, arrays)


def restore(folder: pathlib.Path, step: int, like: base.PyTree) -> base.PyTree:
  """Returns the arrays that were saved with a step, bit for bit.

  Args:
    folder: of the run's checkpoints.
    step: one of `steps(folder)`.
    like: a pytree of the same structure, shapes and dtypes, such as
      `abstract` returns. Where it has a numpy array or a Python number, so
      has the result; elsewhere a jax array, committed to the sharding of
      `like`, or to the first device if that has none. A numpy array may have
      been longer when it was saved, since a method's tables grow.

  Raises:
    ValueError: if structure, shapes or dtypes differ from what was saved.
  """
  old = _read(folder, step, "summary")["leaves"]
  named = {
    name: _as_saved(_with_sharding(leaf), old.get(name))
    for name, leaf in _named(like).items()
  }
  new = {name: _description(name, leaf) for name, leaf in named.items()}
  differences = schema.differences(old, new)
  if differences:
    raise ValueError(
      f"The state does not fit the checkpoint {_path(folder, step)}, leaves "
      f"that differ: {len(differences)}, such as {'; '.join(differences[:5])}. "
      "Resume with the code and the config that saved it, or choose another "
      "config.workdir."
    )
  stored = {name: leaf for name, leaf in named.items() if np.size(leaf)}
  with _checkpointer() as reader:
    restored = reader.restore(
      _path(folder, step).absolute(),
      args=ocp.args.Composite(arrays=ocp.args.StandardRestore(stored)),
    )["arrays"]
  leaves = [
    restored[name] if name in restored else _empty(leaf)
    for name, leaf in named.items()
  ]
  return jax.tree.unflatten(jax.tree.structure(like), leaves)


def _path(folder: pathlib.Path, step: int) -> pathlib.Path:
  return folder / f"{step:08d}"


def _read(folder: pathlib.Path, step: int, item: str) -> dict[str, Any]:
  with _checkpointer() as reader:
    return reader.restore(
      _path(folder, step).absolute(),
      args=ocp.args.Composite(**{item: ocp.args.JsonRestore()}),
    )[item]


def _named(tree: base.PyTree) -> dict[str, Any]:
  leaves = jax.tree.leaves_with_path(tree)
  named = {
    jax.tree_util.keystr(path, simple=True, separator="/"): leaf
    for path, leaf in leaves
  }
  if len(named) < len(leaves):
    raise ValueError(
      "Two leaves of the state have the same path: a key of a dict contains a "
      "slash. Rename it."
    )
  return named


def _description(name: str, leaf: Any) -> list[Any]:
  arrays = jax.Array | jax.ShapeDtypeStruct | np.ndarray | np.generic
  if type(leaf) in (bool, int, float):
    return [type(leaf).__name__, []]
  if not isinstance(leaf, arrays):
    raise ValueError(
      f"The leaf {name} is a {type(leaf).__name__}, not an array or a number. "
      "Put text and the like into the document."
    )
  if jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key):
    raise ValueError(
      f"The leaf {name} is a random key, which no checkpoint stores. Derive it "
      "from config.seed and the step."
    )
  return [str(leaf.dtype), list(leaf.shape)]


def _with_sharding(leaf: Any) -> Any:
  if not isinstance(leaf, jax.ShapeDtypeStruct) or leaf.sharding is not None:
    return leaf
  first = jax.sharding.SingleDeviceSharding(jax.devices()[0])
  return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=first)


def _as_saved(leaf: Any, description: list[Any] | None) -> Any:
  """A numpy array in the shape that it was saved in, if that is longer."""
  if not isinstance(leaf, np.ndarray) or description is None:
    return leaf
  shape = tuple(description[1])
  grew = len(shape) == leaf.ndim and all(
    now <= saved for now, saved in zip(leaf.shape, shape, strict=True)
  )
  return np.empty(shape, leaf.dtype) if grew else leaf


def _empty(leaf: Any) -> Any:
  # Orbax stores no array without elements; there is nothing to store either.
  if isinstance(leaf, np.ndarray):
    return np.zeros(leaf.shape, leaf.dtype)
  return jax.device_put(jnp.zeros(leaf.shape, leaf.dtype), leaf.sharding)


def _delete(path: pathlib.Path) -> None:
  # Renamed first: half a checkpoint must not look like a whole one.
  shutil.rmtree(path.rename(path.with_name(path.name + _DELETED)))


def _sweep(folder: pathlib.Path) -> None:
  if jax.process_index() == 0 and folder.is_dir():
    for path in folder.iterdir():
      if _UNFINISHED in path.name or path.name.endswith(_DELETED):
        shutil.rmtree(path, ignore_errors=True)


@contextlib.contextmanager
def _checkpointer() -> Iterator[ocp.Checkpointer]:
  """A fresh one, whose account of its own doings stays off the console."""
  logger = logging.getLogger("absl")
  level = logger.level
  logger.setLevel(max(level, logging.WARNING))
  try:
    with ocp.Checkpointer(ocp.CompositeCheckpointHandler()) as checkpointer:
      yield checkpointer
  finally:
    logger.setLevel(level)
