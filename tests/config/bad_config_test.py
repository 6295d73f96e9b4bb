"""A config is legal and survives JSON, or is told in one paragraph."""

import copy
import json
import math

import hypothesis
import ml_collections
import pytest
from hypothesis import strategies as st

from configs import quickstart
from hrl_jax import config as config_lib
from hrl_jax.config import schema
from tests.messages import check_message

pytestmark = pytest.mark.core

QUICKSTART = quickstart.get_config().to_dict()


def _places(values, *above):
  for name, value in values.items():
    yield (*above, name)
    if isinstance(value, dict):
      yield from _places(value, *above, name)


def _nested(depth, make):
  value = 1
  for _ in range(depth):
    value = make(value)
  return value


PLACES = sorted(_places(QUICKSTART))
KNOBS = sorted({place[-1] for place in PLACES})
TEXTS = st.text(st.characters() | st.sampled_from("\0\n\u2028\ud83d\ude00"))
# By name: hypothesis writes out what it may draw.
AWKWARD = {
  "digits": 10**4000,
  "wide": 2**63,
  "widest": -(2**63),
  "tiny": 5e-324,
  "long": "x" * 10**5,
  "bytes": b"x" * 10**5,
  "list": ["x"] * 10**4,
  "deep": _nested(10**4, lambda inner: [inner]),
  "class": object,
  "set": {1, 2},
}
SCALARS = st.one_of(
  st.none(),
  st.booleans(),
  st.integers(),
  st.floats(),
  TEXTS,
  st.binary(max_size=3),
  st.complex_numbers(),
  st.sampled_from(sorted(AWKWARD)).map(lambda name: AWKWARD[name]),
)
VALUES = st.recursive(
  SCALARS,
  lambda inner: (
    st.lists(inner, max_size=3)
    | st.dictionaries(TEXTS | st.integers() | st.binary(), inner, max_size=3)
  ),
  max_leaves=4,
)
# What lies near a legal value of any knob.
NEAR = st.one_of(
  st.integers(-1, 3),
  st.sampled_from([2**32 - 1, 2**32, 2**53 + 1, -0.0, 0.5, 1.0, 1e308]),
  st.sampled_from(["tis", "mis", "cosine", "one_row", "llm", "k4", ""]),
)


@st.composite
def _configs(draw):
  """The quickstart's knobs with up to four changes, and what was changed."""
  values = copy.deepcopy(QUICKSTART)
  changed = []
  for _ in range(draw(st.integers(1, 4))):
    *above, name = draw(st.sampled_from(PLACES))
    inner = values
    for section in above:
      inner = inner.get(section) if isinstance(inner, dict) else None
    if not isinstance(inner, dict):
      continue
    match draw(st.sampled_from(["set", "near", "drop", "add", "rename"])):
      case "set":
        inner[name] = draw(VALUES)
      case "near":
        inner[name] = draw(NEAR)
      case "drop":
        inner.pop(name, None)
      case "add":
        inner[draw(TEXTS | st.integers() | st.sampled_from(KNOBS))] = 1
      case "rename":
        value = inner.pop(name, None)
        inner[draw(st.sampled_from([f"{name}s", name[:-1], name * 99]))] = value
    changed.append(".".join(["config", *above]))
  return values, changed


@hypothesis.settings(
  max_examples=400, suppress_health_check=list(hypothesis.HealthCheck)
)
@hypothesis.given(_configs())
def test_a_config_survives_json_or_is_told(changed):
  values, places = changed
  try:
    config = schema.build(config_lib.Config, values)
  except ValueError as error:
    text = check_message(error)
    assert any(place in text for place in places)
  else:
    written = json.dumps(config_lib.as_dict(config), allow_nan=False)
    assert schema.build(config_lib.Config, json.loads(written)) == config


@hypothesis.given(st.sampled_from(PLACES), VALUES)
def test_the_error_of_one_wrong_knob_names_it(place, value):
  values = copy.deepcopy(QUICKSTART)
  inner = values
  for section in place[:-1]:
    inner = inner[section]
  inner[place[-1]] = value
  try:
    schema.build(config_lib.Config, values)
  except ValueError as error:
    assert f"config.{'.'.join(place)}" in check_message(error)


@pytest.mark.parametrize("place", PLACES, ids=".".join)
def test_no_knob_takes_a_value_of_no_type_at_all(place):
  for value in (object(), b"x", float("nan"), 10**5000, {1: 2}, [[[]]]):
    values = copy.deepcopy(QUICKSTART)
    inner = values
    for section in place[:-1]:
      inner = inner[section]
    inner[place[-1]] = value
    with pytest.raises(ValueError, match="config") as error:
      schema.build(config_lib.Config, values)
    assert f"config.{'.'.join(place)}" in check_message(error.value)


@pytest.mark.parametrize(
  ("value", "message"),
  [
    # Each of these was another exception, or the value in full.
    (10**400, "got 1000.* of type int"),
    (10**5000, "got <int too large to show> of type int"),
    ([10**5000], "got <list too large to show> of type list"),
    (_nested(10**4, lambda inner: [inner]), "nested at most 32 deep"),
    (_nested(10**4, lambda inner: {"a": inner}), "nested at most 32 deep"),
    ("x" * 10**7, r"got 'x{79}\.\.\. of type str"),
    ("caf\u00e9", r"got 'caf\\xe9' of type str"),
    (ml_collections.ConfigDict, "got <class .*> of type type"),
  ],
  ids=lambda value: type(value).__name__,
)
@pytest.mark.parametrize("knob", ["top_p", "group_size"])
def test_a_value_that_cannot_be_shown_is_refused_all_the_same(
  knob, value, message
):
  values = copy.deepcopy(QUICKSTART)
  values["rollout"][knob] = value
  with pytest.raises(ValueError, match=message) as error:
    schema.build(config_lib.Config, values)
  assert f"config.rollout.{knob} must be " in check_message(error.value)


@pytest.mark.parametrize("text", ["a\0b", "\ud83d\ude00"])
@pytest.mark.parametrize(
  ("section", "knob", "value"),
  [
    ("model", "path", "{}"),
    ("data", "train", ["x", "{}"]),
    ("method", "arguments", {"a": ["{}"]}),
    ("method", "arguments", {"{}": 1}),
  ],
)
def test_a_text_that_no_file_could_hold_is_refused(section, knob, value, text):
  values = copy.deepcopy(QUICKSTART)
  values[section][knob] = _filled(value, text)
  with pytest.raises(ValueError, match="without NUL") as error:
    schema.build(config_lib.Config, values)
  assert f"config.{section}.{knob}" in check_message(error.value)


def _filled(value, text):
  if isinstance(value, dict):
    return {
      _filled(name, text): _filled(each, text) for name, each in value.items()
    }
  if isinstance(value, list):
    return [_filled(each, text) for each in value]
  return value.format(text) if isinstance(value, str) else value


def test_the_widest_legal_values_are_taken():
  values = copy.deepcopy(QUICKSTART)
  values["num_steps"] = 2**63 - 1
  values["model"]["template_options"] = {
    "deep": _nested(31, lambda inner: [inner]),
    "text": "\ud800 caf\u00e9\n",
    "least": -(2**63),
  }
  config = schema.build(config_lib.Config, values)
  assert config.num_steps == 2**63 - 1
  assert (
    config_lib.as_dict(config)["model"]["template_options"]
    == (values["model"]["template_options"])
  )


def test_a_name_that_is_no_knob_is_shown_short():
  for name in (1, b"seed", None, (), 10**5000, "x" * 10**6, "s\u00e9"):
    with pytest.raises(ValueError, match="config has no knob") as error:
      schema.build(config_lib.Config, QUICKSTART | {name: 1})
    check_message(error.value)


def test_a_placeholder_left_empty_is_named():
  config = quickstart.get_config()
  del config.num_steps
  config.num_steps = ml_collections.config_dict.placeholder(int)
  with pytest.raises(ValueError, match=r"config\.num_steps must be int, got N"):
    config_lib.from_config_dict(config)


@pytest.mark.parametrize("place", [p for p in PLACES if len(p) > 1])
def test_a_section_may_not_be_a_value_nor_a_value_a_section(place):
  section, knob = place[0], place[-1]
  for value in (3, "x", [], None, math.inf):
    with pytest.raises(ValueError, match=f"config.{section}") as error:
      schema.build(config_lib.Config, QUICKSTART | {section: value})
    check_message(error.value)
  if isinstance(QUICKSTART[section][place[1]], dict):
    return
  values = QUICKSTART | {section: QUICKSTART[section] | {knob: {"a": len}}}
  with pytest.raises(ValueError, match=f"config.{section}.{knob}") as error:
    schema.build(config_lib.Config, values)
  check_message(error.value)
