"""What the evolver asks of the memory (H-50 to H-53)."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol, runtime_checkable

from hrl_jax.harness import history, records, terms


class Query(NamedTuple):
  """Asks for what is related to a criterion.

  Attributes:
    target: its name; it may be one that is only proposed.
    task: whose rubric it is in, or would be.
    sign: of its weight.
    text: the statement.
  """

  target: terms.Target
  task: str
  sign: int
  text: str


class Hit(NamedTuple):
  """A related criterion of another task.

  Attributes:
    target: its name.
    task: whose rubric it is in.
    text: the statement.
    similarity: cosine to the query's.
  """

  target: terms.Target
  task: str
  text: str
  similarity: float


@runtime_checkable
class Memory(Protocol):
  """The log of the harness, and what is found in it by time and by meaning."""

  def append(self, new: Sequence[records.Record]) -> Sequence[history.Place]:
    """Adds records; they are durable when it returns."""
    ...

  def histories(self, tasks: Sequence[str]) -> Sequence[history.History]:
    """What is known of each task, by time."""
    ...

  def group(self, place: history.Place) -> records.Group:
    """A whole recorded group."""
    ...

  def related(self, queries: Sequence[Query]) -> Sequence[Sequence[Hit]]:
    """Criteria of other tasks that mean the same, nearest first."""
    ...

  def similarities(self, text: str, others: Sequence[str]) -> Sequence[float]:
    """Cosines of a text to others."""
    ...
