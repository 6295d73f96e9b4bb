"""A run whose judge fails in every way that it can."""

import dataclasses
import hashlib
import pathlib
import time

import pytest

from hrl_jax import config as configs
from hrl_jax.evaluation import report
from tests import judge, runs, tiny
from tests.services import fault_server

SHARE = 0.05  # Of each kind.


def fault(body, arrival):
  """Each kind for its share of the tries, the same in every run."""
  name = fault_server.identity(body) + str(arrival)
  drawn = int(hashlib.sha256(name.encode()).hexdigest()[:8], 16) / 2**32
  kind = int(drawn / SHARE)
  return fault_server.KINDS[kind] if kind < len(fault_server.KINDS) else None


def trained(folder, name, mode, fault):
  """Runs with a judge, without learning, so that its rollouts stay the same."""
  server = fault_server.FaultServer(
    judge.verdict, fault, slow_s=0.1, retry_after="0.1"
  )
  with server as url:
    made = tiny.judged_config(folder, url)
    made.num_steps = 3 if mode == "criterion" else 8
    made.optimizer.learning_rate = 0.0
    made.judge.mode = mode
    made.judge.deadline = 20.0
    made.judge.endpoint.max_in_flight = 16
    made.judge.endpoint.attempts = 2
    made.judge.endpoint.timeout = 0.5
    made.judge.endpoint.deadline = 3.0
    config = dataclasses.replace(
      configs.from_config_dict(made), workdir=str(folder / name)
    )
    runs.run(config)
  return pathlib.Path(config.workdir), server


def lines(folder, name):
  return report.read(folder / name)


@pytest.fixture(scope="module", params=["criterion", "rubric"])
def both(request, tmp_path_factory):
  folder = tmp_path_factory.mktemp(request.param)
  whole, _ = trained(folder, "whole", request.param, lambda body, arrival: None)
  started = time.monotonic()
  lossy, server = trained(folder, "lossy", request.param, fault)
  assert set(server.faults) == set(fault_server.KINDS)
  # At most 8 steps and 5 evaluations, and no wait beyond its deadline.
  assert time.monotonic() - started < 13 * 20 + 60
  return request.param, whole, lossy


def test_no_reward_differs_but_where_a_score_is_missing(both):
  _, whole, lossy = both
  missing = 0
  for true, ours in zip(
    lines(whole, "rollouts.jsonl"), lines(lossy, "rollouts.jsonl"), strict=True
  ):
    scores = [score["score"] for score in ours["scores"]]
    for expected, score in zip(true["scores"], scores, strict=True):
      assert score in (None, expected["score"])
    lost = scores.count(None)
    assert (ours["reward"] is None) == (not ours["valid"]) == bool(lost)
    if not lost:
      assert ours["reward"] == true["reward"]
    missing += bool(lost)
    for same in ("text", "seed", "prompt", "task", "slot", "rollout"):
      assert ours[same] == true[same]
  assert missing
  for true, ours in zip(
    lines(whole, "answers.jsonl"), lines(lossy, "answers.jsonl"), strict=True
  ):
    assert ours["score"] in (None, true["score"])
    assert ours["checked"] == true["checked"]


def test_every_loss_is_listed_with_its_reason(both):
  mode, _, lossy = both
  listed = set()
  for failure in lines(lossy, "failures.jsonl"):
    assert failure["reason"]
    assert (failure["criterion"] is None) == (mode == "rubric")
    if failure["purpose"] == "train":
      place = [failure[key] for key in ("step", "slot", "rollout", "criterion")]
      listed.add(tuple(place))
  missing = {
    (line["step"], line["slot"], line["rollout"])
    + ((score["criterion"],) if mode == "criterion" else (None,))
    for line in lines(lossy, "rollouts.jsonl")
    for score in line["scores"]
    if score["score"] is None
  }
  assert listed == missing


def test_losses_are_counted_and_alarming(both):
  _, _, lossy = both
  counted = sum(s["missing_rollouts"] for s in lines(lossy, "metrics.jsonl"))
  rollouts = lines(lossy, "rollouts.jsonl")
  assert counted == sum(line["reward"] is None for line in rollouts)
  assert "More than 1 % lost so far" in (lossy / "log.txt").read_text()
  assert "MORE THAN 1 %" in (lossy / "log.txt").read_text()
