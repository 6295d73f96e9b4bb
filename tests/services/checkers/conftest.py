"""Settings of the checkers' tests."""

import logging

import pytest


@pytest.fixture(autouse=True, scope="module")
def without_logs():
  """The packages log responses; a lone surrogate in one ends a test worker."""
  logging.disable(logging.CRITICAL)
  yield
  logging.disable(logging.NOTSET)
