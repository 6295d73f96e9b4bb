"""The process that `bounded` starts: a question a line in, two lines out.

The first answer says that everything is loaded, the second is the score.
"""

import json
import logging
import math
import os
import signal
import sys
from typing import Any

from hrl_jax.services.checkers import (
  bounded,
  contract,
  if_verifiable,
  registry,
)


def main() -> None:
  """Answers until there are no more questions."""
  # What a package prints must not be taken for an answer.
  answers = os.fdopen(os.dup(1), "w")
  os.dup2(2, 1)
  logging.disable(logging.CRITICAL)
  for line in sys.stdin.buffer:
    question = json.loads(line)
    if question["name"] in if_verifiable.CHECKERS:
      if_verifiable.load()
    print("{}", file=answers, flush=True)
    # Ends this process where the one that would kill it is gone.
    signal.alarm(math.ceil(2 * bounded.SECONDS))
    print(json.dumps(_answer(question)), file=answers, flush=True)
    signal.alarm(0)


def _answer(question: dict[str, Any]) -> dict[str, Any]:
  name, arguments = question["name"], question["arguments"]
  try:
    contract.prepare(name, registry.find(name), arguments)
  except ValueError as error:
    return {"invalid": str(error)}
  if "response" not in question:
    return {}
  try:
    return {"score": registry.decide(name, question["response"], arguments)}
  except contract.CheckerError as error:
    return {"undecided": str(error)}


if __name__ == "__main__":
  main()
