import json

import pytest

from hrl_jax import base
from hrl_jax.data import bank
from tests.data.task_files import load, valid, written


def test_the_hash_is_of_the_content(tmp_path):
  path = written(tmp_path / "1.jsonl", valid(), valid() | {"id": "b"})
  tasks = load(path).tasks
  # Other spaces, another order of keys, 2.0 for 2: the same content.
  turned = [dict(reversed(valid().items())), valid() | {"id": "b"}]
  turned[0]["rubric"][0]["weight"] = 2.0
  same = tmp_path / "2.jsonl"
  same.write_text("\n".join(json.dumps(each, indent=None) for each in turned))
  assert load(same).hash == load(path).hash == bank.content_hash(tasks)
  assert bank.content_hash(tasks[::-1]) != bank.content_hash(tasks)


def test_the_hash_does_not_drift():
  # SHA-256 of this canonical line, by sha256sum:
  # [{"domain":"d","id":"i","prompt":"p","rubric":[{"text":"t","weight":1}]}]
  task = base.Task(
    "i", "d", (base.Message("user", "p"),), (base.Criterion("t", 1.0),)
  )
  assert bank.content_hash([task]) == (
    "702bf8cfdf839958aeb69f45ca29041bc31ff2e824645b4a434db912551e16e3"
  )


@pytest.mark.parametrize(
  "change",
  [
    {"id": "z"},
    {"domain": "z"},
    {"prompt": (base.Message("user", "z"),)},
    {"prompt": (base.Message("system", "z"), base.Message("user", "c"))},
    {"rubric": (base.Criterion("z", 1.0),)},
    {"rubric": (base.Criterion("d", 2.0),)},
    {"rubric": (base.Criterion("d", 1.0, "word_count"),)},
    {"rubric": (base.Criterion("d", 1.0), base.Criterion("e", 1.0))},
  ],
)
def test_every_part_of_a_task_is_in_the_hash(change):
  task = base.Task(
    "a", "b", (base.Message("user", "c"),), (base.Criterion("d", 1.0),)
  )
  assert bank.content_hash([task]) != bank.content_hash(
    [task._replace(**change)]
  )


def test_judged_criteria_are_dropped_and_counted(tmp_path):
  bank_of_two = load(
    written(tmp_path / "bank.jsonl", valid(), valid() | {"id": "b"})
  )
  checked, dropped = bank.without_judged(bank_of_two)
  assert dropped == 2
  assert [[each.text for each in task.rubric] for task in checked.tasks] == [
    ["Is short."],
    ["Is short."],
  ]


def test_a_bank_without_its_judged_criteria_is_another_bank(tmp_path):
  whole = load(written(tmp_path / "bank.jsonl", valid()))
  checked, _ = bank.without_judged(whole)
  assert checked.hash == bank.content_hash(checked.tasks) != whole.hash
  again, dropped = bank.without_judged(checked)
  assert again == checked
  assert dropped == 0


def test_a_task_needs_a_checked_reward_once_the_judge_is_gone(tmp_path):
  record = valid()
  record["rubric"] = [
    {"text": "Is right.", "weight": 3},
    {"text": "Is short.", "weight": -1, "checker": "word_count"},
  ]
  loaded = load(written(tmp_path / "bank.jsonl", record))
  with pytest.raises(ValueError, match=r"1 tasks .* such as \['a'\]"):
    bank.without_judged(loaded)
