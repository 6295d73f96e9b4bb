"""Small stand-ins for the outside world, shared by tests."""

from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np

from hrl_jax import base

STOP_ID = 1


class FakeTokenizer:
  """One token a character: its code point, after the role of each turn."""

  stop_ids = (STOP_ID,)

  def encode_chat(self, conversation: base.Conversation) -> tuple[int, ...]:
    return tuple(
      ord(letter) for message in conversation for letter in message.content
    )

  def decode(self, ids: Iterable[int]) -> str:
    return "".join(chr(token) for token in ids if token != STOP_ID)


class FakeEngine:
  """Answers each request with `answer(prompt text, seed)`.

  Completions come in reverse order: nothing may depend on the order. An answer
  of None is an aborted rollout.
  """

  def __init__(self, answer: Callable[[str, int], str | None]):
    self.answer = answer
    self.version = 0
    self.requests: list[base.Request] = []

  def load(self, params, version: int) -> None:
    del params
    self.version = version

  def generate(
    self, requests: Sequence[base.Request], sampling: base.Sampling
  ) -> Iterator[base.Completion]:
    self.requests += requests
    for index, request in reversed(list(enumerate(requests))):
      text = self.answer("".join(map(chr, request.prompt_ids)), request.seed)
      tokens = [] if text is None else [*map(ord, text), STOP_ID]
      yield base.Completion(
        request=index,
        tokens=np.array(tokens[: sampling.max_tokens], np.int32),
        logprobs=np.full(len(tokens), -1.0, np.float32),
        drawn_logprobs=np.full(len(tokens), -1.0, np.float32),
        finish="abort" if text is None else "stop",
        weights_version=self.version,
      )


class FakeGrader:
  """Scores each criterion by `score(criterion text, response)`."""

  def __init__(self, score: Callable[[str, str], float]):
    self.score = score
    self.attempts: list[int] = []

  def grade(
    self, requests: Iterable[base.GradeRequest]
  ) -> Iterator[base.Grade]:
    for request in requests:
      self.attempts.append(request.attempt)
      yield base.Grade(
        request.slot,
        request.rollout,
        np.array(
          [
            self.score(criterion.text, request.response)
            for criterion in request.rubric
          ]
        ),
      )


class NoProbe:
  """For methods that must not measure anything."""

  def sample(self, plan, key):
    raise AssertionError("This method has nothing to sample.")

  def grade(self, submissions, purpose):
    raise AssertionError("This method has nothing to grade.")


def task(id: str, prompt: str, *criteria: tuple[str, float]) -> base.Task:
  return base.Task(
    id=id,
    domain="test",
    prompt=(base.Message("user", prompt),),
    rubric=tuple(base.Criterion(text, weight) for text, weight in criteria),
  )
