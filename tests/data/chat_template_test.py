import pytest

from hrl_jax import base
from hrl_jax.data import chat_template

CONTROL = ("<|a|>", "<|end|>", "<|end|>>")
NAMED = {"eos_token": "<|end|>"}
USER = (base.Message("user", "hi"),)


def _compile(source, **options):
  return chat_template.compile_template(source, CONTROL, NAMED, options)


def _render(source, content="hi", **options):
  """The rendered text, each mark written as [token]."""
  template = _compile(source, **options)
  text = chat_template.render(template, (base.Message("user", content),))
  for token, mark in template.marks.items():
    text = text.replace(mark, f"[{token}]")
  return text


@pytest.mark.parametrize(
  ("source", "expected"),
  [
    ("<|a|>{{ messages[0].content }}", "[<|a|>]hi"),
    ("{{ '<|a|>' + messages[0].content }}", "[<|a|>]hi"),
    ("{{ '<|a|>' ~ messages[0].content ~ eos_token }}", "[<|a|>]hi[<|end|>]"),
    ("{% set x = '<|a|>' %}{{ x }}", "[<|a|>]"),
    ("{% set n = namespace(x='<|a|>') %}{{ n.x }}", "[<|a|>]"),
    ("{% macro m(x) %}{{ x }}{% endmacro %}{{ m('<|a|>') }}", "[<|a|>]"),
    ("{{ 'x' if '<|a|>' == eos_token else '<|a|>' }}", "[<|a|>]"),
    ("{{ none_there | default('<|a|>') }}", "[<|a|>]"),
    ("{{ {'user': '<|a|>'}[messages[0].role] }}", "[<|a|>]"),
    ("{{ ' <|a|> ' | trim }}", "[<|a|>]"),
    ("{% for t in ['<|a|>', '<|end|>'] %}{{ t }}{% endfor %}",
     "[<|a|>][<|end|>]"),
  ],
)  # fmt: skip
def test_control_tokens_that_a_template_emits_are_marked(source, expected):
  assert _render(source) == expected


def test_the_longest_control_token_is_taken():
  assert _render("<|end|>><|end|>") == "[<|end|>>][<|end|>]"


@pytest.mark.parametrize(
  ("source", "expected"),
  [
    ("{{ 'yes' if '<|a|>' in messages[0].content else 'no' }}", "yes"),
    ("{{ messages[0].content.split('<|a|>')[-1] }}", "y"),
    ("{{ messages[0].content | replace('<|a|>', '-') }}", "x-y"),
    ("{{ messages[0].content.startswith('x<|a|>') }}", "True"),
    ("{{ messages[0].content | length }}", "7"),
    ("{{ messages[0].content }}", "x<|a|>y"),
  ],
)
def test_messages_reach_the_template_as_they_are(source, expected):
  assert _render(source, "x<|a|>y") == expected


def test_a_token_that_is_made_with_the_help_of_a_message_stays_text():
  source = "<|a|>{{ '<|' ~ messages[0].content ~ '|>' }}"
  assert _render(source, "end") == "[<|a|>]<|end|>"


@pytest.mark.parametrize(
  "source",
  [
    "{{ '<|' + 'a' + '|>' }}",
    "{{ '<|' ~ 'a' }}|>",
    "{{ messages[0].role.replace('user', '<|a|>') }}",
  ],
)
def test_a_template_that_composes_control_tokens_is_refused(source):
  with pytest.raises(ValueError, match=r"composes the control tokens \['<\|a"):
    _compile(source)


@pytest.mark.parametrize(
  "source",
  ["{{ '<|a|>' | length }}", "{{ '<|a|>'[2:] }}", "{{ '<|a|>' | upper }}"],
)
def test_a_template_that_computes_with_control_tokens_is_refused(source):
  with pytest.raises(ValueError, match="computes with the spelling"):
    _compile(source)


def test_blocks_leave_no_blank_lines():
  # trim_blocks and lstrip_blocks, as every published template expects.
  assert _render("  {% if true %}\nx\n  {% endif %}\ny") == "x\ny"


def test_what_a_template_refuses_is_said_with_the_roles():
  source = (
    "{% if messages[0].role == 'system' %}"
    "{{ raise_exception('no system turn') }}{% endif %}x"
  )
  template = _compile(source)
  assert chat_template.render(template, USER) == "x"
  turns = (base.Message("system", "s"), base.Message("user", "u"))
  with pytest.raises(
    ValueError, match=r"roles \(system, user\): no system turn"
  ):
    chat_template.render(template, turns)


def test_a_template_cannot_leave_its_sandbox():
  source = "{{ messages.__class__.__mro__ }}"
  with pytest.raises(ValueError, match="refuses a conversation"):
    chat_template.render(_compile(source), USER)


def test_text_that_is_not_jinja_is_refused_with_its_line():
  with pytest.raises(ValueError, match=r"not valid Jinja: .*\(line 2\)"):
    _compile("a\n{% if %}")


def test_today_is_what_the_caller_says():
  source = "{{ strftime_now('%d %m %Y') }}"
  assert _render(source, today="2024-07-26") == "26 07 2024"
  with pytest.raises(ValueError, match="template_options needs today"):
    chat_template.render(_compile(source), USER)


def test_an_option_cannot_bring_control_tokens():
  with pytest.raises(ValueError, match="takes them from an option"):
    _compile("{{ hint }}<|a|>", hint="<|a|>")


def test_json_is_written_with_all_its_characters():
  source = "{{ {'é': '<'} | tojson }}"
  assert _render(source) == '{"é": "<"}'
