"""The in-process engine: rollouts from the JAX sampler.

Requests with equal prompts share one run of the prompt. Shapes are rounded up
to a few sizes, so that a run compiles a handful of times. Between chunks of
steps the host hands out what has finished, and packs what is left into a
smaller batch once that is at most half as large.
"""

import dataclasses
from collections.abc import Iterator, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import DTypeLike

from hrl_jax import base
from hrl_jax.model import (
  inference,
  inference_weights,
  sampler,
  selection,
  specification,
)
from hrl_jax.rollout import shapes, validation

# Steps between two looks at what has finished.
_CHUNK = 16
# Steps that may follow for a smaller batch to be worth its compilation.
_MANY_STEPS = 32
# Tokens that caches have room for at first; doubled when they are full, so
# that a step reads at most twice the keys and values that there are.
_FIRST_CAPACITY = 64
# Padded tokens of the prompts that run together, which bounds the memory of
# their attention scores.
_PREFILL_TOKENS = 1024


class JaxEngine:
  """Samples on the first local device; see `hrl_jax.protocols.Engine`.

  A completion depends on its request and on the weights only, not on the
  other requests, on their order or on `max_rows` (up to the rounding of
  float32 sums, which is that of log-probabilities within 1e-4).
  """

  def __init__(
    self,
    config: specification.DecoderConfig,
    dtype: DTypeLike,
    *,
    max_rows: int = 64,
  ):
    """Makes an engine without weights.

    Args:
      config: sizes of the network.
      dtype: of its copy of the weights, and so of the computation.
      max_rows: completions that decode together.
    """
    if max_rows < 1:
      raise ValueError(f"An engine needs at least 1 row, got {max_rows}.")
    self._config = config
    self._max_rows = max_rows
    self._sharding = jax.sharding.SingleDeviceSharding(jax.local_devices()[0])
    self._copy = jax.jit(
      lambda params: inference_weights.convert(params, dtype)
    )
    self._loaded: tuple[inference_weights.Weights, int] | None = None

  def load(self, params: base.PyTree, version: int) -> None:
    """Copies the weights; generators already at work keep the ones they have.

    Args:
      params: of `model.decoder`; may be donated or deleted afterwards.
      version: put on every completion made with these weights.
    """
    # Before the new ones are made, so that two copies need not be in memory.
    self._loaded = None
    weights = self._copy(jax.device_put(params, self._sharding))
    self._loaded = (jax.block_until_ready(weights), version)

  def generate(
    self, requests: Sequence[base.Request], sampling: base.Sampling
  ) -> Iterator[base.Completion]:
    """Yields one completion per request, in the order in which they finish.

    Temperature 0 takes the most probable token; its `logprobs` are then at
    temperature 1, its `drawn_logprobs` 0.

    Raises:
      RuntimeError: before the first `load`.
      ValueError: naming the request that cannot be completed, or the setting
        that has no meaning.
    """
    if self._loaded is None:
      raise RuntimeError(
        "The engine has no weights to sample from. Call load(params, version) "
        "before generate."
      )
    validation.check_sampling(sampling)
    validation.check_requests(requests, sampling.max_tokens, self._config)
    return self._stream(tuple(requests), sampling, *self._loaded)

  def _stream(
    self,
    requests: tuple[base.Request, ...],
    sampling: base.Sampling,
    weights: inference_weights.Weights,
    version: int,
  ) -> Iterator[base.Completion]:
    groups: dict[tuple[int, ...], list[int]] = {}
    for index, request in enumerate(requests):
      groups.setdefault(tuple(request.prompt_ids), []).append(index)
    for batch in shapes.batches(list(groups.items()), self._max_rows):
      for partial in self._complete(batch, requests, sampling, weights):
        yield partial.completion(version)

  def _complete(
    self,
    batch: Sequence[tuple[tuple[int, ...], Sequence[int]]],
    requests: Sequence[base.Request],
    sampling: base.Sampling,
    weights: inference_weights.Weights,
  ) -> Iterator["_Partial"]:
    """Decodes one batch and hands out its rows as they finish."""
    knobs = selection.Knobs(
      float(sampling.temperature), float(sampling.top_p), sampling.top_k
    )
    # Put there whole: jnp.asarray compiles a program for every shape.
    stop_ids = jax.device_put(np.array(sampling.stop_ids, np.int32))
    partials = {index: _Partial(index) for _, ids in batch for index in ids}
    group_size = max(len(ids) for _, ids in batch)
    blocks = shapes.pack([ids for _, ids in batch], group_size=group_size)
    rows, drawn = sampler.begin(
      weights,
      *self._prefill([prompt for prompt, _ in batch], weights),
      *jax.device_put(
        (
          blocks.prompt_K,
          _seeds(requests, blocks.places_KR),
          blocks.places_KR >= 0,
        )
      ),
      stop_ids,
      knobs=knobs,
      capacity=_capacity(0, sampling.max_tokens),
    )
    finished: list[_Partial] = []
    while True:
      drawn, live_KR, step = jax.device_get((drawn, rows.live_KR, rows.step))
      ends_KR = ~live_KR | (step == sampling.max_tokens)
      for block, row in np.argwhere(blocks.places_KR >= 0).tolist():
        partial = partials[blocks.places_KR[block, row]]
        partial.extend(drawn, block, row)
        if ends_KR[block, row]:
          partial.stopped = not live_KR[block, row]
          finished.append(partial)
      blocks.places_KR[ends_KR] = -1
      if ends_KR.all():
        yield from finished
        return
      rows, blocks = _fit(rows, blocks, int(step), sampling.max_tokens)
      limit = min((step // _CHUNK + 1) * _CHUNK, sampling.max_tokens)
      rows, drawn = sampler.decode(
        self._config,
        weights,
        rows,
        jax.device_put(np.int32(limit)),
        stop_ids,
        knobs=knobs,
        chunk=_CHUNK,
      )
      # Handed out only now, so that decoding goes on meanwhile.
      yield from finished
      finished.clear()

  def _prefill(
    self, prompts: Sequence[tuple[int, ...]], weights: inference_weights.Weights
  ) -> tuple[jax.Array, inference.Cache, jax.Array]:
    """Features after each prompt, caches and lengths, a few at a time."""
    length = shapes.round_up_length(max(map(len, prompts)))
    at_once = 2 ** max(0, (_PREFILL_TOKENS // length).bit_length() - 1)
    pieces, lengths = [], []
    for start in range(0, len(prompts), at_once):
      part = prompts[start : start + at_once]
      num_prompts = min(at_once, shapes.round_up_count(len(part)))
      tokens_UT = np.zeros((num_prompts, length), np.int32)
      lengths_U = np.ones(num_prompts, np.int32)
      for place, prompt in enumerate(part):
        tokens_UT[place, : len(prompt)] = prompt
        lengths_U[place] = len(prompt)
      lengths.append(lengths_U)
      inputs = jax.device_put((tokens_UT, lengths_U))
      pieces.append(sampler.prefill(self._config, weights, *inputs))
    joined = pieces[0] if len(pieces) == 1 else _joined(pieces)
    return *joined, jax.device_put(np.concatenate(lengths))


@jax.jit
def _joined(
  pieces: Sequence[tuple[jax.Array, inference.Cache]],
) -> tuple[jax.Array, inference.Cache]:
  """Pieces of the prompts as one: features `[D, U]` and caches `[U, ...]`."""
  features, caches = zip(*pieces, strict=True)
  cache = jax.tree.map(lambda *parts: jnp.concatenate(parts), *caches)
  return jnp.concatenate(features, axis=1), cache


@dataclasses.dataclass
class _Partial:
  """A completion under way, on the host."""

  request: int
  tokens: list[np.ndarray] = dataclasses.field(default_factory=list)
  logprobs: list[np.ndarray] = dataclasses.field(default_factory=list)
  drawn_logprobs: list[np.ndarray] = dataclasses.field(default_factory=list)
  stopped: bool = False

  def extend(self, drawn: sampler.Drawn, block: int, row: int) -> None:
    own = slice(drawn.lengths_KR[block, row])
    self.tokens.append(drawn.tokens_TKR[own, block, row])
    self.logprobs.append(drawn.logprobs_TKR[own, block, row])
    self.drawn_logprobs.append(drawn.drawn_logprobs_TKR[own, block, row])

  def completion(self, version: int) -> base.Completion:
    logprobs = np.concatenate(self.logprobs)
    if not np.isfinite(logprobs).all():
      raise FloatingPointError(
        f"Request {self.request} was completed with a log-probability of "
        f"{logprobs[~np.isfinite(logprobs)][0]} by weights version {version}: "
        "the weights are not finite, or their logits are not. Load weights "
        "that are."
      )
    return base.Completion(
      request=self.request,
      tokens=np.concatenate(self.tokens),
      logprobs=logprobs,
      drawn_logprobs=np.concatenate(self.drawn_logprobs),
      finish="stop" if self.stopped else "length",
      weights_version=version,
    )


def _fit(
  rows: sampler.Rows, blocks: shapes.Blocks, step: int, max_tokens: int
) -> tuple[sampler.Rows, shapes.Blocks]:
  """Packs the rows that are left, if caches must grow or it pays."""
  is_full = step == rows.completions[0].keys.shape[3]
  numbers_KR = np.arange(blocks.places_KR.size).reshape(blocks.places_KR.shape)
  numbers_of_prompts: dict[int, list[int]] = {}
  for block, prompt in enumerate(blocks.prompt_K.tolist()):
    numbers = numbers_KR[block, blocks.places_KR[block] >= 0].tolist()
    numbers_of_prompts.setdefault(prompt, []).extend(numbers)
  packed = shapes.pack(list(numbers_of_prompts.values()))
  is_halved = 2 * packed.places_KR.size <= blocks.places_KR.size
  if not is_full and not (is_halved and max_tokens - step >= _MANY_STEPS):
    return rows, blocks
  source_KR = np.maximum(packed.places_KR, 0)
  source_K = source_KR[:, 0] // blocks.places_KR.shape[1]
  is_row_KR = packed.places_KR >= 0
  rows = sampler.repack(
    rows,
    *jax.device_put((source_K, source_KR, is_row_KR)),
    capacity=_capacity(step, max_tokens),
  )
  places_KR = blocks.places_KR.reshape(-1)[source_KR]
  return rows, shapes.Blocks(
    places_KR=np.where(is_row_KR, places_KR, -1),
    prompt_K=blocks.prompt_K[source_K],
  )


def _capacity(step: int, max_tokens: int) -> int:
  """Room for the completions of rows that have `step` tokens."""
  capacity = _FIRST_CAPACITY
  while capacity <= step:
    capacity *= 2
  return min(capacity, shapes.round_up_length(max_tokens))


def _seeds(
  requests: Sequence[base.Request], places_KR: np.ndarray
) -> np.ndarray:
  seeds = np.array([request.seed for request in requests], np.uint32)
  return seeds[np.maximum(places_KR, 0)]
