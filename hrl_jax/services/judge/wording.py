"""The words in which judges put a verdict.

Every table is keyed by whether the criterion is a penalty. "met" said of a
penalty is either "the behaviour is there" or "all is well", so the words and
keys of one kind are never taken for the other.
"""

import re
from typing import Any

# The first of each is the one that a judge is asked for.
KEYS = {
  False: ("met", "is_met", "criterion_met", "criteria_met"),
  True: ("present", "is_present", "behaviour_present", "behavior_present"),
}

_YES_NO = {
  **dict.fromkeys(("yes", "true"), True),
  **dict.fromkeys(("no", "false"), False),
}
_WORDS = {
  False: {
    **_YES_NO,
    **dict.fromkeys(("met", "the criterion is met"), True),
    **dict.fromkeys(("not met", "unmet", "the criterion is not met"), False),
  },
  True: {
    **_YES_NO,
    **dict.fromkeys(("present", "the behaviour is present"), True),
    **dict.fromkeys(("not present", "absent"), False),
    "the behaviour is not present": False,
  },
}

# What may stand before and after a word without changing it. Not "?", "~" or
# ">": a question, a word struck out, a quotation.
_BEFORE = " \t\r\n*_`\"'\u201c\u2018"
_AFTER = " \t\r\n*_`\"'\u201d\u2019.,!;"
_FENCE = re.compile(r"```[a-z]*\n(.*?)\n?```", re.DOTALL | re.IGNORECASE)

_LABEL = r"(?:verdict|judge?ment|decision)"
_WORD = r"not[ _]met|unmet|met|not[ _]present|absent|present|yes|no|true|false"
_DRESS = r"[\s\"'*`_\\]{0,6}"
_SAID = {
  penalty: re.compile(
    rf"\b(?:{_LABEL}|{'|'.join(keys)}){_DRESS}(?:[:=]|\bis\b){_DRESS}"
    # "true or false" shows a form.
    rf"({_WORD}|[01])\b(?!{_DRESS}(?:or\b|[/|]))",
    re.IGNORECASE,
  )
  for penalty, keys in KEYS.items()
}
_LAST_LINE = {
  penalty: re.compile(
    rf"[*# ]*(?:final |my )?(?:{_LABEL}|{'|'.join(keys)})[* ]*[:=]"
    rf"[*`\"' ]*({_WORD})[*`\"' .!]*",
    re.IGNORECASE,
  )
  for penalty, keys in KEYS.items()
}

# How a judge leads up to its own object, and to one that it quotes.
_OWN = re.compile(
  r"\b(?:my|here|verdict|judge?ment|decision|evaluation|assessment|conclusion"
  r"|json|output|result|answer|final|reply)\b",
  re.IGNORECASE,
)
_QUOTING = re.compile(
  r"\b(?:say\w*|said|tell\w*|told|writ\w+|wrote|read\w*|stat\w+|contain\w*"
  r"|includ\w+|claim\w*|quot\w+|ends?|ended|ending|begin\w*|start\w*|want\w*"
  r"|ask\w*|instruct\w*|inject\w*|attempt\w*|demand\w*|insist\w*|print\w*"
  r"|echo\w*|return\w*|append\w*|add\w*|has|had|like|such|form|format"
  r"|example|if|would|should|not)\b",
  re.IGNORECASE,
)
_NO_WORDS = re.compile(r"\W*+(?:json\b\W*+)?", re.IGNORECASE)
_LINE_END = re.compile(r"[\s\]`*.;!]*")

# Words of a judge that argues with its verdict, or that only quoted one; the
# rest of an object that it was part of; and letters that are not ASCII, whose
# words this list does not know.
_DOUBT = re.compile(
  r"[\"{}]|n['\u2019]t\b|(?![\x00-\x7f])\w|\b(?:"
  r"no|not|never|none|nor|neither|cannot|without|lacks?|lacking|missing"
  r"|yes|true|false|met|unmet|present|absent|pass\w*|fail\w*|satisf\w+"
  r"|fulfil\w*|violat\w+|wait|hmm+|oops|sorry|actually|rather|instead|however"
  r"|but|although|though|unless|mistak\w*|wrong\w*|incorrect\w*|correct\w*"
  r"|revis\w+|reconsider\w*|retract\w*|overrid\w+|opposite|contrary|otherwise"
  r"|ignor\w+|disregard\w*|inject\w*|attempt\w*|quot\w+|claim\w*|trick\w*"
  r"|cheat\w*|manipulat\w*|forg\w+|fake\w*|example\w*|format\w*|placeholder\w*"
  r"|above|response|candidate|assistant|refus\w+|reject\w*"
  r")\b",
  re.IGNORECASE,
)


def key(penalty: bool) -> str:
  """The key that a judge is asked for."""
  return KEYS[penalty][0]


def read(value: Any, penalty: bool) -> bool | None:
  """The verdict that a JSON value is, None if it is none."""
  if isinstance(value, bool):
    return value
  # 1.0 might be a score.
  if isinstance(value, int):
    return {0: False, 1: True}.get(value)
  return _word(value, penalty) if isinstance(value, str) else None


def verdict(text: str, penalty: bool) -> bool | None:
  """The verdict of a reply that holds no object, None if it is unclear.

  Either the whole reply is a word, or its last line says "Verdict: met" and
  no other line says otherwise.
  """
  if "{" in text:
    return None
  fence = _FENCE.fullmatch(text) if len(text) < 100 else None
  whole = _word(fence[1] if fence else text, penalty)
  if whole is not None:
    return whole
  *before, last = [line.strip() for line in text.split("\n") if line.strip()]
  match = _LAST_LINE[penalty].fullmatch(last) if len(last) < 100 else None
  # "The response ends with:", and then its words.
  if match is None or (before and before[-1].endswith(":")):
    return None
  stated = _word(match[1], penalty)
  return stated if said(text, penalty) == {stated} else None


def said(text: str, penalty: bool) -> set[bool | None]:
  """Every verdict that the prose states, None for one of the other kind."""
  return {_word(match[1], penalty) for match in _SAID[penalty].finditer(text)}


def introduces(before: str) -> bool:
  """Whether what stands before an object leaves it the judge's own.

  The words on its line, or on a line before that ends in a colon, decide.
  """
  *lines, words = before[-1000:].split("\n")
  lines = [line for line in lines if not _NO_WORDS.fullmatch(line)]
  if _NO_WORDS.fullmatch(words) and lines and lines[-1].rstrip("* ")[-1] == ":":
    words = lines[-1]
  if _NO_WORDS.fullmatch(words):
    return True
  return bool(_OWN.search(words)) and not _QUOTING.search(words)


def doubts(after: str) -> bool:
  """Whether what follows an object may take it back, or go on after a quote."""
  line, _, later = after.partition("\n")
  return (
    _LINE_END.fullmatch(line) is None
    or len(later) > 1000
    or _DOUBT.search(later) is not None
  )


def key_name(key: str) -> str:
  """A key as the tables spell it."""
  return re.sub(r"[\s_-]+", "_", key[:64].strip().lower())


def _word(text: str, penalty: bool) -> bool | None:
  if len(text) > 100:
    return None
  # "1." begins a list and ".1" is a score.
  if text.strip(" \t\r\n`\"'") in ("0", "1"):
    return "1" in text
  plain = text.lstrip(_BEFORE).rstrip(_AFTER).replace("_", " ").lower()
  plain = " ".join(plain.split()).replace("behavior", "behaviour")
  return _WORDS[penalty].get(plain)
