"""The knobs of HarnessRL, as `config.method.arguments` holds them.

What the paper states is not here but in the code; each of these is a choice of
ours where the paper is silent, or a reading of a passage that has two.
"""

import dataclasses
from typing import Literal

from hrl_jax.config import schema, sections
from hrl_jax.harness import attribution, critic
from hrl_jax.methods.harnessrl import cold_start, parts

_PLACE = "config.method.arguments"


@dataclasses.dataclass(frozen=True, kw_only=True)
class EvolverEndpoint(sections.Endpoint, place=f"{_PLACE}.evolver.endpoint"):
  """Where the evolver's LLM is served."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class EmbedderEndpoint(sections.Endpoint, place=f"{_PLACE}.memory.endpoint"):
  """Where embeddings are served."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Evolver(schema.Section, place=f"{_PLACE}.evolver"):
  """Who attributes hacks and proposes changes.

  Attributes:
    kind: "rules" is a stand-in that needs no model; "llm" is one behind
      `endpoint`.
    structured: of "llm": whether the endpoint is asked to keep to the schema.
    temperature: of "llm".
    max_tokens: of "llm": length at which a reply is cut.
    prompt_tokens: of "llm": length to which rollouts are cut (section 1.14).
    deadline: of "llm": seconds for all questions of a kind in a step.
    endpoint: of "llm".
  """

  kind: Literal["rules", "llm"]
  structured: bool
  temperature: float = schema.within("[0, inf)")
  max_tokens: int = schema.within("[1, inf)")
  prompt_tokens: int = schema.within("[1000, inf)")
  deadline: float = schema.within("(0, inf)")
  endpoint: EvolverEndpoint


@dataclasses.dataclass(frozen=True, kw_only=True)
class Memory(schema.Section, place=f"{_PLACE}.memory"):
  """What earlier records are found by (H-50 to H-56).

  Attributes:
    embedder: "sentence" is a sentence-transformers model, "endpoint" an
      OpenAI-compatible server, "hash" knows spelling only and needs no model.
    model: of "sentence": its name or path, also `package:NAME/PATH`.
    top_k: criteria that are found for each (H-6).
    floor: cosine below which nothing is related (H-6); None measures one at the
      start, so that `hit_share` of the criteria have a hit (H-54).
    hit_share: see `floor`.
    search: "exact" compares with every criterion, bit for bit the same in every
      run; "approximate" is for hundreds of thousands of them.
    related_shown: criteria of other tasks in a prompt (H-53).
    endpoint: of "endpoint".
  """

  embedder: Literal["hash", "sentence", "endpoint"]
  model: str
  top_k: int = schema.within("[1, inf)")
  floor: float | None = schema.within("[-1, 1]")
  hit_share: float = schema.within("(0, 1)")
  search: Literal["exact", "approximate"]
  related_shown: int = schema.within("[0, inf)")
  endpoint: EmbedderEndpoint


@dataclasses.dataclass(frozen=True, kw_only=True)
class ColdStart(schema.Section, place=f"{_PLACE}.cold_start"):
  """How the first policy is measured (H-90 to H-94).

  Attributes:
    reuse: file of another run's cold start on the same bank, None for none.
    second_groups: tasks that are answered twice.
    regraded_groups: groups that are graded twice.
    minimum_pairs: of either, without which there is no band.
    anchor_share: largest share of a task's weight that anchors have (H-44).
  """

  reuse: str | None
  second_groups: int = schema.within("[1, inf)")
  regraded_groups: int = schema.within("[1, inf)")
  minimum_pairs: int = schema.within("[2, inf)")
  anchor_share: float = schema.within("[0, 1]")

  def knobs(self, *, group_size: int, chunk: int) -> cold_start.Knobs:
    """As the cold start takes them."""
    own = {**vars(self)}
    del own["reuse"]
    return cold_start.Knobs(**own, group_size=group_size, chunk=chunk)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Arguments(schema.Section, place=_PLACE):
  """Everything that HarnessRL takes.

  Attributes:
    interfaces: that evolve; () is GRPO with a memory.
    critic: whether candidates are measured; False accepts every valid one.
    use_memory: whether history and other tasks are looked at.
    rounds: of proposals in a step (H-74).
    probe_share: fresh groups in a step, as a share of the draws (H-86).
    paired_probe: measure against a fresh group instead of the recorded (H-87a).
    condition_on: prompt that guided rollouts are trained under (H-25).
    drop_needs_target_met: see `critic.Knobs` (H-82).
    drop_upper_bound: likewise.
    rubric_sign: likewise (H-84).
    secondary_lower_bound: likewise (H-85).
    saturated_records: see `attribution.Knobs` (H-62).
    reach_counts_guided: likewise.
    computed_confidence: likewise (H-63).
    mass_below_level: likewise (H-34).
    rubric_confidence: of a label, for a change of its criterion (H-63).
    guidance_tokens: all fields of a task together (H-40).
    donor_tokens: a response in a reference field.
    wording_tokens: a criterion (H-43, V7).
    same_wording: cosine at which two criteria are one (V4).
    same_meaning: cosine at which an earlier wording's response is a donor's
      (H-40a).
    evolver: who answers.
    memory: where it is looked.
    cold_start: how it begins.
  """

  interfaces: tuple[Literal["sampling", "rollout", "rubric"], ...]
  critic: bool
  use_memory: bool
  rounds: int = schema.within("[1, inf)")
  probe_share: float = schema.within("[0, inf)")
  paired_probe: bool
  condition_on: Literal["guided", "bare"]
  drop_needs_target_met: bool
  drop_upper_bound: bool
  rubric_sign: Literal["absolute", "signed"]
  secondary_lower_bound: bool
  saturated_records: int = schema.within("[0, inf)")
  reach_counts_guided: bool
  computed_confidence: float = schema.within("[0, 1]")
  mass_below_level: bool
  rubric_confidence: float = schema.within("[0, 1]")
  guidance_tokens: int = schema.within("[1, inf)")
  donor_tokens: int = schema.within("[1, inf)")
  wording_tokens: int = schema.within("[1, inf)")
  same_wording: float = schema.within("[-1, 1]")
  same_meaning: float = schema.within("[-1, 1]")
  evolver: Evolver
  memory: Memory
  cold_start: ColdStart

  def knobs(self, prompt_tokens: int) -> parts.Knobs:
    """As the evolver takes them.

    Args:
      prompt_tokens: that a task with its guidance may have.
    """
    return parts.Knobs(
      interfaces=self.interfaces,
      has_critic=self.critic,
      has_memory=self.use_memory,
      rounds=self.rounds,
      probe_share=self.probe_share,
      paired_probe=self.paired_probe,
      rubric_confidence=self.rubric_confidence,
      related_shown=self.memory.related_shown,
      same_meaning=self.same_meaning,
      condition_on=self.condition_on,
      guidance_tokens=self.guidance_tokens,
      donor_tokens=self.donor_tokens,
      prompt_tokens=prompt_tokens,
      attribution=attribution.Knobs(
        saturated_records=self.saturated_records,
        reach_counts_guided=self.reach_counts_guided,
        computed_confidence=self.computed_confidence,
        mass_below_level=self.mass_below_level,
        has_history=self.use_memory,
      ),
      critic=critic.Knobs(
        drop_needs_target_met=self.drop_needs_target_met,
        drop_upper_bound=self.drop_upper_bound,
        rubric_sign=self.rubric_sign,
        secondary_lower_bound=self.secondary_lower_bound,
      ),
    )
