"""One optimiser step on a batch.

  gradient of the loss, summed over micro-batches
  clip by global norm, AdamW
  a gradient that is not finite changes nothing and raises a flag

The network is handed in as `row_logprobs(params, layout)`: the step works for
any policy that scores its rows. Everything is pure and is jitted by
`make`; the state is donated there, so it is gone after the call. The frozen
reference enters through its log-probabilities, never as parameters beside the
policy's: one buffer cannot be donated twice.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float, Int

from hrl_jax import batch as batches
from hrl_jax.core import losses, measures

RowLogprobs = Callable[..., tuple[Array, Array]]


class TrainState(NamedTuple):
  """What the optimiser changes.

  Attributes:
    params: of the policy.
    opt_state: of the optimiser.
    step: updates applied, the rejected ones included.
  """

  params: Any
  opt_state: Any
  step: Int[Array, ""]


class Credit(NamedTuple):
  """What the batch's groups have earned.

  Attributes:
    advantages_PG: of each rollout, 0 where not valid.
    valid_PG: False where a rollout must not count.
    importance_P: u of each group (H-30).
  """

  advantages_PG: Float[Array, "P G"]
  valid_PG: Bool[Array, "P G"]
  importance_P: Float[Array, " P"]


class Known(NamedTuple):
  """Log-probabilities of the batch's tokens under fixed weights.

  Attributes:
    old_logprobs_MBT: under the weights that sampled; None takes the policy's
      own, which is exact where there is one update per batch (H-27).
    ref_logprobs_MBT: under the reference; None where nothing asks for it.
  """

  old_logprobs_MBT: Float[Array, "M B T"] | None
  ref_logprobs_MBT: Float[Array, "M B T"] | None


def init(params: Any, optimizer: optax.GradientTransformation) -> TrainState:
  """The state before the first update."""
  return TrainState(params, optimizer.init(params), jnp.zeros((), jnp.int32))


def make(
  row_logprobs: RowLogprobs,
  optimizer: optax.GradientTransformation,
  *,
  objective: losses.Objective,
  aggregation: str,
  max_tokens: int,
) -> Callable[..., tuple[TrainState, dict[str, Array]]]:
  """Binds a network, an optimiser and a loss into a jitted update.

  Args:
    row_logprobs: `(params, layout) -> (logprobs_BT, entropies_BT)` of one
      micro-batch, at the sampling temperature.
    optimizer: its clip, if any, comes first in the chain.
    objective: the knobs of the loss.
    aggregation: one of `losses.AGGREGATIONS`.
    max_tokens: longest completion, for `sequence_mean_token_sum_norm`.

  Returns:
    `update(state, batch, credit, known) -> (state, metrics)`, which consumes
    the state. Metrics are `loss`, `grad_norm` (before the clip), `finite` (1,
    or 0 where the update was rejected), `nonfinite_leaves` (a flag for each
    parameter, in the order of the pytree) and those of `measures.finalise`.
  """

  def micro_loss(params, layout, sampled):
    logprobs_BT, entropies_BT = row_logprobs(params, layout)
    return losses.grpo(logprobs_BT, entropies_BT, sampled, objective=objective)

  def update(state, batch, credit, known):
    sampled = _sampled(batch, credit, known, aggregation, max_tokens)
    (loss, parts), gradients = _accumulated(
      jax.value_and_grad(micro_loss, has_aux=True),
      state.params,
      batch.layout,
      sampled,
    )
    grad_norm = optax.tree.norm(gradients)
    finite = jnp.isfinite(loss) & jnp.isfinite(grad_norm)
    leaves = jax.tree.leaves(gradients)
    nonfinite = jnp.stack([~jnp.isfinite(leaf).all() for leaf in leaves])
    updates, opt_state = optimizer.update(
      gradients, state.opt_state, state.params
    )
    params = optax.apply_updates(state.params, updates)
    params, opt_state = jax.tree.map(
      lambda new, old: jnp.where(finite, new, old),
      (params, opt_state),
      (state.params, state.opt_state),
    )
    metrics = {
      "loss": loss,
      "grad_norm": grad_norm,
      "finite": finite.astype(jnp.float32),
      "nonfinite_leaves": nonfinite.astype(jnp.float32),
      **measures.finalise(parts),
    }
    return TrainState(params, opt_state, state.step + 1), metrics

  return jax.jit(update, donate_argnums=0)


def make_logprobs(
  row_logprobs: RowLogprobs,
) -> Callable[..., Float[Array, "M B T"]]:
  """Binds a network into a jitted `logprobs(params, layout) -> [M, B, T]`.

  For the log-probabilities that `Known` holds; nothing is differentiated.
  """

  def logprobs(params, layout):
    return jax.lax.map(lambda micro: row_logprobs(params, micro)[0], layout)

  return jax.jit(logprobs)


def _sampled(
  batch: batches.Batch,
  credit: Credit,
  known: Known,
  aggregation: str,
  max_tokens: int,
) -> losses.Sampled:
  """Everything constant about the rows, weights taken over the whole batch."""
  rows = batch.rows
  group_size = credit.advantages_PG.shape[1]
  rollout_B = rows.rollout_MB.reshape(-1)
  weights_B = losses.row_weights(
    rows.mask_MBT.sum(axis=2).reshape(-1),
    rollout_B // group_size,
    credit.importance_P,
    credit.valid_PG.reshape(-1)[rollout_B],
    batch.num_groups,
    aggregation=aggregation,
    max_tokens=max_tokens,
    rollout_B=rollout_B,
  )
  shape = (*rows.rollout_MB.shape, 1)
  return losses.Sampled(
    completion_mask_BT=rows.mask_MBT,
    advantages_B1=credit.advantages_PG.reshape(-1)[rollout_B].reshape(shape),
    weights_B1=weights_B.reshape(shape),
    old_logprobs_BT=known.old_logprobs_MBT,
    ref_logprobs_BT=known.ref_logprobs_MBT,
    sampler_logprobs_BT=rows.sampler_logprobs_MBT,
  )


def _accumulated(gradient, params, layout, sampled):
  """Sums value, measures and gradient over the micro-batches."""
  first = jax.tree.map(lambda array: array[0], (layout, sampled))
  if sampled.weights_B1.shape[0] == 1:  # No second set of gradient buffers.
    return gradient(params, *first)

  def add(total, micro):
    (loss, parts), gradients = total
    (more, other), more_gradients = gradient(params, *micro)
    gradients = jax.tree.map(jnp.add, gradients, more_gradients)
    return ((loss + more, measures.combine(parts, other)), gradients), None

  zeros = jax.tree.map(
    lambda leaf: jnp.zeros(leaf.shape, leaf.dtype),
    jax.eval_shape(gradient, params, *first),
  )
  return jax.lax.scan(add, zeros, (layout, sampled))[0]
