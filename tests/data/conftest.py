import pytest


@pytest.fixture(scope="session")
def qwen_like():
  """The tokenizer of `tests.data.qwen_like`."""
  # Imported here: modules that a conftest imports escape the type checker.
  from hrl_jax.data import tokenizer
  from tests.data import qwen_like as small

  return tokenizer.from_files(small.files(), {})
