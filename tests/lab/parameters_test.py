import dataclasses

import pytest

from hrl_jax.lab.parameters import Parameters

pytestmark = pytest.mark.core


@pytest.mark.parametrize(
  ("wrong", "message"),
  [
    ({"fewest_criteria": 13}, "fewest_criteria=13 is more than the most, 12"),
    ({"flips": 1.5}, r"flips is a rate in \[0, 1\], got 1.5"),
    ({"fewest_questions": 2}, "fewest_questions must be at least 3, got 2"),
    ({"unknown": 4, "neglected": 4}, "none is left for a rubric to ask"),
    ({"unknown": 0}, "unknown=0"),
    ({"lowest_knowledge": 0.0}, "got 0.0 to 0.6"),
    ({"lowest_knowledge": 0.8}, "got 0.8 to 0.6"),
  ],
)
def test_a_world_that_cannot_be_is_refused(wrong, message):
  with pytest.raises(ValueError, match=message):
    Parameters(**wrong)


def test_every_quantity_is_explained():
  explained = Parameters.__doc__.replace(",", " ").replace(":", " ").split()
  assert {field.name for field in dataclasses.fields(Parameters)} <= {
    *explained
  }
