"""A world as files, which the real code reads like any others.

model/           the first policy and its tokenizer
train.jsonl      tasks, whose criteria are for a judge
held_out.jsonl
world.json       seed, parameters, and a hash of all that they draw
"""

import dataclasses
import hashlib
import json
import pathlib
import shutil
import tempfile

import numpy as np

from hrl_jax.checkpoint import hf
from hrl_jax.data import bank, json_files, jsonl, schema
from hrl_jax.lab import lexicon, policy, teacher, tokens
from hrl_jax.lab import world as worlds
from hrl_jax.lab.parameters import Parameters

_WORLD = "world.json"
# Texts of the lesson that enter the hash, for the whole of what it teaches.
_SAMPLED_TEXTS = 64


def prepare(world: worlds.World, folder: str | pathlib.Path) -> None:
  """Writes the files of a world, after teaching its first policy.

  The folder appears whole or not at all. Where it is there already, nothing is
  done.

  Args:
    world: to be written.
    folder: of its files.

  Raises:
    ValueError: if the folder holds another world, or none.
  """
  folder = pathlib.Path(folder)
  if folder.exists():
    _check(world, folder)
    return
  folder.parent.mkdir(parents=True, exist_ok=True)
  partial = pathlib.Path(
    tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent)
  )
  try:
    bank.save(world.train, partial / "train.jsonl")
    bank.save(world.held_out, partial / "held_out.jsonl")
    hf.save(
      partial / "model",
      policy.sizes(world),
      policy.taught(world),
      tokens.tokenizer(),
    )
    (partial / _WORLD).write_text(json.dumps(_record(world), indent=2))
    partial.chmod(0o755)  # A temporary directory is its owner's alone.
    partial.rename(folder)
  except BaseException:
    shutil.rmtree(partial)
    raise


def load(path: str | pathlib.Path) -> worlds.World:
  """The world of a `world.json`.

  Raises:
    FileNotFoundError: if it is not there.
    ValueError: if it cannot be read, or if this version of the lab draws
      another world from its seed and parameters.
  """
  path = pathlib.Path(path)
  if not path.is_file():
    raise FileNotFoundError(
      f"{jsonl.named(path)} is not there. Give the world.json of a folder that "
      "scripts/lab.py made."
    )
  record = json_files.read(path)
  try:
    world = worlds.draw(record["seed"], Parameters(**record["parameters"]))
    found = record["hash"]
  except (KeyError, TypeError) as error:
    raise ValueError(
      f"{jsonl.named(path)} is no world of this lab: {error}. Make it anew."
    ) from error
  if found != content_hash(world):
    raise ValueError(
      f"{jsonl.named(path)} was written by another version of the lab, which "
      "drew another world from the same seed. Make it anew in another folder."
    )
  return world


def content_hash(world: worlds.World) -> str:
  """SHA-256 of all that a world consists of, in hexadecimal."""
  rng = np.random.default_rng([world.seed, 1])
  texts = [teacher.example(world, rng) for _ in range(_SAMPLED_TEXTS)]
  content = {
    "seed": world.seed,
    "parameters": dataclasses.asdict(world.parameters),
    "questions": world.questions,
    "tasks": [schema.record(task) for task in (*world.train, *world.held_out)],
    "asked": world.asked,
    "kinds": world.kinds,
    "words": lexicon.WORDS,
    "texts": texts,
  }
  canonical = json.dumps(content, sort_keys=True, separators=(",", ":"))
  return hashlib.sha256(canonical.encode()).hexdigest()


def _record(world: worlds.World) -> dict:
  return {
    "seed": world.seed,
    "parameters": dataclasses.asdict(world.parameters),
    "hash": content_hash(world),
  }


def _check(world: worlds.World, folder: pathlib.Path) -> None:
  if not (folder / _WORLD).is_file():
    raise ValueError(
      f"{jsonl.named(folder)} exists and holds no world. Give a new folder."
    )
  record = json_files.read(folder / _WORLD)
  if record != _record(world):
    raise ValueError(
      f"{jsonl.named(folder)} holds another world, of seed "
      f"{jsonl.shown(record.get('seed'))}; this one is of seed {world.seed}, "
      "with its own parameters. Give another folder."
    )
