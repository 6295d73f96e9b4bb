"""A judge made of the policy's first weights, in this process.

  gain = mean logp(response | prompt + criterion) - mean logp(response | prompt)

A criterion is met where its gain exceeds the threshold that was frozen for it
from the first policy's rollouts (`judge_thresholds`). A penalty is asked for in
the same way: score 1 says that the behaviour which it describes is present.
Weights and thresholds never change, so a score does not move with the policy,
and training and evaluation judge alike.

It needs no server and no second model, and costs one forward pass of prompt
and response with the criterion and one without. What it is worth with
SmolLM2-135M, by `scripts/measure_judge.py` on hand-labelled cases that took no
part in any choice (30 criteria, one response that meets it and one that does
not):

- Of the two responses it prefers the right one in 80 % of pairs.
- Its verdicts are at chance all the same: accuracy 0.53 [0.43, 0.63], with 60 %
  of the unmet cases taken as met. A likely reason: thresholds come from the
  first policy's rollouts, which ramble (mean gain -0.09 nats), and what is
  fluent and on topic gains more even where it does not meet the criterion
  (+0.01 for the unmet development cases). So fluency would be rewarded too.
- By AUC, criteria that say what an answer must contain are told apart best
  (0.77; 0.80 on the development cases), style and tone little (0.56; 0.60).
- A criterion that asks for something to be left out ("Does not say that ...")
  tends to be scored the wrong way round, since naming a thing makes it likelier
  (0 of 5 development pairs right, 1 of 1 held out). Write it as a penalty
  ("Says that ...").
- It can be pleased by an echo: a response that repeats the criterion gains 1.5
  nats and more, far above nearly every threshold.

It is there to learn how a judged run works on a laptop, and for tests. It must
not be used to compare methods, to report what a policy can do, or to decide
anything about medical content: that needs an LLM judge. The opposite direction,
log p(criterion | response), was of no use either.
"""

import math
from collections.abc import Iterable, Iterator

import numpy as np

from hrl_jax import base
from hrl_jax.services import judge_thresholds, likelihood


class LikelihoodJudge:
  """Scores judged criteria with a frozen model; a `protocols.Grader`.

  All requests of a call are gathered first: the device that would judge them
  is the one that still decodes, and what they share is run once. A score does
  not depend on the other requests, up to rounding of the gain.
  """

  def __init__(
    self,
    model: likelihood.Model,
    thresholds: judge_thresholds.Thresholds,
  ):
    """Makes a judge.

    Args:
      model: the policy's first weights.
      thresholds: of every criterion that it will be asked, see
        `judge_thresholds.of_tasks`.
    """
    self._model = model
    self._thresholds = thresholds

  def grade(
    self, requests: Iterable[base.GradeRequest]
  ) -> Iterator[base.Grade]:
    """Yields one grade per request, in their order.

    A response without any text meets nothing. A score is missing where a
    criterion has no threshold, or the model cannot read what it is asked.

    Raises:
      ValueError: if a criterion names a checker: that is exact, and not
        judged.
    """
    requests = list(requests)
    answers: dict[tuple[int, int], likelihood.Question | float | str] = {}
    for place, request in enumerate(requests):
      for index, criterion in enumerate(request.rubric):
        answers[place, index] = self._prepared(request, criterion)
    asked = {
      key: answer
      for key, answer in answers.items()
      if isinstance(answer, likelihood.Question)
    }
    gains = likelihood.gains(self._model, list(asked.values()))
    for (place, index), gain in zip(asked, gains.tolist(), strict=True):
      answers[place, index] = self._decided(
        requests[place], requests[place].rubric[index], gain
      )
    for place, request in enumerate(requests):
      yield _grade(
        request,
        [answers[place, index] for index in range(len(request.rubric))],
      )

  def _prepared(
    self, request: base.GradeRequest, criterion: base.Criterion
  ) -> likelihood.Question | float | str:
    """The question to the model, or the score, or why there is none."""
    if criterion.checker is not None:
      raise ValueError(
        f"Criterion {criterion.text!r} names the checker "
        f"{criterion.checker!r}, and this judge would guess what that decides. "
        "Grade it with services.mixed_grader."
      )
    if (request.prompt, criterion.text) not in self._thresholds:
      return (
        "No threshold is frozen for this criterion under this prompt. "
        f"{judge_thresholds.REMEDY}"
      )
    if not request.response.strip():
      return 0.0
    try:
      return likelihood.question(
        self._model, request.prompt, criterion.text, request.response
      )
    except ValueError as error:
      return str(error)

  def _decided(
    self, request: base.GradeRequest, criterion: base.Criterion, gain: float
  ) -> float | str:
    if not math.isfinite(gain):
      return f"The judging model gives the response a gain of {gain}."
    return float(gain > self._thresholds[request.prompt, criterion.text])


def _grade(
  request: base.GradeRequest, answers: list[float | str]
) -> base.Grade:
  failures = tuple(
    base.Failure(request.slot, request.rollout, index, answer, request.response)
    for index, answer in enumerate(answers)
    if isinstance(answer, str)
  )
  scores_C = np.array(
    [math.nan if isinstance(each, str) else each for each in answers],
    np.float64,
  )
  return base.Grade(request.slot, request.rollout, scores_C, failures)
