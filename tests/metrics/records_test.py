import json

import jax.numpy as jnp
import numpy as np
import pytest

from hrl_jax.metrics import records
from tests.metrics import evidence

pytestmark = pytest.mark.core


def test_a_rollout_is_written_whole():
  first, second = records.rollouts(evidence.evidence(), evidence.bank())
  assert first == {
    "step": 7,
    "purpose": "train",
    "slot": 0,
    "rollout": 0,
    "task": "t1",
    "arm": None,
    "importance": 0.5,
    "fate": "trained",
    "valid": True,
    "reward": 1.0,
    "scores": [
      {"criterion": "Is short.", "weight": 2.0, "score": 1.0},
      {"criterion": "Rude.", "weight": -1.0, "score": 0.0},
    ],
    "prompt": [{"role": "user", "content": "ok Be brief."}],
    "trained_prompt": [{"role": "user", "content": "ok"}],
    "text": "ok",
    "tokens": 3,
    "finish": "stop",
    "seed": 4294967295,
    "weights_version": 3,
  }
  assert second["prompt"] == [{"role": "user", "content": "ok"}]
  assert "trained_prompt" not in second


def test_a_missing_score_or_reward_is_null():
  _, second = records.rollouts(evidence.evidence(), evidence.bank())
  assert second["reward"] is None
  assert not second["valid"]
  assert [each["score"] for each in second["scores"]] == [1.0, None]


def test_a_failure_keeps_task_criterion_reason_and_reply():
  failures = records.failures(evidence.evidence(raw="I think"), evidence.bank())
  assert list(failures) == [
    {
      "step": 7,
      "purpose": "train",
      "slot": 0,
      "rollout": 1,
      "task": "t1",
      "criterion": "Rude.",
      "reason": "No verdict.",
      "raw": "I think",
    },
    {
      "step": 7,
      "purpose": "train",
      "slot": 0,
      "rollout": 1,
      "task": "t1",
      "criterion": None,
      "reason": "Late.",
      "raw": "",
    },
  ]


def test_numbers_keep_their_bits_and_their_kind():
  metrics = {
    "float32": jnp.float32(0.1),
    "float64": np.float64(0.1),
    "bfloat16": jnp.bfloat16(0.1),
    "int": np.int64(2**40),
    "tokens": jnp.int32(7),
    "flag": np.bool_(True),
    "nan": jnp.float32(jnp.nan),
    "none": None,
    "inf": np.inf,
    "minus_inf": -np.inf,
    "name": "codex",
  }
  line = json.loads(json.dumps(records.scalars(metrics), allow_nan=False))
  assert line == {
    "float32": float(np.float32(0.1)),
    "float64": 0.1,
    "bfloat16": 0.10009765625,
    "int": 2**40,
    "tokens": 7,
    "flag": True,
    "nan": None,
    "none": None,
    "inf": "Infinity",
    "minus_inf": "-Infinity",
    "name": "codex",
  }
  assert isinstance(line["tokens"], int)
