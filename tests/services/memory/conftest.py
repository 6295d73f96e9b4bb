"""A memory to damage."""

import logging
import shutil

import pytest

from tests.services.memory import indices, things


@pytest.fixture(scope="module")
def original(tmp_path_factory):
  """A memory that was closed, and all that it retrieved."""
  folder = tmp_path_factory.mktemp("memory")
  with things.opened(folder) as kept:
    for number in indices.STEPS:
      kept.append(things.step(number))
    expected = things.everything(kept)
  return folder, expected


@pytest.fixture
def copy(original, tmp_path, caplog):
  """A copy to damage; what is logged is kept."""
  caplog.set_level(logging.INFO, "hrl_jax")
  folder = tmp_path / "copy"
  shutil.copytree(original[0], folder)
  return folder
