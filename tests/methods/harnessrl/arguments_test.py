import dataclasses

import pytest

from configs import harnessrl_quickstart
from hrl_jax.config import schema
from hrl_jax.methods.harnessrl import arguments

pytestmark = pytest.mark.core

# Not of the evolver, but of what it is opened with.
ELSEWHERE = {
  "evolver",
  "memory",
  "cold_start",
  "wording_tokens",
  "same_wording",
}


def built(**others):
  values = harnessrl_quickstart.harnessrl()
  values.update(others)
  return schema.build(arguments.Arguments, values.to_dict())


def test_the_evolver_gets_every_argument_that_is_its_own():
  changed = {
    "interfaces": ("rubric",),
    "critic": False,
    "use_memory": False,
    "rounds": 5,
    "probe_share": 0.7,
    "paired_probe": True,
    "condition_on": "bare",
    "drop_needs_target_met": False,
    "drop_upper_bound": True,
    "rubric_sign": "signed",
    "secondary_lower_bound": True,
    "saturated_records": 4,
    "reach_counts_guided": True,
    "computed_confidence": 0.6,
    "mass_below_level": True,
    "rubric_confidence": 0.8,
    "guidance_tokens": 99,
    "donor_tokens": 44,
    "same_meaning": 0.7,
  }
  names = {field.name for field in dataclasses.fields(arguments.Arguments)}
  assert names - set(changed) == ELSEWHERE
  plain = _flat(built().knobs(448))
  for name, value in changed.items():
    other = _flat(built(**{name: value}).knobs(448))
    differing = {key for key in plain if plain[key] != other[key]}
    # One argument, one knob; without a memory labels know no history either.
    expected = 2 if name == "use_memory" else 1
    assert len(differing) == expected, name
    assert other[next(iter(differing))] == value


def _flat(knobs):
  flat = {}
  for name, value in knobs._asdict().items():
    if hasattr(value, "_asdict"):
      flat |= {f"{name}.{key}": v for key, v in value._asdict().items()}
    else:
      flat[name] = value
  return flat


def test_the_cold_start_gets_the_size_of_a_step():
  knobs = built().cold_start.knobs(group_size=8, chunk=64)
  assert (knobs.group_size, knobs.chunk) == (8, 64)
  assert (knobs.second_groups, knobs.regraded_groups) == (200, 500)
  assert (knobs.minimum_pairs, knobs.anchor_share) == (20, 0.5)


def test_prompts_may_be_as_long_as_the_run_allows():
  assert built().knobs(448).prompt_tokens == 448
  values = harnessrl_quickstart.harnessrl()
  values.memory.related_shown = 3
  made = schema.build(arguments.Arguments, values.to_dict())
  assert made.knobs(448).related_shown == 3


def test_an_unknown_interface_is_refused():
  with pytest.raises(ValueError, match="interfaces"):
    built(interfaces=("prompt",))
