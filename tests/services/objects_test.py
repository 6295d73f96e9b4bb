import contextlib
import time

import pytest

from hrl_jax.services import objects

pytestmark = pytest.mark.core


def found(text, **changes):
  return [each.value for each in objects.scan(text, **changes).objects]


@pytest.mark.parametrize(
  ("text", "value"),
  [
    ('{"a": 1,}', (("a", 1),)),
    ('{"a": [1, 2, \n], }', (("a", [1, 2]),)),
    ('{"a": {"b": [{},],},}', (("a", (("b", [()]),)),)),
    # In a string it is the model's own.
    ('{"a": "1,}", "b": ",]",}', (("a", "1,}"), ("b", ",]"))),
    ('{"a": "\\",}",}', (("a", '",}'),)),
    ('{"a": "\\(x\\),}",}', (("a", "\\(x\\),}"),)),
  ],
)
def test_a_last_comma_is_passed_over_where_it_may_be(text, value):
  assert found(text, last_commas=True) == [value]
  assert found(text) == []


@pytest.mark.parametrize(
  "text", ['{"a": 1,,}', "{,}", '{"a": [,]}', '{"a": [1,,]}', '{,"a": 1}']
)
def test_a_comma_after_no_item_is_no_last_one(text):
  assert found(text, last_commas=True) == []


@pytest.mark.parametrize("piece", [",", ", ", ",\n  ", "[", "[ ,", '",', "\\"])
def test_last_commas_are_found_in_linear_time(piece):
  # 10 ms; a quadratic scan would take minutes.
  text = '{"a": ' + piece * (90_000 // len(piece))
  begin = time.process_time()
  for end in ("}", '"}', "]}", ",}"):
    with contextlib.suppress(objects.ObjectError):
      objects.scan(text + end, last_commas=True)
  assert time.process_time() - begin < 2.0
