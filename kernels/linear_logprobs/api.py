"""The one entry to the operation."""

from typing import Literal

from jaxtyping import Array, Float, Int

from kernels.linear_logprobs import chunked_xla, reference


def linear_logprobs(
  hidden_FD: Float[Array, "F D"],
  weight_VD: Float[Array, "V D"],
  targets_F: Int[Array, " F"],
  *,
  temperature: float,
  chunk: int,
  implementation: Literal["xla", "reference"] | None = None,
) -> tuple[Float[Array, " F"], Float[Array, " F"]]:
  """Log-probability of each target and entropy of each distribution.

  Differentiable in `hidden_FD` and `weight_VD`, through both results.

  Args:
    hidden_FD: features of the tokens that predict.
    weight_VD: the head.
    targets_F: the ids that are predicted.
    temperature: divides the logits, positive.
    chunk: tokens whose logits are in memory at a time.
    implementation: None chooses; a name is never replaced by another.

  Returns:
    `(logprobs_F, entropies_F)`, float32, in nats.

  Raises:
    ValueError: if temperature or chunk is not positive, or the name is unknown.
  """
  if temperature <= 0 or chunk < 1:
    raise ValueError(
      "linear_logprobs divides logits by a positive temperature and works in "
      f"chunks of at least 1 token, got temperature={temperature} and "
      f"chunk={chunk}. Greedy decoding has no gradient; raise the temperature."
    )
  if implementation in (None, "xla"):
    chunk = min(chunk, hidden_FD.shape[0])
    return chunked_xla.linear_logprobs(
      hidden_FD, weight_VD, targets_F, temperature, chunk
    )
  if implementation == "reference":
    return reference.linear_logprobs(
      hidden_FD, weight_VD, targets_F, temperature=temperature
    )
  raise ValueError(
    f"linear_logprobs has no implementation {implementation!r}; legal names "
    "are 'xla', 'reference' and None, which chooses."
  )
