"""Task files of tests, written and read."""

import json

from hrl_jax.data import bank

CHECKERS = ("word_count", "mentions_any")


def valid():
  """One task, whole: every bad input below is this with one thing changed."""
  return {
    "id": "a",
    "domain": "science",
    "prompt": "Why is the sky blue?",
    "rubric": [
      {
        "text": "Is short.",
        "weight": 2,
        "checker": "word_count",
        "arguments": {"minimum": 1, "maximum": 9},
      },
      {"text": "Is wrong.", "weight": -1.5},
    ],
  }


def written(path, *records):
  path.write_bytes(
    b"".join(json.dumps(each).encode() + b"\n" for each in records)
  )
  return path


def load(*paths, **options):
  return bank.load(list(paths), checkers=CHECKERS, **options)
