"""What operations on guidance may be (H-37 to H-40, H-73)."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple

from hrl_jax import base
from hrl_jax.harness import changes, commits, guidance, terms, validity


class Room(NamedTuple):
  """How much guidance a task has room for.

  Attributes:
    cap: fields at the same time.
    guidance_tokens: of all fields together.
    prompt_tokens: of the task with its guidance.
    count_text: tokens of a text.
    count_prompt: tokens of a rendered conversation.
  """

  cap: int
  guidance_tokens: int
  prompt_tokens: int
  count_text: Callable[[str], int]
  count_prompt: Callable[[base.Conversation], int]


def problem(
  fields: Mapping[terms.FieldKind, terms.Field],
  proposed: Sequence[changes.Add | changes.Drop],
  *,
  prompt: base.Conversation,
  active: Collection[terms.Target],
  room: Room,
) -> validity.Problem | None:
  """The first thing that is wrong with operations, None if they may be applied.

  Codes: "twice" (two adds or two drops of a kind), "unmounted" (a drop of what
  is not there), "mounted" (an add of what is), "unknown" (no target, or one
  that is not in the rubric), "targets" (too many), "text" (a field without a
  text), "donor" (a reference without a response to learn from), "cap" (too many
  fields), "long" (too many tokens).

  Args:
    fields: mounted now.
    proposed: withdrawals come first, in whichever order they are named.
    prompt: of the task, without guidance.
    active: criteria of the rubric.
    room: limits.
  """
  drops = [each.field for each in proposed if isinstance(each, changes.Drop)]
  adds = [each for each in proposed if isinstance(each, changes.Add)]
  added = [each.field for each in adds]
  for kinds in (drops, added):
    for kind in kinds:
      if kinds.count(kind) > 1:
        return validity.Problem("twice", f"<{kind}> is named twice")
  for kind in drops:
    if kind not in fields:
      return validity.Problem("unmounted", f"<{kind}> is not mounted")
  for add in adds:
    if add.field in fields and add.field not in drops:
      return validity.Problem(
        "mounted", f"<{add.field}> is mounted already: drop it, then add it"
      )
    if found := _problem_of_add(add, active):
      return found
  if not adds:
    return None
  after = commits.mounted(fields, proposed, step=0)
  if len(after) > room.cap:
    return validity.Problem(
      "cap", f"{len(after)} fields, at most {room.cap} now"
    )
  return _length_problem(prompt, after, room)


def _problem_of_add(
  add: changes.Add, active: Collection[terms.Target]
) -> validity.Problem | None:
  if not add.targets:
    return validity.Problem("unknown", f"<{add.field}> has no target")
  for target in add.targets:
    if target not in active:
      return validity.Problem(
        "unknown", f"the rubric has no criterion {target[0]!r} as it was"
      )
  if len(add.targets) > guidance.MOST_TARGETS:
    return validity.Problem(
      "targets",
      f"<{add.field}> has {len(add.targets)} targets, at most "
      f"{guidance.MOST_TARGETS}",
    )
  if add.field == "reference" and not any(
    donor.sign == "positive" for donor in add.donors
  ):
    return validity.Problem("donor", "no response to learn from is at hand")
  if not add.text.strip():
    return validity.Problem("text", f"<{add.field}> needs a text")
  return None


def _length_problem(
  prompt: base.Conversation,
  after: Mapping[terms.FieldKind, terms.Field],
  room: Room,
) -> validity.Problem | None:
  tokens = sum(room.count_text(field.text) for field in after.values())
  if tokens > room.guidance_tokens:
    return validity.Problem(
      "long", f"{tokens} tokens of guidance, at most {room.guidance_tokens}"
    )
  texts = {kind: field.text for kind, field in after.items()}
  tokens = room.count_prompt(guidance.render(prompt, texts))
  if tokens > room.prompt_tokens:
    return validity.Problem(
      "long",
      f"{tokens} tokens with the task, at most {room.prompt_tokens}",
    )
  return None
