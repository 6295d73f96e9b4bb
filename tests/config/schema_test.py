import dataclasses

import hypothesis
import pytest
from hypothesis import strategies as st

from hrl_jax.config import schema

pytestmark = pytest.mark.core


@dataclasses.dataclass(frozen=True, kw_only=True)
class Inner(schema.Section, place="config.inner"):
  """A section inside another."""

  rate: float = schema.within("(0, 1]")
  name: str | None = schema.one_of(("a", "b"))


@dataclasses.dataclass(frozen=True, kw_only=True)
class Outer(schema.Section, place="config"):
  """A section with a section."""

  size: int = schema.within("[1, inf)")
  inner: Inner


def _json():
  scalars = st.none() | st.booleans() | st.integers() | st.text(max_size=3)
  return st.recursive(
    scalars | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=3),
    max_leaves=4,
  )


def test_nested_values_become_nested_sections():
  outer = schema.build(Outer, {"size": 2, "inner": {"rate": 1, "name": None}})
  assert outer == Outer(size=2, inner=Inner(rate=1.0, name=None))
  assert schema.as_dict(outer) == {
    "size": 2,
    "inner": {"rate": 1.0, "name": None},
  }


@pytest.mark.parametrize(
  ("interval", "inside", "outside"),
  [
    ("(0, 1]", (0.001, 1.0), (0.0, 1.001, float("nan"))),
    ("[0, 1)", (0.0, 0.999), (-0.001, 1.0, float("nan"))),
    ("[2, inf)", (2.0, 1e300), (1.999, float("inf"), float("nan"))),
  ],
)
def test_an_interval_means_what_mathematics_means(interval, inside, outside):
  @dataclasses.dataclass(frozen=True, kw_only=True)
  class Knob(schema.Section, place="config.knob"):
    value: float = schema.within(interval)

  for value in inside:
    assert Knob(value=value).value == value
  for value in outside:
    with pytest.raises(ValueError, match=r"config\.knob\.value must lie"):
      Knob(value=value)


def test_none_is_in_every_range_that_its_type_allows():
  assert Inner(rate=0.5, name=None).name is None
  with pytest.raises(ValueError, match=r"must be one of a, b, got 'c'\."):
    Inner(rate=0.5, name="c")


def test_differences_name_what_changed_and_both_values():
  old = {"a": 1, "b": {"c": 0.5, "d": [1, 2]}, "gone": None}
  new = {"a": 1, "b": {"c": 0.5, "d": [1, 3]}, "new": "x"}
  assert schema.differences(old, new) == (
    "b.d: [1, 2] -> [1, 3]",
    "gone: null -> absent",
    'new: absent -> "x"',
  )


@pytest.mark.parametrize(
  ("old", "new"),
  [(0, False), (0, 0.5), (None, "null"), (1, "1"), ([], {}), ({}, None)],
)
def test_values_that_python_or_a_reader_might_confuse_are_different(old, new):
  assert len(schema.differences({"a": old}, {"a": new})) == 1


@hypothesis.given(st.dictionaries(st.text(max_size=3), _json(), max_size=4))
def test_nothing_differs_from_itself(values):
  assert schema.differences(values, dict(reversed(values.items()))) == ()
