import math

import msgspec
import numpy as np
import pytest

from hrl_jax.harness import changes, history, terms
from hrl_jax.harness import state as states
from hrl_jax.methods.harnessrl import measuring, tallying
from tests.methods.harnessrl import labels, stubs, world

pytestmark = pytest.mark.core

ADD = changes.Add("criterion", (labels.target(4),), "Has z.")


def donor(task, sign="positive"):
  return terms.Donor("g", 0, sign, task, labels.target(4))


def update(
  interface,
  *operations,
  accepted=False,
  delta=None,
  lower=None,
  reason="",
  grounded=False,
  potential=20.0,
  gradings=0,
  rollouts=0,
  made=(),
  retired=(),
  step=3,
):
  return changes.Update(
    changes.Candidate(
      id=f"{interface}{operations}",
      step=step,
      task="t0",
      interface=interface,
      operations=operations,
      is_primary=True,
      round=0,
      rubric_version=0,
      potential=potential,
      is_grounded=grounded,
      evidence=(),
      rationale="",
      author="fake",
    ),
    changes.Measurement(
      "none" if delta is None else "ok",
      reason,
      delta=delta,
      gradings=gradings,
      rollouts=rollouts,
    ),
    changes.Decision(accepted, "", lower=lower),
    made,
    retired,
  )


def test_labels_are_shares_of_the_criteria_and_tasks_are_counted():
  spurious = labels.labelled(
    ("spurious", "blind", "saturated", "saturated", "agree", "agree"),
    saturated=True,
  )
  troubled = spurious._replace(
    record=msgspec.structs.replace(spurious.record, problems=("a", "b"))
  )
  found = tallying.labels([troubled, labels.labelled(), labels.labelled(())])
  # Twelve criteria of two tasks; the third is thin.
  assert found == {
    "harness/blind": 1 / 12,
    "harness/saturated": 2 / 12,
    "harness/spurious": 1 / 12,
    "harness/agree": 8 / 12,
    "harness/thin_tasks": 1,
    "harness/saturated_tasks": 1,
    "harness/problems": 2,
  }


def test_without_a_criterion_there_is_no_share():
  assert math.isnan(tallying.labels([])["harness/blind"])


UPDATES = (
  update("rollout", ADD, accepted=True, delta=12.0, lower=10.0, grounded=True),
  update("rollout", ADD, delta=1.0, lower=10.0, potential=8.0),
  update("rollout", changes.Drop("criterion"), ADD, delta=2.0, lower=10.0),
  update("rollout", changes.Drop("criterion"), accepted=True, delta=0.0),
  update("rollout", ADD, reason="no_budget"),
  update("rubric", changes.Delete("t0#3"), accepted=True, delta=3.0),
  update("rubric", changes.Delete("t0#3"), delta=-1.0, grounded=True),
  update("rubric", changes.Delete("t0#3")),
  update("sampling", changes.Lower(), accepted=True),
)


def test_decisions_by_interface():
  assert tallying.decisions(UPDATES) == {
    "harness/accepted": 4,
    "harness/rejected": 5,
    "harness/sampling_accepted": 1,
    "harness/sampling_rejected": 0,
    "harness/rollout_accepted": 2,
    "harness/rollout_rejected": 3,
    "harness/rubric_accepted": 1,
    "harness/rubric_rejected": 2,
  }


def test_adds_drops_and_rubrics_are_told_apart_if_they_were_measured():
  # A drop with an add has to raise the mean, as an add.
  assert tallying.probed(UPDATES) == {
    "harness/adds_measured": 3,
    "harness/adds_accepted": 1,
    "harness/drops_measured": 1,
    "harness/drops_accepted": 1,
    "harness/rubrics_measured": 2,
    "harness/rubrics_accepted": 1,
    # One had 8 points to win and needed 10.
    "harness/hopeless_adds": 1,
  }


def test_donors_of_accepted_fields_that_answer_other_tasks():
  def reference(*donors, accepted=True):
    add = changes.Add("reference", (labels.target(4),), "x", donors)
    return update("rollout", add, accepted=accepted)

  updates = [
    reference(donor("t1"), donor("t0", "negative")),
    reference(donor("t0")),
    reference(donor("t2")),
    reference(donor("t3"), accepted=False),
    *UPDATES,
  ]
  assert tallying.foreign_donors(updates) == pytest.approx(2 / 3)
  assert math.isnan(tallying.foreign_donors(UPDATES))


def test_updates_that_undo_a_recent_one_are_counted():
  there = update(
    "rubric",
    changes.Reweight("t0#0", 2.0),
    accepted=True,
    delta=4.0,
    step=2,
  )
  back = update(
    "rubric", changes.Reweight("t0#0", 3.0), accepted=True, delta=4.0
  )
  on = update("rubric", changes.Reweight("t0#0", 1.0), accepted=True, delta=4.0)
  rejected = update("rubric", changes.Reweight("t0#0", 3.0), delta=4.0)
  made = world.made(stubs.Memory(world.bank(1)))
  drawn = with_draws(labels.labelled(), there)
  for now, expected in ((back, 1), (on, 0), (rejected, 0)):
    assert tallying.reversed_updates(made, [drawn], [now]) == expected
  forgetful = world.made(stubs.Memory(world.bank(1)), has_memory=False)
  assert math.isnan(tallying.reversed_updates(forgetful, [drawn], [back]))


def with_draws(labelled, *updates):
  """The task with draws at steps 2 and 3, and earlier updates."""
  seen = tuple(
    history.Seen(
      id=f"train:{step}:0",
      kind="train",
      step=step,
      place=history.Place(0, 0),
      valid=8,
      is_thin=False,
      mass=0.5,
      points=10.0,
      range_points=1.0,
      mounted=(),
      tallies=(),
    )
    for step in (2, 3)
  )
  before = history.History("t0", seen=seen[:1], updates=updates)
  draw = labelled.draw._replace(before=before, seen=seen[1:])
  return labelled._replace(draw=draw)


def test_a_steps_numbers_add_up():
  made = world.made(stubs.Memory(world.bank(1)))
  spent = update("rollout", ADD, delta=1.0, lower=9.0, rollouts=8, gradings=48)
  lost = update("rollout", ADD, reason="thin_group", rollouts=8, gradings=48)
  rubric = update(
    "rubric", changes.Delete("t0#3"), delta=1.0, grounded=True, gradings=8
  )
  none = update("rollout", ADD, reason="no_budget")
  found = tallying.metrics(
    made,
    [labels.labelled()],
    [
      measuring.Measured((spent, lost), (), 2),
      measuring.Measured((rubric, none), (), 1),
    ],
    [changes.Removal(3, "t0", "criterion", "orphan")],
    5,
  )
  assert {
    name: found[f"harness/{name}"]
    for name in (
      "orphans",
      "no_budget",
      "probe_groups",
      "probe_rollouts",
      "probe_gradings",
      "donor_gradings",
      "accepted_grounded",
      "accepted_ungrounded",
      "reversals",
    )
  } == {
    "orphans": 1,
    "no_budget": 1,
    "probe_groups": 3,
    "probe_rollouts": 16,
    "probe_gradings": 104,
    "donor_gradings": 5,
    "accepted_grounded": 0.0,
    "accepted_ungrounded": 0.0,
    "reversals": 0,
  }
  assert all(isinstance(value, float | int) for value in found.values())


def test_calls_are_counted_by_step_and_time_by_part():
  made = world.run(roles=stubs.Roles())
  state = made.start()
  asked = []
  for step in range(3):
    before = len(made.evolver.roles.proposed)
    state = made.step(state, step)
    asked.append(len(made.evolver.roles.proposed) - before)
  counted = [each["harness/proposal_calls"] for each in made.metrics]
  assert counted == asked != [0, 0, 0]
  parts = {"remember", "attribute", "propose", "measure"}
  assert all(each.keys() == parts for each in made.seconds)
  assert all(min(each.values()) >= 0 for each in made.seconds)


def test_where_the_interfaces_stand():
  state = states.init(world.bank(4))
  state = state.replace(
    level_N=np.array([0, 0, 1, 3], np.int8),
    field_N3=np.array([[0, 1, -1], [-1] * 3, [2, -1, -1], [-1] * 3], np.int32),
    rubric_version_N=np.array([0, 5, 1, 0], np.int32),
  )
  weights_N = np.array([1.0, 1.0, 0.5, 0.25])
  # 1 / (2.75 / 4 * 8 / 4).
  assert tallying.standing(state, weights_N) == {
    "harness/mounted": 0.75,
    "harness/level_0": 0.5,
    "harness/level_1": 0.25,
    "harness/level_2": 0.0,
    "harness/level_3": 0.25,
    "harness/effective_sample": pytest.approx(1 / (2.75 / 4 * 2)),
    "harness/rubric_changes": 6,
  }
