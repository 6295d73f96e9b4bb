"""How often the critic accepts a candidate that does nothing (H-87, H-87a).

Groups of one policy on one prompt differ by chance alone. Two of them, taken
for the recorded and the fresh group of a candidate, measure a candidate without
effect; two gradings of one group likewise.

Candidates are not proposed at random: an add where the recorded group lacks
something, a drop where it has it. Then a fresh group falls back to the mean.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import jax
import numpy as np

from hrl_jax import base, protocols
from hrl_jax.harness import changes, critic, history, records
from hrl_jax.methods.harnessrl import cold_start, recording

_ADD = (changes.Add("criterion", (), ""),)
_DROP = (changes.Drop("criterion"),)
_RUBRIC = (changes.Delete(""),)


class Seen(NamedTuple):
  """A task under the first policy, without guidance.

  Attributes:
    earlier: its group of the cold start.
    recorded: another, that a candidate would be proposed from.
    fresh: a third, that the candidate would be measured by.
    regraded: the recorded group, graded again.
  """

  earlier: records.Group
  recorded: records.Group
  fresh: records.Group
  regraded: records.Group


class Rate(NamedTuple):
  """What became of candidates without effect.

  Attributes:
    name: their kind, and where they were proposed.
    candidates: how many.
    accepted: of them.
    expected: rate of H-87; None where it gives none.
    bias: mean effect that was measured, in points.
  """

  name: str
  candidates: int
  accepted: int
  expected: float | None
  bias: float


def observe(
  bank: base.Bank,
  probe: protocols.Probe,
  key: jax.Array,
  knobs: cold_start.Knobs,
  repeats: int,
) -> tuple[np.ndarray, list[Seen]]:
  """Samples what the rates are counted over.

  Args:
    bank: the tasks.
    probe: of the first policy.
    key: consumed.
    knobs: of the cold start that gives the bands.
    repeats: candidates of each kind and task.

  Returns:
    The bands `[2, 2]` of that cold start, rollout and rubric by lower and
    upper bound in points; and every task that often.

  Raises:
    calibration.CalibrationError: if a band is empty.
  """
  first_key, *keys = jax.random.split(key, 1 + repeats)
  file = cold_start.Unkept()
  *cold, found = cold_start.run(bank, file, probe, first_key, knobs)
  bands = (found.rollout, found.rubric)
  bands_22 = np.array([[band.lower, band.upper] for band in bands])
  everywhere = knobs._replace(
    second_groups=len(bank.tasks), regraded_groups=len(bank.tasks)
  )
  earlier = {group.task: group for group in reversed(cold)}
  seen = []
  for each_key in keys:
    log = cold_start.run(bank, cold_start.Unkept(), probe, each_key, everywhere)
    by_task: dict[str, list[records.Group]] = {}
    for group in log[:-1]:
      by_task.setdefault(group.task, []).append(group)
    seen += [Seen(earlier[task], *groups) for task, groups in by_task.items()]
  return bands_22, seen


def rates(seen: Sequence[Seen], bands_22: np.ndarray) -> Iterator[Rate]:
  """How often each kind is accepted, by the critic itself.

  Args:
    seen: groups with enough valid rollouts.
    bands_22: of the cold start.
  """

  def rate(
    name: str,
    operations: tuple[changes.Operation, ...],
    measured: Sequence[changes.Measurement],
    expected: float | None,
  ) -> Rate:
    candidate = _candidate(operations)
    accepted = [
      critic.decide(candidate, each, bands_22, critic.Knobs()).is_accepted
      for each in measured
    ]
    bias = np.mean([each.delta for each in measured]) if measured else np.nan
    return Rate(name, len(measured), sum(accepted), expected, float(bias))

  whole = [_resampled(each) for each in seen]
  blind = [_resampled(each) for each in seen if _blind(each)]
  left = [
    _resampled(each, index) for each in seen for index in _left_blind(each)
  ]
  yield rate("add, any task", _ADD, whole, 0.025)
  yield rate("add, where a criterion is blind", _ADD, blind, None)
  yield rate("drop by the reward, any task", _DROP, whole, 0.975)
  yield rate("drop, where a criterion has left blind", _DROP, left, None)
  yield rate("rubric, any task", _RUBRIC, list(map(_graded_again, seen)), 0.05)


def lines(found: Sequence[Rate]) -> Iterator[str]:
  """The rates as a table."""
  width = max(len(each.name) for each in found)
  yield f"{'':{width}} candidates  accepted  expected  effect, points"
  for name, candidates, accepted, expected, bias in found:
    share = accepted / candidates if candidates else np.nan
    told = "" if expected is None else f"{expected:.1%}"
    yield (
      f"{name:{width}} {candidates:10d}  {share:8.1%}  {told:>8}  {bias:+14.2f}"
    )


def _candidate(operations: tuple[changes.Operation, ...]) -> changes.Candidate:
  is_rubric = isinstance(operations[0], changes.RubricOperation)
  return changes.Candidate(
    id="null",
    step=0,
    task="",
    interface="rubric" if is_rubric else "rollout",
    operations=operations,
    is_primary=True,
    round=0,
    rubric_version=0,
    potential=0.0,
    is_grounded=False,
    evidence=(),
    rationale="",
    author="null",
  )


def _resampled(seen: Seen, target: int | None = None) -> changes.Measurement:
  """A fresh group against the recorded one; any target counts as met."""
  before, after = (
    critic.mean_points(recording.rewards_of(group), minimum=group.minimum_valid)
    for group in (seen.recorded, seen.fresh)
  )
  met = target is None or _reached(seen.fresh)[target] > 0
  return _measurement(before, after, met)


def _graded_again(seen: Seen) -> changes.Measurement:
  effect = critic.delta_points(
    recording.rewards_of(seen.recorded),
    recording.rewards_of(seen.regraded),
    minimum=seen.recorded.minimum_valid,
  )
  return _measurement(effect.before, effect.after, None)


def _measurement(
  before: float, after: float, met: bool | None
) -> changes.Measurement:
  return changes.Measurement(
    status="ok",
    reason="null",
    before=before,
    after=after,
    delta=after - before,
    target_met=met,
  )


def _reached(group: records.Group) -> list[float]:
  """Of each criterion, the rollouts that reach it in its desired form."""
  digest = history.digest(group, history.Place(0, 0))
  return [tally.reached for tally in digest.tallies]


def _blind(seen: Seen) -> bool:
  """Whether some criterion is reached in neither record (H-62)."""
  both = zip(_reached(seen.earlier), _reached(seen.recorded), strict=True)
  return any(before == now == 0 for before, now in both)


def _left_blind(seen: Seen) -> list[int]:
  """The criteria that were reached in the later record only."""
  both = zip(_reached(seen.earlier), _reached(seen.recorded), strict=True)
  return [i for i, (before, now) in enumerate(both) if before == 0 < now]
