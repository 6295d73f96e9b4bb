import subprocess
import sys
import time

import numpy as np
import pytest

from hrl_jax.harness import history, retrieval
from hrl_jax.services import chat
from hrl_jax.services.memory import embedder
from tests import messages
from tests.services.memory import things

SEARCHES = ("exact", "approximate")


@pytest.fixture
def kept(tmp_path):
  with things.opened(tmp_path) as kept:
    yield kept


def test_a_history_is_that_of_the_tasks_records_in_order(kept):
  expected = {task: history.History(task) for task, _ in things.seeds()}
  for number in (1, 2, 3):
    batch = things.step(number)
    for record, place in zip(batch, kept.append(batch), strict=True):
      task = history.task_of(record)
      expected[task] = history.extend(expected[task], record, place)
  names = ["t2", "t0", "t1", "t2"]
  assert kept.histories(names) == tuple(expected[name] for name in names)
  assert len(kept.histories(["t1"])[0].updates) == 3


def test_a_record_that_is_of_no_task_is_in_the_log_alone(tmp_path):
  band = things.records.Band(1.0, 2.0, 3, 0.5, 1.5)
  record = things.records.Calibration((1.0, 0.6, 0.4, 0.2), band, band, {}, {})
  with things.opened(tmp_path) as kept:
    kept.append([record, things.group()])
    before = things.everything(kept)
  with things.opened(tmp_path) as kept:
    assert things.everything(kept) == before


def test_a_whole_group_is_read_by_its_place(kept):
  group, labels = things.group(text="\u2028 \U0001f600"), things.labels()
  place, other = kept.append([group, labels])
  assert kept.group(place) == group
  assert kept.histories(["t0"])[0].seen[0].place == place
  with pytest.raises(ValueError, match="is no group but a Labels"):
    kept.group(other)


def test_an_accepted_rewrite_is_found_in_place_of_what_it_replaced(kept):
  asked = retrieval.Query(("t0#0", 0), "t0", 1, things.TEXTS[0])
  (before,) = kept.related([asked])
  assert ("t1#0", 0) in {hit.target for hit in before}
  kept.append(things.step(1))
  (after,) = kept.related([asked])
  assert ("t1#0", 0) not in {hit.target for hit in after}
  rewritten = retrieval.Query(
    ("t0#0", 1), "t0", 1, "Names step 1 and the date."
  )
  (found,) = kept.related([rewritten])
  target, task, text, similarity = found[0]
  assert (target, task, text) == (("t1#0", 1), "t1", rewritten.text)
  assert similarity == pytest.approx(1)


@pytest.mark.parametrize("search", SEARCHES)
def test_the_next_start_retrieves_the_same(tmp_path, search):
  with things.opened(tmp_path, search) as kept:
    for number in (1, 2):
      kept.append(things.step(number))
    before = things.everything(kept)
  with things.opened(tmp_path, search) as kept:
    assert things.everything(kept) == before
    kept.append(things.step(3))
    after = things.everything(kept)
  assert after != before
  with things.opened(tmp_path, search) as kept:
    assert things.everything(kept) == after


def test_the_graph_finds_in_a_small_bank_what_the_exact_search_finds(tmp_path):
  points = things.Points(things.points(600))
  seeds = [
    (
      f"t{task}",
      [
        things.version(
          f"t{task}#{i}", f"text {6 * task + i}", -1 if i == 5 else 1
        )
        for i in range(6)
      ],
    )
    for task in range(90)
  ]
  found = []
  for search in SEARCHES:
    with things.opened(
      tmp_path, search, seeds=seeds, embedder=points, floor=0.6
    ) as kept:
      asked = things.queries(seeds)
      found.append([kept.related(asked)])
      made = [things.version("t3#9", "text 577")]
      length = kept.length()
      kept.append([things.update("t3", made, [("t3#0", 0), ("t3#5", 0)])])
      found[-1].append(kept.related(asked))
      kept.cut(length)
      found[-1].append(kept.related(asked))
  assert found[0] == found[1]
  first, second, third = found[0]
  assert first == third != second
  assert np.mean([len(hits) for hits in first]) > 2


def test_what_is_related_does_not_depend_on_what_is_asked_beside_it(kept):
  asked = things.queries()
  together = kept.related(asked)
  assert [kept.related([each])[0] for each in asked] == list(together)
  assert kept.related(asked[::-1]) == together[::-1]


def test_similarities_are_cosines_of_the_texts(kept):
  texts = ["One.", "One.", "Two words."]
  vectors = embedder.HashEmbedder(32).embed(texts).astype(float)
  found = kept.similarities(texts[0], texts[1:])
  np.testing.assert_allclose(found, vectors[1:] @ vectors[0], atol=1e-12)
  assert kept.similarities("One.", []) == []


@pytest.mark.parametrize("search", SEARCHES)
def test_what_came_after_a_checkpoint_never_was(tmp_path, search):
  with things.opened(tmp_path, search) as kept:
    states = [things.everything(kept)]
    for number in (1, 2, 3, 4):
      kept.append(things.step(number))
      states.append(things.everything(kept))
    kept.cut(states[2][2])
    assert things.everything(kept) == states[2]
    # The step comes again, as a resumed run repeats it.
    kept.append(things.step(3))
    assert things.everything(kept) == states[3]
    kept.cut(kept.length())
    assert things.everything(kept) == states[3]
  with things.opened(tmp_path, search) as kept:
    assert things.everything(kept) == states[3]
    kept.cut(0)
    assert things.everything(kept) == states[0]
  with things.opened(tmp_path, search) as kept:
    assert things.everything(kept) == states[0]


@pytest.mark.parametrize("cut_after", range(4))
def test_groups_that_wait_for_the_index_are_in_histories(tmp_path, cut_after):
  batches = [[things.group(f"t{n % 2}", step=n)] for n in range(4)]
  with things.opened(tmp_path / "waiting") as kept:
    lengths = [kept.length()]
    for batch in batches:
      kept.append(batch)
      lengths.append(kept.length())
    seen = [len(each.seen) for each in kept.histories(["t0", "t1", "t2"])]
    assert seen == [2, 2, 0]
    kept.cut(lengths[cut_after])
    kept.append([things.update("t0")])
    found = things.everything(kept)
  with things.opened(tmp_path / "at_once") as kept:
    kept.append([g for batch in batches[:cut_after] for g in batch])
    kept.append([things.update("t0")])
    assert things.everything(kept) == found
  with things.opened(tmp_path / "waiting") as kept:
    assert things.everything(kept) == found


def test_a_place_that_was_cut_has_the_group_that_came_after(kept):
  length = kept.length()
  (place,) = kept.append([things.group("t0", text="one")])
  assert kept.group(place).rollouts[0].text == "one"
  kept.cut(length)
  (again,) = kept.append([things.group("t0", text="two")])
  assert again == place
  assert kept.group(again).rollouts[0].text == "two"


def test_a_criterion_made_again_after_a_cut_may_have_another_text(kept):
  length = kept.length()
  asked = retrieval.Query(("t0#9", 0), "t0", 1, "Second words.")
  for text in ("First words.", "Second words."):
    kept.append([things.update("t1", [things.version("t1#9", text)])])
    (found,) = kept.related([asked])
    assert (("t1#9", 0) in {hit.target for hit in found}) == (
      text == "Second words."
    )
    kept.cut(length)


@pytest.mark.parametrize("wrong", [1, -1, 10**6])
def test_a_cut_where_no_checkpoint_was_is_refused(kept, wrong):
  kept.append(things.step(1))
  before = things.everything(kept)
  with pytest.raises(ValueError, match=r"Bring the file back|Bring it back"):
    kept.cut(kept.length() + wrong)
  assert things.everything(kept) == before


@pytest.mark.parametrize(
  "batch, message",
  [
    ([things.group("elsewhere")], "task 'elsewhere', which is not in the bank"),
    (
      [things.update("t0", [things.version("t0#0", "Again.")])],
      "is made twice, the second time as 'Again.'",
    ),
    (
      [things.update("t0", 2 * [things.version("t0#9", "Twice.")])],
      "is made twice",
    ),
    ([things.update("t0", [], [("t0#0", 5)])], "was never made"),
    (
      [things.group("t0"), things.update("t0", [], [("t9#0", 0)])],
      "was never made",
    ),
  ],
)
def test_records_that_contradict_the_log_are_refused_whole(
  kept, batch, message
):
  before = things.everything(kept)
  with pytest.raises(ValueError, match=message) as caught:
    kept.append(batch)
  messages.check_message(caught.value)
  assert things.everything(kept) == before


def test_a_criterion_may_be_made_and_retired_in_one_append(kept):
  made = things.version("t0#9", "Short lived.")
  kept.append(
    [
      things.update("t0", [made], name="c1"),
      things.update("t0", [], [("t0#9", 0)], name="c2"),
    ]
  )
  asked = retrieval.Query(("t1#9", 0), "t1", 1, "Short lived.")
  assert kept.related([asked]) == ((),)


def test_an_embedder_that_fails_leaves_everything_as_it_was(tmp_path):
  class Gone(embedder.HashEmbedder):
    def embed(self, texts):
      if any("step 2" in text for text in texts):
        raise chat.UnreachableError("The endpoint is gone.")
      return super().embed(texts)

  with things.opened(tmp_path, embedder=Gone(32)) as kept:
    kept.append(things.step(1))
    before = things.everything(kept)
    with pytest.raises(chat.UnreachableError):
      kept.append(things.step(2))
    assert things.everything(kept) == before


def test_seeds_that_contradict_themselves_are_refused(tmp_path):
  seeds = [*things.seeds(), ("t9", [things.version("t0#0", "Again.")])]
  with pytest.raises(ValueError, match="is made twice"):
    things.opened(tmp_path, seeds=seeds)
  # Nothing is left open.
  things.opened(tmp_path).close()


@pytest.mark.parametrize(
  "changes", [{"top_k": 0}, {"floor": 1.5}, {"floor": float("nan")}]
)
def test_arguments_out_of_range_are_refused(tmp_path, changes):
  with pytest.raises(ValueError, match="top_k must be positive"):
    things.opened(tmp_path, **changes)


def test_a_log_of_another_bank_is_refused(tmp_path):
  things.opened(tmp_path).close()
  with pytest.raises(ValueError, match="is of the bank"):
    things.opened(tmp_path, bank_hash="another bank")


def test_a_damaged_log_is_refused_by_line(tmp_path):
  with things.opened(tmp_path) as kept:
    kept.append([things.group()])
    place = kept.append([things.group("t1")])[0]
  path = tmp_path / "log.jsonl"
  content = bytearray(path.read_bytes())
  content[place.offset + 3] ^= 1
  path.write_bytes(content)
  with pytest.raises(ValueError, match=r"log.jsonl, line 3"):
    things.opened(tmp_path)
  assert path.read_bytes() == content


def test_a_second_process_is_told_at_once(tmp_path):
  with things.opened(tmp_path):
    start = time.monotonic()
    other = subprocess.run(
      [sys.executable, "-c", OPENS, tmp_path],
      capture_output=True,
      text=True,
      timeout=120,
    )
    waited = float(other.stdout)
  assert other.returncode == 1
  assert "ValueError: Another process has the harness memory" in other.stderr
  assert waited < 5 < time.monotonic() - start + 5
  # And the next one finds it free.
  things.opened(tmp_path).close()


OPENS = """
import sys, time
from tests.services.memory import things
start = time.monotonic()
try:
  things.opened(sys.argv[1])
finally:
  print(time.monotonic() - start)
"""


def test_nothing_reaches_for_the_network(tmp_path):
  code = """
import socket, sys
def refused(*arguments, **keywords):
  raise AssertionError(f"reached for {arguments}")
socket.socket.connect = socket.getaddrinfo = refused
from tests.services.memory import things
with things.opened(sys.argv[1], "approximate") as kept:
  kept.append(things.step(1))
  things.everything(kept)
"""
  subprocess.run([sys.executable, "-c", code, tmp_path], check=True)
