"""Measures the likelihood judge on labelled cases, and what it costs.

  python -m scripts.measure_judge --cases development
  python -m scripts.measure_judge --cases held_out
  python -m scripts.measure_judge --seconds

Template and rule of the thresholds were chosen on the development cases; the
held-out cases were looked at once, at the end. Each criterion has one response
that meets it and one that does not, alike in topic and length. Columns:

  AUC       probability that a met case lies further above its threshold than
            an unmet one, of any criterion
  pairs     share of criteria whose met case has the higher gain
  accuracy  at the frozen thresholds, with a 95 % bootstrap interval over
            criteria
  too many  share of unmet cases that are taken as met

Chance is 0.5 for all but the last. With `--seconds`, the time of training steps
at the shape of configs/quickstart.py instead.
"""

import argparse
import collections
import os
import time
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from hrl_jax import base
from hrl_jax.checkpoint import hf
from hrl_jax.data import bank, jsonl
from hrl_jax.evaluation import statistics
from hrl_jax.rollout import jax_engine
from hrl_jax.services import (
  checkers,
  judge_thresholds,
  likelihood,
  likelihood_judge,
)
from scripts import calibrate_judge

CASES = calibrate_judge.TASKS.parent / "judge_cases"
TASKS = {
  "development": calibrate_judge.TASKS / "train.jsonl",
  "held_out": calibrate_judge.TASKS / "held_out.jsonl",
}


class Case(NamedTuple):
  """A labelled response.

  Attributes:
    task: that it answers.
    criterion: text of the judged criterion.
    kind: what the criterion is about: "content", "style", "absence" (met by
      what is not said) or "penalty".
    response: the text under judgement.
    met: whether the criterion is met, as a person sees it.
    gain: see `services.likelihood`.
    threshold: of the criterion.
  """

  task: base.Task
  criterion: str
  kind: str
  response: str
  met: bool
  gain: float
  threshold: float


def main() -> None:
  """Prints what the command line asks for."""
  parser = argparse.ArgumentParser(
    description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
  )
  wanted = parser.add_mutually_exclusive_group(required=True)
  wanted.add_argument("--cases", choices=TASKS)
  wanted.add_argument("--seconds", action="store_true")
  parser.add_argument("--model", default=hf.QUICKSTART)
  parser.add_argument(
    "--thresholds", default=calibrate_judge.TASKS / "thresholds.json"
  )
  parser.add_argument("--show", action="store_true", help="every case")
  arguments = parser.parse_args()
  if arguments.seconds:
    _print_seconds(arguments)
    return
  cases = _cases(arguments)
  if arguments.show:
    for case in cases:
      verdict = case.gain > case.threshold
      print(
        f"{'right' if verdict == case.met else 'WRONG'} met={case.met!s:5} "
        f"{case.gain:+.3f} over {case.threshold:+.3f} {case.kind:8} "
        f"{case.criterion} | {case.response!r}"
      )
  _print_table(cases)


def _tasks(split: str) -> tuple[base.Task, ...]:
  return bank.load(
    [TASKS[split]], checkers=checkers.names(), validate=checkers.validate
  ).tasks


def _thresholds(
  arguments: argparse.Namespace, tasks: Sequence[base.Task]
) -> judge_thresholds.Thresholds:
  frozen = judge_thresholds.load(
    arguments.thresholds, weights_hash=hf.weights_hash(arguments.model)
  )
  return judge_thresholds.of_tasks(frozen, tasks, arguments.thresholds)


def _cases(arguments: argparse.Namespace) -> list[Case]:
  tasks = {task.id: task for task in _tasks(arguments.cases)}
  thresholds = _thresholds(arguments, list(tasks.values()))
  model, _ = calibrate_judge.load_model(arguments.model)
  path = CASES / f"{arguments.cases}.jsonl"
  entries = [entry for _, entry in jsonl.read(path)]
  questions = [
    likelihood.question(
      model,
      tasks[entry["task"]].prompt,
      entry["criterion"],
      entry["response"],
    )
    for entry in entries
  ]
  return [
    Case(
      **{**entry, "task": tasks[entry["task"]]},
      gain=float(gain),
      threshold=thresholds[tasks[entry["task"]].prompt, entry["criterion"]],
    )
    for entry, gain in zip(
      entries, likelihood.gains(model, questions), strict=True
    )
  ]


def _print_table(cases: Sequence[Case]) -> None:
  print("| cases | n | AUC | pairs | accuracy | too many |")
  print("|---|---|---|---|---|---|")
  print(_line("all", cases))
  for name, of in (
    ("kind", lambda case: case.kind),
    ("domain", lambda case: case.task.domain),
  ):
    for value in sorted(set(map(of, cases))):
      part = [case for case in cases if of(case) == value]
      print(_line(f"{name}: {value}", part))


def _line(name: str, cases: Sequence[Case]) -> str:
  margins = np.array([case.gain - case.threshold for case in cases])
  met = np.array([case.met for case in cases])
  above = margins[met][:, None] > margins[~met][None, :]
  right: dict[tuple[str, str], list[bool]] = {}
  gains: dict[tuple[str, str], dict[bool, list[float]]] = {}
  for case in cases:
    key = (case.task.id, case.criterion)
    verdict = case.gain > case.threshold
    right.setdefault(key, []).append(verdict == case.met)
    gains.setdefault(key, {True: [], False: []})[case.met].append(case.gain)
  pairs = [
    high > low
    for each in gains.values()
    for high in each[True]
    for low in each[False]
  ]
  accuracy = statistics.mean_interval(
    np.array([np.mean(each) for each in right.values()])
  )
  return (
    f"| {name} | {len(cases)} | {above.mean():.2f} | {np.mean(pairs):.2f} | "
    f"{accuracy.mean:.2f} [{accuracy.low:.2f}, {accuracy.high:.2f}] | "
    f"{np.mean(margins[~met] > 0):.2f} |"
  )


def _print_seconds(arguments: argparse.Namespace) -> None:
  """Times judging 4 tasks x 8 rollouts of 48 tokens at most."""
  tasks = [
    each for each in _tasks("development") if calibrate_judge.judged(each)
  ]
  model, engine = calibrate_judge.load_model(arguments.model)
  print(f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
  for count in (1, 3):
    seconds = []
    for step in range(4):
      requests = _requests(tasks, step, count, model, engine)
      judge = likelihood_judge.LikelihoodJudge(
        model,
        {
          (request.prompt, criterion.text): 0.0
          for request in requests
          for criterion in request.rubric
        },
      )
      clock, cpu = time.perf_counter(), time.process_time()
      collections.deque(judge.grade(requests), maxlen=0)
      seconds.append(
        f"{time.perf_counter() - clock:.1f} ({time.process_time() - cpu:.1f})"
      )
    print(
      f"{count} criteria a task: seconds (of the CPU): {seconds[0]} in the "
      f"first step, then {', '.join(seconds[1:])}"
    )


def _requests(
  tasks: Sequence[base.Task],
  step: int,
  count: int,
  model: likelihood.Model,
  engine: jax_engine.JaxEngine,
) -> list[base.GradeRequest]:
  """A step's rollouts of four tasks, with some criteria of other tasks."""
  part = tasks[4 * step : 4 * step + 4]
  texts = calibrate_judge.rollouts(
    part, model, engine, count=8, max_tokens=48, seed=1
  )
  return [
    base.GradeRequest(
      occasion=base.Occasion(step, "train"),
      slot=slot,
      rollout=rollout,
      attempt=0,
      prompt=part[slot].prompt,
      response=text,
      rubric=tuple(
        calibrate_judge.judged(tasks[4 * step + slot + more])[0]
        for more in range(count)
      ),
    )
    for slot, group in enumerate(texts)
    for rollout, text in enumerate(group)
  ]


if __name__ == "__main__":
  main()
