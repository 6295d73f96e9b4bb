"""Where the time of a step goes."""

import time


class Clock:
  """Seconds between laps, summed by name.

  Attributes:
    seconds: so far.
  """

  def __init__(self):
    """Starts the first lap."""
    self.seconds: dict[str, float] = {}
    self._last = time.monotonic()

  def lap(self, name: str) -> None:
    """Ends a lap, which is counted under a name."""
    now = time.monotonic()
    self.seconds[name] = self.seconds.get(name, 0.0) + now - self._last
    self._last = now
