import collections.abc
import json
import types
import typing

import hypothesis
import msgspec
import pytest
from hypothesis import strategies as st

from hrl_jax.harness import changes, records
from tests.harness import makes

pytestmark = pytest.mark.core

KINDS = typing.get_args(records.Record)
OPERATIONS = typing.get_args(changes.Operation)

_SCALARS = {
  str: st.text(max_size=5),
  int: st.integers(-(2**63), 2**63 - 1),
  float: st.floats(allow_nan=False, allow_infinity=False),
  bool: st.booleans(),
  type(None): st.none(),
  typing.Any: st.one_of(st.none(), st.booleans(), st.text(max_size=3)),
}


def _values(kind):
  """Values of a field's type."""
  if kind in _SCALARS:
    return _SCALARS[kind]
  origin, inner = typing.get_origin(kind), typing.get_args(kind)
  if origin is None:
    hints = typing.get_type_hints(kind)
    return st.builds(kind, **{name: _values(hints[name]) for name in hints})
  if origin is typing.Literal:
    return st.sampled_from(inner)
  if origin in (typing.Union, types.UnionType):
    return st.one_of(*map(_values, inner))
  if origin in (dict, collections.abc.Mapping):
    return st.dictionaries(*map(_values, inner), max_size=2)
  if inner[1:] == (...,):
    return st.lists(_values(inner[0]), max_size=2).map(tuple)
  return st.tuples(*map(_values, inner))


@pytest.mark.parametrize("kind", KINDS)
def test_every_record_comes_back_as_it_was(kind):
  @hypothesis.settings(max_examples=30)
  @hypothesis.given(_values(kind))
  def check(record):
    line = records.encode(record)
    again = records.decode(line)
    assert again == record
    assert type(again) is kind
    assert line.endswith(b"\n") and line.count(b"\n") == 1

  check()


def test_an_operation_is_told_by_its_tag():
  operations = (
    changes.Lower(),
    changes.Add("criterion", (makes.target(0),), "do"),
    changes.Drop("critique"),
    changes.Create("a", 2.0),
    changes.Rewrite("t#0", "b"),
    changes.Delete("t#0"),
    changes.Reweight("t#0", 2.0),
    changes.Merge(("t#0", "t#1"), "c"),
    changes.Split("t#0", ("d", "e")),
  )
  assert {type(each) for each in operations} == set(OPERATIONS)
  line = records.encode(makes.update(*operations, interface="rubric"))
  written = json.loads(line)["candidate"]["operations"]
  assert [each["op"] for each in written] == [
    "lower",
    "add",
    "drop",
    "create",
    "rewrite",
    "delete",
    "reweight",
    "merge",
    "split",
  ]
  assert records.decode(line).candidate.operations == operations


REMOVAL = {
  "record": "removal",
  "step": 3,
  "task": "t",
  "field": "critique",
  "code": "cap",
}


def _decoded(document):
  return records.decode(json.dumps(document).encode())


def test_a_record_by_hand():
  removal = changes.Removal(3, "t", "critique", "cap")
  assert _decoded(REMOVAL) == removal
  assert json.loads(records.encode(removal)) == REMOVAL


@pytest.mark.parametrize(
  ("changed", "message"),
  [
    (REMOVAL | {"more": 1}, "unknown field `more`"),
    ({k: v for k, v in REMOVAL.items() if k != "code"}, "`code`"),
    (REMOVAL | {"record": "removed"}, "removed"),
    ({k: v for k, v in REMOVAL.items() if k != "record"}, "`record`"),
    (REMOVAL | {"step": "3"}, "int"),
    (REMOVAL | {"step": 3.5}, "int"),
    (REMOVAL | {"step": None}, "int"),
    (REMOVAL | {"code": "age"}, "age"),
    ([REMOVAL], "array"),
  ],
)
def test_a_record_that_is_not_as_written_is_refused(changed, message):
  with pytest.raises(ValueError, match=message):
    _decoded(changed)


def test_what_is_inside_a_record_is_read_as_strictly():
  document = json.loads(records.encode(makes.update(changes.Drop("critique"))))
  operation = document["candidate"]["operations"][0]
  for key, value, message in (
    ("cid", "t#0", "unknown field `cid`"),
    ("field", "hint", "hint"),
    ("op", "remove", "remove"),
  ):
    operation[key], before = value, operation.get(key)
    with pytest.raises(ValueError, match=message):
      _decoded(document)
    operation[key] = before
    if before is None:
      del operation[key]
  assert _decoded(document)


def test_a_line_is_read_whole():
  line = records.encode(changes.Removal(3, "t", "critique", "cap"))
  for damaged in (line[:-3], line + line, b"", b"\n", line.replace(b'"', b"'")):
    with pytest.raises(ValueError):
      records.decode(damaged)


def test_a_text_that_is_no_unicode_is_refused():
  group = makes.group({makes.target(0): "1"}, texts=["\ud800"])
  with pytest.raises(ValueError, match="surrogates"):
    records.encode(group)


def test_a_missing_number_stays_missing():
  group = makes.group({makes.target(0): "1?"})
  again = records.decode(records.encode(group))
  assert again.rollouts[1].reward is None
  assert again.rollouts[1].scores == (None,)


def test_a_record_cannot_be_changed():
  removal = changes.Removal(3, "t", "critique", "cap")
  with pytest.raises(AttributeError, match="immutable"):
    removal.step = 4
  assert msgspec.structs.replace(removal, step=4).step == 4
  assert removal.step == 3
