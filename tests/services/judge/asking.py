"""A judge's endpoint, and what it is asked."""

import itertools
import json

from hrl_jax import base
from hrl_jax.services.judge import grader
from tests.services import calls

GOOD = base.Criterion("Greets.", 2.0)
LONG = base.Criterion("Is long.", 1.0)
RUDE = base.Criterion("Is rude.", -1.0)
RUBRIC = (GOOD, LONG, RUDE)
KNOBS = grader.Knobs("criterion", True, 0.6, 256, 20.0)


def endpoint(url, **changes):
  """Of few calls that give up soon."""
  soon = dict(max_in_flight=8, attempts=2, timeout_s=1.0, deadline_s=3.0)
  return calls.endpoint(url, **soon | changes)


def request(rollout=0, response="hello", slot=0, attempt=0, rubric=RUBRIC):
  return base.GradeRequest(
    occasion=base.Occasion(3, "train"),
    slot=slot,
    rollout=rollout,
    attempt=attempt,
    prompt=(base.Message("user", "Say hello."),),
    response=response,
    rubric=rubric,
  )


def asks(body, text):
  return text in body["messages"][-1]["content"]


def truth(criterion, response):
  """What an honest judge says: of each criterion, and of each response."""
  return (len(criterion) + len(response)) % 3 == 0


def honest(rubric=RUBRIC, responses=("hello",)):
  """The replies of a judge that is never wrong."""

  def answer(body):
    (response,) = [each for each in responses if asks(body, f"\n{each}\n")]
    keyed = {}
    for number, criterion in enumerate(rubric, start=1):
      if asks(body, criterion.text):
        key = "present" if criterion.weight < 0 else "met"
        verdict = truth(criterion.text, response)
        keyed[str(number)] = {"reason": "Because.", key: verdict}
    whole = asks(body, "Question 1.")
    return json.dumps(keyed if whole else next(iter(keyed.values())))

  return answer


def expected(response, rubric=RUBRIC):
  return [float(truth(criterion.text, response)) for criterion in rubric]


def lossy(kind, lost=GOOD.text, times=10**9):
  """Plays the first calls about one criterion this fault."""
  calls = itertools.count()

  def fault(body, arrival):
    return kind if asks(body, lost) and next(calls) < times else None

  return fault
