import pytest

from hrl_jax.methods import interfaces
from tests.methods.harnessrl import rules

pytestmark = pytest.mark.core


def test_only_the_rules_that_are_there_are_given():
  sampling = rules.favours(2)
  assert interfaces.Rules().given() == {}
  assert interfaces.Rules(sampling=sampling).given() == {"sampling": sampling}


def test_rules_are_named_as_the_interfaces_are():
  every = interfaces.Rules(
    rules.favours(2), rules.scaffold("z"), rules.replaced("Has a.", "Has q.")
  )
  assert tuple(every.given()) == ("sampling", "rollout", "rubric")
