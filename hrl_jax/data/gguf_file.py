"""Reads GGUF files: metadata and tensors.

The `gguf` package has a reader too, which makes a numpy view of each of the
98,000 strings of a vocabulary and takes seconds where this takes a tenth of
one. Block formats are dequantised by the package.

The format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md.
"""

import math
import pathlib
import struct
from collections.abc import Mapping
from typing import Any, BinaryIO, NamedTuple

import gguf
import numpy as np
from gguf import quants

from hrl_jax.data import jsonl

_SCALARS = {
  gguf.GGUFValueType.UINT8: "B",
  gguf.GGUFValueType.INT8: "b",
  gguf.GGUFValueType.UINT16: "H",
  gguf.GGUFValueType.INT16: "h",
  gguf.GGUFValueType.UINT32: "I",
  gguf.GGUFValueType.INT32: "i",
  gguf.GGUFValueType.FLOAT32: "f",
  gguf.GGUFValueType.BOOL: "?",
  gguf.GGUFValueType.UINT64: "Q",
  gguf.GGUFValueType.INT64: "q",
  gguf.GGUFValueType.FLOAT64: "d",
}


# What the head of a file that is cut short or overwritten comes to.
_DAMAGE = (
  struct.error,
  ValueError,  # A text that is not UTF-8, a number that names no kind.
  KeyError,
  OverflowError,  # Lengths beyond what there can be.
  MemoryError,
  RecursionError,
)


class Tensor(NamedTuple):
  """A stored tensor.

  Attributes:
    shape: of its numbers, last axis contiguous: `[out, in]` of a linear layer.
    kind: how blocks of numbers are packed into bytes.
    packed: its bytes, the last axis that of a row.
  """

  shape: tuple[int, ...]
  kind: gguf.GGMLQuantizationType
  packed: np.ndarray

  def numbers(self) -> np.ndarray:
    """The exact numbers, float32."""
    return quants.dequantize(self.packed, self.kind)


class GgufFile(NamedTuple):
  """A file's content; tensors stay on disk until they are asked for.

  Attributes:
    metadata: values by key.
    tensors: stored tensors by name.
  """

  metadata: Mapping[str, Any]
  tensors: Mapping[str, Tensor]


def read(path: pathlib.Path) -> GgufFile:
  """Reads the head of a GGUF file and maps its tensors.

  Raises:
    ValueError: if it is no little-endian GGUF of version 2 or 3, is cut short,
      or holds a key or a tensor twice.
  """
  with path.open("rb") as file:
    num_tensors, num_keys = _header(path, file)
    try:
      pairs = [_pair(file) for _ in range(num_keys)]
      infos = [_tensor_info(file) for _ in range(num_tensors)]
    except _DAMAGE as error:
      raise _cut_short(path) from error
    end_of_head = file.tell()
  metadata = dict(pairs)
  alignment = metadata.get("general.alignment", gguf.GGUF_DEFAULT_ALIGNMENT)
  start = math.ceil(end_of_head / alignment) * alignment
  content = np.memmap(path, np.uint8, "r")[start:]
  tensors = {
    name: _tensor(path, content, shape, kind, offset)
    for name, shape, kind, offset in infos
  }
  if len(metadata) < num_keys or len(tensors) < num_tensors:
    raise ValueError(
      f"{path} holds a key or a tensor twice: which one counts is not known. "
      "Download or convert the model again."
    )
  return GgufFile(metadata, tensors)


def _header(path: pathlib.Path, file: BinaryIO) -> tuple[int, int]:
  head = file.read(24).ljust(24, b"\0")
  magic, version, num_tensors, num_keys = struct.unpack("<4sIQQ", head)
  if magic != b"GGUF" or version not in (2, 3):
    raise ValueError(
      f"{path} begins with {magic!r} and version {version}; a little-endian "
      "GGUF of version 2 or 3 is needed. Convert the model anew."
    )
  return num_tensors, num_keys


def _pair(file: BinaryIO) -> tuple[str, Any]:
  (key,) = _items(file, gguf.GGUFValueType.STRING, 1)
  (kind,) = _unpack(file, "<I")
  return key, _value(file, kind)


def _value(file: BinaryIO, kind: int) -> Any:
  if kind == gguf.GGUFValueType.ARRAY:
    item_kind, length = _unpack(file, "<IQ")
    return _items(file, item_kind, length)
  return _items(file, kind, 1)[0]


def _items(file: BinaryIO, kind: int, length: int) -> list[Any]:
  if kind == gguf.GGUFValueType.ARRAY:
    return [_value(file, kind) for _ in range(length)]
  if kind != gguf.GGUFValueType.STRING:
    letter = _SCALARS[gguf.GGUFValueType(kind)]
    return list(_unpack(file, f"<{length}{letter}"))
  # In one loop without calls: a vocabulary has 100,000 of them.
  strings = []
  for _ in range(length):
    (size,) = struct.unpack("<Q", file.read(8))
    strings.append(file.read(size).decode("utf-8"))
  return strings


def _tensor_info(
  file: BinaryIO,
) -> tuple[str, tuple[int, ...], gguf.GGMLQuantizationType, int]:
  (name,) = _items(file, gguf.GGUFValueType.STRING, 1)
  (num_axes,) = _unpack(file, "<I")
  *sizes, kind, offset = _unpack(file, f"<{num_axes}QIQ")
  return name, tuple(sizes[::-1]), gguf.GGMLQuantizationType(kind), offset


def _tensor(
  path: pathlib.Path,
  content: np.ndarray,
  shape: tuple[int, ...],
  kind: gguf.GGMLQuantizationType,
  offset: int,
) -> Tensor:
  packed_shape = gguf.quant_shape_to_byte_shape(shape, kind)
  packed = content[offset : offset + math.prod(packed_shape)]
  if packed.size < math.prod(packed_shape):
    raise _cut_short(path)
  return Tensor(shape, kind, packed.reshape(packed_shape))


def _unpack(file: BinaryIO, form: str) -> tuple[Any, ...]:
  return struct.unpack(form, file.read(struct.calcsize(form)))


def _cut_short(path: pathlib.Path) -> ValueError:
  return ValueError(
    f"{jsonl.named(path)} ends before its tensors do, or is damaged "
    f"({path.stat().st_size} bytes). Download it again."
  )
