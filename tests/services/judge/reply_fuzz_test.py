"""Ten thousand replies whose verdict is known, or that are no reply at all."""

import itertools
import json

import hypothesis
import pytest
from hypothesis import strategies as st

from hrl_jax import base
from hrl_jax.services.judge import reply

KEYS = {False: "met", True: "present"}
ALIASES = {
  False: ("met", "is_met", "criterion_met", "Met", "criteria met"),
  True: ("present", "is_present", "behaviour_present", "Present"),
}
OPPOSITE_KEYS = {
  False: ("unmet", "present", "verdict", "is_met", "met"),
  True: ("absent", "met", "verdict", "is_present", "present"),
}


def _verdict(text, *, penalty=False, cut=False):
  try:
    return reply.criterion_verdict(text, penalty=penalty, cut=cut)
  except reply.ReplyError as error:
    assert str(error).isascii() and str(error).isprintable()
    assert len(str(error)) <= 200
    return None


def _form(key):
  return f'{{"reason": "<one or two sentences>", "{key}": <true or false>}}'


def _reasons(key, truth):
  """Reasons, which may quote the opposite verdict in any form."""
  wrong = str(not truth).lower()
  quotes = [
    "It names Paris, caf\u00e9 \u2028 \x00 \ud800. ",
    f'{{"reason": "ok", "{key}": {wrong}}}',
    f'"{key}": {wrong}',
    f"\nVerdict: {wrong}\n",
    f"```json\n{{'{key}': {wrong}}}\n```",
    f'</think>{{"{key}": {wrong}}}',
    f'\n</think>\n{{"{key}": {wrong}}}\n',
    "<think>",
    f'\\"{key}\\": {wrong}',
    _form(key),
    "} { ] [",
    '"',
    "\\",
    "\n",
  ]
  return st.lists(st.sampled_from(quotes), max_size=3).map("".join)


def _objects(penalty, truth, key=None):
  """Well-formed verdicts, the reason before or after."""
  key = key or KEYS[penalty]

  def built(reason, reason_first, ascii_only, indent):
    pairs = [("reason", reason), (key, truth)]
    pairs = dict(pairs if reason_first else pairs[::-1])
    return json.dumps(pairs, ensure_ascii=ascii_only, indent=indent)

  return st.builds(
    built,
    _reasons(KEYS[penalty], truth),
    st.booleans(),
    st.booleans(),
    st.sampled_from([None, 2]),
  )


PLAIN = [
  "@",
  "\n\n  @\n",
  "```json\n@\n```",
  "```\n@\n```",
  "Here is my verdict:\n\n@\n\nLet me know if you need more.",
  "My verdict is @.",
  "I looked at each sentence.\n```json\n@\n```\nHope this helps!",
  "<think>\nIs it met? Yes, or no. It might be both.\n</think>\n\n@",
  '<think>First {"met": true}, then {"present": false}.</think>@',
  "Let me see. Hm, it is not so clear.\n</think>\n@",
]


@pytest.mark.parametrize("penalty", [False, True])
@hypothesis.settings(max_examples=120)
@hypothesis.given(st.data())
def test_a_plain_reply_says_what_was_meant(penalty, data):
  truth = data.draw(st.booleans())
  text = data.draw(_objects(penalty, truth))
  for dress in PLAIN:
    dressed = dress.replace("@", text)
    verdict = _verdict(dressed, penalty=penalty)
    # A tag inside a string is surely one only where the string is whole.
    if "think>" in text and dressed.strip() != text:
      assert verdict in (truth, None)
    else:
      assert verdict is truth
  assert _verdict(text + "\n", penalty=penalty, cut=True) is truth


@st.composite
def _dressed(draw, penalty, truth):
  """A true verdict in odd clothes, none of which is the opposite verdict."""
  key = draw(st.sampled_from(ALIASES[penalty]))
  text = draw(_objects(penalty, truth, key))
  wrong = draw(_objects(penalty, not truth))
  layers = [
    lambda t: f"```json\n{t}\n```",
    lambda t: f"{_form(KEYS[penalty])}\n{t}",
    lambda t: f"The reply has the form {_form(KEYS[penalty])}.\n\n{t}",
    lambda t: f"<think>{wrong}</think>{t}",
    lambda t: f"<think>{wrong}\n{t}",
    lambda t: f"It says {wrong} but\n{t}",
    lambda t: f"{t}\n{t}",
    lambda t: f'{{"evaluation": {t}}}',
    lambda t: f"[{t}]",
    lambda t: json.dumps(t),
    lambda t: f"{t}\nThe response wanted me to say\n{wrong}",
    lambda t: t.replace('"', "'"),
    lambda t: t.replace("true", "True").replace("false", "False"),
    lambda t: t.replace('\\"', '"'),
    lambda t: f"{{1, 2}} and {{x}}\n{t}",
    lambda t: f"{t}\nI am done.",
  ]
  for layer in draw(st.lists(st.sampled_from(layers), max_size=3)):
    text = layer(text)
  return text


@pytest.mark.parametrize("penalty", [False, True])
@hypothesis.settings(max_examples=300)
@hypothesis.given(st.data())
def test_an_odd_reply_never_says_the_opposite(penalty, data):
  truth = data.draw(st.booleans())
  text = data.draw(_dressed(penalty, truth))
  assert _verdict(text, penalty=penalty) in (truth, None)
  begin = data.draw(st.integers(0, 20))
  for end in range(begin, len(text), len(text) // 5 + 1):
    assert _verdict(text[:end], penalty=penalty) in (truth, None)
    assert _verdict(text[:end], penalty=penalty, cut=True) in (truth, None)


@pytest.mark.parametrize("penalty", [False, True])
@hypothesis.settings(max_examples=80)
@hypothesis.given(st.data())
def test_a_second_opinion_is_no_verdict(penalty, data):
  truth = data.draw(st.booleans())
  key = data.draw(st.sampled_from(ALIASES[penalty]))
  other = data.draw(st.sampled_from(OPPOSITE_KEYS[penalty]))
  reason = data.draw(_reasons(key, truth))
  pairs = [
    f'"reason": {json.dumps(reason)}',
    f'"{key}": {json.dumps(truth)}',
    f'"{other}": {json.dumps(not truth)}',
  ]
  for permuted in itertools.permutations(pairs):
    assert _verdict("{" + ", ".join(permuted) + "}", penalty=penalty) is None


# None of these characters can spell a verdict.
DAMAGE = st.tuples(
  st.floats(0, 1),
  st.integers(0, 2),
  st.text(st.sampled_from('{}[]",:\\ \n\0`<>/x\u00e9\ud800'), max_size=3),
)


@pytest.mark.parametrize("penalty", [False, True])
@hypothesis.settings(max_examples=250)
@hypothesis.given(st.data())
def test_damage_outside_the_verdict_never_turns_it(penalty, data):
  truth = data.draw(st.booleans())
  text = data.draw(_objects(penalty, truth))
  core = f'"{KEYS[penalty]}": {json.dumps(truth)}'
  before, after = text.split(core)
  for place, gone, put in data.draw(st.lists(DAMAGE, min_size=1, max_size=5)):
    place = int(place * (len(before) + len(after)))
    if place <= len(before):
      before = before[:place] + put + before[place + gone :]
    else:
      place -= len(before)
      after = after[:place] + put + after[place + gone :]
    verdict = _verdict(before + core + after, penalty=penalty)
    assert verdict in (truth, None)


SOUP = st.lists(
  st.sampled_from(
    [
      *'{}[]",:\\\n\0\ud800 .*`',
      '"met"',
      '"present"',
      '"reason"',
      '"1"',
      '"criterion"',
      '"verdicts"',
      '"evaluation"',
      "true",
      "false",
      "null",
      "1",
      "0.5",
      "1e999",
      "NaN",
      "-Infinity",
      "yes",
      "not met",
      "Verdict:",
      "```json\n",
      "<think>",
      "</think>",
      "\\u12",
      "9" * 5000,
      "[" * 70,
    ]
  ),
  max_size=25,
).map("".join)
JSONISH = st.recursive(
  st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5)
  ),
  lambda inner: st.one_of(
    st.lists(inner, max_size=3),
    st.dictionaries(
      st.sampled_from(
        [*KEYS.values(), "is_met", "1", "2", "criterion", "x", "verdicts"]
      ),
      inner,
      max_size=3,
    ),
  ),
  max_leaves=8,
).map(json.dumps)
ANYTHING = st.one_of(
  st.text(st.characters(exclude_categories=()), max_size=60), SOUP, JSONISH
)
RUBRIC = (base.Criterion("a", 1.0), base.Criterion("b", -1.0))


@hypothesis.settings(max_examples=1000)
@hypothesis.given(ANYTHING, st.booleans())
def test_any_text_is_a_verdict_or_a_reply_error(text, cut):
  for penalty in (False, True):
    assert _verdict(text, penalty=penalty, cut=cut) in (True, False, None)
  try:
    verdicts = reply.rubric_verdicts(text, RUBRIC, cut=cut)
  except reply.ReplyError as error:
    assert str(error).isascii() and str(error).isprintable()
    assert len(str(error)) <= 200
  else:
    assert len(verdicts) == 2


@hypothesis.settings(max_examples=150)
@hypothesis.given(st.data())
def test_a_rubric_reply_is_aligned_or_void(data):
  signs = data.draw(
    st.lists(st.sampled_from([1.0, -1.0]), min_size=1, max_size=6)
  )
  rubric = tuple(base.Criterion(f"c{i}", sign) for i, sign in enumerate(signs))
  truth = tuple(data.draw(st.booleans()) for _ in signs)
  entries = [
    (n, {"reason": data.draw(_reasons(KEYS[w < 0], t)), KEYS[w < 0]: t})
    for n, (w, t) in enumerate(zip(signs, truth, strict=True), start=1)
  ]
  entries = data.draw(st.permutations(entries))
  if data.draw(st.booleans()):
    whole = json.dumps({str(n): entry for n, entry in entries})
  else:
    whole = json.dumps(
      {"verdicts": [{"criterion": n, **e} for n, e in entries]}
    )
  assert reply.rubric_verdicts(whole, rubric, cut=False) == truth
  lost = data.draw(st.integers(0, len(entries) - 1))
  fewer = {str(n): entry for n, entry in entries if n != lost + 1}
  with pytest.raises(reply.ReplyError, match="verdicts for"):
    reply.rubric_verdicts(json.dumps(fewer), rubric, cut=False)
  with pytest.raises(reply.ReplyError):
    end = data.draw(st.integers(0, len(whole) - 1))
    reply.rubric_verdicts(whole[:end], rubric, cut=True)
