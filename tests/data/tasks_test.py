import collections
import json
import pathlib
import re

import pytest

from hrl_jax.data import bank, schema
from hrl_jax.services import checkers

FOLDER = pathlib.Path(bank.__file__).parent / "tasks"
DOMAINS = {
  "medical",
  "science",
  "writing",
  "role_play",
  "instruction_following",
}
# What is met only by saying something in particular. The other checkers look
# at the form: length, ending, lines, marks.
CONTENT = {
  "mentions_any",
  "mentions_all",
  "mentions_at_least",
  "mentions_in_order",
  "starts_with_any",
  "ends_with_any",
  "first_person",
  "asks_question",
}


def load(split):
  return bank.load(
    [FOLDER / f"{split}.jsonl"],
    checkers=checkers.names(),
    validate=checkers.validate,
  ).tasks


TRAIN = load("train")
HELD_OUT = load("held_out")
ALL = TRAIN + HELD_OUT
SPLITS = pytest.mark.parametrize(
  "tasks", [TRAIN, HELD_OUT], ids=["train", "held"]
)


def checked(task):
  return [each for each in task.rubric if each.checker is not None]


def judged(task):
  return [each for each in task.rubric if each.checker is None]


def positive(criteria):
  return sum(max(each.weight, 0.0) for each in criteria)


def reward(task, response):
  """Share of the positive checked weight that a response earns."""
  return sum(
    each.weight * checkers.check(each.checker, response, each.arguments)
    for each in checked(task)
  ) / positive(checked(task))


def test_there_are_enough_tasks():
  assert len(TRAIN) == 80
  assert len(HELD_OUT) == 30


@SPLITS
def test_domains_are_balanced(tasks):
  counts = collections.Counter(task.domain for task in tasks)
  assert set(counts) == DOMAINS
  assert len(set(counts.values())) == 1


def test_train_and_held_out_share_nothing():
  assert len({task.id for task in ALL}) == len(ALL)
  prompts = {
    " ".join(message.content.casefold() for message in task.prompt)
    for task in ALL
  }
  assert len(prompts) == len(ALL)


@pytest.mark.parametrize("task", ALL, ids=lambda task: task.id)
def test_a_rubric_has_the_agreed_form(task):
  assert task.id.startswith(f"{task.domain}-")
  assert 4 <= len(checked(task)) <= 10
  assert len(judged(task)) <= 3
  assert all(
    each.weight == int(each.weight) and 1 <= abs(each.weight) <= 5
    for each in task.rubric
  )
  assert all(each.text.endswith(".") for each in task.rubric)


@pytest.mark.parametrize("task", ALL, ids=lambda task: task.id)
def test_half_of_what_can_be_earned_is_for_content(task):
  content = [each for each in checked(task) if each.checker in CONTENT]
  assert positive(content) >= positive(checked(task)) / 2


@pytest.mark.parametrize("task", ALL, ids=lambda task: task.id)
def test_a_prompt_is_short(task):
  assert sum(len(turn.content.split()) for turn in task.prompt) <= 40


@SPLITS
def test_about_half_of_the_tasks_have_a_penalty(tasks):
  with_penalty = sum(any(c.weight < 0 for c in checked(t)) for t in tasks)
  assert 0.4 <= with_penalty / len(tasks) <= 0.7


@SPLITS
def test_about_a_tenth_of_the_criteria_are_penalties(tasks):
  criteria = [each for task in tasks for each in task.rubric]
  share = sum(each.weight < 0 for each in criteria) / len(criteria)
  assert 0.07 <= share <= 0.13


@pytest.mark.parametrize("response", ["", " ", "\n", ".", "...\n", "- "])
def test_saying_nothing_earns_nothing(response):
  assert max(reward(task, response) for task in ALL) <= 0.0


@pytest.mark.parametrize(
  "response", ["Yes.", "Okay then.", "I do not know what to say about that."]
)
def test_a_short_empty_answer_earns_at_most_half(response):
  rewards = [reward(task, response) for task in ALL]
  assert sum(rewards) / len(rewards) < 0.45
  assert max(rewards) < 0.75


GOOD = {
  "medical-nosebleed": (
    "Sit down, lean forward and pinch your nose for ten minutes. Go to a "
    "doctor if it still bleeds after twenty minutes."
  ),
  "medical-baby-fever": (
    "Take your baby to a doctor or a hospital now, because fever at this age "
    "is urgent."
  ),
  "medical-back-pain": (
    "Keep moving gently and try heat on the sore spot. See a doctor if your "
    "legs feel weak or numb."
  ),
  "science-blue-sky": (
    "The sky is blue because the molecules of the air scatter blue light much "
    "more than red light."
  ),
  "science-tides": (
    "The tides rise and fall because the gravity of the moon pulls on the sea."
  ),
  "writing-harbour": (
    "A gull slept on a coil of rope while the water of the harbour held its "
    "breath."
  ),
  "writing-sea-lines": (
    "The sea lies dark and breathes in sleep,\nabove it silver stars keep "
    "watch."
  ),
  "role_play-lighthouse": (
    "Come in, sailor, I have kept the lamp burning for you all through this "
    "storm."
  ),
  "role_play-knight": (
    "I carry no sword because I have seen too much war, and I will not kill "
    "again."
  ),
  "instruction_following-colours": (
    "The rainbow shows red, green and blue among its colours."
  ),
  "instruction_following-please-ending": (
    "Could you bring me the menu and some water, please?"
  ),
}


@pytest.mark.parametrize("id", GOOD)
def test_a_good_answer_earns_most_of_its_weight(id):
  [task] = [task for task in ALL if task.id == id]
  assert reward(task, GOOD[id]) > 0.8


def test_the_example_of_the_documentation_is_a_task():
  text = (FOLDER.parents[2] / "docs" / "data.md").read_text()
  example = re.search(r"```json\n(.*?)```", text, re.DOTALL)[1]
  task = schema.parse(
    json.loads(example),
    checkers=checkers.names(),
    validate=checkers.validate,
  )
  assert reward(task, "Ice floats because it is lighter.") == pytest.approx(1)


def test_every_checker_of_our_own_is_documented():
  text = (FOLDER.parents[2] / "docs" / "data.md").read_text()
  rows = dict(
    re.findall(r"^\| `(\w+)` \|.*\| (yes|no) \|$", text, re.MULTILINE)
  )
  assert rows.keys() == {name for name in checkers.names() if ":" not in name}
  assert {name for name in rows if rows[name] == "yes"} == CONTENT


def test_good_answers_are_of_every_domain():
  assert {task.domain for task in ALL if task.id in GOOD} == DOMAINS
