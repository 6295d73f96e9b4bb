"""Settings of every test."""

import os
import pathlib

# Before jax makes its backend: eight devices on one CPU, for sharded against
# unsharded. What is not sharded lives on the first and costs what it costs
# alone. On an accelerator the tests run where JAX_PLATFORMS names it.
os.environ["JAX_PLATFORMS"] = os.environ.get("JAX_PLATFORMS", "cpu")
# Compiled with few optimisations: tests compile for longer than they run.
os.environ["XLA_FLAGS"] = " ".join(
  [
    os.environ.get("XLA_FLAGS", ""),
    "--xla_force_host_platform_device_count=8",
    "--xla_backend_optimization_level=1",
  ]
).strip()

import hypothesis
import jax
import jax.numpy as jnp
import pytest

# Tests that build the same functions anew find them compiled, also those of
# another worker and of the last run.
jax.config.update(
  "jax_compilation_cache_dir",
  str(pathlib.Path(__file__).parents[1] / ".pytest_cache" / "xla"),
)
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.2)

# A vector that silently became a row has hidden many a wrong mean.
jax.config.update("jax_numpy_rank_promotion", "raise")

# The first call of a function compiles it, which no deadline foresees; and the
# same examples everywhere, so that a failure is one that anyone can repeat.
hypothesis.settings.register_profile("house", deadline=None, derandomize=True)
hypothesis.settings.load_profile("house")


@pytest.fixture(scope="module")
def smollm2():
  """`(config, params)` of the quickstart's model; skips where it is not."""
  # Imported here: modules that a conftest imports escape the type checker.
  from hrl_jax.checkpoint import hf

  try:
    return hf.load(hf.QUICKSTART, jnp.float32)
  except FileNotFoundError as error:
    pytest.skip(str(error))
