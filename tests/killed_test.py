"""Runs that are killed at any moment, and go on as if nothing had been.

KILLS says how many moments are tried, 1 otherwise.
"""

import dataclasses
import os
import pathlib
import random
import time

import numpy as np
import pytest

from hrl_jax import config as configs
from tests import judge, runs, tiny
from tests.services import fault_server

KILLS = int(os.environ.get("KILLS", "1"))
# What is under way when a run is killed; "any" is a random moment of it.
MOMENTS = {
  "judged_config": ("grading", "any", "saving", "any", "logging", "any"),
  "judged_harness_config": (
    "remembering",
    "starting cold",
    "any",
    "grading",
    "saving",
    "any",
  ),
}


@pytest.fixture(scope="module", params=MOMENTS)
def whole(request, tmp_path_factory):
  """A run that nobody kills: its config, the seconds that it took, weights."""
  tmp_path = tmp_path_factory.mktemp("whole")
  with fault_server.FaultServer(judge.verdict, delay_s=0.01) as url:
    made = config(request.param, tmp_path, url)
    started = begin(request.param, tmp_path, tmp_path, url)
    since = wait_for_start(started, tmp_path)
    end(started)
    seconds = time.monotonic() - since
    yield request.param, made, seconds, runs.weights(made)


def config(name, folder, url):
  made = {
    "judged_config": tiny.judged_config,
    "judged_harness_config": tiny.judged_harness_config,
  }[name]
  return configs.from_config_dict(made(folder, url))


def begin(name, folder, tmp_path, url):
  return runs.start(
    f"tiny.{name}(Path({str(folder)!r}), {url!r})",
    tmp_path,
    f"--config.workdir={tmp_path / 'run'}",
  )


def end(process):
  _, said = process.communicate(timeout=240)
  assert process.returncode == 0, said


def wait_for_start(process, tmp_path):
  """When the logs were opened and the first rollout may begin."""
  wait(process, (tmp_path / "run" / "run.json").exists)
  return time.monotonic()


def wait(process, is_so):
  limit = time.monotonic() + 240
  while not is_so() and process.poll() is None:
    assert time.monotonic() < limit
    time.sleep(0.0005)


def grows(path, times):
  """Whether a file has grown so often; asked again and again."""
  sizes = set()

  def has_grown():
    sizes.add(path.stat().st_size if path.exists() else 0)
    return len(sizes) > times

  return has_grown


def wait_for(moment, process, made, workdir, seconds, chance):
  """Returns when a run is about to do something, the n-th time it does it."""
  step = chance.randrange(1, made.num_steps)
  if moment == "grading":
    call = chance.randrange(1, 40)
    wait(process, grows(workdir / "replies.jsonl", call))
  elif moment == "logging":
    wait(process, grows(workdir / "rollouts.jsonl", step))
  elif moment == "remembering":
    wait(process, grows(workdir / "memory" / "log.jsonl", 2 * step))
  elif moment == "starting cold":
    wait(process, grows(workdir / "cold_start.jsonl", step))
  elif moment == "saving":
    wait(process, saves(workdir / "checkpoints", step))
    time.sleep(chance.uniform(0, 0.03))
  else:
    time.sleep(chance.uniform(0, seconds))


def saves(folder, times):
  """Whether so many saves have begun; asked again and again."""
  seen = set()

  def has_begun():
    if folder.exists():
      seen.update(path.name for path in folder.iterdir() if "tmp" in path.name)
    return len(seen) >= times

  return has_begun


@pytest.mark.slow
@pytest.mark.parametrize("number", range(KILLS))
def test_a_killed_run_goes_on_as_if_nothing_had_been(whole, tmp_path, number):
  name, made, seconds, weights = whole
  folder = pathlib.Path(made.model.path).parent
  chance = random.Random(number)
  server = fault_server.FaultServer(judge.verdict, delay_s=0.01)
  with server as url:
    process = begin(name, folder, tmp_path, url)
    wait_for_start(process, tmp_path)
    moment = MOMENTS[name][number % len(MOMENTS[name])]
    wait_for(moment, process, made, tmp_path / "run", seconds, chance)
    process.kill()
    process.communicate(timeout=60)
    asked = sum(server.arrivals.values())
    end(begin(name, folder, tmp_path, url))
    resumed = dataclasses.replace(
      config(name, folder, url), workdir=str(tmp_path / "run")
    )
    assert runs.logs(resumed.workdir) == runs.logs(made.workdir)
    for ours, theirs in zip(runs.weights(resumed), weights, strict=True):
      np.testing.assert_array_equal(ours, theirs)
  # Nothing is paid for twice but what was in flight when the run was killed.
  again = sum(count - 1 for count in server.arrivals.values())
  assert again <= made.judge.endpoint.max_in_flight, (moment, asked, again)
