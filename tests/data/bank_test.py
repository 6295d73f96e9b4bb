import pytest

from hrl_jax import base
from hrl_jax.data import bank
from tests import fakes
from tests.data.task_files import CHECKERS, load, valid, written


def test_a_line_becomes_a_task(tmp_path):
  path = written(tmp_path / "bank.jsonl", valid())
  assert load(path).tasks == (
    base.Task(
      "a",
      "science",
      (base.Message("user", "Why is the sky blue?"),),
      (
        base.Criterion(
          "Is short.", 2.0, "word_count", {"minimum": 1, "maximum": 9}
        ),
        base.Criterion("Is wrong.", -1.5, None, {}),
      ),
    ),
  )


def test_a_conversation_keeps_its_turns(tmp_path):
  turns = [
    {"role": "system", "content": "Be kind."},
    {"role": "user", "content": "Hello"},
    {"role": "assistant", "content": "Hello!"},
    {"role": "user", "content": "Why?"},
  ]
  path = written(tmp_path / "bank.jsonl", valid() | {"prompt": turns})
  assert load(path).tasks[0].prompt == tuple(
    base.Message(turn["role"], turn["content"]) for turn in turns
  )


def test_files_are_joined_in_order(tmp_path):
  first = written(tmp_path / "1.jsonl", valid(), valid() | {"id": "b"})
  second = written(tmp_path / "2.jsonl", valid() | {"id": "c"})
  assert [task.id for task in load(second, first).tasks] == ["c", "a", "b"]


def test_released_references_are_dropped(tmp_path):
  secret = "SCATTERED-BY-AIR"
  with_references = written(
    tmp_path / "1.jsonl", valid() | {"references": [secret, {"by": secret}]}
  )
  without = written(tmp_path / "2.jsonl", valid())
  assert secret not in repr(load(with_references))
  assert load(with_references) == load(without)


def replaced(**changes):
  return valid() | changes


def with_criterion(**changes):
  record = valid()
  record["rubric"][0] |= changes
  return record


def without_key(key):
  record = valid()
  del record[key]
  return record


def without_criterion_key(key):
  record = valid()
  del record["rubric"][0][key]
  return record


BAD = {
  "a list": ([1], "expected a JSON object"),
  "no id": (without_key("id"), r"lacks the keys \['id'\]"),
  "no prompt": (without_key("prompt"), r"lacks the keys \['prompt'\]"),
  "unknown key": (replaced(extra=1), r"unknown keys \['extra'\]"),
  "id no string": (replaced(id=3), "id must be a string, got 3"),
  "id empty": (replaced(id=""), "id is empty"),
  "domain empty": (replaced(domain=" "), "domain is empty"),
  "prompt a number": (replaced(prompt=3), "prompt must be a list, got 3"),
  "prompt null": (replaced(prompt=None), "prompt must be a list, got None"),
  "prompt empty": (replaced(prompt=""), "prompt is empty"),
  "prompt blank": (replaced(prompt=" \n\u2028\t"), "prompt is empty"),
  "no message": (replaced(prompt=[]), "prompt is empty"),
  "message a string": (
    replaced(prompt=["hi"]),
    "message 1 must be an object, got 'hi'",
  ),
  "message blank": (
    replaced(prompt=[{"role": "user", "content": "  "}]),
    "message 1 is empty",
  ),
  "message without role": (
    replaced(prompt=[{"content": "hi"}]),
    r"message 1 lacks the keys \['role'\]",
  ),
  "unknown role": (
    replaced(prompt=[{"role": "tool", "content": "hi"}]),
    "unknown role 'tool'",
  ),
  "role a list": (
    replaced(prompt=[{"role": [], "content": "hi"}]),
    r"unknown role \[\]",
  ),
  "assistant last": (
    replaced(prompt=[{"role": "assistant", "content": "hi"}]),
    "last message is from 'assistant'",
  ),
  "rubric an object": (replaced(rubric={}), "rubric must be a list, got {}"),
  "rubric empty": (replaced(rubric=[]), "rubric is empty"),
  "criterion a string": (
    replaced(rubric=["good"]),
    "criterion 1 must be an object, got 'good'",
  ),
  "criterion text empty": (
    with_criterion(text=" "),
    "criterion 1: text is emp",
  ),
  "criterion text missing": (
    without_criterion_key("text"),
    r"criterion 1 lacks the keys \['text'\]",
  ),
  "criterion key unknown": (
    with_criterion(points=1),
    r"unknown keys \['points'\]",
  ),
  "weight zero": (with_criterion(weight=0), "weight must be finite and not ze"),
  "weight minus zero": (
    with_criterion(weight=-0.0),
    "must be finite and not z",
  ),
  "weight a bool": (
    with_criterion(weight=True),
    "weight must be a number, got True",
  ),
  "weight a string": (
    with_criterion(weight="2"),
    "weight must be a number, got '2'",
  ),
  "weight huge": (with_criterion(weight=10**400), "got inf"),
  "weight null": (with_criterion(weight=None), "a number, got None"),
  "no positive weight": (with_criterion(weight=-1), "no positive weight"),
  "weights sum to infinity": (
    replaced(
      rubric=[
        {"text": "x", "weight": 1e308},
        {"text": "y", "weight": 1e308},
      ]
    ),
    "sum to infinity",
  ),
  "criterion twice": (
    replaced(rubric=valid()["rubric"] * 2),
    "The rubric says 'Is short.' 2 times",
  ),
  "checker unknown": (
    with_criterion(checker="wordcount"),
    r"unknown checker 'wordcount'; .*\['word_count'",
  ),
  "checker null": (with_criterion(checker=None), "checker must be a string"),
  "checker a list": (with_criterion(checker=["a"]), "checker must be a string"),
  "arguments a list": (
    with_criterion(arguments=[]),
    "arguments must be an obj",
  ),
  "arguments alone": (
    without_criterion_key("checker"),
    "criterion 1 has arguments without a checker",
  ),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_task_is_refused_by_file_and_line(tmp_path, name):
  record, message = BAD[name]
  path = written(tmp_path / "bad.jsonl", valid() | {"id": "fine"}, record)
  with pytest.raises(ValueError, match=message) as error:
    load(path)
  assert f"{path}, line 2: " in str(error.value)


RAW = {
  "broken": (b'{"id": ', "not strict JSON"),
  "two values": (b"{} {}", "not strict JSON"),
  "no JSON": (b"task", "not strict JSON"),
  "not UTF-8": (b'{"id": "\xff"}', "byte 8 is not UTF-8"),
  "surrogate in UTF-8": (b'{"id": "\xed\xa0\x80"}', "byte 8 is not UTF-8"),
  "NaN": (b'{"id": NaN}', "NaN is not a JSON number"),
  "infinity": (b'{"id": -Infinity}', "-Infinity is not a JSON number"),
  "too large": (b'{"id": 1e999}', "1e999 is too large"),
  "key twice": (b'{"id": 1, "id": 2}', r"keys \['id'\] occur twice"),
  "too deep": (b"[" * 100_000, "nested too deeply"),
  "5000 digits": (b'{"id": ' + b"1" * 5000 + b"}", "not strict JSON"),
}


@pytest.mark.parametrize("name", RAW)
def test_a_broken_line_is_refused_by_file_and_line(tmp_path, name):
  line, message = RAW[name]
  path = written(tmp_path / "bad.jsonl", valid())
  path.write_bytes(path.read_bytes() + line)
  with pytest.raises(ValueError, match=message) as error:
    load(path)
  assert f"{path}, line 2: " in str(error.value)


def test_an_id_may_not_occur_in_two_files(tmp_path):
  first = written(tmp_path / "1.jsonl", valid())
  second = written(tmp_path / "2.jsonl", valid() | {"id": "b"}, valid())
  with pytest.raises(ValueError, match="already that of") as error:
    load(first, second)
  assert f"{second}, line 2: The id 'a' is already that of {first}, line 1" in (
    str(error.value)
  )


def test_a_missing_file_is_named(tmp_path):
  with pytest.raises(ValueError, match=r"Cannot read .*none\.jsonl: No such"):
    load(tmp_path / "none.jsonl")


def test_a_folder_is_no_file(tmp_path):
  with pytest.raises(ValueError, match=r"Cannot read .*: Is a directory"):
    load(tmp_path)


def test_an_empty_file_is_no_bank(tmp_path):
  path = tmp_path / "empty.jsonl"
  path.write_bytes(b"\n \n")
  with pytest.raises(ValueError, match="No task in"):
    load(path)


def test_a_single_path_is_not_a_list_of_paths(tmp_path):
  with pytest.raises(ValueError, match="Expected a list of paths"):
    bank.load(str(tmp_path), checkers=CHECKERS)


def test_arguments_are_shown_to_the_validator(tmp_path):
  path = written(tmp_path / "bank.jsonl", valid())
  seen = []

  def refuse(name, arguments):
    seen.append((name, arguments))
    raise ValueError("maximum must be even")

  with pytest.raises(ValueError, match="criterion 1: maximum must be even"):
    load(path, validate=refuse)
  assert seen == [("word_count", {"minimum": 1, "maximum": 9})]


def test_windows_line_ends_and_blank_lines_change_nothing(tmp_path):
  path = written(tmp_path / "bank.jsonl", valid())
  plain = load(path)
  path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n\r\n"))
  assert load(path) == plain


# Every code point, lone surrogates included, and what splits lines elsewhere.


def test_the_first_tasks_are_a_bank_of_their_own(tmp_path):
  tasks = [fakes.task(name, f"prompt {name}", ("good", 1.0)) for name in "abc"]
  whole = base.Bank(tuple(tasks), bank.content_hash(tasks))
  assert bank.first(whole, None) is whole
  two = bank.first(whole, 2)
  assert [task.id for task in two.tasks] == ["a", "b"]
  assert two.hash == bank.content_hash(tasks[:2])
  with pytest.raises(ValueError, match="max_tasks=4 is more than the 3 tasks"):
    bank.first(whole, 4)
