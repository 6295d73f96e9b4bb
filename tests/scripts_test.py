import os
import pathlib
import subprocess
import sys

import pytest

from scripts import check_files

ROOT = pathlib.Path(__file__).parents[1]
SHELL_SCRIPTS = [*(ROOT / "scripts").glob("*.sh"), ROOT / ".ci" / "run"]


@pytest.mark.parametrize("path", SHELL_SCRIPTS, ids=lambda path: path.name)
def test_a_shell_script_parses(path):
  subprocess.run(["bash", "-n", path], check=True)


def _run(name, python):
  return subprocess.run(
    ["bash", ROOT / "scripts" / name],
    capture_output=True,
    text=True,
    env={"PATH": os.environ["PATH"], "PYTHON": str(python), "HOME": "/"},
  )


@pytest.mark.parametrize("name", ["quickstart.sh", "test.sh"])
def test_a_python_that_is_missing_is_named(name):
  result = _run(name, "no_such_python")
  assert result.returncode == 1
  assert result.stderr.startswith(
    "Python 3.11 or newer is needed, but 'no_such_python' is missing."
  )


def test_a_python_that_is_too_old_is_named_with_its_version(tmp_path):
  old = tmp_path / "python"
  old.write_text(
    '#!/bin/sh\n[ "$1" = --version ] && echo Python 3.10.13 && exit\nexit 1\n'
  )
  old.chmod(0o755)
  result = _run("quickstart.sh", old)
  assert result.returncode == 1
  assert f"'{old}' is Python 3.10.13. Name another one" in result.stderr


def test_a_python_without_venv_is_told_what_to_install(tmp_path):
  bare = tmp_path / "python"
  bare.write_text(
    '#!/bin/sh\ncase "$2" in *ensurepip* | venv) exit 1 ;; esac\n'
    f'exec "{sys.executable}" "$@"\n'
  )
  bare.chmod(0o755)
  result = _run("quickstart.sh", bare)
  assert result.returncode == 1
  assert "apt install python3-venv" in result.stderr


@pytest.mark.parametrize(
  ("name", "content", "complaints"),
  [
    ("a.py", b"x = 1\n", []),
    ("a.py", b"", []),
    ("a.py", b"x = 1", ["does not end in a line break"]),
    ("a.py", b"x = 1 \n\ty\t\n", ["line 1 ends in", "line 2 ends in"]),
    ("a.jsonl", b'{"a": 1} \n', []),
    ("a.bin", b"\xff\xfe", []),
    ("a.toml", b"a = 1\na = 2\n", ["does not parse"]),
    ("a.yaml", b"a: [\n", ["does not parse"]),
    ("a.json", b"{]\n", ["does not parse"]),
    ("a.txt", b"0\n" * 250_001, ["has 500002 bytes, at most 500000"]),
  ],
)
def test_a_file_is_complained_of_in_words(tmp_path, name, content, complaints):
  path = tmp_path / name
  path.write_bytes(content)
  found = list(check_files.complaints(path))
  assert len(found) == len(complaints)
  for actual, expected in zip(found, complaints, strict=True):
    assert actual.startswith(expected)


def test_the_exit_code_tells_whether_there_are_complaints(tmp_path, capsys):
  good, bad = tmp_path / "good", tmp_path / "bad"
  good.write_text("a\n")
  bad.write_text("a")
  assert check_files.main([str(good)]) == 0
  assert check_files.main([str(good), str(bad)]) == 1
  assert capsys.readouterr().err == f"{bad}: does not end in a line break\n"
