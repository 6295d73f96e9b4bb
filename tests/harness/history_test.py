import msgspec
import pytest

from hrl_jax.harness import changes, history, records
from tests.harness import makes

pytestmark = pytest.mark.core

A, B, C = makes.target(0), makes.target(1), makes.target(2)
PLACE = history.Place(100, 20)


def _reached(seen):
  return [tally.reached for tally in seen.tallies]


def _unguided(seen):
  return [tally.unguided for tally in seen.tallies]


def test_a_digest_by_hand():
  group = makes.group(
    {A: "1100", B: "1111", C: "0000"},
    weights={A: 3.0, B: 1.0, C: 1.0},
    id="g",
    step=4,
    kind="train",
    fields=(makes.field("critique", C), makes.field("criterion", C)),
  )
  # Rewards: (3 + 1) / 5 twice, 1 / 5 twice. One criterion of three separates.
  seen = history.digest(group, PLACE)
  assert seen == history.Seen(
    id="g",
    kind="train",
    step=4,
    place=PLACE,
    valid=4,
    is_thin=False,
    mass=pytest.approx(1 / 3),
    points=pytest.approx(50.0),
    range_points=pytest.approx(60.0),
    mounted=("critique", "criterion"),
    tallies=(
      history.Tally(A, 2.0, 2.0),
      history.Tally(B, 4.0, 4.0),
      history.Tally(C, 0.0, 0.0),
    ),
  )


def test_a_penalty_is_tallied_where_it_is_not_triggered():
  group = makes.group({A: "1111", B: "1000"}, weights={B: -2.0})
  seen = makes.seen(group)
  assert _reached(seen) == [4.0, 3.0]
  # It separates all the same, and a reward may be negative: 1 - 2.
  assert seen.mass == 0.5
  assert (seen.points, seen.range_points) == (50.0, 200.0)


def test_a_rollout_with_a_missing_score_counts_nowhere():
  seen = makes.seen(makes.group({A: "111?", B: "0111"}))
  assert seen.valid == 3
  assert _reached(seen) == [3.0, 2.0]
  # A is full among the valid ones, so B alone separates.
  assert seen.mass == 0.5
  assert seen.points == pytest.approx(100 * (0.5 + 1 + 1) / 3)


def test_a_thin_group_has_tallies_but_no_numbers():
  group = makes.group({A: "1??", B: "100"}, minimum_valid=2)
  seen = makes.seen(group)
  assert (seen.is_thin, seen.valid) == (True, 1)
  assert seen.mass is seen.points is seen.range_points is None
  assert _reached(seen) == [1.0, 1.0]
  assert not makes.seen(msgspec.structs.replace(group, minimum_valid=1)).is_thin


def test_what_guidance_reached_is_not_counted_as_unguided():
  group = makes.group(
    {A: "1110", B: "1110"},
    weights={A: -1.0},
    guided=(0, 3),
    fields=(makes.field("criterion", A),),
  )
  seen = makes.seen(group)
  # A is a penalty, not triggered by the last rollout alone, which saw a field
  # for it; B has no field.
  assert _reached(seen) == [1.0, 3.0]
  assert _unguided(seen) == [0.0, 3.0]


def test_guidance_for_other_words_of_a_criterion_is_guidance_for_it():
  # A critic's regrading of guided rollouts by a new wording.
  new = makes.target(0, version=1)
  group = makes.group(
    {new: "11", B: "11"},
    kind="regrade",
    guided=(0, 1),
    fields=(makes.field("criterion", A),),
  )
  assert _unguided(makes.seen(group)) == [0.0, 2.0]


def test_rollouts_without_the_field_of_their_group_are_unguided():
  group = makes.group(
    {A: "1100"}, guided=(1,), fields=(makes.field("criterion", A),)
  )
  assert _unguided(makes.seen(group)) == [1.0]


def test_scores_between_are_summed():
  group = makes.group({A: "11", B: "11"}, weights={B: -1.0}, rewards=(0.5, 0.5))
  scores = ((0.25, 0.25), (0.5, 1.0))
  rollouts = tuple(
    msgspec.structs.replace(rollout, scores=of_rollout)
    for rollout, of_rollout in zip(group.rollouts, scores, strict=True)
  )
  seen = makes.seen(msgspec.structs.replace(group, rollouts=rollouts))
  # The penalty: 1 - 0.25, then 1 - 1.
  assert _reached(seen) == [0.75, 0.75]


def test_a_story_in_the_order_of_the_log():
  cold = makes.group({A: "10"}, kind="cold", step=-1)
  train = makes.group({A: "11"}, step=2)
  probe = makes.group({A: "11"}, kind="probe", step=2, id="probe")
  regrade = makes.group({A: "10"}, kind="regrade", step=2, id="regrade")
  update = makes.update(changes.Delete("t#0"), step=2)
  removal = changes.Removal(4, "t", "critique", "cap")
  outcome = changes.Outcome("c2:rubric", "t", 5, 1, (), None, 2.0)
  told = (cold, train, makes.labels(train, {A: "agree"}), probe, regrade)
  known = makes.story(*told, update, removal, outcome)
  assert known.task == "t"
  assert [seen.id for seen in known.seen] == ["g-1", "g2", "probe", "regrade"]
  assert [seen.place.offset for seen in known.seen] == [0, 1, 3, 4]
  assert [seen.id for seen in known.draws()] == ["g-1", "g2"]
  assert known.updates == (update,)
  assert known.removals == (removal,)
  assert known.outcomes == (outcome,)
  assert known.labelled == (2,)


def test_labels_are_kept_with_the_groups_that_were_looked_at():
  first = makes.group({A: "00", B: "11"}, step=1)
  # A task that is drawn twice in a step.
  pair = [
    makes.group({A: "00", B: "11"}, step=2, id=name) for name in ("x", "y")
  ]
  probe = makes.group({A: "00", B: "11"}, step=2, id="probe", kind="probe")
  known = makes.story(
    first,
    makes.labels(first, {A: "agree", B: "agree"}),
    *pair,
    probe,
    makes.labels(pair[0], {A: "blind"}, groups=("x", "y")),
  )
  named = {s.id: [t.label for t in s.tallies] for s in known.seen}
  assert named == {
    "g1": ["agree", "agree"],
    "x": ["blind", None],
    "y": ["blind", None],
    "probe": [None, None],
  }
  assert known.labelled == (1, 2)


def test_every_record_is_of_a_task_or_of_none():
  group = makes.group({A: "10"}, task="a")
  band = records.Band(1.0, 2.0, 3, 0.5, 1.5)
  levels = (1.0, 0.6, 0.4, 0.2)
  assert [
    history.task_of(record)
    for record in (
      group,
      makes.labels(group, {}),
      makes.update(changes.Lower(), task="b"),
      changes.Removal(1, "c", "critique", "cap"),
      changes.Outcome("c", "d", 1, 1, (), None, None),
      records.Header("bank"),
      records.Calibration(levels, band, band, {}, {}),
    )
  ] == ["a", "a", "b", "c", "d", None, None]


def test_a_record_of_no_task_has_no_story():
  with pytest.raises(ValueError, match="Header"):
    history.extend(history.History("t"), records.Header("bank"), PLACE)


def test_extending_leaves_the_history_before():
  before = makes.story(makes.group({A: "10"}))
  after = history.extend(before, makes.group({A: "11"}, step=1), PLACE)
  assert (len(before.seen), len(after.seen)) == (1, 2)


def test_a_history_comes_back_as_it_was():
  group = makes.group({A: "1?0", B: "000"}, weights={B: -1.0})
  known = makes.story(
    group,
    makes.labels(group, {A: "blind"}),
    makes.update(changes.Split("t#0", ("a", "b"))),
    changes.Removal(4, "t", "critique", "cap"),
    changes.Outcome("c", "t", 5, 1, ((A, "agree"),), None, 2.0),
  )
  assert history.decode(history.encode(known)) == known
  with pytest.raises(ValueError):
    history.decode(history.encode(known)[:-1])
