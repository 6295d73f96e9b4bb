"""Checks the files that are about to be committed.

  python scripts/check_files.py FILE...

A file must not be large, TOML, YAML and JSON must parse, and text must end in
a line break and have no white space at the end of a line.
"""

import json
import pathlib
import sys
import tomllib
from collections.abc import Iterator

import yaml

MAX_BYTES = 500_000

_PARSERS = {
  ".ipynb": json.loads,
  ".json": json.loads,
  ".toml": tomllib.loads,
  ".yaml": yaml.safe_load,
  ".yml": yaml.safe_load,
}
# Their rows are texts in their own right.
_FREE_WHITE_SPACE = {".jsonl", ".patch", ".diff"}


def complaints(path: pathlib.Path) -> Iterator[str]:
  """Yields what is wrong with a file, in words."""
  content = path.read_bytes()
  if len(content) > MAX_BYTES:
    yield f"has {len(content)} bytes, at most {MAX_BYTES} are allowed"
  try:
    text = content.decode()
  except UnicodeDecodeError:
    return  # Not text.
  if path.suffix in _PARSERS:
    try:
      _PARSERS[path.suffix](text)
    except (ValueError, yaml.YAMLError) as error:
      yield f"does not parse: {error}"
  if text and not text.endswith("\n"):
    yield "does not end in a line break"
  if path.suffix in _FREE_WHITE_SPACE:
    return
  for number, line in enumerate(text.split("\n"), start=1):
    if line != line.rstrip():
      yield f"line {number} ends in white space"


def main(paths: list[str]) -> int:
  """Writes every complaint to stderr; returns 1 if there is one."""
  found = [
    f"{path}: {complaint}"
    for path in paths
    for complaint in complaints(pathlib.Path(path))
  ]
  sys.stderr.writelines(f"{each}\n" for each in found)
  return int(bool(found))


if __name__ == "__main__":
  sys.exit(main(sys.argv[1:]))
