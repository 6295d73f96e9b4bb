"""Replies that judge a whole rubric at once."""

import pytest

from hrl_jax import base
from hrl_jax.services.judge import reply

RUBRIC = (
  base.Criterion("names Paris", 2.0),
  base.Criterion("insults the user", -1.0),
  base.Criterion("is short", 1.0),
)
ONE = '{"reason": "x", "met": true}'
TWO = '{"reason": "x", "present": false}'
THREE = '{"reason": "x", "met": false}'
KEYED = f'{{"1": {ONE}, "2": {TWO}, "3": {THREE}}}'
ARRAY = (
  '[{"criterion": 2, "present": false}, {"criterion": 1, "met": true},'
  ' {"criterion": "3", "met": false}]'
)
EXPECTED = (True, False, False)


@pytest.mark.parametrize(
  "text",
  [
    KEYED,
    f"```json\n{KEYED}\n```",
    f"<think>{ONE}</think>Here you are:\n{KEYED}",
    f'{{"3": {THREE}, "1": {ONE}, "2": {TWO}}}',
    f'{{"criterion 1": {ONE}, "Criterion_2": {TWO}, "03": {THREE}}}',
    f'{{"verdicts": {KEYED}}}',
    ARRAY,
    f'{{"criteria": {ARRAY}}}',
    f'{{"Results": {ARRAY}}}',
    ARRAY[1:-1].replace("}, {", "}\n{"),
    f'{{"1": {{"reason": "<why>", "<key>": <true or false>}}, ...}}\n{KEYED}',
  ],
)
def test_verdicts_go_to_criteria_by_number(text):
  assert reply.rubric_verdicts(text, RUBRIC, cut=False) == EXPECTED


@pytest.mark.parametrize(
  ("text", "message"),
  [
    ("", "the reply is empty"),
    ("{}", "0 verdicts for 3 criteria"),
    ("yes, no, no", "0 verdicts for 3 criteria"),
    (f'{{"1": {ONE}, "2": {TWO}}}', "2 verdicts for 3 criteria"),
    (KEYED[:-1] + f', "4": {ONE}}}', "4 verdicts for 3 criteria"),
    (KEYED + KEYED, "6 verdicts for 3 criteria"),
    (f"[{ONE}, {TWO}, {THREE}]", "'reason' where a criterion's number"),
    (f'{{"verdicts": [{ONE}]}}', "without its criterion's number"),
    (f'{{"0": {ONE}, "1": {TWO}, "2": {THREE}}}', "'0' where a criterion's"),
    (f'{{"1": {ONE}, "2": {TWO}, "4": {THREE}}}', "no verdict for criterion 3"),
    (f'{{"1": {ONE}, "2": {TWO}, "2": {THREE}}}', "no verdict for criterion 3"),
    (f'{{"1": {ONE}, "2": {ONE}, "3": {THREE}}}', "criterion 2: key 'met'"),
    ('{"1": true, "2": false, "3": false}', "criterion 1: no key 'met'"),
    (KEYED.replace("true", "null"), "criterion 1: 'met' is None"),
    ('{"a": 1, "b": 2, "c": 3}', "'a' where a criterion's number"),
    ('{"criterion": true}', "True where a criterion's number"),
    ('{"criterion": 1e400}', "inf where a criterion's number"),
    ('{"criterion": ' + "9" * 4000 + "}", "where a criterion's number"),
    ('{"verdicts": 3}', "no verdicts in 3"),
    ('{"verdicts": [1, 2, 3]}', "without its criterion's number"),
    (f"{KEYED}\nWait, the third is met.", "words after its verdict"),
    (f"Met: no\n{KEYED}", "a verdict outside its object"),
    (KEYED[:-1], "not closed"),
  ],
)
def test_anything_else_voids_the_whole_reply(text, message):
  with pytest.raises(reply.ReplyError) as error:
    reply.rubric_verdicts(text, RUBRIC, cut=False)
  assert message in str(error.value)
  assert str(error.value).isprintable() and len(str(error.value)) <= 200


def test_a_cut_rubric_reply_counts_only_as_a_whole_object():
  assert reply.rubric_verdicts(KEYED, RUBRIC, cut=True) == EXPECTED
  for text in (ARRAY, f"```\n{KEYED}\n```", KEYED + "\nI"):
    with pytest.raises(reply.ReplyError, match="cut at its token limit"):
      reply.rubric_verdicts(text, RUBRIC, cut=True)
