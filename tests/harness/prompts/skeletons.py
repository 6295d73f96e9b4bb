"""Prompts without what stands between their tags."""

import re

_OPENING = re.compile(r'<([a-z][a-z0-9-]*?)(-[0-9a-f]{16})?( role="[a-z]+")?>')
_TAG = re.compile(r"<[^\s<>\u200b][^<>]*>")


def pieces(text):
  """The outside of a text's fences as one text, and what is inside of each.

  Fails if anything inside looks like a tag.
  """
  outside, inside = [], []
  lines = iter(text.split("\n"))
  for line in lines:
    match = _OPENING.fullmatch(line)
    if not match:
      assert "\u200b" not in line
      outside.append(line)
      continue
    name = match[1] + (match[2] or "")
    content = []
    for inner in lines:
      if inner == f"</{name}>":
        break
      content.append(inner)
    else:
      raise AssertionError(f"no end of {name}")
    content = "\n".join(content)
    assert not _TAG.search(content), content
    outside.append(f"<{match[1]}>")
    inside.append((match[1], content))
  return "\n".join(outside), inside
