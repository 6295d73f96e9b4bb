"""JSON values of all kinds, many of them nearly what was asked for."""

import copy

from hypothesis import strategies as st

from tests import hostile_texts

_SCALARS = st.one_of(
  st.none(),
  st.booleans(),
  st.integers(-3, 9),
  st.integers(),
  st.sampled_from([10**400, -(10**400)]),
  st.floats(),
  st.sampled_from(["", " ", "\u200b", "x"]),
  hostile_texts.TEXTS,
)


def anything(keys, words):
  """Any JSON value, of which keys and texts may be among these."""
  texts = st.sampled_from([*keys, *words])
  names = st.one_of(texts, texts, st.text(max_size=3))
  return st.recursive(
    st.one_of(_SCALARS, texts),
    lambda inner: st.one_of(
      st.lists(inner, max_size=4), st.dictionaries(names, inner, max_size=5)
    ),
    max_leaves=12,
  )


@st.composite
def near(draw, templates, keys, words):
  """A template with some of its places changed, or anything at all."""
  values = anything(keys, words)
  if draw(st.integers(0, 9)) == 0:
    return draw(values)
  root = [copy.deepcopy(draw(st.sampled_from(templates)))]
  for _ in range(draw(st.integers(0, 3))):
    place, key = root, 0
    # Down to some place in it.
    while isinstance(place[key], dict | list) and place[key]:
      if place is not root and draw(st.integers(0, 3)) == 0:
        break
      place = place[key]
      count = len(place)
      index = draw(st.integers(0, count - 1))
      key = list(place)[index] if isinstance(place, dict) else index
    match draw(st.sampled_from(["set", "remove", "add", "again"])):
      case "set":
        place[key] = draw(values)
      case "remove" if place is not root:
        del place[key]
      case "add" if isinstance(place, dict):
        place[draw(st.sampled_from(keys))] = draw(values)
      case "add" if place is not root:
        place.append(draw(values))
      case "again" if isinstance(place, list) and place is not root:
        place.append(copy.deepcopy(place[key]))
  return root[0]
