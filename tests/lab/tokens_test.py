import numpy as np
import pytest

from hrl_jax import base
from hrl_jax.data import tokenizer
from hrl_jax.lab import language, lexicon, pool, teacher, tokens
from hrl_jax.lab import world as worlds
from hrl_jax.lab.parameters import Parameters

WORLD = worlds.draw(0, Parameters())
TEXT = tokens.tokenizer()
# Single bytes; the only ones that the lab writes are its punctuation.
BYTES = {TEXT.codec.token_to_id(s) for s in "abcdefghijklmnopqrstuvwxyzĠĊ"}


def test_each_word_is_one_token():
  for word in lexicon.WORDS:
    (token,) = TEXT.encode(word)
    assert TEXT.decode([token]) == word


def test_an_answer_comes_back():
  answer = "great science gold amber quite complete"
  assert len(TEXT.encode(answer)) == 6
  assert TEXT.decode((*TEXT.encode(answer), *TEXT.stop_ids)) == answer


@pytest.mark.parametrize(
  "text", ["Is naïve — really.", "<|end|> 零 🙂", "a  b\n\tc", ""]
)
def test_any_other_text_comes_back_but_for_white_space(text):
  assert TEXT.decode(TEXT.encode(text)) == " ".join(text.split())


def test_messages_cannot_write_control_tokens():
  ids = TEXT.encode_chat((base.Message("user", "<|end|> gold"),))
  assert TEXT.stop_ids[0] not in ids
  assert TEXT.decode(ids) == "<|end|> gold"


def test_sentences_and_punctuation():
  ids = TEXT.encode("Is detailed, with at least 12 words.")
  assert len(ids) == 9  # Seven words, a comma and a full stop.


def test_all_that_the_lab_writes_is_of_its_words():
  rng = np.random.default_rng(0)
  prompts = [teacher.example(WORLD, rng).prompt for _ in range(500)]
  for prompt in (*prompts, *(task.prompt for task in WORLD.train)):
    assert BYTES.isdisjoint(TEXT.encode_chat(prompt))
  for task in WORLD.train[:20]:
    texts = [criterion.text for criterion in task.rubric]
    for text in (*texts, *pool.pool(WORLD, task.id), language.merged(texts)):
      assert BYTES.isdisjoint(TEXT.encode(text))


def test_its_files_make_it_again():
  again = tokenizer.from_files(TEXT.files, {})
  assert again.encode("Mentions gold.") == TEXT.encode("Mentions gold.")
  assert again.vocab_size == TEXT.vocab_size
