"""The evolver's roles, played by a served LLM."""

import collections
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from hrl_jax import questions
from hrl_jax.harness import cases, terms
from hrl_jax.harness.answers import attribution as attribution_answers
from hrl_jax.harness.answers import proposal as proposal_answers
from hrl_jax.harness.answers import wording as wording_answers
from hrl_jax.harness.prompts import (
  attribution,
  layout,
  proposal,
  rules,
  wording,
)
from hrl_jax.services import llm

Result = TypeVar("Result")

_ROLES = ("attribution", "wording", "proposal")


class LlmRoles:
  """Asks an LLM; a `cases.Roles`.

  A question that gets no usable answer changes nothing: no suspicion, no
  phrase, no proposal, and its reason among the problems.

  Attributes:
    author: the model's name.
    tally: calls and tokens so far, by role, such as "proposal_calls".
  """

  def __init__(
    self, service: llm.LlmService, budget: layout.Budget, limits: rules.Limits
  ):
    """Asks nothing yet.

    Args:
      service: that answers.
      budget: of a prompt.
      limits: of what may be proposed.
    """
    self.author = service.name
    self.tally = collections.Counter(
      {f"{role}_{what}": 0 for role in _ROLES for what in ("calls", "tokens")}
    )
    self._service = service
    self._budget = budget
    self._limits = limits

  def attribute(
    self, asked: Sequence[cases.Case]
  ) -> tuple[cases.Attribution, ...]:
    """Whether separating criteria are hacked, and full ones generic."""
    return self._answers(
      "attribution",
      [(case, 0) for case in asked],
      [self._question(attribution.question, case) for case in asked],
      [
        lambda value, case=case: attribution_answers.read(value, case)
        for case in asked
      ],
      cases.Attribution(),
    )

  def check_wording(
    self, asked: Sequence[tuple[cases.Case, Sequence[terms.Target]]]
  ) -> tuple[cases.Wording, ...]:
    """The phrases that let a surface form pass."""
    return self._answers(
      "wording",
      [(case, 0) for case, _ in asked],
      [
        self._question(wording.question, case, targets)
        for case, targets in asked
      ],
      [
        lambda value, case=case, targets=targets: wording_answers.read(
          value, case, targets
        )
        for case, targets in asked
      ],
      cases.Wording({}),
    )

  def propose(
    self, asked: Sequence[cases.ProposalCase]
  ) -> tuple[cases.Proposal, ...]:
    """A change of each interface, or none."""
    return self._answers(
      "proposal",
      [(each.case, int(bool(each.rejections))) for each in asked],
      [self._proposal_question(each) for each in asked],
      [
        lambda value, each=each: proposal_answers.read(value, each)
        for each in asked
      ],
      cases.Proposal(),
    )

  def _question(
    self, make: Callable[..., questions.Question | None], *about: Any
  ) -> questions.Question | str | None:
    """A question, what is wrong with it, or None if there is none."""
    try:
      return make(*about, self._budget)
    except layout.TooLongError as error:
      return str(error)

  def _proposal_question(
    self, case: cases.ProposalCase
  ) -> questions.Question | str | None:
    try:
      return proposal.question(case, self._budget, self._limits)
    except layout.TooLongError as error:
      return str(error)

  def _answers(
    self,
    purpose: str,
    about: Sequence[tuple[cases.Case, int]],
    asked: Sequence[questions.Question | str | None],
    reads: Sequence[Callable[[Any], Result]],
    empty: Result,
  ) -> tuple[Result, ...]:
    """Asks what can be asked, side by side, and reads the answers."""
    calls = {
      index: llm.Call(case.step, purpose, case.task, attempt, *question)
      for index, ((case, attempt), question) in enumerate(
        zip(about, asked, strict=True)
      )
      if isinstance(question, questions.Question)
    }
    came = dict(
      zip(calls, self._service.answers([*calls.values()]), strict=True)
    )
    results = []
    for index, question in enumerate(asked):
      if question is None:
        results.append(empty)
        continue
      if isinstance(question, str):
        results.append(empty._replace(problems=(question,)))
        continue
      answer = came[index]
      self.tally[f"{purpose}_calls"] += answer.calls
      self.tally[f"{purpose}_tokens"] += answer.tokens or 0
      results.append(
        empty._replace(problems=(answer.reason,))
        if answer.value is None
        else reads[index](answer.value)
      )
    return tuple(results)
