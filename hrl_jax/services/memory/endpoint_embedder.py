"""An embedder behind an endpoint that answers as OpenAI's embeddings do."""

import asyncio
import concurrent.futures
import json
import logging
from collections.abc import Sequence

import aiohttp
import numpy as np
from jaxtyping import Float32

from hrl_jax.services import chat, exchange
from hrl_jax.services.memory import embedder

_logger = logging.getLogger(__name__)

# Seconds: the first pause after a failed try, and the longest of all.
_FIRST_PAUSE_S = 0.5
_LONGEST_PAUSE_S = 8.0
# Too slow, in conflict, too early, too often; all of 500 and more as well.
_RETRIED = frozenset({408, 409, 425, 429})


class _TryError(Exception):
  """A try that brought no vectors."""

  def __init__(self, reason: str, *, is_final: bool, wait_s: float = 0.0):
    super().__init__(reason)
    self.is_final = is_final
    self.wait_s = wait_s


class EndpointEmbedder:
  """Asks a served model; each call is bounded in time, tries and size.

  Attributes:
    name: of the model as it is served.
  """

  def __init__(self, endpoint: chat.Endpoint, *, batch_size: int = 32):
    """Opens nothing yet.

    Args:
      endpoint: of the model; its deadline is that of one call, from when its
        turn has come.
      batch_size: texts of one call.

    Raises:
      ValueError: if the address is not a plain http one, or a limit is not
        positive.
    """
    if batch_size < 1:
      raise ValueError(f"batch_size must be positive, got {batch_size}.")
    chat.Chat(endpoint)  # Checks its address and limits.
    self.name = f"endpoint-{endpoint.model}"
    self._endpoint = endpoint
    self._url = f"{endpoint.url.rstrip('/')}/embeddings"
    self._batch_size = batch_size

  def embed(self, texts: Sequence[str]) -> Float32[np.ndarray, "N D"]:
    """One unit vector for each of one or more texts.

    Raises:
      chat.UnreachableError: if a call brought no vectors with all its tries.
    """
    # In a thread, since the caller may be in an event loop, as in a notebook.
    with concurrent.futures.ThreadPoolExecutor(1) as thread:
      parts = thread.submit(asyncio.run, self._all(list(texts))).result()
    widths = sorted({part_ND.shape[1] for part_ND in parts})
    if len(widths) > 1:
      raise self._unreachable(f"its vectors have {widths} numbers", 1)
    return embedder.normalized(np.concatenate(parts), self.name)

  async def _all(self, texts: list[str]) -> list[np.ndarray]:
    places = asyncio.Semaphore(self._endpoint.max_in_flight)
    session = exchange.open_session(
      self._endpoint.api_key, self._endpoint.max_in_flight
    )
    async with session:
      calls = [
        asyncio.create_task(
          self._batch(session, places, texts[start : start + self._batch_size])
        )
        for start in range(0, len(texts), self._batch_size)
      ]
      try:
        return await asyncio.gather(*calls)
      finally:
        for call in calls:
          call.cancel()
        await asyncio.gather(*calls, return_exceptions=True)

  async def _batch(
    self,
    session: aiohttp.ClientSession,
    places: asyncio.Semaphore,
    texts: list[str],
  ) -> np.ndarray:
    """The vectors of one call with all its tries."""
    async with places:
      clock = asyncio.get_running_loop().time
      deadline = clock() + self._endpoint.deadline_s
      tries, pause_s = 0, _FIRST_PAUSE_S
      while True:
        tries += 1
        try:
          return await self._try(session, texts, deadline - clock())
        except _TryError as error:
          wait_s = max(pause_s, error.wait_s)
          is_late = clock() + wait_s >= deadline
          is_last = tries >= self._endpoint.attempts
          if error.is_final or is_last or is_late:
            raise self._unreachable(str(error), tries) from None
          _logger.info("Asks for embeddings again: %s.", error)
        await asyncio.sleep(wait_s)
        pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)

  async def _try(
    self, session: aiohttp.ClientSession, texts: list[str], left_s: float
  ) -> np.ndarray:
    body = {
      "model": self._endpoint.model,
      "input": texts,
      "encoding_format": "float",
    }
    try:
      answer = await exchange.exchange(
        session,
        "POST",
        self._url,
        json.dumps(body).encode(),
        limit_s=min(self._endpoint.timeout_s, left_s),
        max_bytes=self._endpoint.max_reply_bytes,
      )
    except exchange.ExchangeError as error:
      is_final = error.kind == "too large"
      raise _TryError(error.reason, is_final=is_final) from None
    if answer.status != 200:
      raise _TryError(
        f"HTTP {answer.status}",
        is_final=answer.status < 500 and answer.status not in _RETRIED,
        wait_s=answer.retry_after_s or 0.0,
      )
    try:
      return _vectors(answer.body, len(texts))
    except (ValueError, KeyError, TypeError, RecursionError):
      reason = f"no embeddings of {len(texts)} texts in its reply"
      raise _TryError(reason, is_final=False) from None

  def _unreachable(self, reason: str, tries: int) -> chat.UnreachableError:
    section = self._endpoint.section
    return chat.UnreachableError(
      f"The embeddings of {self._endpoint.model!r} at {self._url} cannot be "
      f"had: {reason} ({tries} {'try' if tries == 1 else 'tries'}). Start the "
      f"model, set {section}.endpoint to one that runs or ask for fewer texts "
      f"at a time, or set {section}.kind to a kind that needs none."
    )


def _vectors(body: bytes, count: int) -> np.ndarray:
  """The vectors of a reply, in the order of the texts.

  Raises:
    ValueError, KeyError, TypeError: if they are not there.
  """
  data = json.loads(body)["data"]
  if sorted(each["index"] for each in data) != list(range(count)):
    raise ValueError("not one embedding for each text")
  ordered = sorted(data, key=lambda each: each["index"])
  vectors_ND = np.array([each["embedding"] for each in ordered], np.float64)
  if vectors_ND.ndim != 2 or not vectors_ND.shape[1]:
    raise ValueError("no vectors of equal length")
  return vectors_ND
