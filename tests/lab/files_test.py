import dataclasses
import json

import jax
import jax.numpy as jnp
import pytest

from hrl_jax.checkpoint import hf
from hrl_jax.data import bank, tokenizer
from hrl_jax.lab import files, policy, tokens
from hrl_jax.services import checkers
from tests.lab import worlds


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
  folder = tmp_path_factory.mktemp("lab") / "deep" / "world"
  files.prepare(worlds.small(), folder)
  return folder


def state(folder):
  return {
    path.relative_to(folder): path.stat().st_mtime_ns
    for path in folder.rglob("*")
  }


def test_the_real_code_reads_the_files(folder):
  world = worlds.small()
  for name in ("train", "held_out"):
    read = bank.load([folder / f"{name}.jsonl"], checkers=checkers.names())
    assert read.tasks == getattr(world, name)
  config, params = hf.load(folder / "model", jnp.float32)
  assert config == policy.sizes(world)
  assert all(jnp.isfinite(leaf).all() for leaf in jax.tree.leaves(params))
  text = tokenizer.load(folder / "model", {})
  prompt = world.train[0].prompt
  assert text.encode_chat(prompt) == tokens.tokenizer().encode_chat(prompt)
  assert text.vocab_size == config.vocab_size


def test_the_world_comes_back_from_its_file(folder):
  assert files.load(folder / "world.json") == worlds.small()


def test_a_world_that_is_there_is_left_alone(folder):
  before = state(folder)
  files.prepare(worlds.small(), folder)
  assert state(folder) == before


def test_another_world_is_refused(folder):
  before = state(folder)
  with pytest.raises(ValueError, match="holds another world, of seed 3"):
    files.prepare(worlds.small(seed=4), folder)
  assert state(folder) == before


def test_a_folder_without_a_world_is_refused(tmp_path):
  with pytest.raises(ValueError, match="holds no world"):
    files.prepare(worlds.small(), tmp_path)
  assert not list(tmp_path.iterdir())


def test_what_fails_leaves_nothing(tmp_path, monkeypatch):
  def fail(world):
    raise RuntimeError("no lesson today")

  monkeypatch.setattr(files.policy, "taught", fail)
  with pytest.raises(RuntimeError, match="no lesson today"):
    files.prepare(worlds.small(), tmp_path / "world")
  assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
  ("change", "message"),
  [
    ({"hash": "0"}, "another version of the lab"),
    ({"seed": 4}, "another version of the lab"),
    ({"parameters": {"no_such": 1}}, "is no world of this lab"),
    ({"parameters": {"flips": 7.0}}, "flips is a rate"),
  ],
)
def test_a_changed_file_is_refused(folder, tmp_path, change, message):
  record = json.loads((folder / "world.json").read_text())
  path = tmp_path / "world.json"
  path.write_text(json.dumps({**record, **change}))
  with pytest.raises(ValueError, match=message):
    files.load(path)


def test_a_file_that_is_not_there_is_named(tmp_path):
  with pytest.raises(FileNotFoundError, match=r"world\.json is not there"):
    files.load(tmp_path / "world.json")


def test_the_hash_tells_worlds_and_parameters_apart():
  one, other = worlds.small(), worlds.small(seed=4)
  changed = one._replace(
    parameters=dataclasses.replace(one.parameters, flips=0.5)
  )
  hashes = {files.content_hash(each) for each in (one, other, changed)}
  assert len(hashes) == 3
  assert files.content_hash(worlds.small()) in hashes
