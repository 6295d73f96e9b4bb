import json
import os
import platform
import re
import socket
import subprocess

import jax
import pytest

from hrl_jax.metrics import conditions

pytestmark = pytest.mark.core

GATHERED = {
  "python": "3.11.7",
  "versions": {"jax": "0.10.2", "numpy": "2.4.6"},
  "cpu_affinity": [0, 1],
  "devices": ["cpu cpu"],
}


def test_what_is_gathered_is_json_without_names_of_machines():
  gathered = conditions.gather()
  text = json.dumps(gathered, allow_nan=False)
  assert json.loads(text) == gathered
  assert socket.gethostname() not in text
  assert os.path.expanduser("~") not in text
  assert gathered["python"] == platform.python_version()
  assert gathered["versions"]["jax"] == jax.__version__
  assert gathered["devices"] == ["cpu cpu"] * 8
  assert set(gathered["cpu_affinity"]) == os.sched_getaffinity(0)


def test_the_commit_is_the_projects_own(tmp_path):
  def git(*arguments):
    identity = ("-c", "user.name=a", "-c", "user.email=a@b")
    return subprocess.run(
      ["git", "-C", str(tmp_path), *identity, *arguments],
      check=True,
      capture_output=True,
      text=True,
    ).stdout.strip()

  inside = tmp_path / "site-packages"
  inside.mkdir()
  git("init", "--quiet")
  (tmp_path / "file").write_text("a")
  git("add", "file")
  git("commit", "--quiet", "--message", "first")
  head = git("rev-parse", "HEAD")
  assert conditions.commit(tmp_path) == head
  (tmp_path / "file").write_text("b")
  assert conditions.commit(tmp_path) == f"{head} with changes"
  assert conditions.commit(inside) is None


def test_the_same_conditions_pass():
  conditions.check_same(GATHERED, dict(GATHERED), allowed=False)


def test_other_cpus_of_the_same_number_pass():
  moved = GATHERED | {"cpu_affinity": [4, 7]}
  conditions.check_same(GATHERED, moved, allowed=False)


@pytest.mark.parametrize(
  ("change", "message"),
  [
    ({"cpu_affinity": [0]}, 'cpu_affinity: "2 CPUs" -> "1 CPUs"'),
    (
      {"devices": ["cpu cpu", "cpu cpu"]},
      'devices: ["cpu cpu"] -> ["cpu cpu", "cpu cpu"]',
    ),
    (
      {"versions": {"jax": "0.12.0", "numpy": "2.4.6"}},
      'versions.jax: "0.10.2" -> "0.12.0"',
    ),
    (
      {"python": "3.12.1", "cpu_affinity": [0]},
      'python: "3.11.7" -> "3.12.1"; cpu_affinity: "2 CPUs" -> "1 CPUs"',
    ),
  ],
)
def test_other_conditions_are_refused_unless_asked_for(change, message, caplog):
  with pytest.raises(ValueError, match=re.escape(f"bit for bit: {message}. ")):
    conditions.check_same(GATHERED, GATHERED | change, allowed=False)
  assert not caplog.records
  conditions.check_same(GATHERED, GATHERED | change, allowed=True)
  assert message in caplog.text
