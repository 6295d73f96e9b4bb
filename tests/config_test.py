import dataclasses
import json
import re

import hypothesis
import ml_collections
import pytest
from hypothesis import strategies as st

from configs import quickstart
from hrl_jax import config as config_lib
from hrl_jax.config import schema

pytestmark = pytest.mark.core


def _read(changes=None) -> config_lib.Config:
  config_dict = quickstart.get_config()
  config_dict.update_from_flattened_dict(changes or {})
  return config_lib.from_config_dict(config_dict)


def _knobs() -> dict:
  return schema.flat(config_lib.as_dict(_read()))


def test_quickstart_is_read_as_it_is_written():
  config = _read()
  assert config.rollout.group_size == 8
  assert config.data.train == ("package:hrl_jax/data/tasks/train.jsonl",)
  assert config.loss.dual_clip is None
  assert config.optimizer.learning_rate == 7e-5
  written = json.loads(json.dumps(quickstart.get_config().to_dict()))
  assert config_lib.as_dict(config) == written


def test_a_config_survives_json():
  config = _read({"loss.dual_clip": 3.0})
  text = json.dumps(config_lib.as_dict(config), allow_nan=False)
  again = config_lib.from_config_dict(
    ml_collections.ConfigDict(json.loads(text))
  )
  assert again == config


@pytest.mark.parametrize(
  ("name", "value", "message"),
  [
    ("seed", -1, "config.seed must lie in [0, 4294967295], got -1."),
    ("num_steps", 0, "config.num_steps must lie in [1, inf), got 0."),
    ("rollout.group_size", 1, "config.rollout.group_size must lie in [2, inf)"),
    ("rollout.top_p", 0.0, "config.rollout.top_p must lie in (0, 1], got 0.0."),
    ("rollout.top_p", 1.01, "config.rollout.top_p must lie in (0, 1]"),
    ("rollout.temperature", 0.0, "config.rollout.temperature must lie in (0"),
    ("rollout.temperature", float("nan"), "(0, inf), got nan."),
    ("rollout.temperature", float("inf"), "(0, inf), got inf."),
    ("rollout.top_k", -1, "config.rollout.top_k must lie in [0, inf), got -1."),
    ("loss.clip_low", 1.0, "config.loss.clip_low must lie in (0, 1), got 1.0."),
    ("loss.clip_low", 0.0, "config.loss.clip_low must lie in (0, 1)"),
    ("loss.kl_estimator", "k4", "must be one of k1, k2, k3, got 'k4'."),
    ("credit.estimator", "gae", "config.credit.estimator must be one of"),
    ("loss.aggregation", "mean", "config.loss.aggregation must be one of"),
    ("credit.ddof", 2, "config.credit.ddof must be 0 or 1, got 2 of type int."),
    ("optimizer.b2", 1.0, "config.optimizer.b2 must lie in [0, 1), got 1.0."),
    (
      "optimizer.schedule",
      "step",
      "config.optimizer.schedule must be 'constant' or 'linear' or 'cosine', "
      "got 'step' of type str.",
    ),
    ("data.train", (), "config.data.train names no file."),
  ],
)
def test_a_knob_out_of_range_is_named(name, value, message):
  with pytest.raises(ValueError, match=re.escape(message)):
    _read({name: value})


@pytest.mark.parametrize(
  ("name", "value", "message"),
  [
    ("rollout.top_p", "0.9", "must be float, got '0.9' of type str."),
    ("rollout.top_k", 1.0, "must be int, got 1.0 of type float."),
    ("rollout.top_k", True, "must be int, got True of type bool."),
    ("rollout.top_p", True, "must be float, got True of type bool."),
    ("rollout.drop_constant", 1, "must be bool, got 1 of type int."),
    ("credit.ddof", True, "must be 0 or 1, got True of type bool."),
    ("data.train", "x", "must be a tuple of str, got 'x' of type str."),
    ("data.train", (1,), "must be a tuple of str, got (1,) of type tuple."),
    ("loss.dual_clip", "3", "must be float or None, got '3' of type str."),
    ("credit", 3, "config.credit must be a section of knobs, got 3 of type"),
    ("method.arguments", {"f": len}, "must be a mapping of JSON values"),
    ("method.arguments", {"f": [float("nan")]}, "must be a mapping of JSON"),
  ],
)
def test_a_knob_of_the_wrong_type_is_named_with_its_value(name, value, message):
  values = quickstart.get_config().to_dict()
  *sections, knob = name.split(".")
  inner = values
  for section in sections:
    inner = inner[section]
  inner[knob] = value
  with pytest.raises(ValueError, match=re.escape(message)) as error:
    schema.build(config_lib.Config, values)
  assert f"config.{name}" in str(error.value)


def test_a_list_and_a_whole_number_are_taken_for_tuple_and_float():
  values = quickstart.get_config().to_dict()
  values["data"]["train"] = ["a", "b"]
  values["rollout"]["temperature"] = 1
  config = schema.build(config_lib.Config, values)
  assert config.data.train == ("a", "b")
  assert isinstance(config.rollout.temperature, float)


@pytest.mark.parametrize(
  ("section", "name", "nearest"),
  [
    ("rollout", "top_pp", "config.rollout.top_p"),
    ("optimizer", "learningrate", "config.optimizer.learning_rate"),
    (None, "num_step", "config.num_steps"),
    (None, "temperature", "config.rollout.temperature"),
    (None, "every", "config.evaluation.every"),
  ],
)
def test_an_unknown_knob_is_answered_with_the_nearest(section, name, nearest):
  config_dict = quickstart.get_config()
  (config_dict[section] if section else config_dict)[name] = 1
  with pytest.raises(ValueError, match=f"{name!r}. Did you mean {nearest}\\?"):
    config_lib.from_config_dict(config_dict)


def test_an_unknown_knob_that_is_near_none_is_answered_with_all():
  config_dict = quickstart.get_config()
  config_dict.evaluation.zzz = 1
  with pytest.raises(
    ValueError,
    match=r"config.evaluation has no knob 'zzz'. Its knobs are every, "
    r"max_completion_tokens.",
  ):
    config_lib.from_config_dict(config_dict)


def test_every_knob_must_be_present():
  for name in _knobs():
    values = quickstart.get_config().to_dict()
    *sections, knob = name.split(".")
    inner = values
    for section in sections:
      inner = inner[section]
    del inner[knob]
    place = ".".join(["config", *sections])
    with pytest.raises(ValueError, match=f"^{place} lacks {knob}. No knob"):
      schema.build(config_lib.Config, values)


@pytest.mark.parametrize(
  ("changes", "message"),
  [
    ({"rollout.max_rounds": 2}, "max_rounds=2 has no effect"),
    (
      {"loss.correction": "tis", "loss.correction_low": 0.5},
      "correction_low=0.5 has no effect",
    ),
    ({"loss.correction_low": 2.0}, "correction_low=2.0 is not below"),
    ({"updates.micro_batch_tokens": 303}, "= 304 or more"),
    ({"updates.mini_batches": 5}, "tasks_per_step=4 or less"),
    (
      {"optimizer.schedule": "cosine", "optimizer.warmup_steps": 12},
      "warmup_steps=12 leaves no step of config.num_steps=12",
    ),
    ({"workdir": " "}, "config.workdir is empty"),
    ({"judge.endpoint.timeout": 181.0}, "timeout=181.0 of one try is more"),
    (
      {"judge.kind": "llm", "judge.endpoint.url": "ftp://here"},
      "'ftp://here' is no address",
    ),
    (
      {"judge.kind": "llm", "judge.endpoint.model": ""},
      "config.judge.endpoint.model is empty",
    ),
  ],
)
def test_knobs_at_odds_are_refused(changes, message):
  with pytest.raises(ValueError, match=re.escape(message)):
    _read(changes)


def test_knobs_that_only_just_agree_are_taken():
  _read({"updates.micro_batch_tokens": 304, "updates.mini_batches": 4})
  _read({"optimizer.schedule": "cosine", "optimizer.warmup_steps": 11})
  _read({"rollout.drop_constant": True, "rollout.max_rounds": 2})


def test_a_replaced_knob_is_checked_too():
  rollout = _read().rollout
  assert dataclasses.replace(rollout, top_p=0.9).top_p == 0.9
  with pytest.raises(ValueError, match=r"config\.rollout\.top_p must lie"):
    dataclasses.replace(rollout, top_p=2.0)


def test_a_config_cannot_be_changed():
  config = _read({"model.template_options": {"a": [1]}})
  with pytest.raises(dataclasses.FrozenInstanceError):
    config.seed = 1
  with pytest.raises(TypeError):
    config.model.template_options["a"] = 2
  assert config.model.template_options["a"] == (1,)


def test_identity_holds_every_knob_that_changes_a_number():
  free = {
    "checkpoint.every",
    "checkpoint.keep_last",
    "data.held_out",
    "data.train",
    "evaluation.every",
    "judge.deadline",
    "judge.endpoint.api_key_variable",
    "judge.endpoint.attempts",
    "judge.endpoint.deadline",
    "judge.endpoint.max_in_flight",
    "judge.endpoint.timeout",
    "judge.endpoint.url",
    "judge.thresholds",
    "model.path",
    "num_steps",
    "workdir",
  }
  assert set(config_lib.identity(_read())) == set(_knobs()) - free


@pytest.mark.parametrize(
  "changes",
  [
    {"optimizer.schedule": "linear"},
    {"method.name": "ruscarl"},
  ],
)
def test_the_length_of_a_run_counts_where_something_depends_on_it(changes):
  short = config_lib.identity(_read(changes))
  long = config_lib.identity(_read(changes | {"num_steps": 20}))
  assert schema.differences(short, long) == ("num_steps: 12 -> 20",)


def test_identity_survives_json():
  identity = config_lib.identity(_read({"method.arguments": {"a": (1, 0.1)}}))
  again = json.loads(json.dumps(identity))
  assert again == identity
  assert identity["method.arguments.a"] == [1, 0.1]


@hypothesis.given(
  st.dictionaries(
    st.sampled_from(sorted(_knobs())),
    st.one_of(
      st.none(),
      st.booleans(),
      st.integers(-2, 2**40),
      st.floats(),
      st.text(max_size=3),
      st.lists(st.text(max_size=3), max_size=2),
      st.dictionaries(st.text(max_size=3), st.floats(), max_size=2),
    ),
    max_size=3,
  )
)
def test_a_config_is_legal_json_or_an_error_that_names_a_knob(changes):
  values = quickstart.get_config().to_dict()
  for name, value in changes.items():
    *sections, knob = name.split(".")
    inner = values
    for section in sections:
      inner = inner[section]
    inner[knob] = value
  try:
    config = schema.build(config_lib.Config, values)
  except ValueError as error:
    assert any(f"config.{name}" in str(error) for name in changes)
  else:
    json.dumps(config_lib.as_dict(config), allow_nan=False)


@pytest.mark.parametrize("config", [None, {}, []])
def test_what_is_no_config_at_all_is_refused(config):
  with pytest.raises(ValueError, match="ConfigDict"):
    config_lib.from_config_dict(config)


def test_a_required_value_that_is_not_given_is_refused():
  config = quickstart.get_config()
  config.seed = ml_collections.config_dict.required_placeholder(int)
  with pytest.raises(ValueError, match=r"seed.*command line"):
    config_lib.from_config_dict(config)
