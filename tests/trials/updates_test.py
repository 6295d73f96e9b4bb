from hrl_jax.harness import changes
from hrl_jax.lab import pool
from hrl_jax.trials import updates
from tests.harness import makes
from tests.lab import worlds


def test_what_the_critic_was_shown_is_told_apart():
  world = worlds.small()
  task = world.train[0].id
  good = pool.refinements(world, task)[0]
  bad = pool.decoys(world, task)[0]

  def update(*texts, **others):
    rewrites = [changes.Rewrite(f"c{i}", t) for i, t in enumerate(texts)]
    return makes.update(*rewrites, task=task, **others)

  log = [
    update(good),
    update(good, is_accepted=False),
    update(bad, is_accepted=False),
    update(good, bad),
    update(bad, is_primary=False),
    makes.update(changes.Drop("critique"), task=task),
  ]
  assert updates.sentences(world, log) == {
    "refinements_measured": 2,
    "refinements_accepted": 1,
    "decoys_measured": 1,
    "decoys_accepted": 0,
  }
