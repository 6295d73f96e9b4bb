"""A sequence that only grows, and that two states can share."""

from collections.abc import Iterator, Sequence
from typing import Generic, TypeVar, overload

Item = TypeVar("Item")


class Table(Sequence[Item], Generic[Item]):
  """An immutable sequence whose `extended` copies share their items.

  Adding to the newest copy takes the time of what is added, whatever is there
  already. Two are equal if they have the same items, which is decided without
  looking at them where one grew out of the other.
  """

  def __init__(self, items: Sequence[Item] = ()):
    self._items = list(items)
    self._length = len(self._items)

  def extended(self, items: Sequence[Item]) -> "Table[Item]":
    """The table with more items at its end."""
    if not items:
      return self
    table = Table.__new__(Table)
    # Only the newest copy owns the end of the shared list.
    newest = len(self._items) == self._length
    table._items = self._items if newest else self._items[: self._length]
    table._items.extend(items)
    table._length = self._length + len(items)
    return table

  def __len__(self) -> int:
    return self._length

  @overload
  def __getitem__(self, index: int) -> Item: ...

  @overload
  def __getitem__(self, index: slice) -> list[Item]: ...

  def __getitem__(self, index):
    if isinstance(index, slice):
      return self._items[: self._length][index]
    if not -self._length <= index < self._length:
      raise IndexError(f"No item {index} in a table of {self._length}.")
    return self._items[index if index >= 0 else self._length + index]

  def __iter__(self) -> Iterator[Item]:
    return (self._items[index] for index in range(self._length))

  def __eq__(self, other: object) -> bool:
    if not isinstance(other, Table):
      return NotImplemented
    if self._length != other._length:
      return False
    return self._items is other._items or list(self) == list(other)

  def __hash__(self) -> int:
    return hash(self._length)
