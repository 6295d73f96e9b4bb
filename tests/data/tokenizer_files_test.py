"""Tokenizers made of files: what they take from which, and what is refused."""

import dataclasses
import json

import pytest

from hrl_jax import base
from hrl_jax.data import tokenizer
from tests.data import qwen_like as small


def test_stops_are_those_of_the_generation_config_and_the_end_token(qwen_like):
  ids = qwen_like.control_ids
  assert qwen_like.stop_ids == (ids["<|endoftext|>"], ids["<|im_end|>"])
  assert qwen_like.pad_id == ids["<|endoftext|>"]
  assert qwen_like.vocab_size == max(ids.values()) + 1


def test_a_directory_and_its_files_make_the_same_tokenizer(qwen_like, tmp_path):
  for name, content in qwen_like.files.items():
    (tmp_path / name).write_bytes(content)
  (tmp_path / "config.json").write_text("{}")
  loaded = tokenizer.load(tmp_path, {})
  assert loaded.files == qwen_like.files
  assert loaded.encode("a 1 é") == qwen_like.encode("a 1 é")


def test_a_template_inside_the_tokenizer_config_is_found(qwen_like):
  settings = json.loads(qwen_like.files["tokenizer_config.json"])
  settings["chat_template"] = [
    {"name": "tool_use", "template": "no"},
    {"name": "default", "template": small.TEMPLATE},
  ]
  files = {
    **qwen_like.files,
    "tokenizer_config.json": json.dumps(settings).encode(),
  }
  del files["chat_template.jinja"]
  user = (base.Message("user", "u"),)
  loaded = tokenizer.from_files(files, {})
  assert loaded.encode_chat(user) == qwen_like.encode_chat(user)


def _changed(files, name, change):
  document = json.loads(files[name])
  change(document)
  return {**files, name: json.dumps(document).encode()}


@pytest.mark.parametrize(
  ("name", "change", "message"),
  [
    (
      "tokenizer.json",
      lambda d: d["added_tokens"][0].update(rstrip=True),
      r"'<\|endoftext\|>' has rstrip = true",
    ),
    (
      "tokenizer.json",
      lambda d: d.update(pre_tokenizer={"type": "Metaspace"}),
      r"pre-tokenizer \['Metaspace'\]",
    ),
    (
      "tokenizer.json",
      lambda d: d["pre_tokenizer"]["pretokenizers"][1].update(
        add_prefix_space=True
      ),
      "without a prefix space",
    ),
    (
      "tokenizer_config.json",
      lambda d: d.update(eos_token="<|end|>"),
      r"eos_token = '<\|end\|>', which tokenizer.json does not know",
    ),
  ],
)
def test_what_cannot_be_encoded_piece_by_piece_is_refused(
  qwen_like, name, change, message
):
  with pytest.raises(ValueError, match=message):
    tokenizer.from_files(_changed(qwen_like.files, name, change), {})


def test_a_tokenizer_without_stop_tokens_is_refused(qwen_like):
  files = _changed(
    qwen_like.files, "tokenizer_config.json", lambda d: d.pop("eos_token")
  )
  del files["generation_config.json"]
  with pytest.raises(ValueError, match="No token ends a completion"):
    tokenizer.from_files(files, {})


def test_a_model_without_template_encodes_text_alone(qwen_like):
  files = dict(qwen_like.files)
  del files["chat_template.jinja"]
  text = tokenizer.from_files(files, {})
  assert text.encode("a") == qwen_like.encode("a")
  with pytest.raises(ValueError, match="has no chat template"):
    text.encode_chat((base.Message("user", "u"),))


def test_a_vocabulary_that_merges_into_a_control_token_is_refused(qwen_like):
  # Merging makes one token of "the"; named the end token, it would end turns.
  files = _changed(
    qwen_like.files,
    "tokenizer_config.json",
    lambda d: d.update(eos_token="the"),
  )
  text = tokenizer.from_files(files, {})
  with pytest.raises(ValueError, match="makes a control token out of"):
    text.encode("the way")


def test_a_directory_without_tokenizer_is_refused(tmp_path):
  with pytest.raises(FileNotFoundError, match=r"no tokenizer\.json"):
    tokenizer.load(tmp_path, {})


def test_nothing_of_a_tokenizer_can_be_reassigned(qwen_like):
  with pytest.raises(dataclasses.FrozenInstanceError):
    qwen_like.pad_id = 3
