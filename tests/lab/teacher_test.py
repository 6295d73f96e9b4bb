import numpy as np
import pytest

from hrl_jax.harness import guidance
from hrl_jax.lab import language, lexicon, teacher
from hrl_jax.lab import world as worlds
from hrl_jax.lab.parameters import Parameters

pytestmark = pytest.mark.core

WORLD = worlds.draw(0, Parameters())
UNKNOWN = {q.fact for q in WORLD.questions.values() if q.knowledge == 0}


def examples(world=WORLD, count=2000):
  rng = np.random.default_rng(0)
  return [teacher.example(world, rng) for _ in range(count)]


def is_guided(example):
  return guidance.CLOSING in example.prompt[0].content


def requested(example):
  """The sentences of a criterion field that stands alone."""
  content = example.prompt[0].content
  if "<criterion>" not in content or "<reference>" in content:
    return []
  if "<critique>" in content:
    return []
  lines = content.split("<criterion>\n")[1].split("\n</criterion>")[0]
  return [line for line in lines.split("\n") if language.checker(line)]


def test_texts_follow_from_the_generator():
  assert examples(count=50) == examples(count=50)


def test_the_share_with_guidance_is_the_parameters():
  share = np.mean([is_guided(each) for each in examples()])
  # Three standard deviations of a share of 2,000.
  assert abs(share - WORLD.parameters.guided) < 0.031


def test_every_answer_is_of_the_lexicon():
  for example in examples():
    assert set(example.response) <= set(lexicon.WORDS)
    assert 1 <= len(example.response) <= 22


def test_the_unknown_is_never_said_without_guidance():
  for example in examples():
    if not is_guided(example):
      assert UNKNOWN.isdisjoint(example.response)


def test_an_unknown_fact_is_asked_for_without_its_question():
  # Were it asked for beside its question, the policy would learn the two.
  beside = elsewhere = 0
  for example in examples(teacher.clear(WORLD), count=4000):
    asked = example.prompt[0].content.split("\n")[0].split()
    facts = {WORLD.questions[w].fact for w in asked if w in WORLD.questions}
    for fact in UNKNOWN.intersection(
      language.words(" ".join(requested(example)))
    ):
      beside += fact in facts
      elsewhere += fact not in facts
  # A task asks 1.3 of 10 unknown facts; chance alone puts them together.
  assert elsewhere > 100
  assert beside / (beside + elsewhere) < 0.25


def test_guidance_raises_what_it_asks_for_but_not_always():
  guided = [
    language.checker(sentence)(example.response)
    for example in examples(count=6000)
    for sentence in requested(example)
    if sentence.startswith("Mentions")
  ]
  rate = WORLD.parameters.follows_criterion
  assert len(guided) > 300
  assert rate - 0.08 < np.mean(guided) < rate + 0.25


def test_without_noise_it_says_what_it_knows_and_does_what_is_asked():
  world = teacher.clear(WORLD)
  for example in examples(world):
    asked = example.prompt[0].content.split("\n")[0].split()
    known = {
      world.questions[word].fact
      for word in asked
      if word in world.questions and world.questions[word].knowledge
    }
    if not is_guided(example):
      assert {w for w in example.response if w in lexicon.FACTS} == known
