"""The wording check: which words of a criterion let a surface form pass (H-64).

It is asked of criteria that are gamed or met through generic content; its
answer is what a rewrite starts from.
"""

from collections.abc import Sequence

from hrl_jax import questions
from hrl_jax.harness import cases, terms
from hrl_jax.harness.prompts import layout, names, situation

_ASKED = """\
The question. Rollouts satisfy the criteria below by a surface form, or \
through generic content, and not by being better. For each one, which words of \
its own text let them pass? Copy the shortest phrase of its text that does, \
word for word, as it would be replaced in a better wording. If its words are \
not to blame, leave the phrase empty."""


def question(
  case: cases.Case,
  targets: Sequence[terms.Target],
  budget: layout.Budget,
) -> questions.Question | None:
  """Asks for what `answers.wording` reads, None if nothing is to be asked.

  Args:
    case: of a labelled draw; where its views have the labels after the hacking
      question, the patterns are shown.
    targets: criteria of the task that are asked about.
    budget: of the prompt.

  Raises:
    layout.TooLongError: if what may not be cut does not fit.
    ValueError: if a turn of the task has an unknown role.
  """
  about = names.picked(names.criteria(case), targets)
  if not about:
    return None
  form = ", ".join(
    f'"{name}": {{"reason": "<one or two sentences>", "phrase": "<phrase>"}}'
    for name in about
  )
  parts = (
    _ASKED,
    f"Criteria: {names.listed(map(_named, about, about.values()))}\n",
    "The form of the reply:",
    "{" + form + "}",
  )
  entry = questions.object_schema(
    {"reason": {"type": "string"}, "phrase": {"type": "string"}}
  )
  schema = questions.object_schema(dict.fromkeys(about, entry))
  return situation.question(case, parts, schema, budget)


def _named(name: str, view: cases.CriterionView) -> str:
  """A criterion, with what rollouts do instead where the case has it."""
  return f"{name} ({view.reason})" if view.label == "spurious" else name
