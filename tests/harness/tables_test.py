import tracemalloc

import hypothesis
import pytest
from hypothesis import strategies as st

from hrl_jax.harness import tables

pytestmark = pytest.mark.core


@hypothesis.given(
  st.lists(
    st.tuples(st.integers(0), st.lists(st.integers(), max_size=3)), max_size=12
  )
)
def test_every_copy_keeps_its_items_however_others_grow(growths):
  models = [[7]]
  copies = [tables.Table([7])]
  for which, items in growths:
    which %= len(copies)
    copies.append(copies[which].extended(items))
    models.append(models[which] + items)
  for copy, model in zip(copies, models, strict=True):
    assert list(copy) == copy[:] == model
    assert len(copy) == len(model)
    assert [copy[i] for i in range(-len(model), len(model))] == model * 2
    assert copy[1:-1] == model[1:-1]
    for beyond in (len(model), -len(model) - 1):
      with pytest.raises(IndexError, match=f"of {len(model)}"):
        copy[beyond]
  for copy, model in zip(copies, models, strict=True):
    for other, its in zip(copies, models, strict=True):
      assert (copy == other) == (model == its)
      assert model != its or hash(copy) == hash(other)


def test_the_list_that_it_is_made_of_stays_its_own():
  items = [1, 2]
  table = tables.Table(items)
  items.append(3)
  assert list(table) == [1, 2]


def test_a_table_is_not_equal_to_a_list():
  assert tables.Table([1]) != [1]


def test_growing_takes_memory_for_what_is_new_only():
  table = tables.Table(range(100_000)).extended([0])
  tracemalloc.start()
  try:
    longer = table.extended([1])
    _, most = tracemalloc.get_traced_memory()
  finally:
    tracemalloc.stop()
  assert len(longer) == 100_002
  # A copy of the items would take 800 kB.
  assert most < 10_000


def test_nothing_more_is_the_same_table():
  table = tables.Table([1])
  assert table.extended([]) is table
