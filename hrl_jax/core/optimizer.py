"""AdamW behind a clip of the global norm, with a learning-rate schedule."""

from typing import Any

import jax
import optax

# Matrices decay; norms and biases do not, as in the field's trainers.
_DECAYED = ("kernel", "embedding")


def adamw(
  *,
  learning_rate: float,
  warmup_steps: int,
  num_steps: int,
  schedule: str,
  b1: float,
  b2: float,
  eps: float,
  weight_decay: float,
  max_grad_norm: float,
) -> optax.GradientTransformation:
  """AdamW whose gradients are first clipped to a global norm.

  The rate rises linearly over the first `warmup_steps` updates and then stays
  ("constant") or falls to zero at update `num_steps` ("linear", "cosine").

  Args:
    learning_rate: the highest rate.
    warmup_steps: updates before it is reached, 0 for none.
    num_steps: updates of the whole run; read by the falling schedules.
    schedule: what follows the warm-up.
    b1: decay of the first moment.
    b2: decay of the second moment.
    eps: added to the root of the second moment.
    weight_decay: decoupled, on matrices only.
    max_grad_norm: gradients are scaled down to this global norm.

  Raises:
    ValueError: if there is no such schedule.
  """
  falling_steps = max(num_steps - warmup_steps, 1)
  after = {
    "constant": optax.constant_schedule(learning_rate),
    "linear": optax.linear_schedule(learning_rate, 0.0, falling_steps),
    "cosine": optax.cosine_decay_schedule(learning_rate, falling_steps),
  }
  if schedule not in after:
    raise ValueError(
      f"There is no schedule {schedule!r}. Choose one of {', '.join(after)}."
    )
  rate = after[schedule]
  if warmup_steps:
    # The first update already has a rate above zero.
    warmup = optax.linear_schedule(
      learning_rate / warmup_steps, learning_rate, max(warmup_steps - 1, 1)
    )
    rate = optax.join_schedules([warmup, rate], [warmup_steps])
  return optax.chain(
    optax.clip_by_global_norm(max_grad_norm),
    optax.adamw(
      rate,
      b1=b1,
      b2=b2,
      eps=eps,
      weight_decay=weight_decay,
      mask=_matrices,
    ),
  )


def _matrices(params: Any) -> Any:
  def decays(path, leaf):
    del leaf
    return path[-1].key in _DECAYED

  return jax.tree_util.tree_map_with_path(decays, params)
