"""The methods of a comparison, as changes of a config (1.15 of the items)."""

from collections.abc import Mapping
from typing import Any

import ml_collections

# Arguments of HarnessRL that differ from the config's.
ARMS: Mapping[str, Mapping[str, Any] | None] = {
  "grpo": None,
  "harnessrl": {},
  "no_critic": {"critic": False},
  "no_critic_no_memory": {"critic": False, "use_memory": False},
  "bare": {"condition_on": "bare"},
  "guidance": {"interfaces": ("rollout",)},
  "rubric": {"interfaces": ("rubric",)},
  "sampling": {"interfaces": ("sampling",)},
  "guidance_no_critic_no_memory": {
    "interfaces": ("rollout",),
    "critic": False,
    "use_memory": False,
  },
  "rubric_no_critic_no_memory": {
    "interfaces": ("rubric",),
    "critic": False,
    "use_memory": False,
  },
}
"""None is a method without a harness."""


def configured(
  config: ml_collections.ConfigDict, arm: str
) -> ml_collections.ConfigDict:
  """The config of an arm.

  Args:
    config: of HarnessRL with everything on; left as it is.
    arm: one of `ARMS`.

  Raises:
    ValueError: if there is no such arm.
  """
  if arm not in ARMS:
    raise ValueError(
      f"There is no arm {arm!r}. Choose among {', '.join(ARMS)}."
    )
  made = ml_collections.ConfigDict(config.to_dict())
  changes = ARMS[arm]
  if changes is None:
    made.method.name = "grpo"
    made.method.arguments = {}
  else:
    made.method.arguments.update(changes)
  return made
