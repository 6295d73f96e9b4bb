import dataclasses

import jax
import numpy as np
import pytest

from hrl_jax.lab import policy, teacher, tokens
from tests import tiny
from tests.lab import worlds


@pytest.fixture(scope="module")
def taught():
  return policy.taught(worlds.small())


def mean_logprob(world, params, count=24):
  """Of the words of answers, by the whole forward pass."""
  text = tokens.tokenizer()
  rng = np.random.default_rng(5)
  chosen = []
  for _ in range(count):
    example = teacher.example(world, rng)
    answer = text.encode(" ".join(example.response))
    logits_TV = tiny.logits(
      policy.sizes(world), params, text.encode_chat(example.prompt), answer
    )
    logprobs_TV = jax.nn.log_softmax(logits_TV)
    chosen += logprobs_TV[np.arange(len(answer)), np.array(answer)].tolist()
  return np.mean(chosen)


def test_a_lesson_is_the_same_every_time(taught):
  again = policy.taught(worlds.small())
  jax.tree.map(np.testing.assert_array_equal, taught, again)


def test_another_world_has_another_first_policy(taught):
  other = policy.taught(worlds.small(seed=4))
  assert not np.array_equal(
    taught["embed"]["embedding"], other["embed"]["embedding"]
  )


def test_a_lesson_teaches_the_answers(taught):
  # After 8 steps any word is as likely as any other; 80 steps leave a few.
  parameters = dataclasses.replace(
    worlds.SMALL, clear_lessons=40, lessons=40, learning_rate=1e-2
  )
  longer = worlds.small()._replace(parameters=parameters)
  before = mean_logprob(longer, taught)
  after = mean_logprob(longer, policy.taught(longer))
  assert before < -4
  assert after > -3.3
