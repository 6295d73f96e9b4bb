import numpy as np
import pytest

from hrl_jax.lab import language, lexicon, rubrics
from hrl_jax.lab import world as worlds
from hrl_jax.lab.parameters import Parameters

pytestmark = pytest.mark.core

WORLD = worlds.draw(0, Parameters())
TASKS = (*WORLD.train, *WORLD.held_out)


def kinds_of(task):
  return list(zip(WORLD.kinds[task.id], task.rubric, strict=True))


def mentioned(criterion):
  (clause,) = language.parse(criterion.text)
  return clause.slots.get("fact")


def test_a_seed_draws_the_same_world_and_another_seed_another():
  assert worlds.draw(0, Parameters()) == WORLD
  other = worlds.draw(1, Parameters())
  assert other.questions != WORLD.questions
  assert {task.prompt for task in other.train}.isdisjoint(
    task.prompt for task in WORLD.train
  )


def test_sizes_are_those_of_the_parameters():
  assert (len(WORLD.train), len(WORLD.held_out)) == (256, 64)
  assert len(WORLD.questions) == 5 * 8
  # 8 right facts and 4 wrong ones in each of 5 domains, none of them twice.
  assert len(WORLD.words) == 5 * (8 + 4)
  for domain in lexicon.DOMAINS:
    own = [q for q in WORLD.questions.values() if q.domain == domain]
    assert sum(question.knowledge == 0 for question in own) == 2
    assert sum(question.is_neglected for question in own) == 2
    assert sum(question.is_covered for question in own) == 4


def test_a_prompt_asks_three_to_five_questions_of_its_domain():
  for task in TASKS:
    asked = WORLD.asked[task.id]
    (turn,) = task.prompt
    assert turn.content == f"Explain in {task.domain}: {' '.join(asked)}"
    assert 3 <= len(set(asked)) == len(asked) <= 5
    assert {WORLD.questions[word].domain for word in asked} == {task.domain}


def test_no_two_tasks_ask_the_same_questions():
  sets = {frozenset(WORLD.asked[task.id]) for task in TASKS}
  assert len(sets) == len({task.id for task in TASKS}) == len(TASKS)


def test_rubrics_have_their_size_and_whole_weights():
  for task in TASKS:
    assert 8 <= len(task.rubric) <= 12
    assert len({criterion.text for criterion in task.rubric}) == len(
      task.rubric
    )
    for kind, criterion in kinds_of(task):
      assert abs(criterion.weight) in (1, 2, 3, 4, 5)
      assert (criterion.weight < 0) is (kind == "penalty")
      assert language.checker(criterion.text) is not None
      assert criterion.checker is None


def test_a_rubric_asks_for_some_of_the_facts_only():
  for task in TASKS:
    facts = set(WORLD.facts(task.id))
    asked = {
      mentioned(criterion)
      for kind, criterion in kinds_of(task)
      if kind in ("aligned", "blind")
    }
    assert asked < facts


def test_kinds_are_what_they_are_called():
  by_fact = {q.fact: q for q in WORLD.questions.values()}
  for task in TASKS:
    own = [WORLD.questions[word] for word in WORLD.asked[task.id]]
    kinds = [kind for kind, _ in kinds_of(task)]
    assert set(kinds) >= {"aligned", "gameable", "saturated", "blind"}
    for kind, criterion in kinds_of(task):
      fact = mentioned(criterion)
      if kind == "aligned":
        assert by_fact[fact].is_covered and by_fact[fact] in own
      elif kind == "blind":
        assert by_fact[fact].knowledge == 0 and by_fact[fact] in own
      elif kind == "penalty" and fact is not None:
        assert fact in {question.misconception for question in own}


def test_half_of_the_tasks_have_penalties_which_are_a_tenth_of_the_criteria():
  counts = [WORLD.kinds[task.id].count("penalty") for task in TASKS]
  assert set(counts) == {0, 2}
  # Three standard deviations of a share of 320: 0.084.
  assert abs(np.mean([count > 0 for count in counts]) - 0.5) < 0.084
  share = sum(counts) / sum(len(task.rubric) for task in TASKS)
  assert 0.08 < share < 0.13


def test_the_place_of_a_criterion_tells_nothing_of_its_kind():
  firsts = {WORLD.kinds[task.id][0] for task in TASKS}
  assert firsts == {"aligned", "gameable", "saturated", "blind", "penalty"}


def test_what_is_not_there_is_said():
  with pytest.raises(ValueError, match="no task 'x'"):
    WORLD.facts("x")
  with pytest.raises(ValueError, match="no task 'x'"):
    WORLD.task("x")


def test_more_than_there_is_is_refused():
  with pytest.raises(ValueError, match="words for questions"):
    worlds.draw(0, Parameters(questions=40))
  with pytest.raises(ValueError, match="different sets of questions"):
    worlds.draw(0, Parameters(questions=5, train_tasks=400))


def test_kinds_that_make_no_rubric_of_the_size_are_refused():
  own = [WORLD.questions[word] for word in WORLD.asked["train-0"]]
  wrong = Parameters(fewest_criteria=40, most_criteria=50)
  with pytest.raises(ValueError, match="No rubric of 40 to 50 criteria"):
    rubrics.draw(np.random.default_rng(0), wrong, own)
