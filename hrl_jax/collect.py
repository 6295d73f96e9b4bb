"""From a plan to a full batch: sample, grade, keep, replace.

Completions are graded while others still decode: the grader pulls them from
the engine as they finish. Groups without contrast give way to the plan's later
slots where the plan says so; nothing is drawn outside `plan`.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import jax
import numpy as np

from hrl_jax import base, batch, protocols
from hrl_jax import evidence as evidences
from hrl_jax.core import packing
from hrl_jax.data import tokenizer as tokenizers

_logger = logging.getLogger(__name__)

# A batch that stayed shorter than this share of its plan is not trained on.
_SMALLEST_BATCH = 0.25

Pack = Callable[[Sequence[Sequence[int]], Sequence[packing.Row]], batch.Batch]


class World(NamedTuple):
  """What a step talks to.

  Attributes:
    engine: samples completions.
    grader: scores them.
    tokenizer: renders prompts, decodes completions.
  """

  engine: protocols.Engine
  grader: protocols.Grader
  tokenizer: tokenizers.Tokenizer


def collect(
  plan: base.Plan,
  world: World,
  key: jax.Array,
  *,
  occasion: base.Occasion,
  sampling: base.Sampling,
  pack: Pack,
) -> tuple[tuple[batch.Batch, ...], base.Evidence]:
  """Samples and grades the plan's slots until its batch is full.

  Args:
    plan: at least `plan.num_groups` slots.
    world: what it talks to.
    key: consumed; each rollout has its own seed from it, by slot and place.
    occasion: no two of a run are alike.
    sampling: how completions are drawn.
    pack: `(prompts, rows, num_groups=, group_size=) -> batches`: token ids of
      the training prompts and every valid rollout's row, as one batch per
      optimiser step, see `core.packing`.

  Returns:
    The batches, and what was seen. There is no batch where nothing can be
    trained on: no valid rollout, or so few groups with contrast that less
    than a quarter of the plan's are there.
  """
  evidence = gather(plan, world, key, occasion=occasion, sampling=sampling)
  kept = len(evidence.rewards_PG)
  if kept < _SMALLEST_BATCH * plan.num_groups:
    _logger.warning(
      "Only %d of %d groups have contrast after %d rounds: no update. Other "
      "tasks, more rounds (config.rollout.max_rounds) or another rubric help.",
      kept,
      plan.num_groups,
      plan.max_rounds,
    )
    return (), evidence
  rows = _rows(evidence)
  if not rows:
    _logger.warning("No rollout of this step has a reward: no update.")
    return (), evidence
  prompts = [world.tokenizer.encode_chat(prompt) for prompt in plan.prompts]
  num_groups, group_size = evidence.rewards_PG.shape
  batches = pack(prompts, rows, num_groups=num_groups, group_size=group_size)
  return batches, evidence


def gather(
  plan: base.Plan,
  world: World,
  key: jax.Array,
  *,
  occasion: base.Occasion,
  sampling: base.Sampling,
) -> base.Evidence:
  """Samples and grades the plan's slots, without making a batch.

  Also what evaluation and a method's probe are made of; arguments as of
  `collect`.
  """
  kept: list[base.Group] = []
  dropped: list[base.Group] = []
  failures: list[base.Failure] = []
  start = 0
  for _ in range(plan.max_rounds):
    stop = min(start + plan.num_groups - len(kept), len(plan.slots))
    if start == stop:
      break
    slots = range(start, stop)
    rollouts, lost = _sample_and_grade(
      plan, slots, world, key, occasion, sampling
    )
    failures += lost
    for group in evidences.groups(plan, slots, rollouts):
      (dropped if group.fate == "constant" else kept).append(group)
    start = stop
  return evidences.evidence(occasion, plan, kept, dropped, failures)


def grade(
  submissions: Sequence[protocols.Submission],
  world: World,
  *,
  occasion: base.Occasion,
) -> tuple[tuple[np.ndarray, ...], base.Evidence]:
  """Grades responses that a method hands in.

  Args:
    submissions: what to grade.
    world: whose grader is asked.
    occasion: no two of a run are alike.

  Returns:
    Of each `[C]` scores, NaN where missing; and evidence without groups, which
    names what was lost: a slot of its plan is a submission.
  """
  plan = base.Plan(
    prompts=tuple(each.prompt for each in submissions),
    slots=tuple(
      base.Slot(each.task, index, 1.0, each.rubric, (index,), (index,))
      for index, each in enumerate(submissions)
    ),
    num_groups=len(submissions),
  )
  requests = [
    base.GradeRequest(
      occasion=occasion,
      slot=index,
      rollout=0,
      attempt=1,  # 0 is the step's own grading.
      prompt=each.prompt,
      response=each.response,
      rubric=each.rubric,
    )
    for index, each in enumerate(submissions)
  ]
  grades = {each.slot: each for each in world.grader.grade(requests)}
  lost = [failure for each in grades.values() for failure in each.failures]
  return (
    tuple(grades[index].scores_C for index in range(len(submissions))),
    evidences.evidence(occasion, plan, kept=[], dropped=[], failures=lost),
  )


def _sample_and_grade(
  plan: base.Plan,
  slots: Sequence[int],
  world: World,
  key: jax.Array,
  occasion: base.Occasion,
  sampling: base.Sampling,
) -> tuple[evidences.Graded, list[base.Failure]]:
  prompt_ids = {
    prompt: world.tokenizer.encode_chat(plan.prompts[prompt])
    for prompt in sorted(
      {each for slot in slots for each in plan.slots[slot].sampled_under}
    )
  }
  places = [
    (slot, index, prompt)
    for slot in slots
    for index, prompt in enumerate(plan.slots[slot].sampled_under)
  ]
  seeds = _seeds(key, [place[:2] for place in places])
  requests = [
    base.Request(prompt_ids[prompt], seed)
    for (_, _, prompt), seed in zip(places, seeds, strict=True)
  ]
  graded: evidences.Graded = {}
  failures: list[base.Failure] = []

  def finished() -> Iterator[base.GradeRequest]:
    for completion in world.engine.generate(requests, sampling):
      slot, index, prompt = places[completion.request]
      rollout = base.Rollout(
        slot=slot,
        index=index,
        sampled_under=prompt,
        trained_under=plan.slots[slot].trained_under[index],
        text=world.tokenizer.decode(completion.tokens.tolist()),
        seed=requests[completion.request].seed,
        completion=completion,
      )
      graded[slot, index] = (rollout, None)
      if completion.finish == "abort":
        failures.append(
          base.Failure(slot, index, None, "the engine aborted the rollout")
        )
      else:
        yield _grade_request(plan, rollout, occasion)

  failures += _grade(finished(), world.grader, graded)
  return graded, failures


def _grade(
  requests: Iterable[base.GradeRequest],
  grader: protocols.Grader,
  graded: evidences.Graded,
) -> list[base.Failure]:
  """Puts the scores beside their rollouts; returns what was lost."""
  failures: list[base.Failure] = []
  for grade in grader.grade(requests):
    rollout, _ = graded[grade.slot, grade.rollout]
    graded[grade.slot, grade.rollout] = (rollout, grade.scores_C)
    failures += grade.failures
  return failures


def _grade_request(
  plan: base.Plan, rollout: base.Rollout, occasion: base.Occasion
) -> base.GradeRequest:
  slot = plan.slots[rollout.slot]
  return base.GradeRequest(
    occasion=occasion,
    slot=rollout.slot,
    rollout=rollout.index,
    attempt=0,
    prompt=plan.prompts[slot.bare],
    response=rollout.text,
    rubric=slot.rubric,
  )


def _seeds(key: jax.Array, places: Sequence[tuple[int, int]]) -> list[int]:
  """One seed of 32 bits for each (slot, place in the group)."""
  # Padded to few sizes, each of which compiles.
  padded_N2 = np.zeros((2 ** (len(places) - 1).bit_length(), 2), np.uint32)
  padded_N2[: len(places)] = places
  seeds_N = _seeds_of(key, jax.device_put(padded_N2))
  return np.asarray(seeds_N)[: len(places)].tolist()


@jax.jit
def _seeds_of(key: jax.Array, places_N2: jax.Array) -> jax.Array:
  def seed(place_2):
    folded = jax.random.fold_in(jax.random.fold_in(key, place_2[0]), place_2[1])
    return jax.random.bits(folded)

  return jax.vmap(seed)(places_N2)


def _rows(evidence: base.Evidence) -> list[packing.Row]:
  """The rows of every valid rollout of the batch's groups."""
  size = evidence.valid_PG.shape[1]
  return [
    packing.Row(
      prompt=rollout.trained_under,
      tokens=rollout.completion.tokens,
      sampler_logprobs=rollout.completion.logprobs,
      rollout=group_index * size + index,
    )
    for group_index, valid_G in enumerate(evidence.valid_PG)
    for index, rollout in enumerate(evidence.groups[group_index].rollouts)
    if valid_G[index] and len(rollout.completion.tokens)
  ]
