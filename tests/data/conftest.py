import pytest

from hrl_jax.data import tokenizer
from tests.data import qwen_like as small


@pytest.fixture(scope="session")
def qwen_like():
  """The tokenizer of `tests.data.qwen_like`."""
  return tokenizer.from_files(small.files(), {})
