"""One HTTP request and its whole answer, bounded in time and in size."""

import asyncio
import email.utils
import errno
import io
import math
import time
from typing import NamedTuple

import aiohttp

# Below the 5 s after which uvicorn, under vLLM and most gateways, closes an
# idle connection: a request sent into that closing would be lost.
_KEEP_ALIVE_S = 4.0


class Answer(NamedTuple):
  """What an endpoint sent, of any status.

  Attributes:
    status: of HTTP.
    body: all of it.
    retry_after_s: seconds that its `Retry-After` asks to wait, None if none.
  """

  status: int
  body: bytes
  retry_after_s: float | None


class ExchangeError(Exception):
  """An exchange that brought nothing usable.

  Attributes:
    kind: one or two words to count it by.
    reason: one line.
    body: what had come until then.
  """

  def __init__(self, kind: str, reason: str, body: bytes = b""):
    super().__init__(reason)
    self.kind = kind
    self.reason = reason
    self.body = body


def open_session(
  bearer: str | None, max_connections: int
) -> aiohttp.ClientSession:
  """A session without limits of time: those of `exchange` span all of it.

  Args:
    bearer: token that every request carries, None for none.
    max_connections: open at the same time.
  """
  headers = {
    "Content-Type": "application/json",
    # Answers are small, and what is not compressed cannot swell.
    "Accept-Encoding": "identity",
  }
  if bearer:
    headers["Authorization"] = f"Bearer {bearer}"
  return aiohttp.ClientSession(
    connector=aiohttp.TCPConnector(
      limit=max_connections, keepalive_timeout=_KEEP_ALIVE_S
    ),
    cookie_jar=aiohttp.DummyCookieJar(),
    headers=headers,
    timeout=aiohttp.ClientTimeout(total=None, sock_connect=None),
    # A proxy of the environment must not see calls to this machine.
    trust_env=False,
  )


async def exchange(
  session: aiohttp.ClientSession,
  method: str,
  url: str,
  data: bytes | None,
  *,
  limit_s: float,
  max_bytes: int,
) -> Answer:
  """Sends a request, follows no redirect, and reads the answer to its end.

  Args:
    session: whose connections and headers are used.
    method: of HTTP.
    url: where to.
    data: body of the request, None for none.
    limit_s: seconds for all of it, connecting included.
    max_bytes: size at which the answer is given up and its connection closed.

  Raises:
    ExchangeError: of kind "timeout", "too large", "cut" (the answer broke
      off), "closed" (no answer), "refused" or "unreachable".
  """
  body = bytearray()
  try:
    async with (
      asyncio.timeout(limit_s),
      session.request(
        method,
        url,
        data=_payload(data),
        allow_redirects=False,
      ) as response,
    ):
      async for chunk in response.content.iter_any():
        body += chunk
        if len(body) > max_bytes:
          response.close()
          reason = f"reply of more than {max_bytes:,} bytes"
          raise ExchangeError("too large", reason, bytes(body))
  except TimeoutError:
    reason = f"no reply within {limit_s:.3g} s"
    raise ExchangeError("timeout", reason, bytes(body)) from None
  except (aiohttp.ClientError, OSError) as error:
    # Not as its cause: the errors of aiohttp show the headers of the request.
    raise _lost(error, url, bytes(body)) from None
  retry_after_s = _retry_after_s(response.headers.get("Retry-After", ""))
  return Answer(response.status, bytes(body), retry_after_s)


def _payload(data: bytes | None) -> bytes | io.BytesIO | None:
  # Bytes over 1 MiB make aiohttp warn that it sends them in one piece.
  return io.BytesIO(data) if data and len(data) > 2**20 else data


def _lost(error: Exception, url: str, body: bytes) -> ExchangeError:
  match error:
    case aiohttp.ClientPayloadError():
      return ExchangeError("cut", "reply cut off", body)
    case aiohttp.ClientConnectorDNSError():
      return ExchangeError("unreachable", f"no address is known for {url}")
    case aiohttp.ClientConnectorError(os_error=OSError(errno=number)):
      if number == errno.ECONNREFUSED:
        return ExchangeError("refused", f"connection refused at {url}")
      reason = f"no connection to {url}: {error.os_error.strerror}"
      return ExchangeError("unreachable", reason)
    case _:
      reason = f"connection closed by {url} ({type(error).__name__})"
      return ExchangeError("closed", reason, body)


def _retry_after_s(value: str) -> float | None:
  """Seconds from now; None if the header asks for no wait, or for no time."""
  try:
    seconds = float(value)
  except ValueError:
    try:
      date = email.utils.parsedate_to_datetime(value)
      seconds = date.timestamp() - time.time()
    except (ValueError, OverflowError):
      return None
  return seconds if 0 < seconds < math.inf else None
