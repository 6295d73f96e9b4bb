"""A task file is loaded and saved unchanged, or told by file and line."""

import copy
import json

import hypothesis
import pytest
from hypothesis import strategies as st

from hrl_jax.data import bank, package_files
from hrl_jax.services import checkers
from tests.data import task_files
from tests.messages import check_message

TEXTS = st.text(st.characters() | st.sampled_from("\0\n\r\u2028\ud800*")).map(
  # A surrogate pair as two characters cannot be said in JSON.
  lambda text: json.loads(json.dumps(text))
)
NUMBERS = st.one_of(
  st.integers(),
  st.floats(),
  st.sampled_from([0, -0.0, 1e308, -1e308, 5e-324, 10**400, -(10**300), True]),
)
VALUES = st.recursive(
  st.none() | NUMBERS | TEXTS | st.sampled_from(sorted(checkers.names())),
  lambda inner: (
    st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3)
  ),
  max_leaves=4,
)
KEYS = st.sampled_from(
  (
    *("id", "domain", "prompt", "rubric", "references", "role", "content"),
    *("text", "weight", "checker", "arguments", "minimum", "phrases", "extra"),
  )
)


def _legal(id):
  return task_files.valid() | {
    "id": id,
    "prompt": [
      {"role": "system", "content": "Be kind."},
      {"role": "user", "content": "Why is the sky blue?"},
    ],
  }


def _containers(value):
  if isinstance(value, dict | list):
    yield value
    for inner in value.values() if isinstance(value, dict) else value:
      yield from _containers(inner)


@st.composite
def _records(draw):
  """Two legal tasks with up to three changes anywhere inside them."""
  records = [_legal("a"), _legal("b")]
  for _ in range(draw(st.integers(0, 3))):
    inner = draw(st.sampled_from(list(_containers(records))[1:]))
    keys = sorted(inner) if isinstance(inner, dict) else range(len(inner))
    if not keys:
      continue
    key = draw(st.sampled_from(keys))
    match draw(st.sampled_from(["set", "number", "drop", "copy", "add"])):
      case "set":
        inner[key] = draw(VALUES)
      case "number":
        inner[key] = draw(NUMBERS)
      case "drop":
        del inner[key]
      case "copy" if isinstance(inner, list):
        inner.append(copy.deepcopy(inner[key]))
      case _ if isinstance(inner, dict):
        inner[draw(KEYS)] = draw(VALUES)
  return records


def _load(*paths):
  return bank.load(paths, checkers=checkers.names(), validate=checkers.validate)


def _is_loaded_or_told(folder, content):
  path = folder / "tasks.jsonl"
  path.write_bytes(content)
  try:
    loaded = _load(path)
  except ValueError as error:
    text = check_message(error)
    assert f"{path}, line " in text or text.startswith("No task in ")
    return
  bank.save(loaded.tasks, path)
  again = _load(path)
  assert again.tasks == loaded.tasks
  assert again.hash == loaded.hash


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
  return tmp_path_factory.mktemp("b")


@hypothesis.settings(
  max_examples=400, suppress_health_check=list(hypothesis.HealthCheck)
)
@hypothesis.given(_records())
def test_changed_tasks_are_loaded_or_told(folder, records):
  lines = [json.dumps(record).encode() for record in records]
  _is_loaded_or_told(folder, b"\n".join(lines))


@hypothesis.given(st.binary())
def test_any_bytes_are_loaded_or_told(folder, content):
  _is_loaded_or_told(folder, content)


@hypothesis.settings(max_examples=300)
@hypothesis.given(
  st.lists(
    st.tuples(st.integers(0), st.binary(max_size=3), st.integers(0, 3)),
    min_size=1,
    max_size=3,
  )
)
def test_edited_bytes_are_loaded_or_told(folder, edits):
  content = b"".join(json.dumps(_legal(id)).encode() + b"\n" for id in "ab")
  for place, new, length in edits:
    start = place % (len(content) + 1)
    content = content[:start] + new + content[start + length :]
  _is_loaded_or_told(folder, content)


def test_a_legal_file_is_loaded(folder):
  path = task_files.written(folder / "legal.jsonl", _legal("a"), _legal("b"))
  assert [task.id for task in _load(path).tasks] == ["a", "b"]


@hypothesis.given(st.lists(st.sampled_from("abc"), min_size=2, max_size=4))
def test_an_id_that_occurs_twice_is_told_with_both_places(folder, ids):
  paths = [
    task_files.written(folder / f"{index}.jsonl", _legal(id))
    for index, id in enumerate(ids)
  ]
  if len(set(ids)) == len(ids):
    assert len(_load(*paths).tasks) == len(ids)
    return
  with pytest.raises(ValueError, match="is already that of") as error:
    _load(*paths)
  assert sum(str(path) in check_message(error.value) for path in paths) == 2


def _rubric(*weights):
  return [
    {"text": f"criterion {index}", "weight": weight}
    for index, weight in enumerate(weights)
  ]


@pytest.mark.parametrize(
  ("weights", "message"),
  [
    ((1e308, 1e308), "positive weights sum to infinity"),
    # Rewards of -1e308 and of -inf: no advantage could be had of them.
    ((1, -1e308), "would have reward -1e\\+308"),
    ((5e-324, -1), "would have reward -inf"),
    ((1, -1e308, -1e308), "would have reward -inf"),
    ((-1, -2), "no positive weight: .*H-100"),
  ],
)
def test_weights_that_no_reward_can_be_made_of_are_told(
  folder, weights, message
):
  record = _legal("a") | {"rubric": _rubric(*weights)}
  path = task_files.written(folder / "weights.jsonl", record)
  with pytest.raises(ValueError, match=message) as error:
    _load(path)
  assert f"{path}, line 1: task 'a': " in check_message(error.value)


def test_weights_on_any_sensible_scale_are_taken(folder):
  for weights in ((1e300, -1e300), (1, -1e14), (1e-300, -1e-300)):
    record = _legal("a") | {"rubric": _rubric(*weights)}
    path = task_files.written(folder / "weights.jsonl", record)
    assert len(_load(path).tasks[0].rubric) == len(weights)


@pytest.mark.parametrize(
  ("line", "message"),
  [
    (b'{"%b": 1}' % (b"x" * 10**6), "unknown keys"),
    (b'{"x": %b}' % (b"[" * 800 + b"]" * 800), "unknown keys"),
    (b'{"x": %b1}' % (b"9" * 10**6 + b"e"), "too large for a double"),
    (b"[" * 800 + b"]" * 800, "expected a JSON object, got"),
    # Counted pair by pair, these keys took an hour.
    (
      b'{%b, "0": 1}' % b", ".join(b'"%d": 1' % n for n in range(10**5)),
      r"the keys \['0'\] occur twice",
    ),
    (b"\xef\xbb\xbf{}", "BOM"),
  ],
  ids=["key", "deep value", "digits", "deep", "many keys", "mark"],
)
def test_a_long_line_is_told_in_short(folder, line, message):
  path = folder / "long.jsonl"
  path.write_bytes(json.dumps(_legal("a")).encode() + b"\n" + line)
  with pytest.raises(ValueError, match=message) as error:
    _load(path)
  assert f"{path}, line 2: " in check_message(error.value)


def test_a_path_with_a_line_break_stays_on_one_line(folder):
  path = folder / "a\nb.jsonl"
  path.write_bytes(b"{")
  with pytest.raises(ValueError, match=r"a\\nb.jsonl', line 1: ") as error:
    _load(path)
  check_message(error.value)
  with pytest.raises(ValueError, match=r"a\\nc.jsonl': No such") as error:
    _load(folder / "a\nc.jsonl")
  check_message(error.value)


@hypothesis.given(
  st.sampled_from(["", "package:", "package:hrl_jax/"]),
  st.text() | st.sampled_from(["__main__/x", "a.b/c", ".x/y", "/", "x" * 5000]),
)
def test_a_path_is_there_or_told(prefix, rest):
  try:
    assert package_files.resolve(prefix + rest).exists()
  except FileNotFoundError as error:
    check_message(error)


def test_an_empty_path_is_not_the_folder_one_is_in():
  with pytest.raises(FileNotFoundError, match="asked for as ''") as error:
    package_files.resolve("")
  check_message(error.value)
