"""The checkers by name, and how one is run in this process."""

from collections.abc import Mapping

from hrl_jax.data import jsonl
from hrl_jax.services.checkers import contract, if_verifiable, text

CHECKERS: Mapping[str, contract.Checker] = {
  **text.CHECKERS,
  **if_verifiable.CHECKERS,
}


def find(name: str) -> contract.Checker:
  """Returns the checker of a name.

  Raises:
    ValueError: if the name is unknown.
  """
  if name not in CHECKERS:
    raise ValueError(
      f"Unknown checker {jsonl.shown(name)}. hrl_jax.services.checkers.names() "
      f"lists the {len(CHECKERS)} known ones."
    )
  return CHECKERS[name]


def decide(name: str, response: str, arguments: contract.Arguments) -> float:
  """Returns the score of a response, 0 or 1.

  Raises:
    contract.CheckerError: if the checker cannot decide about this response.
  """
  if not response.strip():
    return 0.0
  try:
    return float(find(name).decide(response, arguments))
  except Exception as error:
    raise contract.CheckerError(
      contract.undecided(
        name, response, f"{type(error).__name__}: {jsonl.shown(str(error))}"
      )
    ) from error
