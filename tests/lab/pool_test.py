import numpy as np
import pytest

from hrl_jax import base
from hrl_jax.lab import judge, language, pool
from hrl_jax.lab import world as worlds
from hrl_jax.lab.parameters import Parameters

WORLD = worlds.draw(3, Parameters(train_tasks=12, held_out_tasks=4))


def test_every_sentence_can_be_decided_and_is_new_to_the_task():
  for task in WORLD.train:
    seeds = {criterion.text for criterion in task.rubric}
    sentences = pool.pool(WORLD, task.id)
    assert len(set(sentences)) == len(sentences) > 3
    assert not seeds.intersection(sentences)
    assert all(language.checker(text) for text in sentences)


def test_it_holds_refinements_among_more_decoys():
  for task in WORLD.train:
    sentences = pool.pool(WORLD, task.id)
    good = [t for t in sentences if pool.is_refinement(WORLD, task.id, t)]
    assert good
    assert len(sentences) - len(good) >= len(good)


def test_a_gameable_criterion_has_wordings_of_both_kinds():
  for task in WORLD.train:
    sentences = pool.pool(WORLD, task.id)
    for kind, criterion in zip(WORLD.kinds[task.id], task.rubric, strict=True):
      beside = [
        pool.is_refinement(WORLD, task.id, text)
        for text in sentences
        if criterion.text in language.split(text)
      ]
      # Two tightenings of a gameable criterion, and two that gain nothing.
      expected = [False, False, True, True] if kind == "gameable" else []
      assert sorted(beside) == expected


def test_the_order_tells_nothing_and_is_the_same_every_time():
  firsts = []
  for task in WORLD.train:
    sentences = pool.pool(WORLD, task.id)
    assert sentences == pool.pool(WORLD, task.id)
    firsts.append(pool.is_refinement(WORLD, task.id, sentences[0]))
  assert 0 < sum(firsts) < len(firsts)


def test_the_judge_grades_what_the_pool_and_the_rubrics_say():
  task = WORLD.train[0]
  texts = [c.text for c in task.rubric] + [*pool.pool(WORLD, task.id)]
  rubric = tuple(base.Criterion(text, 1.0) for text in (*texts, "Is kind."))
  request = base.GradeRequest(
    base.Occasion(0, "train"), 0, 0, 0, task.prompt, "amber gold", rubric
  )
  (grade,) = judge.LabJudge(WORLD).grade([request])
  assert np.isnan(grade.scores_C).tolist() == [False] * len(texts) + [True]
  (failure,) = grade.failures
  assert failure.criterion == len(texts) and "Is kind." in failure.reason


def test_an_unknown_task_is_refused():
  with pytest.raises(ValueError, match="no task 'x'"):
    pool.pool(WORLD, "x")
