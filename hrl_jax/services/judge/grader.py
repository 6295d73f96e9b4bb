"""An LLM judge behind an OpenAI-compatible endpoint.

Every response is graded while others are still being decoded: its calls start
as soon as it is handed in. No call, no step and no failure waits for longer
than it was told to; what has no verdict then is missing and says why.
"""

import asyncio
import functools
from collections.abc import Coroutine, Iterable, Iterator, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

from hrl_jax import base, questions
from hrl_jax.services import chat, completion, event_loop, replies
from hrl_jax.services.judge import prompt, reply

# A reply without a verdict is asked for once more.
_ASKS = 2


class Knobs(NamedTuple):
  """How the judge is asked.

  Attributes:
    mode: a call per "criterion", or one for the whole "rubric".
    structured: whether the endpoint is asked to keep to the reply's schema.
    temperature: of the judge (H-5).
    max_tokens: length at which a reply is cut.
    deadline: seconds after the last response of a `grade` call, after which
      what is not graded is missing.
  """

  mode: Literal["criterion", "rubric"]
  structured: bool
  temperature: float
  max_tokens: int
  deadline: float


class LlmJudge:
  """Asks a served model about each criterion; a `protocols.Grader`."""

  def __init__(
    self, endpoint: chat.Endpoint, knobs: Knobs, kept: replies.Replies
  ):
    """Opens nothing yet.

    Args:
      endpoint: of the judge.
      knobs: how it is asked.
      kept: where replies are looked up and put; used by one thread at a time.
    """
    self._endpoint = endpoint
    self._knobs = knobs
    self._kept = kept

  def check(self) -> None:
    """Looks whether the endpoint answers and serves the model.

    Raises:
      chat.UnreachableError: within 10 seconds, saying how to start one.
    """
    event_loop.check(self._endpoint)

  def grade(
    self, requests: Iterable[base.GradeRequest]
  ) -> Iterator[base.Grade]:
    """Yields one grade per request, in the order in which they are done.

    Raises:
      OSError: if a reply cannot be kept, as on a full disk.
    """
    with event_loop.Loop(self._endpoint, "judge") as loop:
      loop.serve(self._started)
      for request in requests:
        loop.hand_in(request)
        yield from loop.finished()
      yield from loop.rest(self._knobs.deadline)
      loop.report()

  async def _started(
    self, loop: event_loop.Loop, request: base.GradeRequest
  ) -> Coroutine[Any, Any, base.Grade]:
    """Starts the calls about one response; returns what waits for them."""
    indices = range(len(request.rubric))
    parts = [[index] for index in indices]
    if self._knobs.mode == "rubric":
      parts = [list(indices)] if request.rubric else []
    calls = [
      await loop.call(functools.partial(self._verdicts, loop, request, part))
      for part in parts
    ]
    return self._graded(request, parts, calls)

  async def _graded(
    self,
    request: base.GradeRequest,
    parts: Sequence[Sequence[int]],
    calls: Sequence[asyncio.Task],
  ) -> base.Grade:
    """All verdicts on one response."""
    if calls:
      await asyncio.wait(calls)
    scores_C = np.full(len(request.rubric), np.nan)
    failures = []
    for part, call in zip(parts, calls, strict=True):
      try:
        scores_C[list(part)] = call.result()
      except asyncio.CancelledError:
        reason = (
          f"not graded within {self._knobs.deadline:g} s of the last response"
        )
        failures.append(_failure(request, part, reason, ""))
      except chat.CallError as error:
        failures.append(_failure(request, part, error.reason, error.raw))
    return base.Grade(request.slot, request.rollout, scores_C, tuple(failures))

  async def _verdicts(
    self, loop: event_loop.Loop, request: base.GradeRequest, part: Sequence[int]
  ) -> list[float]:
    """The verdicts of one call.

    Raises:
      chat.CallError: if there are none.
    """
    criteria = tuple(request.rubric[index] for index in part)
    for ask in range(_ASKS):
      answer = await self._answer(loop, request, criteria, ask)
      try:
        return self._read(answer, criteria)
      except reply.ReplyError as error:
        failed = chat.CallError(f"{error} ({_ASKS} replies)", answer.text)
    raise failed

  async def _answer(
    self,
    loop: event_loop.Loop,
    request: base.GradeRequest,
    criteria: base.Rubric,
    ask: int,
  ) -> chat.Reply:
    step, purpose = request.occasion
    slot, rollout, attempt = request.slot, request.rollout, request.attempt
    body = completion.request(
      self._question(request, criteria),
      temperature=self._knobs.temperature,
      max_tokens=self._knobs.max_tokens,
      # A regrade of the same text is another draw.
      seed=completion.seed(step, purpose, slot, rollout, attempt, ask),
      schema_name="verdict" if self._knobs.structured else None,
    )
    sent = chat.encode(self._endpoint, body)
    key = replies.key(
      sent,
      step=step,
      purpose=purpose,
      subject=f"slot {slot}, rollout {rollout}",
      attempt=attempt,
      ask=ask,
    )
    return await replies.complete(loop.client, self._kept, key, sent)

  def _question(
    self, request: base.GradeRequest, criteria: base.Rubric
  ) -> questions.Question:
    if self._knobs.mode == "rubric":
      return prompt.rubric_question(request.prompt, request.response, criteria)
    return prompt.criterion_question(
      request.prompt, request.response, criteria[0]
    )

  def _read(self, answer: chat.Reply, criteria: base.Rubric) -> list[float]:
    cut = answer.finish == "length"
    if self._knobs.mode == "rubric":
      verdicts = reply.rubric_verdicts(answer.text, criteria, cut=cut)
      return [float(verdict) for verdict in verdicts]
    penalty = criteria[0].weight < 0
    verdict = reply.criterion_verdict(answer.text, penalty=penalty, cut=cut)
    return [float(verdict)]


def _failure(
  request: base.GradeRequest, part: Sequence[int], reason: str, raw: str
) -> base.Failure:
  criterion = part[0] if len(part) == 1 else None
  return base.Failure(request.slot, request.rollout, criterion, reason, raw)
