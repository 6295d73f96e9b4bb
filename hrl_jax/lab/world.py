"""A world of the lab, drawn from a seed: facts, tasks and their rubrics.

Five domains have question words; each question has one right fact, a hidden map
that holds in all tasks. A task names a domain and some of its questions; a
right answer mentions their facts. Its rubric asks for that coarsely, beside
much that can be met without knowing anything.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from hrl_jax import base
from hrl_jax.lab import lexicon, rubrics
from hrl_jax.lab.parameters import Parameters

EXPLAIN = "Explain in"
"""How a prompt begins; its domain and questions follow."""


class World(NamedTuple):
  """Everything that is true in a lab.

  Attributes:
    seed: it was drawn from.
    parameters: it was drawn with.
    questions: by question word.
    train: tasks to learn from.
    held_out: tasks with other sets of questions.
    asked: question words of each task by its id, in the prompt's order.
    kinds: of the seed criteria of each task by its id: for reports on a run,
      never for anything inside it.
  """

  seed: int
  parameters: Parameters
  questions: Mapping[str, rubrics.Question]
  train: tuple[base.Task, ...]
  held_out: tuple[base.Task, ...]
  asked: Mapping[str, tuple[str, ...]]
  kinds: Mapping[str, tuple[rubrics.Kind, ...]]

  def task(self, task_id: str) -> base.Task:
    """Returns the task of that id."""
    for task in (*self.train, *self.held_out):
      if task.id == task_id:
        return task
    raise ValueError(_unknown_task(task_id))

  @property
  def words(self) -> tuple[str, ...]:
    """Its facts, right and wrong."""
    pairs = [
      (each.fact, each.misconception) for each in self.questions.values()
    ]
    return tuple(dict.fromkeys(word for pair in pairs for word in pair))

  def facts(self, task_id: str) -> tuple[str, ...]:
    """The right facts of a task, in the order of its questions."""
    if task_id not in self.asked:
      raise ValueError(_unknown_task(task_id))
    return tuple(self.questions[word].fact for word in self.asked[task_id])


def draw(seed: int, parameters: Parameters) -> World:
  """The world of a seed.

  Raises:
    ValueError: if the parameters ask for more words or tasks than there are.
  """
  rng = np.random.default_rng([seed, 0])
  questions = _questions(rng, parameters)
  asked = _prompts(rng, parameters, questions)
  tasks, kinds = [], {}
  names = [
    *(f"train-{number}" for number in range(parameters.train_tasks)),
    *(f"held-out-{number}" for number in range(parameters.held_out_tasks)),
  ]
  for name, words in zip(names, asked, strict=True):
    own = [questions[word] for word in words]
    rubric, kinds[name] = rubrics.draw(rng, parameters, own)
    text = prompt(questions, words)
    tasks.append(base.Task(name, own[0].domain, text, rubric))
  return World(
    seed=seed,
    parameters=parameters,
    questions=questions,
    train=tuple(tasks[: parameters.train_tasks]),
    held_out=tuple(tasks[parameters.train_tasks :]),
    asked=dict(zip(names, asked, strict=True)),
    kinds=kinds,
  )


def prompt(
  questions: Mapping[str, rubrics.Question], asked: Sequence[str]
) -> base.Conversation:
  """The prompt that asks these questions of one domain."""
  domain = questions[asked[0]].domain
  text = f"{EXPLAIN} {domain}: {' '.join(asked)}"
  return (base.Message("user", text),)


def draw_asked(
  rng: np.random.Generator,
  parameters: Parameters,
  questions: Mapping[str, rubrics.Question],
) -> tuple[str, ...]:
  """Questions of one domain that a rubric can be made for."""
  domain = lexicon.DOMAINS[rng.integers(len(lexicon.DOMAINS))]
  own = [word for word, each in questions.items() if each.domain == domain]
  while True:
    count = rng.integers(
      parameters.fewest_questions, parameters.most_questions + 1
    )
    asked = [own[place] for place in rng.permutation(len(own))[:count]]
    if rubrics.is_possible([questions[word] for word in asked]):
      return tuple(asked)


def _questions(
  rng: np.random.Generator, parameters: Parameters
) -> dict[str, rubrics.Question]:
  size, domains = parameters.questions, lexicon.DOMAINS
  words = _dealt(rng, lexicon.QUESTIONS, size, "questions")
  facts = _dealt(rng, lexicon.FACTS, size + parameters.misconceptions, "facts")
  questions = {}
  for domain, own_words, own_facts in zip(domains, words, facts, strict=True):
    right, wrong = own_facts[:size], own_facts[size:]
    for place, word in enumerate(own_words):
      known = place >= parameters.unknown
      questions[word] = rubrics.Question(
        domain=domain,
        fact=right[place],
        misconception=wrong[place % len(wrong)],
        knowledge=known
        * float(
          rng.uniform(parameters.lowest_knowledge, parameters.highest_knowledge)
        ),
        is_neglected=known
        and place < parameters.unknown + parameters.neglected,
      )
  return questions


def _dealt(
  rng: np.random.Generator, words: Sequence[str], each: int, name: str
) -> Iterator[list[str]]:
  """As many of the words to each domain, in random order."""
  needed = each * len(lexicon.DOMAINS)
  if needed > len(words):
    raise ValueError(
      f"The lexicon has {len(words)} words for {name}, and the parameters ask "
      f"for {each} in each of {len(lexicon.DOMAINS)} domains. Ask for fewer."
    )
  order = rng.permutation(len(words))[:needed].reshape(-1, each)
  return ([words[place] for place in row] for row in order)


def _prompts(
  rng: np.random.Generator,
  parameters: Parameters,
  questions: Mapping[str, rubrics.Question],
) -> list[tuple[str, ...]]:
  """Question words of every task; no two tasks ask the same set."""
  needed = parameters.train_tasks + parameters.held_out_tasks
  asked: dict[frozenset[str], tuple[str, ...]] = {}
  for _ in range(50 * needed):
    words = draw_asked(rng, parameters, questions)
    asked.setdefault(frozenset(words), words)
    if len(asked) == needed:
      return list(asked.values())
  raise ValueError(
    f"Only {len(asked)} different sets of questions were found for "
    f"{needed} tasks. Raise parameters.questions, or ask for fewer tasks."
  )


def _unknown_task(task_id: str) -> str:
  return f"There is no task {task_id!r} in this world: is it of another seed?"
