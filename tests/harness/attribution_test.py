import msgspec
import pytest

from hrl_jax.harness import attribution, history, records
from tests.harness import makes

pytestmark = pytest.mark.core

KNOBS = attribution.Knobs(
  saturated_records=2,
  reach_counts_guided=False,
  computed_confidence=0.5,
  mass_below_level=False,
  has_history=True,
)
A, B, C = makes.target(0), makes.target(1), makes.target(2)
PENALTY = {B: -1.0}
NOTHING = history.History("t")
NAN = float("nan")


def _label(pattern, *told, target=A, weights=None, **knobs):
  """The label of a criterion beside B; `told` is the history."""
  group = makes.group({target: pattern, C: "1" * len(pattern)}, weights=weights)
  found = attribution.computed(
    [makes.seen(group)], makes.story(*told), KNOBS._replace(**knobs)
  )
  assert [label.target for label in found] == [target, C]
  return found[0]


def _told(pattern, step, target=A, **others):
  """A record in which a criterion was met so."""
  patterns = {target: pattern, C: "1" * len(pattern)}
  return makes.group(patterns, step=step, **others)


def _is(label):
  return label.name, label.reason


def test_never_met_is_blind():
  label = _label("0000", _told("0000", -1, kind="cold"), _told("0000", 3))
  assert label == records.Label(
    target=A,
    name="blind",
    reason="never_met",
    route="rollout",
    is_generic=False,
    wording=None,
    quotes=(),
    confidence=0.5,
    persistence=1,
    evidence=("g-1", "g3"),
  )


def test_blind_rests_on_the_last_four_records():
  told = [_told("00", step) for step in range(6)]
  assert _label("00", *told).evidence == ("g2", "g3", "g4", "g5")


def test_met_earlier_is_noise():
  told = [_told("0100", 1), _told("0010", 2), _told("0000", 3)]
  label = _label("0000", *told)
  assert _is(label) == ("agree", "noise")
  assert (label.route, label.evidence) == (None, ("g2",))


def test_without_a_record_of_the_wording_nothing_is_known():
  assert _is(_label("0000")) == ("agree", "no_history")
  # The criterion was rewritten: what was seen of its old words does not count.
  told = [_told("0000", 1), _told("0100", 2)]
  new = makes.target(0, version=1)
  assert _is(_label("0000", *told, target=new)) == ("agree", "no_history")
  # The regrading that admitted the new words is the first record of them.
  told.append(_told("0000", 3, target=new, kind="regrade"))
  assert _is(_label("0000", *told, target=new)) == ("blind", "never_met")


@pytest.mark.parametrize(
  ("others", "label"),
  [
    # Met by a rollout that saw a field for it.
    ({"guided": (1,), "fields": (makes.field("criterion", A),)}, "blind"),
    # By one without it, in the same group.
    ({"guided": (0,), "fields": (makes.field("criterion", A),)}, "agree"),
    # By one that saw a field for another criterion.
    ({"guided": (1,), "fields": (makes.field("criterion", C),)}, "agree"),
    # By a probe's rollout, under a candidate's field or without one for it.
    (
      {
        "guided": (0, 1),
        "fields": (makes.field("critique", C, A),),
        "kind": "probe",
      },
      "blind",
    ),
    ({"kind": "probe"}, "agree"),
  ],
)
def test_reach_asks_what_the_policy_can_do_by_itself(others, label):
  told = _told("01", 1, **others)
  assert _label("00", told).name == label
  counted = _label("00", told, reach_counts_guided=True)
  assert _is(counted) == ("agree", "noise")


def test_a_thin_record_says_nothing():
  thin = _told("1???", 1, minimum_valid=2)
  assert _is(_label("0000", thin)) == ("agree", "no_history")
  assert _is(_label("0000", _told("0000", 0), thin)) == ("blind", "never_met")
  told = [_told("1111", 0), _told("1111", 2)]
  assert _is(_label("1111", *told, _told("0???", 3))) == ("saturated", "full")


def test_a_rollout_without_verdict_is_no_failure():
  assert _is(_label("0?00", _told("00", 1))) == ("blind", "never_met")
  told = [_told("11", 1), _told("1?1", 2)]
  label = _label("1?11", *told)
  assert _is(label) == ("saturated", "full")
  assert (label.route, label.evidence) == (None, ("g1", "g2"))


@pytest.mark.parametrize(
  ("told", "label"),
  [
    ((), "not_yet"),
    (("11",), "not_yet"),
    (("11", "11"), "full"),
    (("11", "10"), "not_yet"),
    (("10", "11"), "not_yet"),
    (("10", "11", "11"), "full"),
    (("11", "11", "00"), "not_yet"),
  ],
)
def test_saturated_takes_the_two_records_before(told, label):
  records_of = [_told(pattern, step) for step, pattern in enumerate(told)]
  found = _label("11", *records_of)
  name = "saturated" if label == "full" else "agree"
  assert _is(found) == (name, label)
  assert found.evidence == tuple(f"g{n}" for n in range(len(told)))[-2:]


def test_full_with_other_words_does_not_count_as_full():
  told = [_told("11", 1), _told("11", 2)]
  new = makes.target(0, version=1)
  assert _is(_label("11", *told, target=new)) == ("agree", "not_yet")


def test_a_step_counts_once_however_many_records_it_has():
  # Two groups of one step, and a regrading of the first.
  told = [
    _told("11", 5),
    _told("11", 5, id="second"),
    _told("11", 5, id="again", kind="regrade"),
  ]
  assert _is(_label("11", *told)) == ("agree", "not_yet")
  told.insert(0, _told("11", 4))
  label = _label("11", *told)
  assert _is(label) == ("saturated", "full")
  assert label.evidence == ("g4", "g5", "second", "again")
  told.append(_told("10", 5, id="third"))
  assert _is(_label("11", *told)) == ("agree", "not_yet")


def test_what_a_probe_saw_is_not_mounted_and_not_recent():
  told = [_told("11", 1), _told("11", 2)]
  failing = _told("00", 2, kind="probe", id="probe")
  assert _is(_label("11", *told, failing)) == ("saturated", "full")
  full = _told("11", 2, kind="probe", id="probe")
  assert _is(_label("11", told[0], full)) == ("agree", "not_yet")


@pytest.mark.parametrize(("count", "label"), [(0, "full"), (1, "not_yet")])
def test_how_many_records_must_be_full_is_chosen(count, label):
  assert _label("11", saturated_records=count).reason == label
  told = [_told("10", 1), _told("11", 2)]
  assert _label("11", *told, saturated_records=count).reason == "full"


def test_a_criterion_that_separates_agrees_so_far():
  for told in ((), (_told("00", 1),), (_told("11", 1), _told("11", 2))):
    label = _label("0100", *told)
    assert _is(label) == ("agree", "separates")
    assert (label.route, label.evidence) == (None, ())


@pytest.mark.parametrize(
  ("now", "before", "label"),
  [
    # A penalty that is never triggered is as wanted, not blind.
    ("0000", ("0000", "0000"), ("saturated", "full")),
    ("0000", ("0000", "0100"), ("agree", "not_yet")),
    # One that all trigger, now and ever, is what guidance is for.
    ("1111", ("1111", "1111"), ("blind", "never_met")),
    ("1111", ("1111", "1011"), ("agree", "noise")),
    ("0001", ("0000", "0000"), ("agree", "separates")),
  ],
)
def test_penalties_are_judged_by_their_absence(now, before, label):
  told = [
    _told(pattern, step, target=B, weights=PENALTY)
    for step, pattern in enumerate(before)
  ]
  assert _is(_label(now, *told, target=B, weights=PENALTY)) == label


def _stacked(*patterns, told=()):
  groups = [
    makes.group({A: pattern}, id=f"g{n}") for n, pattern in enumerate(patterns)
  ]
  return attribution.computed(
    [makes.seen(group) for group in groups], makes.story(*told), KNOBS
  )


def test_groups_of_a_task_that_was_drawn_twice_are_stacked():
  # Neither group separates, both together do.
  (label,) = _stacked("0000", "1111")
  assert _is(label) == ("agree", "separates")
  told = (makes.group({A: "00"}, step=-1),)
  (label,) = _stacked("0000", "0000", told=told)
  assert _is(label) == ("blind", "never_met")
  standing = attribution.standings(
    [makes.seen(makes.group({A: p})) for p in ("01?0", "1110")]
  )
  assert standing == (attribution.Standing(A, 4.0, 7),)


def test_a_thin_group_is_passed_over():
  (label,) = _stacked("1???", "0000", told=(makes.group({A: "00"}),))
  assert _is(label) == ("blind", "never_met")
  assert _stacked("1???") == _stacked("1???", "???0") == ()


def test_without_memory_the_group_alone_decides():
  told = [_told("1111", 1)]
  label = _label("0000", *told, has_history=False)
  assert _is(label) == ("blind", "never_met")
  assert (label.route, label.evidence) == ("rollout", ())
  label = _label("1111", *told, has_history=False)
  assert _is(label) == ("saturated", "full")
  assert _is(_label("1000", has_history=False)) == ("agree", "separates")
  label = _label("00", target=B, weights=PENALTY, has_history=False)
  assert _is(label) == ("saturated", "full")


def _drawn(step, name, target=A):
  """A draw at which a criterion got a label."""
  group = _told("0000", step, target=target)
  return [group, makes.labels(group, {target: name})]


def test_confidence_grows_as_a_label_persists():
  told = [_told("0000", -1, kind="cold")]
  confidences = []
  for step in range(4):
    label = _label("0000", *told)
    assert label.persistence == step + 1
    confidences.append(label.confidence)
    told += _drawn(step, "blind")
  # 1 - 0.5 / 2**(persistence - 1).
  assert confidences == [0.5, 0.75, 0.875, 0.9375]


def test_another_label_breaks_persistence():
  told = [*_drawn(1, "blind"), *_drawn(2, "agree")]
  assert _label("0000", *told).persistence == 1
  assert _label("0000", *told, *_drawn(3, "blind")).persistence == 2


def test_other_words_break_persistence():
  new = makes.target(0, version=1)
  told = [*_drawn(1, "blind"), *_drawn(2, "blind", target=new)]
  label = _label("0000", *told, target=new)
  assert (label.name, label.persistence) == ("blind", 2)


def test_a_draw_without_labels_breaks_persistence():
  told = [*_drawn(1, "blind"), _told("0000", 2)]
  assert _label("0000", *told).persistence == 1


def test_a_thin_draw_says_nothing_of_persistence():
  thin = _told("0???", 2, minimum_valid=2)
  assert _label("0000", *_drawn(1, "blind"), thin).persistence == 2
  # A thin group beside one of the same step that was labelled.
  group, labels = _drawn(3, "blind")
  second = _told("0???", 3, minimum_valid=2, id="second")
  assert _label("0000", group, second, labels).persistence == 2


def test_probes_and_second_groups_are_no_draws_of_their_own():
  group, labels = _drawn(1, "blind")
  second = _told("0000", 1, id="second")
  labels = msgspec.structs.replace(labels, groups=("g1", "second"))
  probe = _told("0000", 1, id="probe", kind="probe")
  assert _label("0000", group, second, labels, probe).persistence == 2


def test_the_first_confidence_is_chosen():
  told = [_told("0000", 0), *_drawn(1, "blind")]
  label = _label("0000", *told, computed_confidence=0.6)
  assert label.confidence == pytest.approx(0.8)


SATURATED = (makes.label(A), makes.label(B, "saturated", "full"))


def _is_saturated(
  labels=SATURATED,
  mass=0.3,
  before=NOTHING,
  last_mass=0.4,
  next_level=0.61,
  **knobs,
):
  return attribution.is_saturated(
    labels,
    mass,
    before,
    last_mass=last_mass,
    next_level=next_level,
    knobs=KNOBS._replace(**knobs),
  )


def test_a_saturated_criterion_and_a_lower_mass_make_a_saturated_task():
  assert _is_saturated()
  assert not _is_saturated(labels=SATURATED[:1])
  assert not _is_saturated(mass=0.4)
  assert not _is_saturated(mass=0.5)


def test_a_mass_that_is_missing_is_not_lower():
  assert not _is_saturated(mass=None)
  assert not _is_saturated(last_mass=NAN)


def test_the_mass_of_the_last_change_does_not_matter_without_memory():
  assert _is_saturated(has_history=False, last_mass=NAN)
  assert _is_saturated(has_history=False, mass=0.5)
  assert not _is_saturated(has_history=False, labels=SATURATED[:1])
  assert not _is_saturated(has_history=False, mass=None)


def _masses(*counts):
  """Draws of four criteria, of which so many separate."""
  targets = [makes.target(number) for number in range(4)]
  return makes.story(
    *(
      makes.group(
        {t: "10" if n < count else "11" for n, t in enumerate(targets)},
        step=step,
      )
      for step, count in enumerate(counts)
    )
  )


def test_after_a_thin_cold_start_the_first_mass_counts():
  # Masses 0.5 and 0.25 were seen.
  before = _masses(2, 1)
  assert _is_saturated(mass=0.3, before=before, last_mass=NAN)
  assert not _is_saturated(mass=0.5, before=before, last_mass=NAN)
  # A level that changed has its own.
  assert not _is_saturated(mass=0.3, before=before, last_mass=0.3)


def test_the_stricter_rule_also_asks_for_a_mass_below_the_level():
  def strictly(**others):
    return _is_saturated(mass_below_level=True, last_mass=0.9, **others)

  assert strictly(mass=0.61)
  assert not strictly(mass=0.62)
  assert not strictly(next_level=None)
  # And at most the median of the two records before: (0.5 + 0.25) / 2.
  before = _masses(4, 2, 1)
  assert strictly(mass=0.375, before=before)
  assert not strictly(mass=0.376, before=before)
  # A thin record has no mass; the two before it count.
  thin = makes.group({A: "1?"}, step=9, minimum_valid=2)
  before = history.extend(before, thin, history.Place(9, 1))
  assert strictly(mass=0.375, before=before)
  assert not strictly(mass=0.376, before=before)
  assert not _is_saturated(mass_below_level=True, last_mass=0.3)
