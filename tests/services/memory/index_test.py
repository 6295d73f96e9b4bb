"""Whatever happens to the index, the next start retrieves the same."""

import logging
import shutil

import chromadb
import numpy as np
import pytest

from hrl_jax.services.memory import embedder, fingerprints, log, store
from tests.services.memory import indices, things


def test_an_index_that_is_in_order_is_left_alone(copy, original, caplog):
  before = indices.chroma(copy)
  assert indices.retrieved(copy) == original[1]
  assert not caplog.text
  assert indices.chroma(copy) == before


def make_a_file(folder):
  shutil.rmtree(folder / "index")
  (folder / "index").write_text("not a folder")


def delete_the_hashes(folder):
  (folder / "index" / "files.json").unlink()


def delete_the_database(folder):
  (indices.chroma(folder) / "chroma.sqlite3").unlink()


def delete_a_graph(folder):
  path = next(
    path for path in indices.chroma(folder).iterdir() if path.is_dir()
  )
  shutil.rmtree(path)


def add_a_file(folder):
  (indices.chroma(folder) / "stray").touch()


def add_an_index(folder):
  shutil.copytree(indices.chroma(folder), folder / "index" / "chroma-other")


def with_client(change):
  """A change by another program, after which the hashes are forged."""

  def damage(folder):
    path = indices.chroma(folder)
    client = chromadb.PersistentClient(
      str(path), chromadb.Settings(anonymized_telemetry=False)
    )
    change(client)
    client.close()
    hashes = fingerprints.Fingerprints(folder / "index" / "files.json")
    hashes.record(path, is_closed=True)

  damage.__name__ = change.__name__
  return damage


def collection(client, name):
  return client.get_collection(name, embedding_function=None)


@with_client
def remove_a_history(client):
  collection(client, "time").delete(ids=["t1"])


@with_client
def remove_a_text(client):
  collection(client, "semantics").delete(ids=["t0#1@0"])


@with_client
def remove_a_collection(client):
  client.delete_collection("semantics-penalties")


@with_client
def remove_the_marker(client):
  collection(client, "time").modify(metadata={"other": "x"})


@with_client
def spoil_the_marker(client):
  collection(client, "time").modify(metadata={"marker": "{}"})


@pytest.mark.parametrize(
  "damage",
  [
    indices.delete,
    make_a_file,
    delete_the_hashes,
    delete_the_database,
    delete_a_graph,
    add_a_file,
    add_an_index,
    remove_a_history,
    remove_a_text,
    remove_a_collection,
    remove_the_marker,
    spoil_the_marker,
  ],
  ids=lambda damage: damage.__name__,
)
def test_a_damaged_index_is_built_anew(copy, original, caplog, damage):
  damage(copy)
  assert indices.retrieved(copy) == original[1]
  assert caplog.text.count(indices.BUILT) == 1


def test_any_changed_or_missing_byte_is_noticed(copy, original, caplog):
  rng = np.random.default_rng(0)
  names = [path.relative_to(original[0]) for path in indices.files(original[0])]
  assert {"chroma.sqlite3", "data_level0.bin", "files.json"} <= {
    name.name for name in names
  }
  for name in names:
    content = (original[0] / name).read_bytes()
    if not content:
      continue
    flipped = bytearray(content)
    flipped[rng.integers(len(content))] ^= 1 << rng.integers(8)
    for damaged in (bytes(flipped), content[: len(content) // 2]):
      shutil.rmtree(copy)
      shutil.copytree(original[0], copy)
      (copy / name).write_bytes(damaged)
      caplog.clear()
      with things.opened(copy) as kept:
        assert things.everything(kept) == original[1]
      # Of files.json itself, a byte may go that changes no hash: a space.
      assert caplog.text.count(indices.BUILT) == 1 or name.name == "files.json"


def test_an_index_set_back_is_brought_up_to_date(tmp_path, caplog):
  caplog.set_level(logging.INFO, "hrl_jax")
  folder, old = tmp_path / "memory", tmp_path / "old"
  with things.opened(folder) as kept:
    kept.append(things.step(1))
  shutil.copytree(folder / "index", old)
  with things.opened(folder) as kept:
    kept.append(things.step(2))
    kept.append(things.step(3))
    expected = things.everything(kept)
  shutil.rmtree(folder / "index")
  shutil.copytree(old, folder / "index")
  caplog.clear()
  before = indices.chroma(folder)
  assert indices.retrieved(folder) == expected
  assert caplog.text.count("bytes behind the log, which are entered") == 1
  assert indices.BUILT not in caplog.text
  assert indices.chroma(folder) == before


def test_an_index_one_append_behind_is_only_caught_up(
  copy, original, caplog, monkeypatch
):
  kept_log = log.Log(copy / "log.jsonl", things.BANK)
  kept_log.append(things.step(4))
  kept_log.close()
  written = []
  real = store.Store.put_histories

  def put(self, entries):
    written.extend(entries)
    real(self, entries)

  monkeypatch.setattr(store.Store, "put_histories", put)
  found = indices.retrieved(copy)
  assert sorted(written) == ["t1", "t2"]
  assert indices.BUILT not in caplog.text
  indices.delete(copy)
  assert indices.retrieved(copy) == found
  assert found != original[1]


def test_an_index_ahead_of_the_log_is_built_anew(copy, original, caplog):
  kept_log = log.Log(copy / "log.jsonl", things.BANK)
  places = [place for place, _ in kept_log.since()]
  # The last step is four records.
  kept_log.cut(places[-4].offset)
  kept_log.close()
  found = indices.retrieved(copy)
  assert caplog.text.count("it is ahead of the log") == 1
  assert len(found[1][1].updates) == len(indices.STEPS) - 1
  # What is appended now makes it as it was.
  with things.opened(copy) as kept:
    kept.append(things.step(3))
    assert things.everything(kept) == original[1]


def test_an_index_of_another_log_is_built_anew(copy, caplog):
  path = copy / "log.jsonl"
  path.write_bytes(path.read_bytes().replace(b"hello", b"hallo"))
  indices.retrieved(copy)
  assert caplog.text.count("it is of another log") == 1


def test_an_index_of_another_bank_is_built_anew(copy, original, caplog):
  path = copy / "log.jsonl"
  bank = things.BANK.replace("five", "six ")
  path.write_bytes(
    path.read_bytes().replace(things.BANK.encode(), bank.encode())
  )
  assert indices.retrieved(copy, bank_hash=bank) == original[1]
  assert caplog.text.count(indices.BUILT) == 1
  assert f"bank='{things.BANK}'" in caplog.text


def test_an_index_of_another_embedder_is_built_anew(copy, original, caplog):
  found = indices.retrieved(copy, embedder=embedder.HashEmbedder(48))
  assert caplog.text.count(indices.BUILT) == 1
  assert "hash-32" in caplog.text and "hash-48" in caplog.text
  assert found[1] == original[1][1]
  assert found[0] != original[1][0]


def test_other_seeds_under_the_banks_name_are_noticed(copy, caplog):
  seeds = [*things.seeds(), ("t9", [things.version("t9#0", "A new one.")])]
  indices.retrieved(copy, seeds=seeds)
  assert caplog.text.count(indices.BUILT) == 1


# Of ChromaDB, to who asks for the configuration.
@pytest.mark.filterwarnings("ignore:legacy embedding function config")
def test_criteria_are_compared_by_cosine(copy):
  client = chromadb.PersistentClient(
    str(indices.chroma(copy)), chromadb.Settings(anonymized_telemetry=False)
  )
  for name in ("semantics", "semantics-penalties"):
    found = collection(client, name)
    assert found.configuration["hnsw"]["space"] == "cosine"
    got = found.get(include=["documents", "metadatas"])
    assert set(things.TEXTS) & set(got["documents"])
  # A rewrite marks what it replaced, and erases nothing: t1#0 is the second
  # to have the first text, which others still have.
  assert found.count() == 1
  texts = collection(client, "semantics").get(include=["metadatas"])
  active = {
    name: each["active"]
    for name, each in zip(texts["ids"], texts["metadatas"], strict=True)
  }
  assert active == {
    **{f"t0#{number}@0": True for number in range(4)},
    "t1#0@1": False,
    "t1#0@2": False,
    "t1#0@3": True,
  }
  client.close()
