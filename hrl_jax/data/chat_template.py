"""Renders a model's own chat template without trusting what it renders.

A template writes control tokens such as `<|im_end|>` as text. If a message
holds the same text, the rendered string cannot tell the two apart, and a user
or a graded response could end a turn. So the template is compiled twice: as it
is, and with every control token that it *emits* replaced by a mark, one lone
surrogate per token. Text with lone surrogates is not valid Unicode and is
refused before, so no message can hold or forge a mark, and the messages
themselves are handed to the template unchanged: what it trims or looks for in
them, it trims and finds.

Literals that a template only compares or passes to a method, as in
`content.split('</think>')`, stay as they are. The two renderings must be equal
but for the marks; a template where they are not is refused.
"""

import datetime
import json
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import jinja2
from jinja2 import ext, nodes, sandbox, visitor

from hrl_jax import base

# One mark per control token: U+D800 and on, 2,048 of them.
_FIRST_MARK = 0xD800
_NUM_MARKS = 0x800

# Arguments of these filters can become output; of others they are looked for.
_EMITTING_FILTERS = ("d", "default", "join")

_PROBES = (
  (base.Message("user", "first"),),
  (base.Message("system", "first"), base.Message("user", "second")),
  (
    base.Message("user", "first"),
    base.Message("assistant", "second"),
    base.Message("user", "third"),
  ),
)


class ChatTemplate(NamedTuple):
  """A compiled template and the marks of its control tokens.

  Attributes:
    plain: the template as it is.
    marked: the template with marks where it emits control tokens.
    marks: the mark of each control token.
    named_tokens: variables such as `eos_token`.
    options: variables that the caller sets.
  """

  plain: jinja2.Template
  marked: jinja2.Template
  marks: Mapping[str, str]
  named_tokens: Mapping[str, str]
  options: Mapping[str, Any]


def compile_template(
  source: str,
  control_tokens: Iterable[str],
  named_tokens: Mapping[str, str],
  options: Mapping[str, Any],
) -> ChatTemplate:
  """Compiles a chat template in a sandbox, as transformers would.

  Args:
    source: the Jinja text.
    control_tokens: texts that must not be taken from messages.
    named_tokens: variables such as `eos_token`, each one of those texts.
    options: further variables, such as `enable_thinking`. "today", an ISO
      date, is what `strftime_now` formats: a prompt that changes with the
      clock could not be drawn again.

  Raises:
    ValueError: if it is not valid Jinja, or if its control tokens cannot be
      told from those in a message.
  """
  tokens = sorted(set(control_tokens), key=len, reverse=True)
  if len(tokens) > _NUM_MARKS:
    raise ValueError(
      f"At most {_NUM_MARKS} control tokens can be told apart, the tokenizer "
      f"has {len(tokens)}. Use a tokenizer with fewer added tokens."
    )
  marks = {t: chr(_FIRST_MARK + i) for i, t in enumerate(tokens)}
  environment = _environment(options.get("today"))
  try:
    tree = environment.parse(source)
  except jinja2.TemplateSyntaxError as error:
    raise ValueError(
      f"The chat template is not valid Jinja: {error} (line {error.lineno}). "
      "Correct the model's chat_template.jinja or tokenizer_config.json."
    ) from error
  template = ChatTemplate(
    plain=environment.from_string(source),
    marked=environment.from_string(_Marking(marks).visit(tree)),
    marks=marks,
    named_tokens=named_tokens,
    options=options,
  )
  _check_marks(template)
  return template


def render(template: ChatTemplate, conversation: base.Conversation) -> str:
  """The text of a conversation, ready for an answer, control tokens marked.

  Args:
    template: a compiled template.
    conversation: its messages; no lone surrogates.

  Returns:
    Text in which each character of `marks` stands for one control token and
    everything else for itself.

  Raises:
    ValueError: if the template refuses the conversation, or if what it writes
      depends on how its control tokens are spelled.
  """
  try:
    named, options = template.named_tokens, template.options
    text = _render(template.plain, conversation, {**named, **options})
    named = {key: template.marks[token] for key, token in named.items()}
    marked = _render(template.marked, conversation, {**named, **options})
  except jinja2.TemplateError as error:
    roles = ", ".join(message.role for message in conversation)
    raise ValueError(
      f"The chat template refuses a conversation of roles ({roles}): {error}. "
      "Send roles it knows, or set what it misses in template_options."
    ) from error
  if _unmarked(marked, template.marks) != text:
    raise ValueError(
      "The chat template computes with the spelling of its control tokens, so "
      "they cannot be told from the same text in a message. Write the "
      "template so that control tokens are only emitted."
    )
  return marked


class _Marking(visitor.NodeTransformer):
  """Replaces control tokens in the literals that a template may emit."""

  def __init__(self, marks: Mapping[str, str]):
    self._marks = marks

  def visit_TemplateData(self, node: nodes.TemplateData) -> nodes.Node:
    node.data = _marked(node.data, self._marks)
    return node

  def visit_Const(self, node: nodes.Const) -> nodes.Node:
    node.value = _marked(node.value, self._marks)
    return node

  def visit_Compare(self, node: nodes.Compare) -> nodes.Node:
    return node

  def visit_Test(self, node: nodes.Test) -> nodes.Node:
    return node

  def visit_Getitem(self, node: nodes.Getitem) -> nodes.Node:
    node.node = self.visit(node.node)
    return node

  def visit_Call(self, node: nodes.Call) -> nodes.Node:
    if isinstance(node.node, nodes.Getattr):
      node.node = self.visit(node.node)
      return node
    return self.generic_visit(node)

  def visit_Filter(self, node: nodes.Filter) -> nodes.Node:
    if node.name in _EMITTING_FILTERS:
      return self.generic_visit(node)
    if node.node is not None:
      node.node = self.visit(node.node)
    return node


def _environment(today: str | None) -> jinja2.Environment:
  environment = sandbox.ImmutableSandboxedEnvironment(
    trim_blocks=True, lstrip_blocks=True, extensions=[ext.loopcontrols]
  )
  environment.filters["tojson"] = _to_json
  environment.globals["raise_exception"] = _raise_exception
  environment.globals["strftime_now"] = _clock(today)
  return environment


def _clock(today: str | None) -> Callable[[str], str]:
  def strftime_now(form: str) -> str:
    if today is None:
      raise jinja2.TemplateError(
        "it writes today's date, and none is set: template_options needs "
        "today, such as '2024-07-26', or the date variable of the template"
      )
    return datetime.date.fromisoformat(today).strftime(form)

  return strftime_now


def _raise_exception(message: str) -> None:
  raise jinja2.TemplateError(message)


def _to_json(value: Any, indent: int | None = None) -> str:
  return json.dumps(value, ensure_ascii=False, indent=indent)


def _render(
  template: jinja2.Template,
  conversation: base.Conversation,
  variables: Mapping[str, Any],
) -> str:
  return template.render(
    messages=[message._asdict() for message in conversation],
    tools=None,
    documents=None,
    add_generation_prompt=True,
    **variables,
  )


def _marked(value: Any, marks: Mapping[str, str]) -> Any:
  if not isinstance(value, str) or not marks:
    return value
  return re.sub("|".join(map(re.escape, marks)), lambda m: marks[m[0]], value)


def _unmarked(text: str, marks: Mapping[str, str]) -> str:
  return text.translate({ord(mark): token for token, mark in marks.items()})


def _check_marks(template: ChatTemplate) -> None:
  # Messages without control tokens: every one in the text must be a mark.
  for conversation in _PROBES:
    try:
      marked = render(template, conversation)
    except ValueError as error:
      if isinstance(error.__cause__, jinja2.TemplateError):
        continue
      raise
    left = [token for token in template.marks if token in marked]
    if left:
      raise ValueError(
        f"The chat template composes the control tokens {left} out of parts or "
        "takes them from an option, so they cannot be told from the same text "
        "in a message. Write them into the template in one piece."
      )
