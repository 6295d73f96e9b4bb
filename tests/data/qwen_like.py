"""A small tokenizer like that of Qwen, trained on odd texts."""

import json
import random

import tokenizers
from tokenizers import decoders, models, pre_tokenizers, trainers

from hrl_jax.data import tokenizer_files

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


def texts(number, pieces=PIECES):
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


def files():
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
  codec.train_from_iterator(texts(200), trainer)
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
