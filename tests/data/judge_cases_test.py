"""The labelled cases fit the tasks, and none is met because it is long."""

import collections
import pathlib

import pytest

from hrl_jax.data import bank, jsonl
from hrl_jax.services import checkers

FOLDER = pathlib.Path(bank.__file__).parent
KINDS = {"content", "style", "absence", "penalty"}


def load(cases, split):
  tasks = bank.load(
    [FOLDER / "tasks" / f"{split}.jsonl"],
    checkers=checkers.names(),
    validate=checkers.validate,
  ).tasks
  entries = [
    entry for _, entry in jsonl.read(FOLDER / "judge_cases" / f"{cases}.jsonl")
  ]
  criteria = {
    (task.id, each.text): each
    for task in tasks
    for each in task.rubric
    if each.checker is None
  }
  return entries, criteria


BOTH = pytest.mark.parametrize(
  "entries, criteria",
  [load("development", "train"), load("held_out", "held_out")],
  ids=["development", "held_out"],
)


@BOTH
def test_there_are_enough_cases_of_one_form(entries, criteria):
  assert len(entries) >= 60
  fields = {"task", "criterion", "kind", "response", "met"}
  assert all(set(entry) == fields for entry in entries)
  assert {entry["kind"] for entry in entries} <= KINDS
  assert all(entry["response"].strip() for entry in entries)


@BOTH
def test_a_case_names_a_judged_criterion(entries, criteria):
  for entry in entries:
    criterion = criteria[entry["task"], entry["criterion"]]
    assert (entry["kind"] == "penalty") == (criterion.weight < 0)


@BOTH
def test_each_criterion_has_one_case_that_meets_it_and_one_that_does_not(
  entries, criteria
):
  labels = collections.defaultdict(list)
  kinds = collections.defaultdict(set)
  for entry in entries:
    key = (entry["task"], entry["criterion"])
    labels[key].append(entry["met"])
    kinds[key].add(entry["kind"])
  assert all(sorted(each) == [False, True] for each in labels.values())
  assert all(len(each) == 1 for each in kinds.values())


def test_the_held_out_cases_cover_every_judged_criterion():
  entries, criteria = load("held_out", "held_out")
  covered = {(entry["task"], entry["criterion"]) for entry in entries}
  assert covered == set(criteria)


@BOTH
def test_no_response_occurs_twice(entries, criteria):
  assert len({entry["response"] for entry in entries}) == len(entries)


@BOTH
def test_the_response_that_meets_a_criterion_is_not_the_longer_one(
  entries, criteria
):
  lengths = collections.defaultdict(dict)
  for entry in entries:
    key = (entry["task"], entry["criterion"])
    lengths[key][entry["met"]] = len(entry["response"])
  longer = sum(each[True] > each[False] for each in lengths.values())
  assert 0.25 <= longer / len(lengths) <= 0.5
