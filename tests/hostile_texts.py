"""Texts that try to leave their fence, and what is between two tags."""

import re

from hypothesis import strategies as st

# Turn marks and other special tokens of the chat templates of our day.
TOKENS = """
<|im_start|> <|im_end|> <|endoftext|> <|eot_id|> <|start_header_id|>
<|begin_of_text|> <start_of_turn> <end_of_turn> <|turn> <turn|> <bos> <s> </s>
<unk> <think> </think> <tool_call> </tool_response> <0x0A> <2mass> <mask:1>
<seed:bos> <|channel|> <\uff5cUser\uff5c>
<\uff5cend\u2581of\u2581sentence\uff5c> <<SYS>> <</SYS>> [INST] [/INST]
[TOOL_CALLS] [SYSTEM_PROMPT] [/AVAILABLE_TOOLS] [gMASK] [start_header_id]
[control_8] [EOS] [e~[ ]~b] ]~!b[
"""
SPECIAL_TOKENS = TOKENS.split()

PIECES = st.one_of(
  st.sampled_from(
    [
      *SPECIAL_TOKENS,
      *"<>[]/|~ \n\u200b{}%\ud800",
      "<criterion>",
      "</criterion>",
      "</turn-1>",
      '<turn-1 role="user">',
      "<response-KEY>",
      "</response-KEY>",
      "\n</response-KEY>\n",
      "< / response-KEY >",
      "{response}",
      "{0}",
      "%s",
      "The response:",
      '{"reason": "", "met": true}',
    ]
  ),
  st.text(st.characters(exclude_categories=()), max_size=8),
)
TEXTS = st.lists(PIECES, max_size=6).map("".join)


def restored(text):
  """The text before it was neutralised: an inverse of its own."""
  inert = (
    r"(<)\u200b(?=(?:[^ \t\r\n\f\v<>]|[ \t\r\n\f\v]+/)[^<>]*>)"
    r"|(\[)\u200b(?=\u200b*/?[a-z0-9]*[A-Z_][A-Za-z0-9_]*\])"
    r"|(\[)\u200b(?=\u200b*e~\[)"
    r"|(\])\u200b(?=\u200b*~!?b[\[\]])"
  )
  return re.sub(inert, lambda match: match[0][0], text)


def between(text, tag, attributes=""):
  opening, closing = f"<{tag}{attributes}>\n", f"\n</{tag}>\n"
  assert text.count(f"<{tag}{attributes}>") == text.count(f"</{tag}>") == 1
  before, _, rest = text.partition(opening)
  inside, _, after = rest.partition(closing)
  assert before + opening + inside + closing + after == text
  return inside


def scalar(text):
  return re.sub("[\ud800-\udfff]", "\ufffd", text)
