"""What bit-for-bit repetition depends on besides seed and config.

The sum of a float32 array differs between one CPU core and two, between
devices and between versions of the compiler. So a run records these, and goes
on only under the same ones.
"""

import importlib.metadata
import logging
import os
import pathlib
import platform
import subprocess
from collections.abc import Mapping
from typing import Any

import jax

from hrl_jax.config import schema

_PACKAGES = (
  "hrl_jax",
  "flax",
  "jax",
  "jaxlib",
  "numpy",
  "optax",
  "orbax-checkpoint",
)

_logger = logging.getLogger(__name__)


def gather() -> dict[str, Any]:
  """Returns the conditions of this process, JSON values.

  No name of a machine or a user is among them. What the platform does not
  tell is None.
  """
  return {
    "python": platform.python_version(),
    "versions": {name: _version(name) for name in _PACKAGES},
    "commit": commit(pathlib.Path(__file__).resolve().parents[2]),
    "cpu": _cpu_model(),
    "cpu_affinity": _cpu_affinity(),
    "devices": [
      f"{each.platform} {each.device_kind}" for each in jax.devices()
    ],
    "processes": jax.process_count(),
    "xla_flags": os.environ.get("XLA_FLAGS", ""),
  }


def check_same(
  old: Mapping[str, Any], new: Mapping[str, Any], *, allowed: bool
) -> None:
  """Refuses to go on under other conditions.

  Of the CPU affinity only the number of CPUs counts: how a sum is divided
  depends on it, and not on which CPUs they are.

  Args:
    old: of `gather`, when the run last started.
    new: of this process.
    allowed: whether a difference is only logged.

  Raises:
    ValueError: if they differ and that is not allowed.
  """
  differences = schema.differences(_what_counts(old), _what_counts(new))
  if not differences:
    return
  if allowed:
    _logger.warning(
      "Resumed under other conditions: %s.", "; ".join(differences)
    )
    return
  raise ValueError(
    "The run was started under other conditions, so going on would not repeat "
    f"it bit for bit: {'; '.join(differences)}. Restore them, choose another "
    "config.workdir, or pass --resume_anyway."
  )


def _what_counts(conditions: Mapping[str, Any]) -> dict[str, Any]:
  number = len(conditions["cpu_affinity"])
  return {**conditions, "cpu_affinity": f"{number} CPUs"}


def _version(package: str) -> str | None:
  try:
    return importlib.metadata.version(package)
  except importlib.metadata.PackageNotFoundError:
    return None  # Run from a checkout: the commit tells more.


def _cpu_affinity() -> list[int]:
  if hasattr(os, "sched_getaffinity"):
    return sorted(os.sched_getaffinity(0))
  return list(range(os.cpu_count() or 1))  # A platform without affinities.


def _cpu_model() -> str | None:
  try:
    lines = pathlib.Path("/proc/cpuinfo").read_text().splitlines()
  except OSError:
    return None
  names = [line.partition(":")[2] for line in lines if "model name" in line]
  return names[0].strip() if names else None


def commit(root: pathlib.Path) -> str | None:
  """Returns the commit of a checkout, None where there is no repository.

  Changes that are not committed are told by "with changes".
  """
  # An installed copy may lie inside a repository that is not its own.
  if not (root / ".git").exists():
    return None
  try:
    head = _git(root, "rev-parse", "HEAD")
    changed = _git(root, "status", "--porcelain", "--untracked-files=no")
  except (OSError, subprocess.SubprocessError):
    return None
  return f"{head} with changes" if changed else head


def _git(root: pathlib.Path, *arguments: str) -> str:
  return subprocess.run(
    ["git", "-C", str(root), *arguments],
    capture_output=True,
    check=True,
    text=True,
    timeout=10,
  ).stdout.strip()
