"""A rule-based stand-in for the LLM that the evolver asks.

It needs no model, so a laptop can watch the harness work; whatever it writes is
signed "rules". It sees what an LLM's prompt would show and nothing else, but it
cannot read: it compares surface words and lengths, and where a sentence is to
be written it takes one from a pool, if there is one.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from hrl_jax.harness import cases, terms
from hrl_jax.harness.stand_in import proposals, suspicions

PHRASES = (
  "great question",
  "good question",
  "i hope this helps",
  "happy to help",
  "thank you for",
  "as requested",
  "all requirements",
  "in conclusion",
  "certainly",
  "absolutely",
  "of course",
)
"""Surface phrases that say nothing about a task."""


class StandIn(NamedTuple):
  """Answers by rules; a `cases.Roles`.

  Attributes:
    phrases: surface phrases, in lower case.
    author: in every record.
    tally: empty: no model is asked.
  """

  phrases: tuple[str, ...] = PHRASES
  author: str = "rules"
  tally: Mapping[str, int] = {}

  def attribute(
    self, asked: Sequence[cases.Case]
  ) -> tuple[cases.Attribution, ...]:
    """Suspects criteria that follow a surface phrase or the length alone."""
    return tuple(suspicions.attribution(case, self.phrases) for case in asked)

  def check_wording(
    self, asked: Sequence[tuple[cases.Case, Sequence[terms.Target]]]
  ) -> tuple[cases.Wording, ...]:
    """Names the whole statement: which of its words is loose it cannot tell."""
    return tuple(
      cases.Wording(
        {
          view.target: view.text
          for view in case.criteria
          if view.target in targets
        }
      )
      for case, targets in asked
    )

  def propose(
    self, asked: Sequence[cases.ProposalCase]
  ) -> tuple[cases.Proposal, ...]:
    """One change of each interface that a label asks for."""
    return tuple(proposals.proposal(case) for case in asked)
