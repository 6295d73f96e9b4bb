"""Guidance as a rollout sees it: tagged fields after the task (H-37, H-40)."""

from collections.abc import Mapping, Sequence

from hrl_jax import base
from hrl_jax.harness import terms

MOST_TARGETS = 3
"""Criteria that one field may be about (H-71)."""

AVOID = "Avoid this"
"""Stands before a criterion of negative points in a field."""

CLOSING = "Use what stands between the tags and do not mention it."


def render(
  prompt: base.Conversation, texts: Mapping[terms.FieldKind, str]
) -> base.Conversation:
  """Mounts fields after the last user turn of a task.

  Args:
    prompt: of the task; without fields it comes back as it is.
    texts: of each mounted field; they are put in the paper's order.

  Returns:
    The conversation to sample under.

  Raises:
    ValueError: if the conversation has no user turn.
  """
  parts = [
    f"<{kind}>\n{texts[kind]}\n</{kind}>"
    for kind in terms.FIELD_KINDS
    if kind in texts
  ]
  if not parts:
    return prompt
  places = [i for i, turn in enumerate(prompt) if turn.role == "user"]
  if not places:
    raise ValueError(
      "Guidance stands after the user's turn, but the task has none: its roles "
      f"are {[turn.role for turn in prompt]}."
    )
  last = prompt[places[-1]]
  content = "\n".join([last.content + "\n", *parts, CLOSING])
  turns = list(prompt)
  turns[places[-1]] = last._replace(content=content)
  return tuple(turns)


def reference(
  positive: str | None, negative: str | None, *, other_task: str | None
) -> str:
  """The text of a reference field.

  Args:
    positive: a response to learn from, None for none.
    negative: one to avoid, None for none.
    other_task: one line about the task that the positive response answers, None
      if it is this one.
  """
  lines: list[str] = []
  if positive is not None:
    about = f" to another task, {other_task}" if other_task else ""
    lines += [f"A good answer{about}:", positive]
  if negative is not None:
    lines += ["An answer that falls short:", negative]
  return "\n".join(lines)


def critique(shortfalls: Sequence[str]) -> str:
  """The text of a critique field: what the last group lacked, one a line."""
  return "\n".join(["The last answers fell short:", *shortfalls])
