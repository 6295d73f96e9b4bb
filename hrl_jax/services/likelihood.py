"""How much likelier a response becomes once a criterion is asked for.

  gain = mean logp(response | prompt + criterion) - mean logp(response | prompt)

over the tokens of the response, in nats. What `likelihood_judge` decides by,
and what its thresholds are frozen from.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from hrl_jax import base
from hrl_jax.data import tokenizer as tokenizers
from hrl_jax.model import token_tree

# Names the wording of `with_criterion`. A threshold holds for one wording: who
# changes it changes the name, and freezes the thresholds anew.
TEMPLATE = "your-answer-1"


class Model(NamedTuple):
  """What judges.

  Attributes:
    logprobs: of `token_tree.make_logprobs`.
    params: the weights that it is called with; not copied, not changed.
    tokenizer: of the model.
    max_positions: tokens that the model can read at once.
    tree_tokens: tokens of a forward pass, see `token_tree.pack`.
  """

  logprobs: Callable[[Any, token_tree.Tree], Any]
  params: Any
  tokenizer: tokenizers.Tokenizer
  max_positions: int
  tree_tokens: int = 512


class Question(NamedTuple):
  """One criterion asked of one response, as token ids.

  Attributes:
    bare: the rendered prompt.
    asked: the rendered prompt with the criterion.
    response: at least one token.
  """

  bare: tuple[int, ...]
  asked: tuple[int, ...]
  response: tuple[int, ...]


def with_criterion(prompt: base.Conversation, text: str) -> base.Conversation:
  """The prompt that asks for the criterion too.

  The criterion stands at the end of the last turn, so that both prompts begin
  alike. A penalty is asked for in the same words: its text describes what is
  to be found.

  Raises:
    ValueError: if the last turn is not the user's.
  """
  *before, last = prompt
  if last.role != "user":
    raise ValueError(
      "A likelihood judge asks for a criterion at the end of the user's turn, "
      f"but the last turn of the prompt is of {last.role!r}: {last.content!r}. "
      "Grade such tasks with another judge."
    )
  asked = f"{last.content}\n\nYour answer {text[0].lower()}{text[1:]}"
  return (*before, base.Message(last.role, asked))


def question(
  model: Model, prompt: base.Conversation, text: str, response: str
) -> Question:
  """The token ids of a question.

  Args:
    model: what judges.
    prompt: the bare task prompt.
    text: of the criterion.
    response: not empty; control tokens that it spells stay text.

  Raises:
    ValueError: if the vocabulary cannot spell a text, or the model cannot
      read as much.
  """
  made = Question(
    bare=model.tokenizer.encode_chat(prompt),
    asked=model.tokenizer.encode_chat(with_criterion(prompt, text)),
    response=model.tokenizer.encode(response),
  )
  length = max(len(made.bare), len(made.asked)) + len(made.response)
  if length > model.max_positions:
    raise ValueError(
      f"Prompt, criterion and response have {length} tokens, the judging model "
      f"reads at most {model.max_positions}. Shorten them, or use a model with "
      "more positions."
    )
  return made


def gains(
  model: Model, questions: Sequence[Question]
) -> Float[np.ndarray, " N"]:
  """The gain of each question, in nats per token, float64.

  A gain depends on its own question alone (up to the rounding of float32
  sums). What questions share is run once: the beginning of their prompts, the
  prompt of a task for all its criteria, and equal responses.
  """
  sequences = list(
    dict.fromkeys(
      (prompt, each.response)
      for each in questions
      for prompt in (each.bare, each.asked)
    )
  )
  trees = token_tree.pack(
    [prompt + response for prompt, response in sequences],
    num_tokens=model.tree_tokens,
  )
  means = {}
  for tree, members in trees:
    logprobs_F = np.asarray(model.logprobs(model.params, tree), np.float64)
    for index, path in members:
      prompt, _ = sequences[index]
      means[sequences[index]] = logprobs_F[path[len(prompt) :]].mean()
  return np.array(
    [
      means[each.asked, each.response] - means[each.bare, each.response]
      for each in questions
    ],
    np.float64,
  )
