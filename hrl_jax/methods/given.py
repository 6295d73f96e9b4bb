"""What a run hands to the maker of its method, and what it gets."""

import pathlib
from collections.abc import Callable
from typing import NamedTuple, Protocol, runtime_checkable

from hrl_jax import base, protocols
from hrl_jax.methods import drawing
from hrl_jax.services import replies


class Given(NamedTuple):
  """The run that a method is made for.

  Attributes:
    size: of a step.
    num_steps: T.
    bank: the tasks.
    folder: of the run, for files of the method's own.
    kept: where an LLM's replies are kept.
    identity: of what makes the first policy's rollouts and their grades: a
      cold start goes on only with the same.
    prompt_tokens: that a prompt may have.
    count_prompt: tokens of a rendered conversation.
    count_text: tokens of a text.
    is_judged: whether a criterion without a checker can be graded, whatever it
      says.
    pool: sentences for a stand-in evolver, by task id.
    phrases: surface phrases that it knows.
  """

  size: drawing.Size
  num_steps: int
  bank: base.Bank
  folder: pathlib.Path
  kept: replies.Replies
  identity: str
  prompt_tokens: int
  count_prompt: Callable[[base.Conversation], int]
  count_text: Callable[[str], int]
  is_judged: bool
  pool: Callable[[str], tuple[str, ...]]
  phrases: tuple[str, ...]


@runtime_checkable
class Log(Protocol):
  """A file that grows with the run, and is cut when it goes on.

  Attributes:
    name: among the run's files.
  """

  name: str

  def length(self) -> int:
    """Its bytes, made durable."""
    ...

  def cut(self, length: int) -> None:
    """Takes away what came after a checkpoint; 0 for none."""
    ...

  def close(self) -> None:
    """Closes it."""
    ...


class Made(NamedTuple):
  """A method and the files that it writes.

  Attributes:
    method: the recipe.
    logs: that belong to a checkpoint.
  """

  method: protocols.Method
  logs: tuple[Log, ...] = ()
