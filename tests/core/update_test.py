import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from hrl_jax import batch as batches
from hrl_jax.core import advantages, losses, optimizer, update
from tests.core import toy

V, P, G, T = 7, 2, 3, 4
LENGTHS = (4, 1, 3, 2, 4, 2)
REWARDS_PG = jnp.array([[1.0, 0.0, 0.5], [0.0, 0.0, 1.0]])


def bigram(params, tokens_BT):
  """A toy policy: each token is predicted by the one before it."""
  before_BT = jnp.pad(tokens_BT[:, :-1], ((0, 0), (1, 0)))
  logprobs_BTV = jax.nn.log_softmax(params["kernel"][before_BT])
  picked_BT1 = jnp.take_along_axis(logprobs_BTV, tokens_BT[..., None], -1)
  entropies_BT = -jnp.sum(jnp.exp(logprobs_BTV) * logprobs_BTV, -1)
  return picked_BT1[..., 0], entropies_BT


def example(micro_batches=1, seed=0):
  rng = np.random.default_rng(seed)
  tokens_BT = rng.integers(0, V, (P * G, T))
  mask_BT = np.arange(T)[None] < np.array(LENGTHS)[:, None]
  sampler_BT = rng.normal(-2, 0.1, (P * G, T)).astype(np.float32)
  shape = (micro_batches, P * G // micro_batches)
  rows = batches.Rows(
    mask_BT.reshape(*shape, T),
    np.where(mask_BT, sampler_BT, 0).reshape(*shape, T),
    np.arange(P * G, dtype=np.int32).reshape(shape),
  )
  made = batches.Batch(rows, tokens_BT.reshape(*shape, T), np.int32(P))
  return jax.tree.map(jnp.asarray, made)


def credit(rewards_PG=REWARDS_PG, importance_P=(1.0, 1.0)):
  valid_PG = ~jnp.isnan(rewards_PG)
  return update.Credit(
    advantages.leave_one_out(rewards_PG, valid_PG),
    valid_PG,
    jnp.array(importance_P),
  )


def params(seed=0):
  return {"kernel": 0.5 * jax.random.normal(jax.random.key(seed), (V, V))}


def make(chain=None, objective=toy.PLAIN, network=bigram, **knobs):
  knobs = {
    "aggregation": "sequence_mean_token_mean",
    "max_tokens": T,
    **knobs,
  }
  chain = chain or optax.sgd(1.0)
  return chain, update.make(network, chain, objective=objective, **knobs)


def stepped(made=None, start=None, earned=None, known=None, **knobs):
  """Parameters and metrics after one update, and the change it made."""
  chain, step = make(**knobs)
  start = start or params()
  before = jax.tree.map(np.asarray, start)
  state = update.init(jax.tree.map(jnp.copy, start), chain)
  state, metrics = step(
    state,
    made or example(),
    earned or credit(),
    known or update.Known(None, None),
  )
  change = jax.tree.map(lambda new, old: new - old, state.params, before)
  return state, jax.device_get(metrics), change


@pytest.mark.core
def test_the_first_update_is_the_policy_gradient():
  # Ratio 1, no KL: the gradient is that of the weighted log-likelihood.
  made = example()
  earned = credit()

  def surrogate(params):
    logprobs_BT, _ = bigram(params, made.layout[0])
    total = 0.0
    for row, length in enumerate(LENGTHS):
      mean = logprobs_BT[row, :length].mean()
      total += earned.advantages_PG.reshape(-1)[row] * mean / (P * G)
    return total

  expected = jax.grad(surrogate)(params())
  _, metrics, change = stepped()
  np.testing.assert_allclose(change["kernel"], expected["kernel"], atol=1e-6)
  np.testing.assert_allclose(
    metrics["grad_norm"], np.linalg.norm(expected["kernel"]), rtol=1e-5
  )
  assert metrics["ratio_mean"] == metrics["ratio_max"] == 1.0
  assert metrics["tokens"] == sum(LENGTHS)


@pytest.mark.core
@pytest.mark.parametrize("aggregation", losses.AGGREGATIONS)
@pytest.mark.parametrize("micro_batches", [2, 3, 6])
def test_micro_batches_add_up_to_one_batch(aggregation, micro_batches):
  _, whole, change = stepped(aggregation=aggregation)
  _, parts, same = stepped(example(micro_batches), aggregation=aggregation)
  np.testing.assert_allclose(change["kernel"], same["kernel"], atol=1e-6)
  for name in whole:
    np.testing.assert_allclose(whole[name], parts[name], rtol=1e-5, atol=1e-6)


def test_importance_scales_the_whole_term_of_its_group():
  _, _, both = stepped(earned=credit(importance_P=(2.0, 3.0)))
  _, _, first = stepped(earned=credit(importance_P=(1.0, 0.0)))
  _, _, second = stepped(earned=credit(importance_P=(0.0, 1.0)))
  np.testing.assert_allclose(
    both["kernel"], 2 * first["kernel"] + 3 * second["kernel"], atol=1e-6
  )


def test_an_ungraded_rollout_changes_nothing():
  rewards_PG = REWARDS_PG.at[1, 0].set(jnp.nan)
  _, metrics, change = stepped(earned=credit(rewards_PG))
  made = example()
  # Its row's tokens and mask may be anything.
  rows = made.rows._replace(
    sampler_logprobs_MBT=made.rows.sampler_logprobs_MBT.at[0, 3].set(jnp.nan)
  )
  other = made._replace(
    rows=rows, layout=made.layout.at[0, 3].set(jnp.array([6, 5, 4, 3]))
  )
  _, again, same = stepped(other, earned=credit(rewards_PG))
  np.testing.assert_array_equal(change["kernel"], same["kernel"])
  assert metrics["loss"] == again["loss"]
  assert metrics["tokens"] == sum(LENGTHS) - LENGTHS[3]


def test_no_contrast_no_change():
  _, metrics, change = stepped(earned=credit(jnp.full((P, G), 0.3)))
  np.testing.assert_array_equal(change["kernel"], 0.0)
  assert metrics["grad_norm"] == 0.0


@pytest.mark.core
@pytest.mark.parametrize("where", ["value", "gradient"])
def test_a_gradient_that_is_not_finite_changes_nothing(where):
  def broken(params, tokens_BT):
    logprobs_BT, entropies_BT = bigram(params, tokens_BT)
    extra = params["other"]
    if where == "value":
      return logprobs_BT + jnp.log(extra - extra), entropies_BT
    return logprobs_BT + jnp.sqrt(extra - extra), entropies_BT

  start = {**params(), "other": jnp.zeros(())}
  chain = optax.adam(1.0)
  state, metrics, change = stepped(start=start, chain=chain, network=broken)
  jax.tree.map(lambda leaf: np.testing.assert_array_equal(leaf, 0.0), change)
  fresh = chain.init(start)
  jax.tree.map(np.testing.assert_array_equal, state.opt_state, fresh)
  assert metrics["finite"] == 0.0
  flags = dict(zip(sorted(start), metrics["nonfinite_leaves"], strict=True))
  assert flags["other"] == 1.0


def test_a_second_update_on_a_batch_leaves_ratio_one():
  made, earned = example(), credit()
  chain, step = make()
  state = update.init(params(), chain)
  old = update.make_logprobs(bigram)(state.params, made.layout)
  known = update.Known(old, None)
  state, first = step(state, made, earned, known)
  state, second = step(state, made, earned, known)
  assert first["ratio_mean"] == pytest.approx(1.0, abs=1e-6)
  assert abs(second["ratio_max"] - 1.0) > 1e-2
  assert int(state.step) == 2


def test_the_reference_pulls_back():
  objective = toy.PLAIN._replace(kl_coefficient=1.0)
  made = example()
  reference = update.make_logprobs(bigram)(params(1), made.layout)
  known = update.Known(None, reference)
  flat = credit(jnp.full((P, G), 0.3))
  state, before, _ = stepped(earned=flat, known=known, objective=objective)
  chain, step = make(objective=objective)
  _, after = step(update.init(state.params, chain), made, flat, known)
  assert 0 < after["kl"] < before["kl"]


def test_the_state_is_consumed():
  # Donated buffers are gone: holding on to them is an error, not a copy.
  chain, step = make()
  state = update.init(params(), chain)
  step(state, example(), credit(), update.Known(None, None))
  assert state.params["kernel"].is_deleted()


@pytest.mark.core
def test_adamw_by_hand():
  # First step of Adam: m / sqrt(v) is the sign of the gradient; weight decay
  # is decoupled and spares norms.
  made = optimizer.adamw(
    learning_rate=0.1,
    warmup_steps=0,
    num_steps=10,
    schedule="constant",
    b1=0.9,
    b2=0.999,
    eps=0.0,
    weight_decay=0.5,
    max_grad_norm=1e9,
  )
  start = {"kernel": jnp.array([2.0]), "scale": jnp.array([2.0])}
  gradients = {"kernel": jnp.array([3.0]), "scale": jnp.array([-4.0])}
  updates, _ = made.update(gradients, made.init(start), start)
  np.testing.assert_allclose(
    updates["kernel"], [-0.1 * (1 + 0.5 * 2)], rtol=1e-5
  )
  np.testing.assert_allclose(updates["scale"], [0.1], rtol=1e-5)


@pytest.mark.parametrize(
  ("schedule", "expected"),
  [
    ("constant", [0.5, 1.0, 1.0, 1.0]),
    ("linear", [0.5, 1.0, 1.0, 0.75]),
    ("cosine", [0.5, 1.0, 1.0, 0.853553]),
  ],
)
def test_schedules_by_hand(schedule, expected):
  # Two warm-up updates, then four of falling: 1 - 1/4, (1 + cos(pi/4)) / 2.
  made = optimizer.adamw(
    learning_rate=1.0,
    warmup_steps=2,
    num_steps=6,
    schedule=schedule,
    b1=0.0,
    b2=0.0,
    eps=0.0,
    weight_decay=0.0,
    max_grad_norm=1e9,
  )
  start = {"kernel": jnp.array([0.0])}
  state = made.init(start)
  rates = []
  for _ in expected:
    updates, state = made.update({"kernel": jnp.array([1.0])}, state, start)
    rates.append(-float(updates["kernel"][0]))
  np.testing.assert_allclose(rates, expected, rtol=1e-5)


def test_gradients_are_clipped_to_the_global_norm():
  made = optimizer.adamw(
    learning_rate=1.0,
    warmup_steps=0,
    num_steps=1,
    schedule="constant",
    b1=0.0,
    b2=0.0,
    eps=1.0,
    weight_decay=0.0,
    max_grad_norm=1.0,
  )
  # (3, 4) has norm 5: clipped to (0.6, 0.8). Adam with b = 0: g / (|g| + 1).
  start = {"kernel": jnp.zeros(2)}
  updates, _ = made.update(
    {"kernel": jnp.array([3.0, 4.0])}, made.init(start), start
  )
  np.testing.assert_allclose(
    updates["kernel"], [-0.6 / 1.6, -0.8 / 1.8], rtol=1e-6
  )


def test_an_unknown_schedule_is_refused():
  with pytest.raises(ValueError, match="no schedule 'sawtooth'"):
    optimizer.adamw(
      learning_rate=1.0,
      warmup_steps=0,
      num_steps=1,
      schedule="sawtooth",
      b1=0.0,
      b2=0.0,
      eps=1.0,
      weight_decay=0.0,
      max_grad_norm=1.0,
    )
