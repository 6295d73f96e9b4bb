"""The form of a task in a file, and the only place that knows it.

One task a line, an object with these keys and no others:

  id           string, unique over all files of a bank
  domain       string: medical, science, writing, role_play,
               instruction_following, or the source's own word
  prompt       string, or a list of {"role": "system" | "user" | "assistant",
               "content": string} whose last message is the user's
  rubric       list of criteria, at least one of positive weight
  references   optional: released reference responses, of any form. They
               describe the corpus; the loader drops them unread (H-37a)

and a criterion is an object with

  text         string: one statement about the response that is true or not;
               no two criteria of a rubric share it (H-113)
  weight       number, not zero; negative for a penalty, whose text describes
               the behaviour that costs reward
  checker      optional string: name of the exact checker that decides it;
               without one the criterion is for a judge
  arguments    optional object: keyword arguments of the checker

No text is empty or white space alone. Every other string is legal and goes
through `save` and `load` unchanged.
"""

import collections
import difflib
import math
from collections.abc import Callable, Collection, Mapping
from typing import Any

from hrl_jax import base
from hrl_jax.data import jsonl

Validate = Callable[[str, Mapping[str, Any]], None]

_ROLES = ("system", "user", "assistant")

# A group's spread is computed in float32, which has no squares above 3e38.
_LOWEST_REWARD = -1e15


def parse(
  entry: Mapping[str, Any],
  *,
  checkers: Collection[str],
  validate: Validate | None = None,
) -> base.Task:
  """The task that one object of the file format describes.

  Args:
    entry: as parsed from JSON.
    checkers: names that a criterion may name.
    validate: as in `bank.load`.

  Raises:
    ValueError: at the first thing that is wrong.
  """
  _check_keys(
    entry, "the task", {"id", "domain", "prompt", "rubric"}, {"references"}
  )
  rubric = _list(entry["rubric"], "rubric")
  criteria = tuple(
    _criterion(each, f"criterion {index + 1}", checkers, validate)
    for index, each in enumerate(rubric)
  )
  _check_rubric(criteria)
  return base.Task(
    id=_text(entry["id"], "id"),
    domain=_text(entry["domain"], "domain"),
    prompt=_conversation(entry["prompt"]),
    rubric=criteria,
  )


def record(task: base.Task) -> dict[str, Any]:
  """The object of the file format that describes a task."""
  return {
    "id": task.id,
    "domain": task.domain,
    "prompt": _prompt_record(task.prompt),
    "rubric": [_criterion_record(criterion) for criterion in task.rubric],
  }


def positive_weight(rubric: base.Rubric) -> float:
  """Sum of the positive weights: what full marks are worth."""
  return sum((max(each.weight, 0.0) for each in rubric), 0.0)


def _criterion(
  entry: Any,
  name: str,
  checkers: Collection[str],
  validate: Validate | None,
) -> base.Criterion:
  _check_keys(entry, name, {"text", "weight"}, {"checker", "arguments"})
  checker = entry.get("checker")
  arguments = entry.get("arguments", {})
  if not isinstance(arguments, dict):
    raise ValueError(
      f"{name}: arguments must be an object, got {jsonl.shown(arguments)}."
    )
  if "checker" in entry:
    _check_checker(checker, arguments, name, checkers, validate)
  elif "arguments" in entry:
    raise ValueError(
      f"{name} has arguments without a checker. Name the checker, or leave "
      "the criterion to a judge."
    )
  return base.Criterion(
    text=_text(entry["text"], f"{name}: text"),
    weight=_weight(entry["weight"], name),
    checker=checker,
    arguments=arguments,
  )


def _check_checker(
  checker: Any,
  arguments: Mapping[str, Any],
  name: str,
  checkers: Collection[str],
  validate: Validate | None,
) -> None:
  _text(checker, f"{name}: checker")
  if checker not in checkers:
    raise ValueError(
      f"{name}: unknown checker {jsonl.shown(checker)}; the closest of "
      f"{len(checkers)} known names are "
      f"{difflib.get_close_matches(checker[:80], checkers, cutoff=0.0)}."
    )
  if validate is None:
    return
  try:
    validate(checker, arguments)
  except ValueError as error:
    raise ValueError(f"{name}: {error}") from error


def _conversation(prompt: Any) -> base.Conversation:
  if isinstance(prompt, str):
    return (base.Message("user", _text(prompt, "prompt")),)
  messages = tuple(
    _message(entry, f"message {index + 1}")
    for index, entry in enumerate(_list(prompt, "prompt"))
  )
  if messages[-1].role != "user":
    raise ValueError(
      f"The last message is from {messages[-1].role!r}; the policy answers a "
      "'user'."
    )
  return messages


def _message(entry: Any, name: str) -> base.Message:
  _check_keys(entry, name, {"role", "content"}, set())
  if entry["role"] not in _ROLES:
    raise ValueError(
      f"{name}: unknown role {jsonl.shown(entry['role'])}. Known are {_ROLES}."
    )
  return base.Message(entry["role"], _text(entry["content"], name))


def _weight(weight: Any, name: str) -> float:
  if isinstance(weight, bool) or not isinstance(weight, int | float):
    raise ValueError(
      f"{name}: weight must be a number, got {jsonl.shown(weight)}."
    )
  try:
    number = float(weight)
  except OverflowError:
    number = math.inf
  if number == 0 or not math.isfinite(number):
    raise ValueError(
      f"{name}: weight must be finite and not zero, got {number}."
    )
  return number


def _text(value: Any, name: str) -> str:
  if not isinstance(value, str):
    raise ValueError(f"{name} must be a string, got {jsonl.shown(value)}.")
  if not value.strip():
    raise ValueError(
      f"{name} is empty: {jsonl.shown(value)}. Write what it is to say."
    )
  return value


def _list(value: Any, name: str) -> list[Any]:
  if not isinstance(value, list):
    raise ValueError(f"{name} must be a list, got {jsonl.shown(value)}.")
  if not value:
    raise ValueError(f"{name} is empty: []. It needs at least one entry.")
  return value


def _check_keys(
  entry: Any, name: str, required: set[str], optional: set[str]
) -> None:
  if not isinstance(entry, dict):
    raise ValueError(f"{name} must be an object, got {jsonl.shown(entry)}.")
  missing = sorted(required - entry.keys())
  unknown = sorted(entry.keys() - required - optional)
  if missing or unknown:
    raise ValueError(
      f"{name} lacks the keys {missing} and has the unknown keys "
      f"{jsonl.shown(unknown)}. "
      f"It must have {sorted(required)} and may have {sorted(optional)}."
    )


def _check_rubric(rubric: base.Rubric) -> None:
  counts = collections.Counter(criterion.text for criterion in rubric)
  text, count = counts.most_common(1)[0]
  if count > 1:
    raise ValueError(
      f"The rubric says {jsonl.shown(text)} {count} times. Say it once, with "
      "the weights summed (H-113)."
    )
  total = positive_weight(rubric)
  if total == 0:
    raise ValueError(
      "The rubric has no positive weight: no response could earn anything. "
      "Add a criterion that rewards (H-100)."
    )
  if math.isinf(total):
    raise ValueError("The positive weights sum to infinity. Scale them down.")
  lowest = sum(min(each.weight, 0.0) for each in rubric) / total
  if lowest < _LOWEST_REWARD:
    raise ValueError(
      f"A response that meets every penalty would have reward {lowest:.3g}, "
      f"below {_LOWEST_REWARD:.0g}: too large for the float32 of advantages. "
      "Bring the weights closer together."
    )


def _prompt_record(prompt: base.Conversation) -> Any:
  if len(prompt) == 1 and prompt[0].role == "user":
    return prompt[0].content
  return [message._asdict() for message in prompt]


def _criterion_record(criterion: base.Criterion) -> dict[str, Any]:
  # A whole weight is written as people write it.
  weight = criterion.weight
  record = {
    "text": criterion.text,
    "weight": int(weight) if float(weight).is_integer() else weight,
  }
  if criterion.checker is not None:
    record["checker"] = criterion.checker
  if criterion.arguments:
    record["arguments"] = dict(criterion.arguments)
  return record
