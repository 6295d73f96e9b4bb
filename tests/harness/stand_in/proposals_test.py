import hypothesis
import msgspec
import pytest

from hrl_jax.harness import cases, changes, operations, terms
from hrl_jax.harness.answers import proposal as answers
from hrl_jax.harness.prompts import forms
from hrl_jax.harness.stand_in import proposals
from tests.harness import drawn, makes, role_cases
from tests.harness.stand_in import random_cases

pytestmark = pytest.mark.core

# c1 and c6 are blind, c2 is spurious, c3 saturated; a critique is mounted.
CASE = role_cases.PROPOSAL_CASE._replace(
  fields={}, cap=3, pool=("names pores", "names a gas")
)
C1, C2, C3, C4, C5, C6, C7 = (role_cases.target(n) for n in range(1, 8))
TEXTS = {view.target: view.text for view in CASE.case.criteria}

Add, Drop = changes.Add, changes.Drop


def _proposal(case=CASE, **others):
  return proposals.proposal(case._replace(**others))


def _relabelled(case, **names):
  """The case with other labels, such as `c2="agree"`."""
  labels = tuple(
    msgspec.structs.replace(label, name=names.get(f"c{number}", label.name))
    for number, label in enumerate(case.labels, start=1)
  )
  return case._replace(labels=labels)


def _reviewed(case, number, **others):
  """The case with another view of a criterion."""
  criteria = list(case.case.criteria)
  criteria[number - 1] = criteria[number - 1]._replace(**others)
  return case._replace(case=case.case._replace(criteria=tuple(criteria)))


def _rejection(*proposed, code="below"):
  update = makes.update(*proposed, is_accepted=False)
  decision = changes.Decision(False, code)
  return cases.Rejection(update.candidate, update.measurement, decision)


def test_a_saturated_task_is_drawn_less_often():
  assert _proposal(level=2).sampling == (changes.Lower(),)
  assert _proposal(is_saturated=False).sampling == ()
  assert _proposal(level=3).sampling == ()
  assert _proposal(interfaces=("rollout", "rubric")).sampling == ()


def test_blind_criteria_get_guidance_heaviest_first():
  # c6 has 30 points, c1 has 20; only c6 has a response to learn from.
  lines = f"{TEXTS[C6]}\n{TEXTS[C1]}"
  criterion = Add("criterion", (C6, C1), lines)
  reference = Add("reference", (C6,), "")
  critique = Add("critique", (C6, C1), f"The last answers fell short:\n{lines}")
  assert _proposal().rollout == (criterion, reference)
  assert _proposal(donations={}).rollout == (criterion, critique)
  assert _proposal(cap=1).rollout == (criterion,)
  assert _proposal(cap=0).rollout == ()
  assert _proposal(interfaces=("rubric",)).rollout == ()


def test_a_reference_shows_what_is_good():
  only_bad = {C6: CASE.donations[C6][1:]}
  kinds = [add.field for add in _proposal(donations=only_bad).rollout]
  assert kinds == ["criterion", "critique"]


def test_a_penalty_is_to_be_avoided():
  case = _relabelled(CASE, c1="agree", c6="agree", c4="blind")
  assert _proposal(case).rollout[0] == Add(
    "criterion", (C4,), f"Avoid this: {TEXTS[C4]}"
  )


def test_a_field_has_three_targets_at_most():
  case = _relabelled(CASE, c2="blind", c3="blind", c5="blind")
  # 30 points of c2 and c6, then 20 of c1 and c5; ties by name.
  assert _proposal(case).rollout[0].targets == (C2, C6, C1)


def test_a_field_whose_targets_left_blind_is_withdrawn_first():
  fields = {
    "critique": makes.field("critique", C3),
    "criterion": makes.field("criterion", C2, C7),
    "reference": makes.field("reference", C7, C1),
  }
  found = _proposal(fields=fields).rollout
  assert found == (Drop("criterion"), Drop("critique"))


def test_what_may_not_go_is_joined_by_another_field():
  fields = {"critique": makes.field("critique", C3)}
  rejected = (_rejection(Drop("critique")),)
  found = _proposal(fields=fields, rejections=rejected).rollout
  assert [add.field for add in found] == ["criterion", "reference"]
  found = _proposal(fields=fields, rejections=rejected, cap=2).rollout
  assert [add.field for add in found] == ["criterion"]
  assert _proposal(fields=fields, rejections=rejected, cap=1).rollout == ()


def test_without_a_blind_criterion_nothing_is_mounted():
  case = _relabelled(CASE, c1="agree", c6="agree")
  assert _proposal(case).rollout == ()


def test_kinds_that_failed_before_come_last():
  failed = makes.update(Add("criterion", (C1,), "a"), is_accepted=False)
  passed = makes.update(Add("reference", (C1,), "a"))
  kinds = [add.field for add in _proposal(updates=(failed, passed)).rollout]
  assert kinds == ["reference", "critique"]
  now = (_rejection(Add("reference", (C6,), "a"), Add("critique", (C6,), "a")),)
  kinds = [add.field for add in _proposal(rejections=now).rollout]
  assert kinds == ["criterion", "reference"]


def _primary(case=CASE, **others):
  """Operations on the spurious c2."""
  return tuple(
    each
    for each in _proposal(case, **others).rubric
    if C2[0] in operations.touches(each)
  )


REWRITTEN = makes.update(changes.Rewrite("t#9", "is kind"))


def test_a_spurious_criterion_is_rewritten_if_there_are_words():
  assert _primary(updates=(REWRITTEN,)) == (
    changes.Rewrite(C2[0], "names pores"),
  )


@pytest.mark.parametrize(
  "others",
  [
    {"pool": ()},
    {"writes": False},
    {"rejections": (_rejection(changes.Delete("t#9"), code="above"),)},
  ],
)
def test_without_words_it_counts_for_less_or_goes(others):
  assert _primary(**others) == (changes.Reweight(C2[0], 1.0),)
  lowest = _reviewed(CASE, 2, raw=1.0)
  assert _primary(lowest, **others) == (changes.Delete(C2[0]),)
  penalty = _reviewed(CASE, 2, raw=-3.0)
  assert _primary(penalty, **others) == (changes.Reweight(C2[0], -1.0),)


def test_the_words_of_an_anchor_stay():
  anchor = _reviewed(CASE, 2, is_anchor=True)
  assert _primary(anchor) == (changes.Reweight(C2[0], 1.0),)
  lowest = _reviewed(anchor, 2, raw=1.0)
  assert _primary(lowest) == ()


def test_the_surest_suspicion_is_acted_on():
  case = _relabelled(CASE, c7="spurious")
  assert _primary(case)
  labels = [*case.labels]
  labels[6] = msgspec.structs.replace(labels[6], confidence=0.9)
  found = _proposal(case._replace(labels=tuple(labels))).rubric
  assert operations.touches(found[0]) == (C7[0],)
  assert _primary(case._replace(labels=tuple(labels))) == ()


def _generic(case, *numbers):
  """The case with full criteria that boilerplate meets."""
  labels = [
    msgspec.structs.replace(
      label,
      name="saturated" if n in numbers else label.name,
      is_generic=n in numbers,
    )
    for n, label in enumerate(case.labels, start=1)
  ]
  return case._replace(labels=tuple(labels))


# No criterion is spurious or generic, and the task is not saturated.
QUIET = _relabelled(_generic(CASE), c2="agree")._replace(is_saturated=False)


def test_what_is_met_by_what_it_asks_for_keeps_its_weight():
  full = _relabelled(QUIET, c3="saturated")
  assert _proposal(full).rubric == ()


def test_what_boilerplate_meets_is_tightened():
  case = _generic(QUIET, 3)
  assert _proposal(case, updates=(REWRITTEN,)).rubric == (
    changes.Rewrite(C3[0], "names pores"),
  )
  # c3 has the least weight already; c5 is an anchor.
  case = _generic(QUIET, 3, 5)
  assert _proposal(case, pool=()).rubric == (
    changes.Delete(C3[0]),
    changes.Reweight(C5[0], 1.0),
  )
  assert _proposal(case, writes=False) == _proposal(case, pool=())


def test_a_wording_that_asks_for_more_comes_before_another():
  tighter = f"{TEXTS[C2].rstrip('.')} and names ink"
  case = CASE._replace(pool=("names pores", tighter), updates=(REWRITTEN,))
  assert _primary(case)[0].text == tighter
  quiet = QUIET._replace(is_saturated=True, pool=(tighter,))
  assert _proposal(_relabelled(quiet, c3="saturated")).rubric == ()


def test_two_secondary_operations_at_most_and_none_on_penalties():
  case = _generic(QUIET, 1, 3, 4, 5, 7)
  assert _proposal(case, pool=()).rubric == (
    changes.Reweight(C1[0], 1.0),
    changes.Delete(C3[0]),
  )
  penalty = _generic(_reviewed(QUIET, 3, raw=-2.0), 3)
  assert _proposal(penalty).rubric == ()


def test_a_saturated_task_is_asked_something_new():
  case = QUIET._replace(is_saturated=True, updates=(REWRITTEN,))
  case = _relabelled(case, c3="saturated")
  raws = sorted(v.raw for v in case.case.criteria if v.raw > 0)
  weight = raws[(len(raws) - 1) // 2]
  assert _proposal(case).rubric == (changes.Create("names pores", weight),)
  assert _proposal(case, pool=()).rubric == ()
  assert _proposal(case, most=len(case.case.criteria)).rubric == ()
  # Three at most: what was rejected does not count.
  create = changes.Create("is kind", 1.0)
  rejected = makes.update(create, is_accepted=False)
  for count, expected in ((2, 1), (3, 0)):
    made = (rejected, *[makes.update(create)] * count)
    assert len(_proposal(case, updates=made).rubric) == expected


def test_no_two_operations_say_the_same():
  case = _generic(CASE, 3)._replace(updates=(REWRITTEN,))
  assert _proposal(case).rubric == (
    changes.Rewrite(C2[0], "names pores"),
    changes.Rewrite(C3[0], "names a gas"),
  )


def test_blind_criteria_count_for_less_once_guidance_has_ended():
  case = _relabelled(QUIET, c3="agree")
  assert _proposal(case).rubric == ()
  assert _proposal(case, cap=0).rubric == (
    changes.Reweight(C1[0], 1.0),
    changes.Reweight(C6[0], 1.0),
  )


def test_a_second_round_revises_what_a_label_asked_for_only():
  for said, other in (CASE.pool, CASE.pool[::-1]):
    rejected = (_rejection(changes.Rewrite(C2[0], said)),)
    assert _proposal(rejections=rejected).rubric == (
      changes.Rewrite(C2[0], other),
    )


def test_the_rubric_may_be_closed():
  assert _proposal(interfaces=("sampling", "rollout")).rubric == ()


@pytest.mark.parametrize(
  "tried",
  [
    changes.Rewrite("t#9", "names pores"),
    changes.Create("names pores", 1.0),
    changes.Merge(("t#8", "t#9"), "names pores"),
    changes.Split("t#9", ("is kind", "names pores")),
  ],
)
def test_no_sentence_is_tried_twice(tried):
  for is_accepted in (True, False):
    update = makes.update(tried, is_accepted=is_accepted)
    assert _primary(updates=(update,))[0].text == "names a gas"
  both = makes.update(changes.Create("names a gas", 1.0))
  assert _primary(updates=(update, both)) == (changes.Reweight(C2[0], 1.0),)


def test_a_sentence_of_the_rubric_is_not_said_again():
  case = _reviewed(CASE, 7, text="names pores")
  assert _primary(case)[0].text == "names a gas"


def test_without_a_history_it_turns_with_the_step():
  said = []
  for step in range(20):
    case = CASE._replace(case=CASE.case._replace(step=step))
    (operation,) = _primary(case)
    assert _primary(case) == (operation,)
    said.append(operation.text)
  assert {*said} == {*CASE.pool}


def _written(proposal, case):
  """A proposal as an LLM would have answered it."""
  by_interface = {
    name: [forms.written(each, case) for each in getattr(proposal, name)]
    for name in ("rollout", "rubric")
  }
  return {
    "rationale": proposal.rationale,
    "sampling": {"op": "reweight"} if proposal.sampling else None,
    **{name: found or None for name, found in by_interface.items()},
    "evidence": None,
  }


@hypothesis.settings(max_examples=400)
@hypothesis.given(drawn.RANDOMS)
def test_it_takes_only_what_an_llm_is_offered(random):
  case = random_cases.proposal_case(random)
  proposal = proposals.proposal(case)
  assert answers.read(_written(proposal, case), case) == proposal
  changed = {name for name in terms.INTERFACES if getattr(proposal, name)}
  assert changed <= {*case.interfaces}


@hypothesis.settings(max_examples=400)
@hypothesis.given(drawn.RANDOMS)
def test_every_sentence_is_of_the_pool_and_new(random):
  case = random_cases.proposal_case(random)
  told = [update.candidate for update in case.updates]
  told += [rejection.candidate for rejection in case.rejections]
  tried = {view.text for view in case.case.criteria}
  for operation in (each for of in told for each in of.operations):
    if not isinstance(operation, changes.Add):
      tried |= {
        getattr(operation, "text", ""),
        *getattr(operation, "texts", ()),
      }
  for operation in proposals.proposal(case).rubric:
    for text in operations.texts(operation):
      assert text in case.pool
      assert text not in tried
      assert case.writes
