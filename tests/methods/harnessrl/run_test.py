"""The method in a run of its own: a policy, the memory's files, training."""

import itertools

import jax
import ml_collections
import numpy as np
import pytest

from hrl_jax import config as configs
from hrl_jax import train
from hrl_jax.harness import commits, records
from hrl_jax.services.memory import log
from tests import tiny
from tests.methods.harnessrl import same


def trained(config, steps):
  """The state after some steps, their records, and what was built."""
  setup, state = train.build(configs.from_config_dict(config))
  state = train.prepare(setup, state)
  run = list(itertools.islice(train.run(setup, state), steps))
  for file in setup.logs:
    file.close()
  return setup, run[-1][1], [record for _, _, record in run]


def grpo(config):
  config.method.name = "grpo"
  config.method.arguments = ml_collections.ConfigDict()
  return config


@pytest.mark.slow
def test_without_interfaces_it_trains_as_grpo_does_bit_for_bit(tmp_path):
  config = tiny.harness_config(tmp_path)
  config.method.arguments.interfaces = ()
  _, harness, seen = trained(config, 2)
  _, other, expected = trained(grpo(tiny.harness_config(tmp_path)), 2)
  jax.tree.map(np.testing.assert_array_equal, harness.train, other.train)
  for one, two in zip(seen, expected, strict=True):
    assert one.evidence.plan == two.evidence.plan
    own = {n: v for n, v in one.metrics.items() if not n.startswith("harness/")}
    assert set(own) == set(two.metrics)
    for name, value in own.items():
      np.testing.assert_array_equal(value, two.metrics[name])


@pytest.mark.slow
def test_a_run_s_log_replays_to_its_state(tmp_path):
  config = tiny.harness_config(tmp_path)
  setup, state, seen = trained(config, 2)
  written = log.read(tmp_path / "run" / "memory" / "log.jsonl", setup.bank.hash)
  replayed = commits.replay(setup.bank, written)
  same.states(replayed, state.method.harness)
  kinds = {type(record) for record in written}
  assert {records.Group, records.Labels, records.Calibration} <= kinds
  assert "harness/mounted" in seen[-1].metrics
