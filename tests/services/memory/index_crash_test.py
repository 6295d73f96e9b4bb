"""Whenever a process ends, the next one finds all that was appended."""

import contextlib
import os
import pathlib
import shutil
import signal
import sqlite3
import subprocess
import sys

import chromadb
import numpy as np
import pytest
from chromadb import errors

from hrl_jax.services.memory import fingerprints, store
from tests.services.memory import indices, things

WRITES = ("mark", "put_histories", "put_texts", "change_texts")


def fail(patch, at):
  """Lets the write of that number fail, and all after it."""
  count = 0

  def failing(real):
    def write(self, *arguments):
      nonlocal count
      count += 1
      if count > at:
        raise errors.InternalError("database or disk is full")
      return real(self, *arguments)

    return write

  for name in WRITES:
    patch.setattr(store.Store, name, failing(getattr(store.Store, name)))


@pytest.mark.parametrize("at", range(7))
@pytest.mark.parametrize("goes_on", [False, True])
def test_a_write_that_failed_is_made_up_for(
  original, tmp_path, monkeypatch, caplog, at, goes_on
):
  with things.opened(tmp_path) as kept:
    kept.append(things.step(1))
    with monkeypatch.context() as patch:
      fail(patch, at)
      with pytest.raises(OSError, match="make room and run the same") as caught:
        kept.append(things.step(2))
    assert "disk is full" in str(caught.value)
    caplog.clear()
    if goes_on:
      kept.append(things.step(3))
      assert things.everything(kept) == original[1]
  with things.opened(tmp_path) as kept:
    if not goes_on:
      kept.append(things.step(3))
    assert things.everything(kept) == original[1]
  assert indices.BUILT not in caplog.text


@pytest.mark.parametrize("at", range(7))
def test_a_cut_that_failed_is_made_up_for(
  original, tmp_path, monkeypatch, caplog, at
):
  with things.opened(tmp_path) as kept:
    kept.append(things.step(1))
    length, before = kept.length(), things.everything(kept)
    kept.append(things.step(2))
    both = things.everything(kept)
    with monkeypatch.context() as patch:
      fail(patch, at)
      try:
        kept.cut(length)
        assert at >= 5
      except OSError:
        assert things.everything(kept)[0] == both[0]
    caplog.clear()
  with things.opened(tmp_path) as kept:
    assert things.everything(kept) in (before, both)
    kept.cut(length)
    assert things.everything(kept) == before
    kept.append(things.step(2))
    kept.append(things.step(3))
    assert things.everything(kept) == original[1]
  assert indices.BUILT not in caplog.text


def test_what_a_killed_process_leaves_is_in_order_and_not_built_anew(
  tmp_path, caplog
):
  with things.opened(tmp_path / "memory") as kept:
    for number in indices.STEPS:
      kept.append(things.step(number))
    expected = things.everything(kept)
    shutil.copytree(tmp_path / "memory", tmp_path / "copy")
  caplog.clear()
  assert indices.retrieved(tmp_path / "copy") == expected
  assert indices.BUILT not in caplog.text


def test_damage_after_a_kill_is_noticed_or_does_no_harm(tmp_path, caplog):
  with things.opened(tmp_path / "memory") as kept:
    for number in indices.STEPS:
      kept.append(things.step(number))
    expected = things.everything(kept)
    shutil.copytree(tmp_path / "memory", tmp_path / "killed")
  path = indices.chroma(tmp_path / "killed") / "chroma.sqlite3"
  content = path.read_bytes()
  # Bytes that are in use; and a page that a bad disk gave back empty.
  used = np.flatnonzero(np.frombuffer(content, np.uint8))
  rng = np.random.default_rng(0)
  damages = [bytearray(content) for _ in range(13)]
  for damaged in damages[1:]:
    damaged[rng.choice(used)] ^= 1 << rng.integers(8)
  damages[0][40960:45056] = bytes(4096)
  caplog.clear()
  for damaged in damages:
    folder = tmp_path / "copy"
    shutil.copytree(tmp_path / "killed", folder)
    (folder / path.relative_to(tmp_path / "killed")).write_bytes(damaged)
    with things.opened(folder) as kept:
      assert things.everything(kept) == expected
    shutil.rmtree(folder)
  assert 0 < caplog.text.count(indices.BUILT) < len(damages)


def test_an_entry_that_was_changed_after_a_kill_is_noticed(tmp_path, caplog):
  with things.opened(tmp_path / "memory") as kept:
    kept.append(things.step(1))
    expected = things.everything(kept)
    shutil.copytree(tmp_path / "memory", tmp_path / "killed")
  path = indices.chroma(tmp_path / "killed") / "chroma.sqlite3"
  with contextlib.closing(sqlite3.connect(path)) as database:
    # SQLite itself finds nothing wrong with this.
    database.execute(
      "UPDATE embedding_metadata SET string_value = "
      "replace(string_value, substr(string_value, 30, 3), 'abc') "
      "WHERE key = 'history'"
    )
    database.commit()
  caplog.clear()
  assert indices.retrieved(tmp_path / "killed") == expected
  assert caplog.text.count(indices.BUILT) == 1


def test_nothing_of_an_index_that_cannot_be_used_is_in_the_next(
  tmp_path, caplog
):
  with things.opened(tmp_path / "memory") as kept:
    kept.append(things.step(1))
    expected = things.everything(kept)
    shutil.copytree(tmp_path / "memory", tmp_path / "killed")
  path = indices.chroma(tmp_path / "killed")
  client = chromadb.PersistentClient(
    str(path), chromadb.Settings(anonymized_telemetry=False)
  )
  # Whole entries in each other's place are read; then a text is missed.
  time = client.get_collection("time", embedding_function=None)
  got = time.get(include=["metadatas"])
  assert len(got["ids"]) > 1
  time.update(ids=got["ids"], metadatas=got["metadatas"][::-1])
  texts = client.get_collection("semantics", embedding_function=None)
  texts.delete(ids=texts.get(include=[])["ids"][:1])
  client.close()
  hashes = fingerprints.Fingerprints(tmp_path / "killed/index/files.json")
  hashes.record(path, is_closed=False)
  caplog.clear()
  assert indices.retrieved(tmp_path / "killed") == expected
  assert caplog.text.count(indices.BUILT) == 1


def test_an_entry_damaged_while_it_is_open_ends_the_run_and_is_built_anew(
  copy, original, caplog, monkeypatch
):
  kept = things.opened(copy)
  with monkeypatch.context() as patch:
    patch.setattr(
      store.Store, "histories", lambda self, tasks: {"t1": "no entry"}
    )
    with pytest.raises(OSError, match="the next start brings the index up"):
      kept.histories(["t1"])
  kept.close()
  assert indices.retrieved(copy) == original[1]
  assert caplog.text.count(indices.BUILT) == 1


APPENDS = """
import sys
from tests.services.memory import things
with things.opened(sys.argv[1], "approximate") as kept:
  number = len(kept.histories(["t1"])[0].updates)
  things.everything(kept)
  print("open", flush=True)
  while True:
    number += 1
    kept.append(things.step(number))
    print(number, flush=True)
"""


@pytest.mark.parametrize("wait", [3, 7])
def test_nothing_that_append_returned_from_is_lost_by_a_kill(
  tmp_path, caplog, wait
):
  returned = 0
  for _ in range(2):
    process = subprocess.Popen(
      [sys.executable, "-c", APPENDS, tmp_path],
      stdout=subprocess.PIPE,
      text=True,
    )
    lines = [process.stdout.readline() for _ in range(wait)]
    assert lines[0] == "open\n"
    os.kill(process.pid, signal.SIGKILL)
    lines += process.stdout.readlines()
    process.wait(30)
    process.stdout.close()
    returned = int(lines[-1] if lines[-1].endswith("\n") else lines[-2])
    with things.opened(tmp_path) as kept:
      assert len(kept.histories(["t1"])[0].updates) >= returned >= wait - 1
      found = things.everything(kept)
      content = pathlib.Path(tmp_path, "log.jsonl").read_bytes()
      assert content.endswith(b"\n")
    shutil.copytree(tmp_path, tmp_path / "anew")
    indices.delete(tmp_path / "anew")
    assert indices.retrieved(tmp_path / "anew") == found
    shutil.rmtree(tmp_path / "anew")
