import random
import unicodedata

import jinja2
import numpy as np
import pytest
import tokenizers
from tokenizers import normalizers

from hrl_jax import base
from hrl_jax.checkpoint import hf
from hrl_jax.data import tokenizer, tokenizer_files
from tests.data import qwen_like as small


@pytest.fixture(scope="module")
def smollm2():
  try:
    return tokenizer.load(hf.QUICKSTART, {})
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
  conversations = list(_conversations(small.texts(300)))
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
  for conversation in _conversations(small.texts(300)):
    expected = theirs.apply_chat_template(
      [message._asdict() for message in conversation],
      add_generation_prompt=True,
      return_dict=False,
    )
    assert text.encode_chat(conversation) == tuple(expected)


@pytest.mark.slow
def test_smollm2_tokens_equal_those_of_transformers_but_for_digits(smollm2):
  transformers = pytest.importorskip("transformers")
  path = tokenizer_files.package_files.resolve(hf.QUICKSTART)
  theirs = transformers.AutoTokenizer.from_pretrained(
    path.parent, gguf_file=path.name
  )
  without_digits = [
    text for text in small.texts(300) if not any(map(str.isnumeric, text))
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
  for content in small.texts(300) + list(small.SPELLED):
    expected = content
    if text.plain.normalizer is not None:
      expected = unicodedata.normalize("NFC", content)
    assert text.decode(text.encode(content)) == expected


@pytest.mark.parametrize("spelled", small.SPELLED)
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
  for content in small.texts(50, small.SPELLED):
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
  files = small.files()
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


def test_qwen_splitting_equals_that_of_transformers():
  transformers = pytest.importorskip("transformers")
  theirs = transformers.Qwen2Tokenizer()._tokenizer
  ours = tokenizer_files.SPLITTINGS["qwen2"]()
  assert isinstance(ours.normalizer, normalizers.NFC)
  for text in small.texts(300):
    assert ours.pre_tokenizer.pre_tokenize_str(
      text
    ) == theirs.pre_tokenizer.pre_tokenize_str(text)
