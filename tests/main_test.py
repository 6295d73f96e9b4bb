import dataclasses
import json
import pathlib
import resource
import signal
import time

import numpy as np
import pytest

from hrl_jax import config as configs
from hrl_jax.checkpoint import state as checkpoints
from tests import runs, tiny
from tests.services import fault_server


@pytest.fixture(scope="module")
def base_config(tmp_path_factory):
  return configs.from_config_dict(tiny.config(tmp_path_factory.mktemp("tiny")))


@pytest.fixture(scope="module")
def whole(base_config, tmp_path_factory):
  """A run without any interruption."""
  config = dataclasses.replace(
    base_config, workdir=str(tmp_path_factory.mktemp("whole") / "run")
  )
  runs.run(config)
  return config


def test_the_run_folder_tells_the_whole_run(whole):
  folder = pathlib.Path(whole.workdir)
  lines = {
    name: [json.loads(line) for line in contents.splitlines()]
    for name, contents in runs.logs(folder).items()
  }
  assert [line["step"] for line in lines["metrics.jsonl"]] == [0, 1, 2, 3]
  assert [line["step"] for line in lines["evaluation.jsonl"]] == [0, 2, 4]
  assert len(lines["rollouts.jsonl"]) == 4 * 3 * 4
  assert {line["weights_version"] for line in lines["rollouts.jsonl"]} == {
    *range(4)
  }
  assert len(lines["answers.jsonl"]) == 3 * 2
  assert (folder / "curves.png").stat().st_size > 10_000
  assert json.loads((folder / "config.json").read_text())["num_steps"] == 4
  saved = checkpoints.steps(folder / "checkpoints")
  assert saved[-1] == 4
  assert checkpoints.best(folder / "checkpoints") in saved


@pytest.mark.core
@pytest.mark.parametrize("after", [1, 3])
def test_a_resumed_run_equals_the_uninterrupted_one(whole, tmp_path, after):
  config = dataclasses.replace(whole, workdir=str(tmp_path / "run"))
  runs.run(config, runs.Stop(after))
  assert len(runs.logs(config.workdir)["metrics.jsonl"].splitlines()) < 4
  runs.run(config)
  assert runs.logs(config.workdir) == runs.logs(whole.workdir)
  for resumed, expected in zip(
    runs.weights(config), runs.weights(whole), strict=True
  ):
    np.testing.assert_array_equal(resumed, expected)


def test_what_was_written_after_the_last_checkpoint_is_cut(whole, tmp_path):
  config = dataclasses.replace(whole, workdir=str(tmp_path / "run"))
  runs.run(config, runs.Stop(2))
  with open(tmp_path / "run" / "metrics.jsonl", "a") as file:
    file.write('{"step": 2, "half a li')
  runs.run(config)
  assert runs.logs(config.workdir) == runs.logs(whole.workdir)


@pytest.mark.slow
def test_a_full_disk_in_a_save_costs_nothing_that_was_saved(whole, tmp_path):
  config = dataclasses.replace(whole, workdir=str(tmp_path / "run"))
  runs.run(dataclasses.replace(config, num_steps=2))
  folder = tmp_path / "run" / "checkpoints"
  assert checkpoints.latest(folder) == 2
  process = runs.start(
    f"tiny.config(Path({str(pathlib.Path(whole.model.path).parent)!r}))",
    tmp_path,
    f"--config.workdir={config.workdir}",
    JAX_ENABLE_COMPILATION_CACHE="false",  # Half of an entry breaks others.
  )
  # The logs still fit, the arrays of a checkpoint do not.
  resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (50_000, 50_000))
  _, said = process.communicate(timeout=240)
  assert process.returncode == 1
  assert "make room and run the same command again." in said
  assert checkpoints.latest(folder) == 2
  runs.run(config)
  assert runs.logs(config.workdir) == runs.logs(whole.workdir)
  for resumed, expected in zip(
    runs.weights(config), runs.weights(whole), strict=True
  ):
    np.testing.assert_array_equal(resumed, expected)


def test_another_bank_config_or_model_is_refused(whole, tmp_path):
  config = dataclasses.replace(whole, workdir=str(tmp_path / "run"))
  runs.run(config, runs.Stop(0))
  before = runs.logs(config.workdir)
  other_tasks = dataclasses.replace(
    config,
    data=dataclasses.replace(
      config.data, train=config.data.held_out, held_out=config.data.train
    ),
  )
  with pytest.raises(ValueError, match="another bank"):
    runs.run(other_tasks)
  with pytest.raises(ValueError, match=r"another config.*seed"):
    runs.run(dataclasses.replace(config, seed=1))
  assert runs.logs(config.workdir) == before


def test_a_checkpoint_without_its_conditions_is_refused(whole, tmp_path):
  config = dataclasses.replace(whole, workdir=str(tmp_path / "run"))
  runs.run(config, runs.Stop(0))
  (tmp_path / "run" / "run.json").unlink()
  with pytest.raises(ValueError, match=r"no run\.json"):
    runs.run(config)


def test_a_run_that_is_done_says_so_again(whole, caplog):
  with caplog.at_level("INFO", logger="hrl_jax"):
    runs.run(whole)
  assert "change:" in caplog.text


@pytest.mark.slow
def test_sigterm_saves_and_exits_with_zero(whole, tmp_path):
  folder = pathlib.Path(whole.model.path).parent
  workdir = tmp_path / "run"
  process = runs.start(
    f"tiny.config(Path({str(folder)!r}))",
    tmp_path,
    f"--config.workdir={workdir}",
    "--config.num_steps=100000",
  )
  deadline = time.monotonic() + 240
  metrics = workdir / "metrics.jsonl"
  while not (metrics.exists() and metrics.stat().st_size):
    assert process.poll() is None, process.stderr.read()
    assert time.monotonic() < deadline
    time.sleep(0.1)
  process.send_signal(signal.SIGTERM)
  _, said = process.communicate(timeout=120)
  assert process.returncode == 0, said
  assert "Signal 15" in said
  done = checkpoints.latest(workdir / "checkpoints")
  assert len(metrics.read_text().splitlines()) == done


@pytest.mark.slow
def test_a_judge_that_is_not_there_is_one_paragraph(whole, tmp_path):
  folder = pathlib.Path(whole.model.path).parent
  with fault_server.FaultServer(lambda body: "") as url:
    pass  # Nobody listens there any more.
  process = runs.start(
    f"tiny.judged_config(Path({str(folder)!r}), {url!r})",
    tmp_path,
    f"--config.workdir={tmp_path / 'run'}",
  )
  _, said = process.communicate(timeout=120)
  assert process.returncode == 1
  (paragraph,) = said.splitlines()
  assert url in paragraph
  assert "vllm serve" in paragraph
  log = (tmp_path / "run" / "log.txt").read_text()
  assert paragraph in log
  assert "Traceback" in log
