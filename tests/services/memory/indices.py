"""The index of a memory on disk, looked at and taken away."""

import shutil

from tests.services.memory import things

STEPS = (1, 2, 3)
BUILT = "Builds the memory's index from the log"


def retrieved(folder, **changes):
  """What either search retrieves; the second finds the index in order."""
  with things.opened(folder, "approximate", **changes) as kept:
    graph = things.everything(kept)
  with things.opened(folder, **changes) as kept:
    exact = things.everything(kept)
  assert graph == exact
  return exact


def chroma(folder):
  (path,) = (folder / "index").glob("chroma-*")
  return path


def files(folder):
  return sorted(
    path for path in (folder / "index").rglob("*") if path.is_file()
  )


def delete(folder):
  shutil.rmtree(folder / "index")
