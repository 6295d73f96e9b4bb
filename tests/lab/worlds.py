"""A small world for tests, whose first policy is hardly taught at all."""

from hrl_jax.lab import world as worlds
from hrl_jax.lab.parameters import Parameters

SMALL = Parameters(
  train_tasks=12,
  held_out_tasks=4,
  features=32,
  inner_features=48,
  examples=200,
  clear_lessons=4,
  lessons=4,
  lesson_tokens=256,
)


def small(seed: int = 3) -> worlds.World:
  return worlds.draw(seed, SMALL)
