import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hrl_jax import base
from hrl_jax.data import bank
from tests.data.task_files import load

ANY_TEXT = st.text(
  st.characters()
  | st.sampled_from("\x00\n\r\x0b\x0c\x1c\x85\u2028\u2029\ud800🙂")
)
# A surrogate pair as two characters cannot be said in JSON.
TEXT = ANY_TEXT.map(lambda text: json.loads(json.dumps(f"{text}.")))
JSON = st.recursive(
  st.none()
  | st.booleans()
  | st.integers()
  | st.floats(allow_nan=False, allow_infinity=False)
  | TEXT,
  lambda inner: (
    st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3)
  ),
  max_leaves=5,
)
WEIGHTS = st.floats(1e-6, 1e6) | st.floats(-1e6, -1e-6)
CRITERIA = st.builds(
  base.Criterion,
  TEXT,
  WEIGHTS,
  st.just("mentions_any"),
  st.dictionaries(TEXT, JSON, max_size=2),
) | st.builds(base.Criterion, TEXT, WEIGHTS, st.none(), st.just({}))
RUBRICS = st.lists(
  CRITERIA, min_size=1, max_size=4, unique_by=lambda each: each.text
).filter(lambda rubric: any(each.weight > 0 for each in rubric))
MESSAGES = st.builds(
  base.Message, st.sampled_from(["system", "user", "assistant"]), TEXT
)
CONVERSATIONS = st.builds(
  lambda turns, last: (*turns, base.Message("user", last)),
  st.lists(MESSAGES, max_size=2),
  TEXT,
)
TASKS = st.lists(
  st.builds(base.Task, TEXT, TEXT, CONVERSATIONS, RUBRICS.map(tuple)),
  min_size=1,
  max_size=3,
  unique_by=lambda task: task.id,
)


@settings(max_examples=100, deadline=None)
@given(tasks=TASKS)
def test_any_text_goes_through_save_and_load(tmp_path_factory, tasks):
  path = tmp_path_factory.mktemp("bank") / "bank.jsonl"
  bank.save(tasks, path)
  loaded = load(path)
  assert loaded.tasks == tuple(tasks)
  assert loaded.hash == bank.content_hash(tasks)
  assert len(path.read_bytes().split(b"\n")) == len(tasks) + 1


@pytest.mark.parametrize(
  "text",
  [
    "a\u2028b\u2029c\x85d\x0be\x0cf\x1cg",
    "nul \x00 and bell \x07",
    "lone \ud83d and \ude00 apart",
    "🙂 👩‍👩‍👧 e\u0301 \u202eright to left",
    "carriage\r\nreturn\rlines\n",
    "\\ud83d\\ude00 spelled out",
    "x" * 1_000_000,
  ],
)
def test_odd_text_goes_through_save_and_load(tmp_path, text):
  criterion = base.Criterion(text, 1.0, "mentions_any", {"phrases": [text]})
  turns = (base.Message("system", text), base.Message("user", text))
  task = base.Task(text, text, turns, (criterion,))
  bank.save([task], tmp_path / "bank.jsonl")
  assert load(tmp_path / "bank.jsonl").tasks == (task,)


@pytest.mark.parametrize(
  "arguments",
  [
    {"pair": "\ud83d\ude00"},
    {"tuple": (1, 2)},
    {"nan": float("nan")},
    {"object": object()},
    {1: "key"},
  ],
)
def test_what_json_cannot_say_is_not_written(tmp_path, arguments):
  path = tmp_path / "bank.jsonl"
  good = base.Task(
    "a", "b", (base.Message("user", "c"),), (base.Criterion("d", 1.0),)
  )
  criterion = base.Criterion("e", 1.0, "word_count", arguments)
  with pytest.raises(ValueError, match=r"Not JSON|not be read back unchanged"):
    bank.save([good, good._replace(id="f", rubric=(criterion,))], path)
  assert not path.exists()
