"""The client of endpoints that answer chat completions as OpenAI's do.

A call is one question with all its tries. What another try may mend (a lost
connection, no reply in time, an overloaded or broken endpoint, a reply that is
no chat completion) is tried again, after a pause that grows; what is wrong
with the request itself is not. No call outlives its deadline, and whatever
happens to it, the caller gets the text of a reply or a `CallError` that says
why there is none.
"""

import asyncio
import collections
import json
import math
import random
import urllib.parse
from collections.abc import Mapping
from typing import Any, NamedTuple, Self

from hrl_jax.services import completion, exchange

# Seconds: the longest first pause after a failed try, and the longest of all.
_FIRST_PAUSE_S = 0.5
_LONGEST_PAUSE_S = 8.0
# Gateways list thousands of models.
_MODELS_BYTES = 16_000_000
_RAW_CHARACTERS = 10_000
# Too slow, in conflict, too early, too often; all of 500 and more as well.
_RETRIED = frozenset({408, 409, 425, 429})

Reply = completion.Reply


class Endpoint(NamedTuple):
  """Where a model is served, and how hard to try.

  Attributes:
    url: the base address, such as `http://127.0.0.1:8000/v1`.
    model: the name under which it is served.
    api_key: sent as bearer token, never shown; None sends none.
    max_in_flight: calls at work at the same time.
    attempts: tries of one call; one that is turned away with a `Retry-After`
      does not count.
    timeout_s: seconds of one try.
    deadline_s: seconds of a call with all its tries and pauses; queueing for
      its place among `max_in_flight` does not count.
    max_reply_bytes: size at which a reply is given up.
    section: of the config that describes it and its model, for errors.
  """

  url: str
  model: str
  api_key: str | None
  max_in_flight: int
  attempts: int
  timeout_s: float
  deadline_s: float
  max_reply_bytes: int = 1_000_000
  section: str = "config.judge"

  def __repr__(self) -> str:
    return f"Endpoint(url={self.url!r}, model={self.model!r}, ...)"


class CallError(Exception):
  """A call that brought no completion.

  Attributes:
    reason: one line: what happened last, and how often it was tried.
    raw: the last body that came back, cut to 10,000 characters, or "".
  """

  def __init__(self, reason: str, raw: str = ""):
    super().__init__(reason)
    self.reason = reason
    self.raw = raw


class UnreachableError(ConnectionError):
  """An endpoint that cannot be used at all; the message says what to do."""


def encode(endpoint: Endpoint, body: Mapping[str, Any]) -> bytes:
  """A request as it is sent.

  Args:
    endpoint: whose model is asked.
    body: the rest: messages, temperature and so on.
  """
  return json.dumps({**body, "model": endpoint.model}).encode()


class Chat:
  """Asks one endpoint; an async context manager that holds the connections.

  Attributes:
    tally: number of failed tries by kind, such as "HTTP 429" or "timeout".
  """

  def __init__(self, endpoint: Endpoint):
    """Makes a client that is not connected yet.

    Raises:
      ValueError: if the address is not a plain http one, or a limit is not
        positive.
    """
    self._url = _checked_url(endpoint.url)
    for name in ("max_in_flight", "attempts", "timeout_s", "deadline_s"):
      if not endpoint._asdict()[name] > 0:
        raise ValueError(
          f"{name} of the endpoint at {self._url} must be positive, got "
          f"{endpoint._asdict()[name]}."
        )
    self.tally: collections.Counter[str] = collections.Counter()
    self._endpoint = endpoint
    # Of pauses only: nothing that is computed depends on it.
    self._random = random.Random()
    # Time of the event loop before which the endpoint wants no request.
    self._not_before = -math.inf

  async def __aenter__(self) -> Self:
    self._places = asyncio.Semaphore(self._endpoint.max_in_flight)
    self._turn = asyncio.Lock()
    self._session = exchange.open_session(
      self._endpoint.api_key, self._endpoint.max_in_flight
    )
    return self

  async def __aexit__(self, *exception: object) -> None:
    await self._session.close()

  async def complete(self, request: bytes) -> completion.Reply:
    """The first choice of a chat completion.

    Waits for a place among `max_in_flight`, first come, first served; then
    the deadline starts. Cancelling it closes its connection.

    Args:
      request: of `encode`.

    Raises:
      CallError: if no try brought a completion, or the endpoint refuses the
        request as such.
    """
    async with self._places:
      return await self._call(request)

  async def check(self, limit_s: float = 10.0) -> None:
    """Returns if the endpoint is there and serves the model.

    One that lists no models (404) is taken to serve it.

    Args:
      limit_s: seconds after which it is taken to be absent.

    Raises:
      UnreachableError: if not; says what happened and what to do about it.
    """
    try:
      answer = await exchange.exchange(
        self._session,
        "GET",
        f"{self._url}/models",
        None,
        limit_s=limit_s,
        max_bytes=_MODELS_BYTES,
      )
    except exchange.ExchangeError as error:
      raise self._unreachable(error.reason) from None
    if answer.status == 404:
      return
    if answer.status in (401, 403):
      key = (
        "the API key" if self._endpoint.api_key else "a call without API key"
      )
      raise UnreachableError(
        f"The endpoint at {self._url} refuses {key} (HTTP {answer.status}). "
        f"Set {self._endpoint.section}.endpoint.api_key_variable to an "
        f"environment variable that holds a key for {self._endpoint.model!r}."
      )
    if answer.status != 200:
      raise self._unreachable(f"HTTP {answer.status} on its list of models")
    try:
      names = [model["id"] for model in json.loads(answer.body)["data"]]
    except (ValueError, KeyError, TypeError, RecursionError):
      raise self._unreachable("no list of models on /models") from None
    if self._endpoint.model not in names:
      served = ", ".join(map(repr, names[:10])) or "no model"
      if len(names) > 10:
        served += f" and {len(names) - 10} more"
      raise UnreachableError(
        f"The endpoint at {self._url} serves {served}, but not "
        f"{self._endpoint.model!r}. Set {self._endpoint.section}.endpoint."
        "model to a name that is served, or start the model with "
        f"`{self._start_command()}`."
      )

  async def _call(self, data: bytes) -> completion.Reply:
    """All tries of a call that has its place."""
    clock = asyncio.get_running_loop().time
    deadline = clock() + self._endpoint.deadline_s
    earliest, reason, raw = clock(), "not tried", b""
    tries = counted = 0
    while True:
      if late := await self._wait(earliest, deadline):
        raise self._error(reason, tries, late, raw)
      tries += 1
      try:
        await self._take_turn()
        answer = await exchange.exchange(
          self._session,
          "POST",
          f"{self._url}/chat/completions",
          data,
          limit_s=min(self._endpoint.timeout_s, deadline - clock()),
          max_bytes=self._endpoint.max_reply_bytes,
        )
        if answer.status == 200:
          return completion.parse(answer.body)
      except exchange.ExchangeError as error:
        self.tally[error.kind] += 1
        reason, raw = error.reason, error.body or raw
        retried, retry_after_s = True, None
      else:
        reason, raw = f"HTTP {answer.status}", answer.body
        self.tally[reason] += 1
        retried = answer.status in _RETRIED or answer.status >= 500
        retry_after_s = answer.retry_after_s
      if retried and retry_after_s is not None:
        self._not_before = max(self._not_before, clock() + retry_after_s)
        continue
      counted += 1
      if not retried or counted >= self._endpoint.attempts:
        raise self._error(reason, tries, "", raw)
      earliest = clock() + self._pause_s(counted)

  async def _wait(self, earliest: float, deadline: float) -> str:
    """Sleeps until a request may start; says so if that is too late."""
    clock = asyncio.get_running_loop().time
    # Meanwhile the endpoint may ask for more.
    while (start := max(earliest, self._not_before)) > clock():
      if start >= deadline:
        limit = f"the deadline of {self._endpoint.deadline_s:g} s"
        if self._not_before < deadline:
          return f"no time for another before {limit}"
        wait_s = self._not_before - clock()
        return f"told to wait {wait_s:.0f} s, which is past {limit}"
      await asyncio.sleep(start - clock())
    return ""

  async def _take_turn(self) -> None:
    # Many calls that may start at once would hold up the event loop: it runs
    # all that is ready before it looks at anything else.
    async with self._turn:
      await asyncio.sleep(0)

  def _pause_s(self, failed: int) -> float:
    # Random from zero on, so that calls that failed together part.
    longest_s = min(_FIRST_PAUSE_S * 2.0 ** (failed - 1), _LONGEST_PAUSE_S)
    return self._random.uniform(0.0, longest_s)

  def _error(self, reason: str, tries: int, late: str, raw: bytes) -> CallError:
    detail = f"{tries} {'try' if tries == 1 else 'tries'}"
    if late:
      detail += f"; {late}"
    # More bytes than that many characters can have.
    text = raw[: 5 * _RAW_CHARACTERS].decode(errors="replace")
    if self._endpoint.api_key:
      # Some gateways repeat the key that they refuse.
      text = text.replace(self._endpoint.api_key, "[API key]")
    return CallError(f"{reason} ({detail})", text[:_RAW_CHARACTERS])

  def _unreachable(self, reason: str) -> UnreachableError:
    section = self._endpoint.section
    return UnreachableError(
      f"The endpoint at {self._url} cannot be used: {reason}. Start one with "
      f"`{self._start_command()}`, or set {section}.endpoint.url to one that "
      f"runs, or {section}.kind to a kind that needs none."
    )

  def _start_command(self) -> str:
    port = urllib.parse.urlsplit(self._url).port or 8000
    return f"vllm serve {self._endpoint.model} --port {port}"


def _checked_url(url: str) -> str:
  parts = urllib.parse.urlsplit(url)
  if (
    parts.scheme not in ("http", "https")
    or not parts.hostname
    or parts.username is not None
    or parts.query
    or parts.fragment
  ):
    # Without what may be a password.
    shown = url.rpartition("@")[2].partition("?")[0]
    raise ValueError(
      "The address of an endpoint is a base URL such as "
      "http://127.0.0.1:8000/v1, without user, query or fragment, got "
      f"{shown!r}."
    )
  return url.rstrip("/")
