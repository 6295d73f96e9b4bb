import pytest

from hrl_jax.harness import cases, changes, rubrics, terms
from hrl_jax.methods.harnessrl import routing
from tests.methods.harnessrl import labels, stubs, world

pytestmark = pytest.mark.core

ALL = terms.INTERFACES
SPURIOUS = ("spurious", "agree", "agree", "saturated", "blind", "agree")
SECONDARY = ("agree", "agree", "agree", "saturated", "blind", "agree")


def worth(labelled, *interfaces, cap=3):
  return routing.is_worth_asking(labelled, interfaces or ALL, cap)


def test_a_task_that_agrees_is_not_worth_asking_about():
  assert not worth(labels.labelled())
  assert not worth(labels.labelled(()))


@pytest.mark.parametrize(
  ("labelled", "interface"),
  [
    (labels.labelled(saturated=True), "sampling"),
    (labels.labelled(fields=[labels.field("criterion", 4)]), "rollout"),
    (labels.labelled(("spurious", *labels.NAMES[1:])), "rubric"),
    (labels.labelled(generic=(3,)), "rubric"),
    (labels.labelled(("saturated", *labels.NAMES[1:])), "rubric"),
  ],
)
def test_each_interface_has_its_own_reasons(labelled, interface):
  assert worth(labelled)
  for name in ALL:
    assert worth(labelled, name) is (name == interface)


def test_a_blind_criterion_is_for_guidance_until_the_cap_ends_it():
  blind = labels.labelled(("blind", *labels.NAMES[1:]))
  assert worth(blind, "rollout")
  assert not worth(blind, "rollout", cap=0)
  assert worth(blind, "rubric", cap=0)


def primary(names, *operations, generic=(), interface="rubric"):
  found = labels.labelled(names, generic=generic)
  return routing.is_primary(found, interface, operations)


CREATE = changes.Create("Has q.", 1.0)


@pytest.mark.parametrize(
  ("names", "operations", "expected"),
  [
    (SPURIOUS, [changes.Rewrite("t0#0", "Has q.")], True),
    # The paper's step 280: others change for the spurious one's sake.
    (SPURIOUS, [changes.Reweight("t0#1", 1.0)], True),
    (SPURIOUS, [CREATE], True),
    (SPURIOUS, [changes.Delete("t0#3")], False),
    (SPURIOUS, [changes.Delete("t0#3"), CREATE], True),
    (SPURIOUS, [changes.Delete("t0#3"), changes.Delete("t0#0")], True),
    (SECONDARY, [changes.Delete("t0#3")], False),
    (SECONDARY, [CREATE], False),
  ],
)
def test_which_rubric_candidates_a_label_asked_for(names, operations, expected):
  assert primary(names, *operations) is expected


def test_generic_criteria_get_secondary_operations():
  rewrite = changes.Rewrite("t0#3", "Has q.")
  names = ("spurious", *labels.NAMES[1:])
  assert not primary(names, rewrite, generic=(3,))


def test_other_interfaces_have_no_secondary_candidates():
  assert primary(labels.NAMES, changes.Lower(), interface="sampling")
  assert primary(labels.NAMES, changes.Drop("criterion"), interface="rollout")


def problem(labelled, interface, *operations, cap=3, archive=(), **knobs):
  made = world.made(stubs.Memory(world.bank(1)), **knobs)
  candidate = changes.Candidate(
    id="x",
    step=3,
    task="t0",
    interface=interface,
    operations=operations,
    is_primary=True,
    round=0,
    rubric_version=0,
    potential=0.0,
    is_grounded=False,
    evidence=(),
    rationale="",
    author="fake",
  )
  rubric = labelled.draw.harness.rubric
  case = cases.ProposalCase(
    case=labelled.case,
    labels=labelled.record.labels,
    is_saturated=labelled.record.is_saturated,
    level=labelled.draw.harness.level,
    fields=labelled.draw.harness.fields,
    cap=cap,
    donations={},
    archive=archive,
    interfaces=ALL,
    lowest=rubric.lowest,
    highest=rubric.highest,
    most=rubric.most,
    writes=True,
  )
  found = routing.problem(made, labelled, case, candidate)
  return found and found.code


def test_a_level_falls_only_for_a_saturated_task_and_never_below_the_lowest():
  assert problem(labels.labelled(), "sampling", changes.Lower()) == (
    "unsaturated"
  )
  for level, code in ((0, None), (2, None), (3, "lowest")):
    found = labels.labelled(saturated=True, level=level)
    assert problem(found, "sampling", changes.Lower()) == code


def add(*numbers, kind="criterion"):
  return changes.Add(kind, tuple(map(labels.target, numbers)), "Has z.")


def test_guidance_is_for_blind_criteria():
  found = labels.labelled(SPURIOUS)
  assert problem(found, "rollout", add(4)) is None
  assert problem(found, "rollout", add(4, 0)) == "unrouted"
  unknown = changes.Add("criterion", (("t0#4", 1),), "Has z.")
  assert problem(found, "rollout", unknown) == "unrouted"


def test_a_field_is_about_three_criteria_at_most():
  found = labels.labelled(("blind",) * 6)
  assert problem(found, "rollout", add(0, 1, 2)) is None
  assert problem(found, "rollout", add(0, 1, 2, 3)) == "targets"


def test_a_field_goes_only_when_none_of_its_targets_is_blind():
  mounted = labels.field("criterion", 3, 4)
  drop = changes.Drop("criterion")
  still = labels.labelled(SPURIOUS, fields=[mounted])
  assert problem(still, "rollout", drop) == "blind"
  # In exchange for another it may go.
  assert problem(still, "rollout", drop, add(4)) is None
  assert problem(labels.labelled(fields=[mounted]), "rollout", drop) is None


def test_what_could_not_be_mounted_is_refused():
  found = labels.labelled(SPURIOUS)
  assert problem(found, "rollout", add(4), cap=0) == "cap"
  assert problem(found, "rollout", changes.Drop("critique")) == "unmounted"
  assert problem(found, "rollout", add(4, kind="reference")) == "donor"
  assert problem(found, "rollout", add(4), guidance_tokens=1) == "long"
  assert problem(found, "rollout", add(4), prompt_tokens=9) == "long"


def test_rubric_operations_need_a_label_that_calls_for_them():
  delete = changes.Delete("t0#1")
  assert problem(labels.labelled(SPURIOUS), "rubric", delete) is None
  assert problem(labels.labelled(SECONDARY), "rubric", delete) == "unrouted"
  assert problem(labels.labelled(), "rubric", CREATE) == "unrouted"
  secondary = labels.labelled(SECONDARY)
  assert problem(secondary, "rubric", CREATE) is None
  for number in (3, 4):
    delete = changes.Delete(f"t0#{number}")
    assert problem(secondary, "rubric", delete) is None
  generic = labels.labelled(generic=(1,))
  assert problem(generic, "rubric", changes.Rewrite("t0#1", "Has q.")) is None


def test_rubric_operations_rest_on_labels_that_are_certain_enough():
  rewrite = changes.Rewrite("t0#0", "Has q.")
  for confidence, code in ((0.49, "doubtful"), (0.5, None)):
    found = labels.labelled(SPURIOUS, confidences=[(0, confidence)])
    assert problem(found, "rubric", rewrite) == code
    # A new criterion rests on what is spurious.
    assert problem(found, "rubric", CREATE) == code
  found = labels.labelled(SECONDARY, confidences=[(3, 0.1), (4, 0.9)])
  assert problem(found, "rubric", CREATE) is None
  assert problem(found, "rubric", changes.Delete("t0#3")) == "doubtful"


def test_what_a_rubric_may_not_become_is_refused():
  found = labels.labelled(SPURIOUS)
  assert problem(found, "rubric", changes.Delete("t0#77")) == "unknown"
  restore = changes.Create("Has q.", 1.0, restores="t0#9")
  assert problem(found, "rubric", restore) == "unknown"
  gone = (terms.Version("t0#9", 0, "Has q.", 1, "create"),)
  assert problem(found, "rubric", restore, archive=gone) is None


def test_the_criteria_that_operations_are_about():
  draw = labels.labelled(fields=[labels.field("criterion", 4, 3)]).draw
  operations = (
    changes.Lower(),
    changes.Drop("criterion"),
    changes.Drop("critique"),
    add(4, 2),
    changes.Merge(("t0#0", "t0#1"), "Has q."),
    changes.Rewrite("nobody", "Has q."),
    CREATE,
  )
  assert routing.targets(draw, operations) == tuple(
    labels.target(number) for number in (4, 3, 2, 0, 1)
  )
  assert rubrics.seed(labels.TASK) == draw.harness.rubric
