import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hrl_jax.harness import retrieval
from hrl_jax.services.memory import semantics, wordings
from tests.services.memory import things

DIMENSION = 8


def numbered(numbers, vectors_ND):
  return vectors_ND[[int(text.split()[-1]) for text in numbers]]


def filled(vectors_ND, made, retired=(), **knobs):
  """Wordings `made`, each (task, cid, version, sign, number of its text)."""
  knobs = {"top_k": 4, "floor": 0.0, **knobs}
  meaning = semantics.Semantics(
    lambda texts: numbered(texts, vectors_ND), **knobs
  )
  meaning.add(
    wordings.Wording(task, things.version(cid, f"text {number}", sign, version))
    for task, cid, version, sign, number in made
  )
  meaning.apply(things.update(retired=retired))
  return meaning


def query(number, task="asking", sign=1):
  return retrieval.Query((f"{task}#0", 0), task, sign, f"text {number}")


def brute_force(asked, vectors_ND, made, retired, top_k, floor):
  """H-53, one wording at a time."""
  query_D = vectors_ND[int(asked.text.split()[-1])].astype(float)
  best = {}
  for task, cid, version, sign, number in made:
    similarity = float(np.dot(query_D, vectors_ND[number].astype(float)))
    is_hit = (
      task != asked.task
      and sign == asked.sign
      and (cid, version) not in retired
      and similarity >= floor
    )
    if is_hit:
      hit = (-round(similarity, 12), (cid, version))
      best[cid] = min(best.get(cid, hit), hit)
  return [target for _, target in sorted(best.values())][:top_k]


def targets(hits):
  return [hit.target for hit in hits]


@st.composite
def worlds(draw):
  """Few vectors, so that texts and cosines tie often, and many wordings."""
  seed = draw(st.integers(0, 10**6))
  rng = np.random.default_rng(seed)
  count = draw(st.integers(1, 120))
  texts = draw(st.sampled_from([3, 30, 120]))
  vectors_ND = things.points(texts + 10, DIMENSION, seed, per_topic=6)
  made = []
  for _ in range(count):
    task = f"t{rng.integers(6)}"
    # Some lineages have several versions, and all of them may be active.
    cid = f"{task}#{rng.integers(8)}"
    version = sum(1 for each in made if each[1] == cid)
    sign = 1 if sum(map(ord, cid)) % 5 else -1
    made.append((task, cid, version, sign, int(rng.integers(texts))))
  retired = [each[1:3] for each in made if rng.random() < 0.3]
  return vectors_ND, made, retired


@given(
  world=worlds(),
  top_k=st.integers(1, 5),
  floor=st.sampled_from([-1.0, 0.3, 0.8, 0.99]),
  looked_at=st.sampled_from([1, 3, 32]),
)
def test_what_is_related_is_brute_force(world, top_k, floor, looked_at):
  vectors_ND, made, retired = world
  with pytest.MonkeyPatch.context() as patch:
    # So that the filters leave too few, and more has to be looked at.
    patch.setattr(semantics, "_LOOKED_AT", looked_at)
    meaning = filled(vectors_ND, made, retired, top_k=top_k, floor=floor)
    asked = [
      query(number, f"t{number % 7}", sign)
      for number in range(len(vectors_ND))
      for sign in (1, -1)
    ]
    found = meaning.related(asked)
  for each, hits in zip(asked, found, strict=True):
    assert targets(hits) == brute_force(
      each, vectors_ND, made, retired, top_k, floor
    )


@given(world=worlds(), data=st.data())
def test_asking_again_is_asking_for_the_first_time(world, data):
  vectors_ND, made, retired = world
  looked_at = data.draw(st.sampled_from([1, 2, 32]))
  floor = data.draw(st.sampled_from([-1.0, 0.5, 0.9]))
  asked = [query(number) for number in range(len(vectors_ND))]
  with pytest.MonkeyPatch.context() as patch:
    patch.setattr(semantics, "_LOOKED_AT", looked_at)
    growing = filled(vectors_ND, [], floor=floor)
    start = 0
    while start < len(made):
      end = start + data.draw(st.integers(1, 60))
      growing.add(
        wordings.Wording(
          task, things.version(cid, f"text {number}", sign, version)
        )
        for task, cid, version, sign, number in made[start:end]
      )
      gone = [each[1:3] for each in made[start:end] if each[1:3] in retired]
      growing.apply(things.update(retired=gone))
      chosen = asked[:: data.draw(st.integers(1, 3))]
      growing.related(chosen)
      start = end
    fresh = filled(vectors_ND, made, retired, floor=floor)
    assert growing.related(asked) == fresh.related(asked)


def test_only_what_is_new_is_searched_for_what_was_asked_before(monkeypatch):
  vectors_ND = things.points(300, DIMENSION)
  made = [(f"t{i}", f"t{i}#0", 0, 1, i) for i in range(200)]
  meaning = filled(vectors_ND, made, floor=0.9)
  meaning.related([query(number) for number in range(50)])
  searched = []
  real = semantics.search.nearest

  def nearest(queries_QD, vectors, *, first, **rest):
    searched.append((len(queries_QD), len(vectors) - first))
    return real(queries_QD, vectors, first=first, **rest)

  monkeypatch.setattr(semantics.search, "nearest", nearest)
  meaning.related([query(number) for number in range(50)])
  assert searched == []
  meaning.add(
    wordings.Wording("new", things.version(f"new#{i}", f"text {200 + i}"))
    for i in range(7)
  )
  # 48 are known, and see the 7 new texts; 2 are not, and see all.
  meaning.related([query(number) for number in range(2, 52)])
  assert sorted(searched) == [(2, 207), (48, 7)]


def test_hits_are_of_other_tasks_the_same_sign_and_active():
  vectors_ND = np.ones((1, 1), np.float32)
  made = [
    ("a", "a#0", 0, 1, 0),
    ("b", "b#0", 0, 1, 0),
    ("b", "b#1", 0, -1, 0),
    ("c", "c#0", 0, 1, 0),
    ("c", "c#0", 1, 1, 0),
    ("d", "d#0", 0, 1, 0),
  ]
  meaning = filled(vectors_ND, made, [("c#0", 0), ("d#0", 0)])
  (hits,) = meaning.related([query(0, task="a")])
  assert targets(hits) == [("b#0", 0), ("c#0", 1)]
  assert [hit.task for hit in hits] == ["b", "c"]
  assert {(hit.text, hit.similarity) for hit in hits} == {("text 0", 1.0)}
  (penalties,) = meaning.related([query(0, task="a", sign=-1)])
  assert targets(penalties) == [("b#1", 0)]


def test_of_a_lineage_the_nearest_wording_is_the_hit():
  # Cosines to (1, 0) are 0.8, 0.6 and 1.
  vectors_ND = np.array([[0.8, 0.6], [0.6, 0.8], [1, 0]], np.float32)
  made = [("b", "b#0", 0, 1, 1), ("b", "b#0", 1, 1, 0), ("c", "c#0", 0, 1, 1)]
  meaning = filled(vectors_ND, made)
  (hits,) = meaning.related([query(2)])
  assert targets(hits) == [("b#0", 1), ("c#0", 0)]
  np.testing.assert_allclose([hit.similarity for hit in hits], [0.8, 0.6])


def test_the_floor_is_part_of_what_reaches_it():
  vectors_ND = np.array([[0.5, np.sqrt(0.75)], [1, 0]], np.float32)
  made = [("b", "b#0", 0, 1, 0)]
  for floor, count in ((0.5, 1), (0.5000001, 0)):
    (hits,) = filled(vectors_ND, made, floor=floor).related([query(1)])
    assert len(hits) == count


def test_equally_near_hits_come_in_the_order_of_their_names():
  vectors_ND = np.ones((1, 1), np.float32)
  names = [f"t{number}" for number in (5, 3, 9, 1, 7, 2)]
  made = [(name, f"{name}#0", 0, 1, 0) for name in names]
  (hits,) = filled(vectors_ND, made).related([query(0)])
  assert targets(hits) == [(f"t{number}#0", 0) for number in (1, 2, 3, 5)]


def test_candidates_of_a_graph_are_searched_instead_of_everything():
  vectors_ND = things.points(300, DIMENSION)
  made = [(f"t{i}", f"t{i}#0", 0, 1, i) for i in range(200)]
  asked = [query(number) for number in range(200, 260)]
  meaning = filled(vectors_ND, made, floor=0.5)
  counts = []

  def candidates(sign, queries_QD, count):
    counts.append(count)
    products = queries_QD @ vectors_ND[:200].T
    rows = np.argsort(-products, axis=1)[:, :count]
    return [[(f"t{row}#0", 0) for row in each] for each in rows]

  found = meaning.related(asked, candidates)
  assert counts[0] == semantics._LOOKED_AT
  expected = filled(vectors_ND, made, floor=0.5).related(asked)
  assert found == expected


def test_a_graph_that_finds_too_little_is_asked_for_more_and_then_passed_over():
  vectors_ND = things.points(900, DIMENSION, per_topic=900)
  # Nearly all that is near is the query's own task's.
  made = [
    ("asking" if i < 850 else "other", f"c#{i}", 0, 1, i) for i in range(900)
  ]
  meaning = filled(vectors_ND, made, floor=-1.0)
  counts = []

  def candidates(sign, queries_QD, count):
    counts.append(count)
    products = queries_QD @ vectors_ND.T
    rows = np.argsort(-products, axis=1)[:, : count - 1]
    return [[(f"c#{row}", 0) for row in each] for each in rows]

  asked = [query(number) for number in range(5)]
  found = meaning.related(asked, candidates)
  assert counts[:2] == [32, 128] and len(counts) == 2
  assert found == filled(vectors_ND, made, floor=-1.0).related(asked)


def test_nothing_is_related_where_there_is_nothing():
  meaning = filled(things.points(3, DIMENSION), [])
  assert meaning.related([]) == ()
  assert meaning.related([query(0), query(1, sign=-1)]) == ((), ())


@given(world=worlds(), data=st.data())
def test_what_is_undone_never_was(world, data):
  vectors_ND, made, retired = world
  kept = data.draw(st.integers(0, len(made)))
  meaning = filled(vectors_ND, made[:kept])
  asked = [query(number) for number in range(len(vectors_ND))]
  meaning.related(asked)
  updates = [
    things.update(task, [things.version(cid, f"text {number}", sign, version)])
    for task, cid, version, sign, number in made[kept:]
  ]
  updates.append(things.update(retired=retired))
  for update in updates:
    meaning.apply(update)
  meaning.related(asked[::2])
  everything = entered(meaning)
  undone = meaning.undo(updates)
  fresh = filled(vectors_ND, made[:kept])
  assert entered(meaning) == entered(fresh)
  assert meaning.related(asked) == fresh.related(asked)
  for sign in semantics.SIGNS:
    gone = {each[0] for each in everything[sign][len(entered(fresh)[sign]) :]}
    assert set(undone.gone[sign]) == gone
    # What differs among the texts that stay is named.
    for row, each in enumerate(entered(fresh)[sign]):
      assert each == everything[sign][row] or row in undone.kept[sign]
  for update in updates:
    meaning.apply(update)
  assert entered(meaning) == everything


def entered(meaning):
  """All that an index is given, by sign; vectors left out."""
  return {
    sign: [
      each[:4]
      for each in meaning.entered(sign, range(len(meaning.table(sign).texts)))
    ]
    for sign in semantics.SIGNS
  }
