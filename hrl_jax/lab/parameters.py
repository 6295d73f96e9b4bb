"""Every quantity of a lab world."""

import dataclasses


@dataclasses.dataclass(frozen=True, kw_only=True)
class Parameters:
  """What a world is drawn with; shares and rates lie in [0, 1].

  Tasks:
    train_tasks, held_out_tasks: how many of each.
    fewest_questions, most_questions: question words of a prompt.

  Facts, by domain:
    questions: question words, each with one right fact.
    unknown: of them, those whose fact the first policy never says unasked.
    neglected: of the others, those whose fact no seed rubric asks for.
    misconceptions: wrong facts; each question has one of them.

  Rubrics:
    fewest_criteria, most_criteria: of a rubric.
    most_aligned, fewest_gameable, most_gameable, fewest_saturated,
      most_saturated, most_blind: criteria of each kind; at least one that is
      aligned and one that is blind.
    ordered: rate of an order as a second blind criterion.
    penalised: share of tasks that have penalties.
    penalties: how many they have then.
    highest_weight: weights are whole numbers from 1 to it.
    detailed_words: words from which an answer counts as detailed.
    short_words: words that nearly every answer has.

  Judge:
    flips: share of verdicts that are turned round (H-17).

  Hidden quality:
    wrong_cost: for naming wrong facts only.
    filler_cost: for each filler word.
    repetition_cost: for each word that was there before.

  What the first policy is taught to say:
    lowest_knowledge, highest_knowledge: rates at which it gives a known fact;
      each question has its own.
    misconception: rate at which it is wrong where it does not give it.
    stray: rate of a fact that nobody asked for.
    praise, domain, disclaimer, claim: rates of an opening with praise, of the
      domain's name, of a disclaimer, of a closing claim.
    fewest_words, most_words: fillers are added up to a length between them.

  How it is taught to use guidance:
    guided: share of texts with guidance.
    follows_criterion, follows_reference, follows_critique: rates at which it
      does what a field says.
    shown: rate at which a reference gives a fact that is asked and known.
    odd: rate at which it gives any other.

  The lesson:
    layers, features, heads, inner_features: sizes of the decoder.
    examples: distinct texts.
    clear_lessons, lessons: optimiser steps on texts without and with noise.
    lesson_tokens: of a step, padding included.
    learning_rate: highest of the lesson.

  The pool of the stand-in evolver:
    tightenings: other wordings of a gameable criterion that are refinements,
      and as many that are decoys.
    decoys: sentences that refine nothing, for each that does.

  Raises:
    ValueError: if there is no such world, naming the quantity.
  """

  train_tasks: int = 256
  held_out_tasks: int = 64
  fewest_questions: int = 3
  most_questions: int = 5

  questions: int = 8
  unknown: int = 2
  neglected: int = 2
  misconceptions: int = 4

  fewest_criteria: int = 8
  most_criteria: int = 12
  most_aligned: int = 3
  fewest_gameable: int = 2
  most_gameable: int = 4
  fewest_saturated: int = 2
  most_saturated: int = 3
  most_blind: int = 2
  ordered: float = 0.5
  penalised: float = 0.5
  penalties: int = 2
  highest_weight: int = 5
  detailed_words: int = 10
  short_words: int = 4

  flips: float = 0.006

  wrong_cost: float = 0.5
  filler_cost: float = 0.01
  repetition_cost: float = 0.01

  lowest_knowledge: float = 0.3
  highest_knowledge: float = 0.6
  misconception: float = 0.3
  stray: float = 0.15
  praise: float = 0.4
  domain: float = 0.97
  disclaimer: float = 0.3
  claim: float = 0.4
  fewest_words: int = 5
  most_words: int = 12

  guided: float = 0.3
  follows_criterion: float = 0.6
  follows_reference: float = 0.5
  follows_critique: float = 0.5
  shown: float = 0.7
  odd: float = 0.5

  layers: int = 2
  features: int = 64
  heads: int = 2
  inner_features: int = 128
  examples: int = 12_000
  clear_lessons: int = 1000
  lessons: int = 2000
  lesson_tokens: int = 512
  learning_rate: float = 3e-3

  tightenings: int = 2
  decoys: float = 1.5

  def __post_init__(self):
    values = dataclasses.asdict(self)
    for name, fewest in values.items():
      most = values.get(name.replace("fewest", "most"), fewest)
      if fewest > most:
        raise ValueError(f"{name}={fewest} is more than the most, {most}.")
    for name in _RATES:
      if not 0 <= values[name] <= 1:
        raise ValueError(f"{name} is a rate in [0, 1], got {values[name]}.")
    if self.fewest_questions < 3:
      raise ValueError(
        "A task asks for a fact within reach, for one beyond it and for one "
        "that its rubric leaves out: fewest_questions must be at least 3, got "
        f"{self.fewest_questions}."
      )
    if self.unknown < 1 or self.misconceptions < 1:
      raise ValueError(
        "Each domain needs an unknown question and a misconception, got "
        f"unknown={self.unknown} and misconceptions={self.misconceptions}."
      )
    if self.unknown + self.neglected >= self.questions:
      raise ValueError(
        f"Of {self.questions} questions {self.unknown} are unknown and "
        f"{self.neglected} neglected: none is left for a rubric to ask."
      )
    if not 0 < self.lowest_knowledge <= self.highest_knowledge:
      raise ValueError(
        "What is known is sometimes said, and lowest_knowledge is the least, "
        f"got {self.lowest_knowledge} to {self.highest_knowledge}."
      )


_RATES = (
  "ordered",
  "penalised",
  "flips",
  "lowest_knowledge",
  "highest_knowledge",
  "misconception",
  "stray",
  "praise",
  "domain",
  "disclaimer",
  "claim",
  "guided",
  "follows_criterion",
  "follows_reference",
  "follows_critique",
  "shown",
  "odd",
)
