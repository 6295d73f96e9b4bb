"""Text to token ids and back, and conversations to prompts.

Only byte-level BPE vocabularies are taken (Llama 3, Qwen, SmolLM): any text is
a sequence of their tokens, and the pieces between control tokens can be encoded
one by one, which is what keeps control tokens out of messages.
"""

import dataclasses
import hashlib
import json
import pathlib
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tokenizers
from tokenizers import pre_tokenizers

from hrl_jax import base
from hrl_jax.data import chat_template, json_files, jsonl, tokenizer_files

_MARK = re.compile("([\ud800-\udfff])")


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Tokenizer:
  """A vocabulary and the chat template of a model.

  Control tokens are all added tokens of the vocabulary but blank ones. Text
  that spells one, in a message or elsewhere, is encoded letter by letter like
  any other text: only the chat template writes control tokens.

  Attributes:
    stop_ids: tokens that end a completion: those of the generation config,
      then the tokenizer's own end token.
    pad_id: fills rows where the mask is False; the padding token, or the first
      stop token where there is none.
    vocab_size: one more than the largest id; a model may have more rows.
    files: contents of the tokenizer files by name, to be saved with weights.
    codec: the vocabulary with its added tokens; decodes.
    plain: the vocabulary without control tokens; encodes.
    control_ids: id of each control token by its text.
    hidden_ids: ids that decoding leaves out: special tokens and stop tokens.
    missing: byte symbols that the vocabulary lacks.
    template: the chat template, None for a model without one.
  """

  stop_ids: tuple[int, ...]
  pad_id: int
  vocab_size: int
  files: Mapping[str, bytes]
  codec: tokenizers.Tokenizer
  plain: tokenizers.Tokenizer
  control_ids: Mapping[str, int]
  hidden_ids: frozenset[int]
  missing: frozenset[str]
  template: chat_template.ChatTemplate | None

  @property
  def hash(self) -> str:
    """SHA-256 of the files, in hexadecimal."""
    digest = hashlib.sha256()
    for name in sorted(self.files):
      digest.update(name.encode() + b"\0" + self.files[name] + b"\0")
    return digest.hexdigest()

  def encode_chat(self, conversation: base.Conversation) -> tuple[int, ...]:
    """Token ids of the prompt that asks the assistant for the next turn.

    Equal to transformers' `apply_chat_template(add_generation_prompt=True)`
    where no message spells a control token; where one does, it stays text.

    Raises:
      ValueError: if the model has no chat template, the template refuses the
        conversation, or a message cannot be encoded (see `encode`).
    """
    if self.template is None:
      raise ValueError(
        "The model has no chat template: neither chat_template.jinja nor a "
        "chat_template in tokenizer_config.json. Use an instruction-tuned "
        "model, or add the template to its directory."
      )
    for message in conversation:
      _check_unicode(message.role)
      _check_unicode(message.content)
    marked = chat_template.render(self.template, conversation)
    ids_of_marks = {
      mark: self.control_ids[token]
      for token, mark in self.template.marks.items()
    }
    ids: list[int] = []
    for piece in _MARK.split(marked):
      if piece in ids_of_marks:
        ids.append(ids_of_marks[piece])
      else:
        ids.extend(self.encode(piece))
    return tuple(ids)

  def encode(self, text: str) -> tuple[int, ...]:
    """Token ids of plain text; nothing in it becomes a control token.

    `decode(encode(text)) == text`, except that a vocabulary with a normaliser
    (Qwen: NFC) composes accents first.

    Raises:
      ValueError: naming the character, if the text holds a lone surrogate,
        which no UTF-8 has, or a byte that the vocabulary lacks (SmolLM2 lacks
        six control characters and the bytes of some unassigned planes).
    """
    _check_unicode(text)
    self._check_bytes(text)
    ids = self.plain.encode(text, add_special_tokens=False).ids
    if not set(self.control_ids.values()).isdisjoint(ids):
      raise ValueError(
        f"The vocabulary makes a control token out of the plain text {text!r}: "
        "its merges lead to one. Use another tokenizer."
      )
    return tuple(ids)

  def decode(self, ids: Sequence[int] | np.ndarray) -> str:
    """The text of token ids, without special and stop tokens.

    Bytes that are not UTF-8, such as half a character where a completion was
    cut, become U+FFFD. Ids beyond the vocabulary give nothing.
    """
    kept = [int(i) for i in ids if int(i) not in self.hidden_ids]
    return self.codec.decode(kept, skip_special_tokens=False)

  def _check_bytes(self, text: str) -> None:
    if not self.missing:
      return
    if self.missing.isdisjoint(_byte_symbols(text)):
      return
    character = next(
      c for c in text if not self.missing.isdisjoint(_byte_symbols(c))
    )
    raise ValueError(
      f"The vocabulary has no token for a byte of {character!r} (character "
      f"{text.index(character)} of the text): it would vanish from the prompt. "
      "Remove or replace it in the text."
    )


def load(
  path: str | pathlib.Path, template_options: Mapping[str, Any]
) -> Tokenizer:
  """The tokenizer of a model directory or a GGUF file.

  Args:
    path: see `tokenizer_files.read`.
    template_options: variables of the chat template, such as
      `enable_thinking`, and "today", see `chat_template.compile_template`.

  Raises:
    FileNotFoundError: if there is no tokenizer.
    ValueError: if it is not byte-level BPE, has no stop token, or its chat
      template cannot be rendered safely.
  """
  return from_files(tokenizer_files.read(path), template_options)


def from_files(
  files: Mapping[str, bytes], template_options: Mapping[str, Any]
) -> Tokenizer:
  """As `load`, from the contents of the files by name."""
  definition = json_files.parse(files["tokenizer.json"], "tokenizer.json")
  _check_byte_level(definition)
  codec = _codec(files["tokenizer.json"].decode())
  settings = tokenizer_files.settings(files)
  control_ids, special = _control_tokens(definition, codec, settings.named)
  stop_ids = _stop_ids(settings, control_ids)
  template = None
  if settings.chat_template is not None:
    template = chat_template.compile_template(
      settings.chat_template, control_ids, settings.named, template_options
    )
  vocabulary = codec.get_vocab(with_added_tokens=True)
  return Tokenizer(
    stop_ids=stop_ids,
    pad_id=control_ids.get(settings.named.get("pad_token"), stop_ids[0]),
    vocab_size=max(vocabulary.values()) + 1,
    files=dict(files),
    codec=codec,
    plain=_without_control_tokens(definition),
    control_ids=control_ids,
    hidden_ids=frozenset(stop_ids) | {control_ids[token] for token in special},
    missing=frozenset(pre_tokenizers.ByteLevel.alphabet()).difference(
      vocabulary
    ),
    template=template,
  )


def _codec(definition: str) -> tokenizers.Tokenizer:
  try:
    return tokenizers.Tokenizer.from_str(definition)
  except Exception as error:  # The package has no class of its own.
    raise ValueError(
      f"tokenizer.json is no tokenizer: {jsonl.shown(str(error))}. Save it "
      "anew with transformers."
    ) from error


def _control_tokens(
  definition: Mapping[str, Any],
  codec: tokenizers.Tokenizer,
  named: Mapping[str, str],
) -> tuple[dict[str, int], set[str]]:
  # All control tokens, and the special ones among them.
  added = [t for t in definition.get("added_tokens", []) if _is_control(t)]
  for token in added:
    widened = [key for key in ("lstrip", "rstrip", "single_word") if token[key]]
    if widened:
      raise ValueError(
        f"The added token {token['content']!r} has {widened[0]} = true, which "
        "takes characters from the text around it. Set it to false in "
        "tokenizer.json."
      )
  control_ids = {token["content"]: token["id"] for token in added}
  for key, token in named.items():
    if codec.token_to_id(token) is None:
      raise ValueError(
        f"tokenizer_config.json has {key} = {token!r}, which tokenizer.json "
        "does not know. Save the tokenizer anew with transformers."
      )
    control_ids.setdefault(token, codec.token_to_id(token))
  special = {token["content"] for token in added if token["special"]}
  return control_ids, special | set(named.values())


def _is_control(token: Mapping[str, Any]) -> bool:
  return token["special"] or not token["content"].isspace()


def _without_control_tokens(
  definition: Mapping[str, Any],
) -> tokenizers.Tokenizer:
  blank = [t for t in definition.get("added_tokens", []) if not _is_control(t)]
  plain = {
    **definition,
    "added_tokens": blank,
    "post_processor": None,
    "truncation": None,
    "padding": None,
  }
  return tokenizers.Tokenizer.from_str(json.dumps(plain))


def _stop_ids(
  settings: tokenizer_files.Settings, control_ids: Mapping[str, int]
) -> tuple[int, ...]:
  stops = list(settings.generation_stops)
  if "eos_token" in settings.named:
    stops.append(control_ids[settings.named["eos_token"]])
  if not stops:
    raise ValueError(
      "No token ends a completion: there is neither eos_token_id in "
      "generation_config.json nor eos_token in tokenizer_config.json. Add one."
    )
  return tuple(dict.fromkeys(stops))


def _check_byte_level(definition: Mapping[str, Any]) -> None:
  model = definition.get("model", {}).get("type")
  splitting = definition.get("pre_tokenizer") or {}
  steps = splitting.get("pretokenizers", [splitting])
  if model != "BPE" or not any(
    step.get("type") == "ByteLevel" and not step["add_prefix_space"]
    for step in steps
  ):
    raise ValueError(
      "Only byte-level BPE without a prefix space can encode any text piece by "
      f"piece, tokenizer.json has model {model} and pre-tokenizer "
      f"{[step.get('type') for step in steps]}. Use a model with such a "
      "tokenizer (Llama 3, Qwen, SmolLM)."
    )


def _check_unicode(text: str) -> None:
  try:
    text.encode("utf-8")
  except UnicodeEncodeError as error:
    raise ValueError(
      f"The text holds the lone surrogate U+{ord(text[error.start]):04X} at "
      f"character {error.start}, which no UTF-8 and no tokenizer can "
      "represent. Repair the text where it was read (half of a \\uD83D\\uDE00 "
      "pair in JSON, for example)."
    ) from error


def _byte_symbols(text: str) -> set[str]:
  pieces = pre_tokenizers.ByteLevel(
    add_prefix_space=False, use_regex=False
  ).pre_tokenize_str(text)
  return {symbol for piece, _ in pieces for symbol in piece}
