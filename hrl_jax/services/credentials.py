"""Keys of endpoints: named in a config, held by the environment."""

import os


def api_key(variable: str | None, section: str) -> str | None:
  """The key that an environment variable holds, None if none is named.

  Args:
    variable: its name.
    section: of the config that names it.

  Raises:
    ValueError: if the environment lacks it.
  """
  if variable is None:
    return None
  if not os.environ.get(variable):
    raise ValueError(
      f"{section}.endpoint.api_key_variable names {variable!r}, which the "
      "environment lacks. Export it, or set the knob to None for an endpoint "
      "without a key."
    )
  return os.environ[variable].strip()
