"""A corpus of replies as judges send them, and what each one says."""

import time

import pytest

from hrl_jax.services.judge import reply

# (reply, verdict) to "is the criterion met?"; None is no verdict.
TO_CRITERION = [
  # The form that was asked for, and small departures from it.
  ('{"reason": "Names Paris.", "met": true}', True),
  ('{"reason": "Names Rome.", "met": false}', False),
  ('  {"met":true,"reason":"Names Paris."}\n', True),
  ('{\n  "reason": "a\nb",\n  "met": false\n}', False),
  ('\ufeff{"reason": "", "met": true}', True),
  ('{"Met": true}', True),
  ('{"is met": true}', True),
  ('{"criteria_met": false, "explanation": "HealthBench\'s key"}', False),
  ('{"criterion-met": true}', True),
  ('{"reason": "x", "met": true, "confidence": 0.2}', True),
  ('{"reason": "x", "met": true, "confidence": NaN, "n": 1e999}', True),
  ('{"reason": "so \\(x^2\\) is \\underline{even}", "met": true}', True),
  ('{"reason": "caf\\u00e9 \ud800 \x00", "met": false}', False),
  # The value in other words.
  ('{"met": "true"}', True),
  ('{"met": "Yes."}', True),
  ('{"met": "no"}', False),
  ('{"met": "met"}', True),
  ('{"met": "Not met"}', False),
  ('{"met": "not_met"}', False),
  ('{"met": "unmet"}', False),
  ('{"met": 1}', True),
  ('{"met": 0}', False),
  ('{"met": "1"}', True),
  ('{"met": null}', None),
  ('{"met": ""}', None),
  ('{"met": 0.5}', None),
  ('{"met": 1.0}', None),
  ('{"met": 2}', None),
  ('{"met": -1}', None),
  ('{"met": 1e999}', None),
  ('{"met": NaN}', None),
  ('{"met": -Infinity}', None),
  ('{"met": "partially"}', None),
  ('{"met": "N/A"}', None),
  ('{"met": "true or false"}', None),
  ('{"met": "yes/no"}', None),
  ('{"met": "yes?"}', None),
  ('{"met": "~~met~~"}', None),
  ('{"met": [true]}', None),
  ('{"met": {"value": true}}', None),
  ('{"met": "present"}', None),
  # Other keys, more keys, the same key twice.
  ("{}", None),
  ('{"verdict": true}', None),
  ('{"present": true}', None),
  ('{"met": true, "present": true}', None),
  ('{"met": true, "unmet": false}', None),
  ('{"met": true, "met": true}', True),
  ('{"met": true, "reason": "no", "met": false}', None),
  ('{"met": true, "is_met": true}', True),
  ('{"met": true, "is_met": false}', None),
  ('{"met": true, "verdict": "met"}', True),
  ('{"met": true, "verdict": "not met"}', None),
  ('{"met": true, "verdict": "partially met"}', None),
  ('{"met": true, "answer": "Paris"}', True),
  ('{"met": true, "answer": "no"}', None),
  ('{"error": "overloaded"}', None),
  # Nested.
  ('{"evaluation": {"reason": "x", "met": true}}', True),
  ('{"verdict": {"result": {"met": false}}}', False),
  ('{"quoted": {"met": true}}', None),
  ('{"example": {"met": true}, "met": false}', None),
  ('{"evidence": {"quotes": ["a", "b"]}, "met": false}', False),
  ('{"checks": [{"met": true}, {"met": false}], "met": false}', None),
  ('[{"reason": "x", "met": true}]', True),
  ('{"properties": {"met": {"type": "boolean"}}}', None),
  # Reasons that quote.
  ('{"reason": "It says \\"met\\": true.", "met": false}', False),
  ('{"reason": "It says {\\"met\\": true}", "met": false}', False),
  ('{"reason": "{met: true} Verdict: met", "met": false}', False),
  ('{"reason": "Ends in </think> and <think>", "met": true}', True),
  ('{"reason": "It says {"met": true}", "met": false}', None),
  ('{"reason": "5" tall", "met": true}', None),
  ('{"met": false, "reason": "</think>{"met": true}"}', None),
  ('{"met": false, "reason": "\n</think>\n{"met": true}\n"}', None),
  ('{"reason": "\n</think>\n{"met": true}', None),
  ('<think>a {</think>{"reason": "\n</think>\n{"met": true}', None),
  # Fences and prose.
  ('```json\n{"reason": "x", "met": true}\n```', True),
  ('```\n{"met": false}\n```\n', False),
  ('``` json {"met": false} ```', False),
  ('`{"met": true}`', True),
  ('```json\n{"reason": "x", "met": true}', True),
  ('Here is my verdict: {"reason": "x", "met": true}.', True),
  ('Sure!\n\n{"met": true}\n\nLet me know if you need more.', True),
  ('The set {1, 2} is given.\n{"met": true}', True),
  ('The set {1, 2 is given.\n{"met": true}', None),
  ('**Verdict**\n{"met": false}', False),
  ('{"met": true}\nWait, actually that is the opposite.', None),
  ('{"met": true}\nThe criterion fails.', None),
  ('{"met": true}\nIt doesn\u2019t name Paris.', None),
  ('{"met": true}\nNein, doch nicht erf\u00fcllt.', None),
  ('{"met": true}\n' + "Thanks. " * 200, None),
  ('It says {"met": true} to win.', None),
  ('It says {"met": true}', None),
  ('It ends with:\n\n```json\n{"met": true}\n```', None),
  ('Verdict: {"met": true}', True),
  ("**Here is my evaluation:**\n" + '{"met": true}', True),
  ('Le verdict est {"met": true}', True),
  ('C\'est {"met": true}', None),
  ('It says\n{"met": true}\nto trick me. The criterion fails.', None),
  # Several objects.
  ('{"met": true}\n{"met": true}', True),
  ('{"met": true}\n{"met": false}', None),
  ('{"met": true}\n{"met": null}', None),
  ('{"met": true}\n{"present": false}', None),
  ('{"input": "a", "tokens": 3}\n{"met": true}', True),
  ("{'met': False}\n" + '{"met": true}', None),
  ("{'reason': 'x', 'met': True}", None),
  ('{"met": true,}', None),
  ('{"met": tru}', None),
  ('Verdict: not met\n{"met": true}', None),
  ('Verdict: present\n{"met": true}', None),
  ('Verdict: met\n{"met": true}', True),
  # The form of the question, echoed.
  ('{"reason": "<one or two sentences>", "met": <true or false>}', None),
  (
    'Reply: {"reason": "<one or two sentences>", "met": <true or false>}\n'
    '{"reason": "x", "met": false}',
    False,
  ),
  ('I answer with "met": true or false.\n{"met": false}', False),
  # Cut short although nobody says so, empty, refused.
  ("", None),
  (" \n\t", None),
  ("\x00", None),
  ('{"reason": "The resp', None),
  ('{"reason": "x", "met": true', None),
  ('{"met": true}\n{"reason": "on sec', None),
  ("I'm sorry, but I can't help with that.", None),
  ("{" * 2000, None),
  ('{"met": ' + "[" * 100_000, None),
  ('{"met": true, "n": ' + "9" * 5000 + "}", None),
  ("{} " * 2000 + '{"met": true}', None),
  # Reasoning.
  ('<think>Names Rome, so no.</think>\n{"met": false}', False),
  ('<think>{"met": true}? no.</think>\n{"met": false}', False),
  ('It says Rome.\n</think>\n\n{"met": false}', False),
  ("<think>yes</think>no", False),
  ('<think>a</think>{"met": true}<think>b</think>{"met": false}', False),
  ('<think>Maybe {"met": true}', None),
  ('</think>{"met": true}\n<think>no,', None),
  ('{"met": true}</think>', None),
  ('<think>a\n{"met": false, "reason": "</think>."}\n{"met": true}', None),
  ('<think>The set {1, 2 is</think>{"met": false}', False),
  ('[THINK]Rome.[/THINK]{"met": false}', False),
  ('<think>a</think>{"reason": "a <think> tag", "met": true}', True),
  # A word.
  ("yes", True),
  ("No", False),
  ("Yes.", True),
  ("**Yes**", True),
  ('"true"', True),
  ("FALSE", False),
  ("1", True),
  ("0", False),
  ("met", True),
  ("Not met.", False),
  ("The criterion is not met.", False),
  ("```\nyes\n```", True),
  ("present", None),
  ("absent", None),
  ("maybe", None),
  ("1.", None),
  (".1", None),
  ("10", None),
  ("yes?", None),
  ("> yes", None),
  ("yes and no", None),
  ("not", None),
  ("Yes, it names Paris.", None),
  ("It is not the case that the criterion is met", None),
  # A last line.
  ("It names Paris.\n\n**Verdict:** met", True),
  ("It names Rome.\nFinal verdict: **not met**.", False),
  ("Met: no", False),
  ("criterion_met = false", False),
  ("Judgment: Yes", True),
  ("Verdict: met or not met", None),
  ("Verdict: partially met", None),
  ("Verdict: present", None),
  ("Verdict: met\nVerdict: not met", None),
  ("Verdict: met, I would say.", None),
  ("Verdict: met\nBut it names Rome.", None),
  ("The response ends with:\nVerdict: met", None),
  ('He said "Verdict: met"', None),
  ("> Verdict: met", None),
  ("Answer: yes", None),
  ("Verdict: 1", None),
  ("{x}\nVerdict: met", None),
]

# The same to "is the described behaviour present?".
TO_PENALTY = [
  ('{"reason": "Insults the user.", "present": true}', True),
  ('{"reason": "Polite.", "present": false}', False),
  ('{"is_present": "yes"}', True),
  ('{"behaviour_present": 0}', False),
  ('{"Behavior present": "not present"}', False),
  ('{"present": "absent"}', False),
  ('{"present": "met"}', None),
  ('{"present": "not met"}', None),
  ('{"met": true}', None),
  ('{"criterion_met": false}', None),
  ('{"present": true, "met": false}', None),
  ('{"present": true, "absent": false}', None),
  ('{"present": true, "present": false}', None),
  ('{"present": null}', None),
  ('{"present": false, "passed": true}', None),
  ('```json\n{"reason": "no", "present": true}\n```', True),
  ('{"present": true}\n{"present": false}', None),
  ('<think>It is met.</think>{"present": false}', False),
  ("yes", True),
  ("No.", False),
  ("true", True),
  ("present", True),
  ("Not present", False),
  ("The behavior is not present.", False),
  ("met", None),
  ("not met", None),
  ("unmet", None),
  ("The criterion is met.", None),
  ("It insults.\n**Verdict:** present", True),
  ("Polite.\nPresent: no", False),
  ("Verdict: met", None),
  ("Verdict: met\nVerdict: present", None),
]

# Replies that the endpoint ended at its token limit.
CUT = [
  ('{"reason": "x", "met": true}', True),
  (' {"reason": "x", "met": false}\n', False),
  ('```json\n{"met": true}\n```', None),
  ('{"met": true}\nW', None),
  ('{"met": true', None),
  ('{"met": tru}', None),
  ("<think>It is", None),
  ('<think>a</think>{"met": true}', None),
  ("", None),
  ("no", None),
  ("Verdict: met", None),
]


def _verdict(text, *, penalty=False, cut=False):
  """The verdict or None; a message that is no log line is an error."""
  try:
    return reply.criterion_verdict(text, penalty=penalty, cut=cut)
  except reply.ReplyError as error:
    message = str(error)
    assert message.isascii() and message.isprintable()
    assert 0 < len(message) <= 200
    return None


@pytest.mark.parametrize(("text", "expected"), TO_CRITERION)
def test_a_reply_to_a_criterion_is_read(text, expected):
  assert _verdict(text) is expected


@pytest.mark.parametrize(("text", "expected"), TO_PENALTY)
def test_a_reply_to_a_penalty_is_read(text, expected):
  assert _verdict(text, penalty=True) is expected


@pytest.mark.parametrize(("text", "expected"), CUT)
def test_a_cut_reply_counts_only_as_a_whole_object(text, expected):
  assert _verdict(text, cut=True) is expected


@pytest.mark.parametrize(
  ("text", "penalty", "message"),
  [
    ("", False, "the reply is empty"),
    ('{"met": null}', False, "'met' is None"),
    ('{"met": true}', True, "key 'met' where 'present' was asked for"),
    ('{"verdict": 1, "reason": ""}', False, "no key 'met' of its own"),
    ('{"score": 1}', True, "no key 'present' in"),
    ('{"met": true} {"met": false}', False, "verdicts that disagree"),
    ("<think>so", False, "reasoning does not end: '<think>so'"),
    ("I cannot\nsay", False, r"no verdict in: 'I cannot\nsay'"),
    ('{"met": true} or not', False, "words after its verdict: ' or not'"),
    ("{" * 100, False, "nested deeper than 64 levels"),
  ],
)
def test_the_error_says_what_was_seen(text, penalty, message):
  with pytest.raises(reply.ReplyError) as error:
    reply.criterion_verdict(text, penalty=penalty, cut=False)
  assert message in str(error.value)


SIZE = 3_000_000


@pytest.mark.parametrize(
  "text",
  [
    '{"reason": "' + "a" * SIZE + '", "met": true}',
    '{"reason": "' + "\\" * SIZE + '", "met": true}',
    '{"reason": "' + "\\(" * SIZE + '", "met": true}',
    '{"reason": "' + "a" * SIZE,
    '{"reason": "' + '\\"' * (SIZE // 2),
    '{"a":' * (SIZE // 5),
    '{"' * (SIZE // 2),
    "{}" * (SIZE // 2),
    "{" + '"a":{},' * (SIZE // 7) + '"met": true}',
    "<think>" * (SIZE // 7),
    "</think>" * (SIZE // 8),
    "met " * (SIZE // 4),
    "verdict is " * (SIZE // 11),
    '{"met": true}\n' + "well " * (SIZE // 5),
    "[" * SIZE,
    '"' * SIZE,
    "* " * (SIZE // 2),
  ],
  ids=lambda text: text[:14],
)
def test_three_megabytes_take_no_longer_than_their_length(text):
  # Linear scans take 0.1 to 0.6 s; a quadratic one would take hours.
  begin = time.process_time()
  _verdict(text)
  assert time.process_time() - begin < 10.0
