import time

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hrl_jax import config as configs
from hrl_jax import train
from tests import tiny


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
  path = tmp_path_factory.mktemp("tiny")
  tiny.config(path)
  return path


def records(folder, **knobs):
  """Every step of a run with some knobs changed, and its last state."""
  config = tiny.config(folder)
  with config.unlocked():
    config.update_from_flattened_dict(knobs)
  setup, state = train.build(configs.from_config_dict(config))
  states, found = [state], []
  for _, after, record in train.run(setup, state):
    states.append(after)
    found.append((record, jax.device_get(record.metrics)))
  return found, states[-1]


@pytest.mark.core
def test_every_rollout_says_which_weights_made_it(folder):
  found, _ = records(folder, num_steps=3)
  for step, (record, _) in enumerate(found):
    versions = {
      rollout.completion.weights_version
      for group in record.evidence.groups
      for rollout in group.rollouts
    }
    assert versions == {step}


def test_duplicated_draws_form_groups_of_their_own(folder):
  # peers, Search-R1#88: five draws of four tasks hold a pair.
  found, _ = records(folder, **{"rollout.tasks_per_step": 5, "num_steps": 1})
  ((record, metrics),) = found
  tasks = [slot.task for slot in record.evidence.plan.slots]
  assert len(set(tasks)) < len(tasks) == 5
  assert record.evidence.rewards_PG.shape == (5, 4)
  assert len(record.evidence.plan.prompts) == len(set(tasks))
  lengths = [
    len(rollout.completion.tokens)
    for group in record.evidence.groups
    for rollout in group.rollouts
  ]
  assert metrics["tokens"] == sum(lengths)


@pytest.mark.parametrize("knobs", [{}, {"updates.epochs": 2}])
def test_both_forms_of_the_update_train_alike(folder, knobs):
  def trained(form):
    _, state = records(
      folder, **{"updates.form": form, "num_steps": 2, **knobs}
    )
    return state.train.params

  jax.tree.map(
    lambda a, b: np.testing.assert_allclose(a, b, atol=1e-4),
    trained("shared_prompt"),
    trained("one_row"),
  )


@pytest.mark.parametrize(
  "knobs",
  [
    {"rollout.top_p": 0.9},
    {"rollout.temperature": 0.7},
    {"rollout.top_k": 5},
  ],
)
def test_trainer_and_sampler_agree_on_every_token(folder, knobs):
  # trl#6789 and trl#4159: the comparable quantity is the full-vocabulary
  # log-probability at the sampling temperature, whatever was cut.
  found, _ = records(folder, num_steps=2, **knobs)
  for _, metrics in found:
    assert metrics["mismatch_max"] < 1e-4
    assert metrics["ratio_max"] == metrics["ratio_mean"] == 1.0


def test_the_time_to_start_an_update_is_the_updates(folder):
  # A compilation holds the caller; it was counted as the method's.
  setup, state = train.build(configs.from_config_dict(tiny.config(folder)))

  def slow_to_start(*arguments):
    time.sleep(2)
    return setup.update(*arguments)

  steps = train.run(setup._replace(update=slow_to_start), state)
  _, _, record = next(steps)
  assert set(record.seconds) == {"collect", "update", "learn", "load"}
  assert record.seconds["update"] >= 2 > record.seconds["learn"]


def test_a_record_names_its_phases_and_their_parts_for_the_logs():
  record = train.Record(None, (), {}, {"learn": 1.0}, {"propose": 0.25}, 1)
  assert record.timing == {"seconds_learn": 1.0, "learn/propose_s": 0.25}


def test_a_step_runs_without_jit_too(folder):
  # To look at arrays inside a step: JAX_DISABLE_JIT=True.
  knobs = {
    "num_steps": 1,
    "rollout.max_completion_tokens": 3,
    "loss.measure_kl": False,
  }
  ((_, expected),), _ = records(folder, **knobs)
  with jax.disable_jit():
    ((_, metrics),), _ = records(folder, **knobs)
  assert metrics.keys() == expected.keys()
  for name in ("reward", "loss", "grad_norm", "entropy", "tokens"):
    np.testing.assert_allclose(
      metrics[name], expected[name], rtol=1e-4, atol=1e-7
    )


def test_without_a_learning_rate_nothing_drifts(folder):
  # open-instruct#1473: the gap between trainer and sampler stays flat.
  found, state = records(
    folder,
    **{
      "optimizer.learning_rate": 0.0,
      "num_steps": 20,
      "loss.measure_kl": True,
    },
  )
  gaps = [metrics["mismatch_mean"] for _, metrics in found]
  assert max(gaps) < 1e-5
  assert all(metrics["kl"] < 1e-9 for _, metrics in found)
  jax.tree.map(np.testing.assert_array_equal, state.train.params, tiny.params())


@pytest.mark.parametrize(
  "knobs", [{"updates.epochs": 2}, {"updates.mini_batches": 3}]
)
def test_with_further_updates_the_ratio_leaves_one(folder, knobs):
  found, state = records(folder, num_steps=1, **knobs)
  ((_, metrics),) = found
  assert int(state.train.step) == max(knobs.values())
  assert abs(metrics["ratio_max"] - 1.0) > 1e-3


def test_reward_rises_on_the_small_model(folder):
  found, _ = records(folder, num_steps=30)
  rewards = [metrics["reward"] for _, metrics in found]
  assert np.mean(rewards[-5:]) > np.mean(rewards[:5]) + 0.2


def test_a_step_without_contrast_is_skipped(folder):
  # DAPO#22. Completions of one token, greedy enough to be all the same.
  found, state = records(
    folder,
    **{
      "rollout.temperature": 1e-6,
      "rollout.drop_constant": True,
      "rollout.max_rounds": 2,
      "num_steps": 2,
    },
  )
  assert int(state.train.step) == 0
  for record, metrics in found:
    assert "loss" not in metrics
    assert {group.fate for group in record.evidence.groups} == {"constant"}
    assert len(record.evidence.groups) == 6


def test_a_gradient_that_is_not_finite_stops_the_run_and_says_where(folder):
  setup, state = train.build(configs.from_config_dict(tiny.config(folder)))
  broken = setup._replace(
    credit=lambda rewards_PG, valid_PG: jnp.full(rewards_PG.shape, jnp.inf)
  )
  step, state, record = next(train.run(broken, state))
  with pytest.raises(train.NonFiniteError, match=r"Step 0.*layers/.*task"):
    train.check_finite(setup, step, record)
  jax.tree.map(np.testing.assert_array_equal, state.train.params, tiny.params())
