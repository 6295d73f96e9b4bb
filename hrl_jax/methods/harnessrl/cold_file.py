"""The file of a cold start: kept as it comes, and reused by other runs."""

import contextlib
import pathlib
from collections.abc import Sequence

from hrl_jax.harness import records
from hrl_jax.methods import given
from hrl_jax.services.memory import log

NAME = "cold_start.jsonl"


class Own:
  """The cold start of a run itself; a `cold_start.File`.

  It stays open, and so with one process, only while it is written.
  """

  def __init__(self, run: given.Given):
    """Opens nothing yet."""
    self._path = run.folder / NAME
    self._bank = run.bank.hash
    self._origin = run.identity

  def read(self) -> Sequence[records.Record]:
    """Those that are there.

    Raises:
      ValueError: if they are of another bank or another first policy.
    """
    with self._opened() as opened:
      return [record for _, record in opened.since()]

  def append(self, new: Sequence[records.Record]) -> None:
    """Adds some; they are durable when it returns."""
    with self._opened() as opened:
      opened.append(new)

  def _opened(self) -> contextlib.closing[log.Log]:
    return contextlib.closing(
      log.Log(self._path, self._bank, origin=self._origin)
    )


class Reused:
  """The cold start of another run of the same bank; a `cold_start.File`."""

  def __init__(self, path: pathlib.Path, bank: str):
    """Reads it whole.

    Raises:
      ValueError: if it is not there, of another bank or not finished.
    """
    self._records = log.read(path, bank)
    if not self._records or not isinstance(
      self._records[-1], records.Calibration
    ):
      raise ValueError(
        f"The cold start in {path} is not finished: it holds "
        f"{len(self._records)} records and no calibration. Run it to its end, "
        "or set config.method.arguments.cold_start.reuse to None."
      )

  def read(self) -> Sequence[records.Record]:
    """All of them."""
    return self._records

  def append(self, new: Sequence[records.Record]) -> None:
    """Refuses: a whole cold start needs no more."""
    raise ValueError("The cold start of another run is not added to.")
