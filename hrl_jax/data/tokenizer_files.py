"""The files that make a tokenizer, from a model directory or a GGUF file.

Both sources give the same thing: the contents of `tokenizer.json` and its
companions by file name, as transformers and vLLM read them. What is read here
can be written next to exported weights unchanged.
"""

import json
import pathlib
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers

from hrl_jax.data import gguf_file, json_files, package_files

FILES = (
  "tokenizer.json",
  "tokenizer_config.json",
  "special_tokens_map.json",
  "chat_template.jinja",
  "generation_config.json",
)

_NAMED_TOKENS = ("bos_token", "eos_token", "unk_token", "pad_token")

# Values of `tokenizer.ggml.token_type`.
_CONTROL, _USER_DEFINED = 3, 4


class Settings(NamedTuple):
  """What the companions of `tokenizer.json` say.

  Attributes:
    named: texts of the tokens that have a name, such as `eos_token`.
    generation_stops: ids that end a completion, of the generation config.
    chat_template: its Jinja text, None if there is none.
  """

  named: Mapping[str, str]
  generation_stops: tuple[int, ...]
  chat_template: str | None


class Splitting(NamedTuple):
  """How text is cut before merging, as `tokenizer.ggml.pre` names it.

  Attributes:
    normalizer: applied to text first, or None.
    pre_tokenizer: cuts text into the pieces within which bytes are merged.
  """

  normalizer: Any
  pre_tokenizer: Any


def _smollm() -> Splitting:
  return Splitting(
    None,
    pre_tokenizers.Sequence(
      [
        pre_tokenizers.Digits(individual_digits=True),
        pre_tokenizers.ByteLevel(add_prefix_space=False),
      ]
    ),
  )


def _qwen2() -> Splitting:
  pattern = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
  )
  return Splitting(
    normalizers.NFC(),
    pre_tokenizers.Sequence(
      [
        pre_tokenizers.Split(tokenizers.Regex(pattern), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
      ]
    ),
  )


SPLITTINGS: Mapping[str, Callable[[], Splitting]] = {
  "smollm": _smollm,
  "qwen2": _qwen2,
}


def read(path: str | pathlib.Path) -> dict[str, bytes]:
  """Contents of the tokenizer files by name.

  Args:
    path: a model directory, a `.gguf` file, or either inside a package, see
      `package_files.resolve`.

  Raises:
    FileNotFoundError: if there is nothing there, or no `tokenizer.json` in
      the directory.
    ValueError: if the vocabulary of a GGUF file is of another kind.
  """
  found = package_files.resolve(path)
  if not found.is_dir():
    return read_gguf(found)
  if not (found / "tokenizer.json").is_file():
    raise FileNotFoundError(
      f"{found} has no tokenizer.json. Save the tokenizer with "
      "transformers' save_pretrained (fast form) into the directory."
    )
  return {
    name: (found / name).read_bytes()
    for name in FILES
    if (found / name).is_file()
  }


def settings(files: Mapping[str, bytes]) -> Settings:
  """Reads the companions of `tokenizer.json`, all of which may be absent."""
  tokens_map, config, generation = (
    json_files.parse(files.get(name, b"{}"), name)
    for name in (
      "special_tokens_map.json",
      "tokenizer_config.json",
      "generation_config.json",
    )
  )
  values = {**tokens_map, **config}
  stops = generation.get("eos_token_id")
  if stops is None:
    stops = []
  template = values.get("chat_template")
  if isinstance(template, list):
    named_templates = {entry["name"]: entry["template"] for entry in template}
    template = named_templates.get("default")
  if "chat_template.jinja" in files:
    template = files["chat_template.jinja"].decode()
  return Settings(
    named={
      key: values[key]
      if isinstance(values[key], str)
      else values[key]["content"]
      for key in _NAMED_TOKENS
      if values.get(key) is not None
    },
    generation_stops=(stops,) if isinstance(stops, int) else tuple(stops),
    chat_template=template,
  )


def read_gguf(path: pathlib.Path) -> dict[str, bytes]:
  """Builds tokenizer files from the metadata of a GGUF file.

  Raises:
    ValueError: naming key and value where the vocabulary is not byte-level
      BPE or its splitting is not known.
  """
  metadata = gguf_file.read(path).metadata
  ggml = {
    key.removeprefix("tokenizer.ggml."): value
    for key, value in metadata.items()
    if key.startswith("tokenizer.ggml.")
  }
  _check_kind(path, ggml)
  tokenizer_config = {
    "tokenizer_class": "PreTrainedTokenizerFast",
    "clean_up_tokenization_spaces": False,
    **{
      f"{ours}_token": ggml["tokens"][ggml[f"{theirs}_token_id"]]
      for ours, theirs in (
        ("bos", "bos"),
        ("eos", "eos"),
        ("unk", "unknown"),
        ("pad", "padding"),
      )
      if f"{theirs}_token_id" in ggml
    },
  }
  stops = [ggml.get(f"{name}_token_id") for name in ("eos", "eot", "eom")]
  generation = {
    "eos_token_id": [stop for stop in dict.fromkeys(stops) if stop is not None],
    "pad_token_id": ggml.get("padding_token_id"),
  }
  files = {
    "tokenizer.json": _byte_level_bpe(ggml).to_str().encode(),
    "tokenizer_config.json": json.dumps(tokenizer_config, indent=2).encode(),
    "generation_config.json": json.dumps(generation, indent=2).encode(),
  }
  if "tokenizer.chat_template" in metadata:
    template = metadata["tokenizer.chat_template"]
    files["chat_template.jinja"] = template.encode()
  return files


def _byte_level_bpe(ggml: Mapping[str, Any]) -> tokenizers.Tokenizer:
  # Byte-level symbols hold no space, so the space in a merge is its only one.
  tokenizer = tokenizers.Tokenizer(
    models.BPE(
      vocab={token: index for index, token in enumerate(ggml["tokens"])},
      merges=[tuple(merge.split(" ")) for merge in ggml["merges"]],
    )
  )
  splitting = SPLITTINGS[ggml["pre"]]()
  if splitting.normalizer is not None:
    tokenizer.normalizer = splitting.normalizer
  tokenizer.pre_tokenizer = splitting.pre_tokenizer
  tokenizer.decoder = decoders.ByteLevel()
  tokenizer.add_tokens(
    [
      tokenizers.AddedToken(token, special=kind == _CONTROL, normalized=False)
      for token, kind in zip(ggml["tokens"], ggml["token_type"], strict=True)
      if kind in (_CONTROL, _USER_DEFINED)
    ]
  )
  return tokenizer


def _check_kind(path: pathlib.Path, ggml: Mapping[str, Any]) -> None:
  known = {"model": ["gpt2"], "pre": sorted(SPLITTINGS)}
  for key, values in known.items():
    if ggml.get(key) not in values:
      raise ValueError(
        f"{path} has tokenizer.ggml.{key} = {ggml.get(key)!r}; of GGUF files "
        f"only {values} are read. Take the tokenizer from the model's "
        "Hugging Face directory."
      )
