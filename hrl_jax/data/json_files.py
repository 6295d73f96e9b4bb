"""The JSON files of a model: objects, read whole."""

import json
import pathlib
from typing import Any

from hrl_jax.data import jsonl

_REMEDY = "Download or save the model again."


def read(path: pathlib.Path) -> dict[str, Any]:
  """The object in a file.

  Raises:
    FileNotFoundError: if there is no such file.
    ValueError: if it cannot be read or is not a JSON object.
  """
  if not path.exists():
    raise FileNotFoundError(
      f"{jsonl.named(path.parent)} has no {path.name}. Give a model's "
      "directory, as transformers saves it, or a .gguf file."
    )
  try:
    content = path.read_bytes()
  except OSError as error:
    raise ValueError(
      f"Cannot read {jsonl.named(path)}: {error.strerror}. {_REMEDY}"
    ) from error
  return parse(content, jsonl.named(path))


def parse(content: bytes, name: str) -> dict[str, Any]:
  """The object in the content of a file, which errors call by its name.

  Raises:
    ValueError: if it is not a JSON object in UTF-8.
  """
  try:
    value = json.loads(content.decode())
  except (ValueError, RecursionError) as error:
    raise ValueError(
      f"{name} is not JSON in UTF-8: {jsonl.shown(str(error))}. {_REMEDY}"
    ) from error
  if not isinstance(value, dict):
    raise ValueError(
      f"{name} must hold a JSON object, got {jsonl.shown(value)}. {_REMEDY}"
    )
  return value
