"""What an engine refuses before it samples anything."""

from collections.abc import Sequence

from hrl_jax import base
from hrl_jax.model import specification


def check_sampling(sampling: base.Sampling) -> None:
  """Raises ValueError naming the setting that has no meaning."""
  allowed = {
    "temperature": (sampling.temperature, sampling.temperature >= 0, ">= 0"),
    "top_p": (sampling.top_p, 0 < sampling.top_p <= 1, "in (0, 1]"),
    "top_k": (sampling.top_k, sampling.top_k >= 0, ">= 0, 0 for all"),
    "max_tokens": (sampling.max_tokens, sampling.max_tokens >= 1, ">= 1"),
  }
  for name, (value, is_allowed, range_) in allowed.items():
    if not is_allowed:
      raise ValueError(f"Sampling needs {name} {range_}, got {value}.")


def check_requests(
  requests: Sequence[base.Request],
  max_tokens: int,
  config: specification.DecoderConfig,
) -> None:
  """Raises ValueError naming the first request that cannot be completed.

  Nothing is cut or clipped to fit: that would be another request.
  """
  for index, request in enumerate(requests):
    _check_request(index, request, max_tokens, config)


def _check_request(
  index: int,
  request: base.Request,
  max_tokens: int,
  config: specification.DecoderConfig,
) -> None:
  length = len(request.prompt_ids)
  if not length:
    raise ValueError(
      f"Request {index} has an empty prompt: there is nothing to continue. "
      "Give it at least one token."
    )
  if length + max_tokens > config.max_positions:
    raise ValueError(
      f"Request {index} has a prompt of {length} tokens; with max_tokens = "
      f"{max_tokens} that is more than the {config.max_positions} positions of "
      "the model. Shorten the prompt or lower max_tokens."
    )
  if (
    min(request.prompt_ids) < 0 or max(request.prompt_ids) >= config.vocab_size
  ):
    raise ValueError(
      f"Request {index} has token ids from {min(request.prompt_ids)} to "
      f"{max(request.prompt_ids)}; the model knows 0 to "
      f"{config.vocab_size - 1}. Use the model's own tokenizer."
    )
  if not 0 <= request.seed < 2**32:
    raise ValueError(
      f"Request {index} has seed {request.seed}; a seed is an unsigned 32-bit "
      "integer."
    )
