import pytest

from hrl_jax.harness import cases, records
from tests.methods.harnessrl import stubs, world

A, S, Z = ("t0#0", 0), ("t0#3", 0), ("t0#4", 0)


def quotes(*places, text="a"):
  return tuple(records.Quote(place, text) for place in places)


def suspects(target, cited, generic=(), problems=()):
  suspicion = cases.Suspicion(target, "length_gaming", cited, 0.7)
  return lambda case: cases.Attribution((suspicion,), generic, problems)


def labels_of(roles, **options):
  run = world.run(roles, world.scripted(), **options)
  run.step(run.start(), 0, draws=[0])
  (labels,) = run.memory.of(records.Labels)
  return labels


def test_roles_are_shown_what_was_recorded_and_no_more():
  roles = stubs.Roles()
  run = world.run(roles, world.scripted(z="1" * 8), anchor_share=0.5)
  run.step(run.start(), 0, draws=[0])
  (case,) = roles.attributed
  (group,) = run.memory.of(records.Group, kind="train")
  assert (case.step, case.task) == (0, "t0")
  assert case.prompt == run.tasks.tasks[0].prompt
  assert case.responses == tuple(r.text for r in group.rollouts)
  # The first rollout has a, b, c and s: 8 of 12.
  assert case.rewards[0] == pytest.approx(100 * 8 / 12)
  views = {view.text: view for view in case.criteria}
  assert [*views] == [text for text, _ in world.CRITERIA]
  assert views["Has a."].points == 25.0
  assert views["Has d."].points == -100 / 12
  assert views["Has a."].met == (True,) * 4 + (False,) * 4
  assert views["Has a."].is_anchor and not views["Has c."].is_anchor
  computed = {text: (v.label, v.reason) for text, v in views.items()}
  assert computed["Has b."] == ("agree", "separates")
  assert computed["Has z."] == ("blind", "never_met")
  assert computed["Has s."] == ("agree", "not_yet")


def test_a_hack_that_is_quoted_is_believed_and_its_wording_checked():
  def wording(case, targets):
    return cases.Wording({target: "Has a" for target in targets})

  roles = stubs.Roles(None, suspects(A, quotes(0, 1)), wording)
  labels = labels_of(roles)
  first = labels.labels[0]
  assert (first.name, first.route) == ("spurious", "rubric")
  assert first.reason == "length_gaming"
  assert first.quotes == quotes(0, 1)
  assert (first.confidence, first.wording) == (0.7, "Has a")
  ((_, targets),) = roles.worded
  assert targets == [A]
  # What the proposer sees has the final label.
  (case,) = roles.proposed
  assert case.case.criteria[0].label == "spurious"
  assert case.labels == labels.labels
  assert labels.author == "fake" and labels.problems == ()


def test_generic_criteria_are_flagged_and_their_wording_checked_too():
  roles = stubs.Roles(
    None,
    lambda case: cases.Attribution(generic=((S, quotes(0, 7, text="s")),)),
  )
  labels = labels_of(roles)
  assert labels.labels[3].is_generic
  assert labels.labels[3].name == "agree"
  assert [targets for _, targets in roles.worded] == [[S]]


def test_nonsense_changes_nothing_and_stays_in_the_log():
  attribute = suspects(
    A,
    quotes(0, 5),  # The sixth rollout has no a.
    generic=((S, quotes(3, text="never said")),),
    problems=("could not be read",),
  )
  nonsense = labels_of(stubs.Roles(None, attribute))
  sensible = labels_of(stubs.Roles())
  told = [each.partition(":")[0] for each in nonsense.problems]
  assert told == ["could not be read", "t0#0", "t0#3"]
  assert nonsense.labels[0].reason == "unsupported"
  assert nonsense.labels[1:] == sensible.labels[1:]
  assert not any(each.name == "spurious" for each in nonsense.labels)


def test_an_accusation_of_what_is_not_asked_about_is_not_believed():
  expected = labels_of(stubs.Roles()).labels
  for target in (Z, S, ("nobody#9", 3)):
    roles = stubs.Roles(None, suspects(target, quotes(0, 1, text="s")))
    assert labels_of(roles).labels == expected
    assert not roles.worded


def test_a_phrase_that_is_not_in_the_criterion_is_no_wording():
  def wording(case, targets):
    return cases.Wording({A: "Contains a"}, ("half a JSON",))

  labels = labels_of(stubs.Roles(None, suspects(A, quotes(0, 1)), wording))
  assert labels.labels[0].name == "spurious"
  assert labels.labels[0].wording is None
  assert labels.problems[0] == "half a JSON"
  assert "does not hold 'Contains a'" in labels.problems[1]


def test_a_task_is_saturated_once_what_is_full_has_lowered_its_mass():
  run = world.run(stubs.Roles(), world.scripted())
  state = run.start()
  # Full at the cold start and step 0: saturated at step 1.
  state = run.step(state, 0, draws=[0])
  state = run.step(state, 1, draws=[0])
  run.world.engine.answer = world.scripted(
    {"a": "1" * 4 + "0" * 4, "s": "1" * 8}
  )
  run.step(state, 2, draws=[0])
  labels = run.memory.of(records.Labels)
  names = [each.labels[3].name for each in labels]
  assert names == ["agree", "saturated", "saturated"]
  # The mass falls from 3 of 6 to 1 of 6 at the last step only.
  assert [each.is_saturated for each in labels] == [False, False, True]
