"""Training recipes, each the few functions of a `Method`."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from hrl_jax.config import schema
from hrl_jax.data import jsonl
from hrl_jax.methods import given, grpo
from hrl_jax.methods.harnessrl import arguments, opening


@dataclasses.dataclass(frozen=True, kw_only=True)
class NoArguments(schema.Section, place="config.method.arguments"):
  """Of a method that takes none."""


class Recipe(NamedTuple):
  """How a method is made.

  Attributes:
    arguments: what `config.method.arguments` holds for it.
    make: `make(given, arguments) -> Made`.
  """

  arguments: type[schema.Section]
  make: Callable[[given.Given, Any], given.Made]


METHODS: Mapping[str, Recipe] = {
  "grpo": Recipe(
    NoArguments, lambda run, knobs: given.Made(grpo.make(run.size))
  ),
  "harnessrl": Recipe(arguments.Arguments, opening.make),
}


def recipe(name: str, values: Mapping[str, Any]) -> tuple[Recipe, Any]:
  """The recipe of a name, and its arguments, checked.

  Args:
    name: of `config.method.name`.
    values: of `config.method.arguments`.

  Raises:
    ValueError: if there is no such method, or it takes other arguments.
  """
  if name not in METHODS:
    raise ValueError(
      f"There is no method {jsonl.shown(name)}. config.method.name is one of "
      f"{', '.join(METHODS)}."
    )
  found = METHODS[name]
  return found, schema.build(found.arguments, values)
