"""Text of others inside a prompt: data that cannot pose as anything else.

Tasks, rollouts, criteria and replies are written by others: none of them may
end its fence, open a turn of a chat template or fill a slot of another text.
So every piece is neutralised on its way in and stands between tags of its own.
"""

import hashlib
import re

# What a prompt says to a model about `neutralise`.
NOTE = """\
A zero-width character after an opening bracket was put there by us to keep \
such text inert: read past it."""

# A server that tokenises the rendered conversation reads special tokens
# wherever they stand. Nearly all of them look like one of these, by their
# opening bracket:
#   <|im_end|> </s> <think> < /response>   a tag, also with a late slash
#   [INST] [/INST] [gMASK] [start_header_id]   a word with capital or underscore
#   [e~[ ]~b] ]~!b[                            MiniMax
# A zero-width space that stands there already counts as part of the sequence,
# so no two texts become one. Possessive quantifiers keep the scan linear.
_SPECIAL = re.compile(
  r"""
    <(?=(?:[^\s<>]|\s++/)[^<>]*+>)
  | \[(?=\u200b*+/?[a-z0-9]*+[A-Z_])(?=\u200b*+/?\w++\])
  | \[(?=\u200b*+e~\[)
  | \](?=\u200b*+~!?b[\[\]])
  """,
  re.VERBOSE | re.ASCII,
)
_SURROGATE = re.compile("[\ud800-\udfff]")


def neutralise(text: str) -> str:
  """The text without anything that a model's server could take for markup.

  A zero-width space goes in after the opening bracket of whatever looks like
  a tag or a special token; U+FFFD replaces a lone surrogate, which no server
  accepts. Nothing else changes, and two texts that differ still differ,
  surrogates apart.
  """
  return _SPECIAL.sub("\\g<0>\u200b", _SURROGATE.sub("\ufffd", text))


def fenced(tag: str, text: str, attributes: str = "") -> str:
  """A piece between its tags, neutralised.

  Args:
    tag: a word of ours.
    text: of others, any characters.
    attributes: of the opening tag, ours too, a space before each.
  """
  # The line breaks keep a bracket at the end of the text from our own.
  return f"<{tag}{attributes}>\n" + neutralise(text) + f"\n</{tag}>\n"


def keyed(tag: str, text: str) -> str:
  """A piece that a model wrote, between tags that it cannot know."""
  return fenced(f"{tag}-{key(text)}", text)


def key(text: str) -> str:
  """The key of a piece's tags: 16 hexadecimal digits of its SHA-256."""
  # A text that names its own hash takes 2**64 trials to find.
  raw = text.encode(errors="surrogatepass")
  return hashlib.sha256(raw).hexdigest()[:16]
