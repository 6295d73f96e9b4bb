"""The tokenizer of the lab: one token for each of its words.

Any other text is spelled byte by byte, as the house's tokenizers must be able
to. White space is not kept: every word has one space before it.
"""

import functools
import json

import tokenizers as hf_tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers

from hrl_jax import base
from hrl_jax.data import tokenizer as tokenizers
from hrl_jax.harness import guidance, terms
from hrl_jax.lab import language, lexicon
from hrl_jax.lab import world as worlds

_ASK, _ANSWER, _END = "<|ask|>", "<|answer|>", "<|end|>"
_TEMPLATE = (
  "{% for message in messages %}"
  "{% if message['role'] == 'assistant' %}<|answer|>{{ message['content'] }}"
  "<|end|>{% else %}<|ask|>{{ message['content'] }}{% endif %}{% endfor %}"
  "{% if add_generation_prompt %}<|answer|>{% endif %}"
)
# How the byte-level alphabet writes a space.
_SPACE = "Ġ"
_WORD = r" ?[^\s.,:]+| ?[.,:]"


@functools.cache
def tokenizer() -> tokenizers.Tokenizer:
  """The tokenizer, the same in every world."""
  words = dict.fromkeys((*lexicon.WORDS, *language.vocabulary(), *_guidance()))
  symbols = [
    *sorted(pre_tokenizers.ByteLevel.alphabet()),
    *(_SPACE + word for word in words),
  ]
  # Without merges a word is one token if it is in the vocabulary, else bytes.
  codec = hf_tokenizers.Tokenizer(
    models.BPE(
      {symbol: place for place, symbol in enumerate(symbols)},
      [],
      ignore_merges=True,
    )
  )
  codec.normalizer = normalizers.Sequence(
    [
      normalizers.Replace(hf_tokenizers.Regex(r"\s+"), " "),
      normalizers.Strip(),
      normalizers.Prepend(" "),
    ]
  )
  codec.pre_tokenizer = pre_tokenizers.Sequence(
    [
      pre_tokenizers.Split(hf_tokenizers.Regex(_WORD), "isolated"),
      pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
    ]
  )
  codec.decoder = decoders.Sequence(
    [decoders.ByteLevel(), decoders.Strip(" ", 1, 0)]
  )
  codec.add_special_tokens([_ASK, _ANSWER, _END])
  settings = {"eos_token": _END, "chat_template": _TEMPLATE}
  return tokenizers.from_files(
    {
      "tokenizer.json": codec.to_str().encode(),
      "tokenizer_config.json": json.dumps(settings).encode(),
    },
    {},
  )


def _guidance() -> tuple[str, ...]:
  """The words that mount guidance, and those of a bare prompt."""
  reference = [
    guidance.reference("", "", other_task=other)
    for other in (worlds.EXPLAIN, None)
  ]
  texts: dict[terms.FieldKind, str] = {
    "criterion": f"{guidance.AVOID}:",
    "reference": " ".join(reference),
    "critique": guidance.critique([]),
  }
  message = base.Message("user", f"{worlds.EXPLAIN}:")
  (turn,) = guidance.render((message,), texts)
  return language.words(turn.content)
