import json

import hypothesis
import pytest
from hypothesis import strategies as st

from hrl_jax import base, fences
from hrl_jax.services.judge import prompt, reply
from tests import hostile_texts

TASK = (
  base.Message("system", "Be brief."),
  base.Message("user", "What is the capital of France?"),
)
NAMES = base.Criterion("names Paris", 2.0)
INSULTS = base.Criterion("insults the user", -1.0)


def _user(question):
  system, user = question.messages
  assert (system.role, user.role) == ("system", "user")
  return user.content


def test_a_question_by_hand():
  # sha256("Paris.")[:16] by sha256sum.
  expected = """\
The turns of the task:
<turn-1 role="system">
Be brief.
</turn-1>

<turn-2 role="user">
What is the capital of France?
</turn-2>

The response:
<response-@>
Paris.
</response-@>

Is the following criterion met by the response? Reply: \
{"reason": "<one or two sentences>", "met": <true or false>}
<criterion>
names Paris
</criterion>
""".replace("@", "bdff8c417ab50e95")
  actual = _user(prompt.criterion_question(TASK, "Paris.", NAMES))
  assert actual == expected


def test_a_penalty_is_asked_as_a_behaviour_that_is_present():
  text = _user(prompt.criterion_question(TASK, "Paris.", INSULTS))
  assert "Is the described behaviour present in the response?" in text
  assert '"present": <true or false>' in text
  assert '"met"' not in text


@pytest.mark.parametrize(
  ("criterion", "key"), [(NAMES, "met"), (INSULTS, "present")]
)
def test_the_schema_has_the_reason_first_and_nothing_else(criterion, key):
  schema = prompt.criterion_question(TASK, "Paris.", criterion).schema
  # Written out: the order of the properties is the order of the reply.
  assert json.dumps(schema) == (
    '{"type": "object", "properties": {"reason": {"type": "string"}, '
    f'"{key}": {{"type": "boolean"}}}}, "required": ["reason", "{key}"], '
    '"additionalProperties": false}'
  )


def test_the_rubric_schema_is_keyed_by_number():
  question = prompt.rubric_question(TASK, "Paris.", (NAMES, INSULTS))
  met = prompt.criterion_question(TASK, "", NAMES).schema
  present = prompt.criterion_question(TASK, "", INSULTS).schema
  assert question.schema == {
    "type": "object",
    "properties": {"1": met, "2": present},
    "required": ["1", "2"],
    "additionalProperties": False,
  }
  assert list(question.schema["properties"]) == ["1", "2"]


def test_the_rubric_is_asked_number_by_number():
  text = _user(prompt.rubric_question(TASK, "Paris.", (NAMES, INSULTS)))
  assert hostile_texts.between(text, "criterion-1") == "names Paris"
  assert hostile_texts.between(text, "criterion-2") == "insults the user"
  first, second = text.index("Question 1. "), text.index("Question 2. ")
  assert 'The key is "met".' in text[first:second]
  assert 'The key is "present".' in text[second:]


def test_the_criteria_of_a_response_share_all_that_comes_before_them():
  rubric = (NAMES, base.Criterion("is short", 1.0), INSULTS)
  asked = [prompt.criterion_question(TASK, "Paris.", c) for c in rubric]
  assert len({question.messages[0] for question in asked}) == 1
  for question, criterion in zip(asked, rubric, strict=True):
    assert _user(question).endswith(f"{criterion.text}\n</criterion>\n")
  names, short, insults = map(_user, asked)
  at = names.index("names Paris")
  assert names[:at] == short[:at]
  at = names.index("Is the following criterion")
  assert names[:at] == insults[:at]
  # Another response changes the user message only.
  other = prompt.criterion_question(TASK, "Rome.", NAMES)
  assert other.messages[0] == asked[0].messages[0]


def test_weights_are_not_shown():
  def asked(scale):
    rubric = (
      NAMES._replace(weight=2.0 * scale),
      INSULTS._replace(weight=-scale),
    )
    single = prompt.criterion_question(TASK, "Paris.", rubric[0])
    return single, prompt.rubric_question(TASK, "Paris.", rubric)

  assert asked(1.0) == asked(7.0)


@pytest.mark.parametrize("criterion", [NAMES, INSULTS])
def test_an_echo_of_the_question_is_no_verdict(criterion):
  single = prompt.criterion_question(TASK, "Paris.", criterion)
  rubric = prompt.rubric_question(TASK, "Paris.", (criterion,))
  for message in (*single.messages, *rubric.messages):
    for text in (message.content, *message.content.split("\n")):
      with pytest.raises(reply.ReplyError):
        reply.criterion_verdict(text, penalty=criterion is INSULTS, cut=False)
      with pytest.raises(reply.ReplyError):
        reply.rubric_verdicts(text, (criterion,), cut=False)


@pytest.mark.parametrize("token", hostile_texts.SPECIAL_TOKENS)
def test_no_special_token_of_a_text_survives(token):
  for text in (token, f"a{token}b", token * 3, f"{token}assistant\n{token}"):
    question = prompt.criterion_question(
      (base.Message("user", text),), text, base.Criterion(text, 1.0)
    )
    assert token not in _user(question).replace("\n<turn-1", "")


def test_lone_surrogates_are_replaced():
  question = prompt.criterion_question(TASK, "a\ud800b\udfff", NAMES)
  text = _user(question)
  text.encode()
  key = fences.key("a\ud800b\udfff")
  assert hostile_texts.between(text, f"response-{key}") == "a\ufffdb\ufffd"


def test_a_turn_of_another_role_is_refused():
  turn = base.Message('x"></turn-1>', "text")
  with pytest.raises(ValueError, match=r"Turn 1 .* Use one of system, user"):
    prompt.criterion_question((turn,), "Paris.", NAMES)


WEIGHTS = st.sampled_from([1.0, -1.0])
CRITERIA = st.builds(
  base.Criterion, hostile_texts.TEXTS, WEIGHTS, st.none(), st.just({})
)


@hypothesis.settings(max_examples=400)
@hypothesis.given(
  st.lists(
    st.builds(
      base.Message, st.sampled_from(["system", "user"]), hostile_texts.TEXTS
    ),
    max_size=3,
  ),
  hostile_texts.TEXTS,
  CRITERIA,
)
def test_every_part_stays_between_its_tags(turns, response, criterion):
  key = fences.key(response)
  # The others know the key, as nobody can.
  turns = tuple(
    turn._replace(content=turn.content.replace("KEY", key)) for turn in turns
  )
  criterion = criterion._replace(text=criterion.text.replace("KEY", key))
  question = prompt.criterion_question(turns, response, criterion)
  json.dumps(question.messages, ensure_ascii=False).encode()
  text = _user(question)
  for number, turn in enumerate(turns, start=1):
    inside = hostile_texts.between(
      text, f"turn-{number}", f' role="{turn.role}"'
    )
    assert hostile_texts.restored(inside) == hostile_texts.scalar(turn.content)
  assert hostile_texts.restored(
    hostile_texts.between(text, f"response-{key}")
  ) == hostile_texts.scalar(response)
  assert hostile_texts.restored(
    hostile_texts.between(text, "criterion")
  ) == hostile_texts.scalar(criterion.text)


@hypothesis.settings(max_examples=200)
@hypothesis.given(hostile_texts.TEXTS, st.lists(CRITERIA, max_size=4))
def test_every_criterion_of_a_rubric_stays_between_its_tags(response, rubric):
  text = _user(prompt.rubric_question(TASK, response, tuple(rubric)))
  for number, criterion in enumerate(rubric, start=1):
    inside = hostile_texts.between(text, f"criterion-{number}")
    assert hostile_texts.restored(inside) == hostile_texts.scalar(
      criterion.text
    )


@hypothesis.settings(max_examples=100)
@hypothesis.given(hostile_texts.TEXTS, hostile_texts.TEXTS, WEIGHTS, WEIGHTS)
def test_a_question_holds_nothing_of_another_criterion(
  response, other, weight, other_weight
):
  mine = base.Criterion("names Paris", weight)
  alone = prompt.criterion_question(TASK, response, mine)
  prompt.criterion_question(TASK, response, base.Criterion(other, other_weight))
  assert prompt.criterion_question(TASK, response, mine) == alone
