import gguf
import numpy as np
import pytest

from hrl_jax.data import gguf_file

METADATA = {
  "test.name": "Ünïcode",
  "test.flag": True,
  "test.count": 2**40,
  "test.ratio": 0.5,
  "test.tokens": ["a", "", "語"],
  "test.kinds": [1, 3, -2],
}
MATRIX = np.arange(96, dtype=np.float32).reshape(3, 32) / 7
VECTOR = np.array([1.5, -2.0, 0.25], np.float32)


@pytest.fixture
def path(tmp_path):
  writer = gguf.GGUFWriter(tmp_path / "file.gguf", "llama")
  writer.add_string("test.name", METADATA["test.name"])
  writer.add_bool("test.flag", METADATA["test.flag"])
  writer.add_uint64("test.count", METADATA["test.count"])
  writer.add_float32("test.ratio", METADATA["test.ratio"])
  writer.add_array("test.tokens", METADATA["test.tokens"])
  writer.add_array("test.kinds", METADATA["test.kinds"])
  writer.add_tensor("vector", VECTOR)
  writer.add_tensor("half", MATRIX.astype(np.float16))
  kind = gguf.GGMLQuantizationType.Q8_0
  packed = gguf.quants.quantize(MATRIX, kind)
  writer.add_tensor("packed", packed, raw_dtype=kind)
  writer.write_header_to_file()
  writer.write_kv_data_to_file()
  writer.write_tensors_to_file()
  writer.close()
  return tmp_path / "file.gguf"


def test_metadata_comes_back_as_it_went(path):
  metadata = gguf_file.read(path).metadata
  assert metadata == {"general.architecture": "llama", **METADATA}


def test_tensors_come_back_with_the_last_axis_contiguous(path):
  tensors = gguf_file.read(path).tensors
  np.testing.assert_array_equal(tensors["vector"].numbers(), VECTOR)
  np.testing.assert_array_equal(
    tensors["half"].numbers(), MATRIX.astype(np.float16).astype(np.float32)
  )
  assert tensors["packed"].shape == (3, 32)
  # One scale, the largest magnitude / 127, for each row of 32.
  error = np.abs(tensors["packed"].numbers() - MATRIX).max(axis=1)
  assert (error <= MATRIX.max(axis=1) / 127).all()


def test_the_package_reads_the_same(path):
  theirs = gguf.GGUFReader(path)
  ours = gguf_file.read(path)
  for key, field in theirs.fields.items():
    if not key.startswith("GGUF."):
      assert ours.metadata[key] == field.contents()
  for tensor in theirs.tensors:
    np.testing.assert_array_equal(
      ours.tensors[tensor.name].numbers(),
      gguf.quants.dequantize(tensor.data, tensor.tensor_type),
    )


@pytest.mark.parametrize("kept", [30, 200, -40])
def test_a_file_that_is_cut_short_is_refused(path, kept):
  path.write_bytes(path.read_bytes()[:kept])
  with pytest.raises(ValueError, match=r"file\.gguf ends before its tensors"):
    gguf_file.read(path)


def test_another_format_is_refused(path):
  path.write_bytes(b"PK\x03\x04" + path.read_bytes()[4:])
  with pytest.raises(ValueError, match=r"begins with b'PK.* little-endian"):
    gguf_file.read(path)


def test_a_tensor_that_is_there_twice_is_refused(path):
  # "packed" takes the name of "vector": both have six letters.
  path.write_bytes(path.read_bytes().replace(b"packed", b"vector"))
  with pytest.raises(ValueError, match="holds a key or a tensor twice"):
    gguf_file.read(path)
