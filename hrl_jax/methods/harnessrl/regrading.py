"""Recorded rollouts graded again, by other rubrics or by the same (H-83).

All gradings of a kind are asked for in one go.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from hrl_jax import base, protocols
from hrl_jax.harness import changes, critic, operations, records, rubrics
from hrl_jax.methods.harnessrl import parts, recording


class Job(NamedTuple):
  """A recorded group and criteria to grade it by.

  Attributes:
    place: of its task in the bank.
    task: itself.
    group: the record.
    criteria: in order; none asks for nothing.
  """

  place: int
  task: base.Task
  group: records.Group
  criteria: base.Rubric


def grade(
  jobs: Sequence[Job], probe: protocols.Probe, purpose: str
) -> list[np.ndarray]:
  """The scores of every rollout that has a reward.

  Args:
    jobs: what to grade.
    probe: that grades.
    purpose: a word that no other grading of the step has.

  Returns:
    Of each job `[G, C]` float64, NaN where missing.
  """
  places = [
    (index, row)
    for index, job in enumerate(jobs)
    if job.criteria
    for row, rollout in enumerate(job.group.rollouts)
    if rollout.reward is not None
  ]
  submissions = [
    protocols.Submission(
      jobs[index].place,
      jobs[index].task.prompt,
      jobs[index].group.rollouts[row].text,
      jobs[index].criteria,
    )
    for index, row in places
  ]
  scores = probe.grade(submissions, purpose) if submissions else ()
  graded = [
    np.full((len(job.group.rollouts), len(job.criteria)), np.nan)
    for job in jobs
  ]
  for (index, row), scores_C in zip(places, scores, strict=True):
    graded[index][row] = scores_C
  return graded


def measure(
  proposed: Sequence[parts.Proposed], probe: protocols.Probe, purpose: str
) -> dict[str, parts.Found]:
  """Measures valid candidates on the rubric.

  Only criteria with new words are graded; the others keep their scores, which
  is exact because each is judged on its own.

  Args:
    proposed: the candidates.
    probe: that grades.
    purpose: a word that no other grading of the step has.

  Returns:
    What was found of each, by its id.
  """
  changed = [change(each) for each in proposed]
  jobs = [
    Job(draw.place, draw.task, draw.groups[0], _new(each))
    for draw, each in zip(
      (each.labelled.draw for each in proposed), changed, strict=True
    )
  ]
  return {
    each.candidate.id: _found(each, changed, scores_GC)
    for each, changed, scores_GC in zip(
      proposed, changed, grade(jobs, probe, purpose), strict=True
    )
  }


def change(proposed: parts.Proposed) -> operations.Change:
  """What a valid candidate does to its task's rubric."""
  candidate = proposed.candidate
  return operations.apply(
    proposed.labelled.draw.harness.rubric,
    candidate.operations,
    step=candidate.step,
  )


def _new(changed: operations.Change) -> base.Rubric:
  """The criteria with new words, in the order of the rubric."""
  new = {version.target for version in changed.made}
  return tuple(
    criterion
    for entry, criterion in zip(
      changed.rubric.entries, changed.rubric.criteria(), strict=True
    )
    if entry.version.target in new
  )


def _found(
  proposed: parts.Proposed, changed: operations.Change, new_GC: np.ndarray
) -> parts.Found:
  """The effect on rollouts that are valid under both rubrics."""
  before = proposed.labelled.draw.groups[0]
  after = recording.regraded(
    before,
    _scores(before, changed.rubric, new_GC),
    changed.rubric,
    id=f"regrade:{proposed.candidate.id}",
  )
  valid = sum(rollout.reward is not None for rollout in before.rollouts)
  gradings = valid * new_GC.shape[1]
  groups = (after,) if gradings else ()
  effect = critic.delta_points(
    recording.rewards_of(before),
    recording.rewards_of(after),
    minimum=before.minimum_valid,
  )
  if np.isnan(effect.delta):
    none = parts.unmeasured("thin_group", gradings=gradings)
    return parts.Found(none, groups)
  measurement = changes.Measurement(
    status="ok",
    reason="regraded",
    before=effect.before,
    after=effect.after,
    delta=effect.delta,
    valid=effect.valid,
    weights_version=before.weights_version,
    gradings=gradings,
  )
  return parts.Found(measurement, groups)


def _scores(
  before: records.Group, rubric: rubrics.TaskRubric, new_GC: np.ndarray
) -> np.ndarray:
  """`[G, C]` scores by the changed rubric, NaN where there is none."""
  known_CG = recording.scores_of(before).T
  columns = dict(zip(before.criteria, known_CG, strict=True))
  new = iter(new_GC.T)
  return np.stack(
    [
      columns[target] if target in columns else next(new)
      for target in (entry.version.target for entry in rubric.entries)
    ],
    axis=1,
  )
