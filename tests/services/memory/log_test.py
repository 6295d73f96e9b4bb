import hashlib
import resource
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hrl_jax.harness import history, records
from hrl_jax.services.memory import log
from tests import messages
from tests.services.memory import things

GROUPS = [things.group(step=step) for step in range(3)]


@pytest.fixture
def path(tmp_path):
  return tmp_path / "memory" / "log.jsonl"


def opened(path, bank=things.BANK):
  return log.Log(path, bank)


def reopened(kept):
  kept.close()
  return opened(kept.path)


def found(kept, offset=0):
  return [record for _, record in kept.since(offset)]


def test_records_are_read_back_from_their_places_and_in_order(path):
  kept = opened(path)
  places = kept.append(GROUPS[:2]) + kept.append(GROUPS[2:])
  assert [kept.read(place) for place in places] == GROUPS
  assert list(kept.since()) == list(zip(places, GROUPS, strict=True))
  assert found(kept, places[1].offset) == GROUPS[1:]
  assert found(kept, kept.length()) == []


def test_a_place_is_where_the_line_stands_in_the_file(path):
  kept = opened(path)
  header = len(records.encode(records.Header(things.BANK)))
  first, second = kept.append(GROUPS[:2])
  length = len(records.encode(GROUPS[0]))
  assert first == (header, length)
  assert second.offset == header + length
  assert kept.length() == path.stat().st_size == sum(second)


def test_the_next_process_goes_on_where_this_one_stopped(path):
  kept = opened(path)
  kept.append(GROUPS[:1])
  kept = reopened(kept)
  kept.append(GROUPS[1:])
  assert found(kept) == GROUPS


def test_nothing_appended_changes_nothing(path):
  kept = opened(path)
  length = kept.length()
  assert kept.append([]) == ()
  assert kept.length() == length


def test_the_first_line_names_the_bank(path):
  opened(path)
  assert records.decode(path.read_bytes()) == records.Header(things.BANK)


def test_a_log_of_another_bank_is_refused_and_stays_as_it_is(path):
  opened(path).close()
  before = path.read_bytes()
  with pytest.raises(ValueError, match="is of the bank") as caught:
    opened(path, "another")
  assert "'another'" in messages.check_message(caught.value)
  assert path.read_bytes() == before
  # It is not left locked.
  opened(path).close()


def test_a_file_that_is_no_log_is_refused_and_stays_as_it_is(path):
  path.parent.mkdir()
  for content in (records.encode(GROUPS[0]), b"hello\n", b"\x00" * 9 + b"\n"):
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"log.jsonl.*another config.workdir"):
      opened(path)
    assert path.read_bytes() == content


@given(data=st.data())
def test_a_log_cut_anywhere_is_recovered_to_its_last_whole_record(
  data, tmp_path_factory
):
  path = tmp_path_factory.mktemp("log") / "log.jsonl"
  kept = opened(path)
  places = kept.append(GROUPS)
  kept.close()
  content = path.read_bytes()
  length = data.draw(st.integers(0, len(content)))
  path.write_bytes(content[:length])
  whole = [
    record
    for place, record in zip(places, GROUPS, strict=True)
    if sum(place) <= length
  ]
  kept = opened(path)
  assert found(kept) == whole
  kept.append(GROUPS[len(whole) :])
  assert path.read_bytes() == content
  kept.close()


def test_what_is_cut_from_a_torn_end_is_said(path, caplog):
  kept = opened(path)
  kept.append(GROUPS[:1])
  kept.close()
  with open(path, "ab") as file:
    file.write(b'{"record":"gro')
  opened(path)
  assert f"Cut the last 14 bytes of {path}" in caplog.text


def test_a_whole_log_is_opened_without_a_word(path, caplog):
  reopened(opened(path))
  assert not caplog.text


@pytest.mark.parametrize(
  "damage",
  [
    lambda line: line.replace(b'"step":1', b'"step":x'),
    lambda line: line.replace(b'"step":1', b'"stop":1'),
    lambda line: line[:30] + b"\n" + line[31:],
    lambda line: b"\x00" * (len(line) - 1) + b"\n",
    lambda line: line.replace(b"hello", b"hel\xff\xfe"),
  ],
)
def test_a_damaged_line_is_refused_by_file_and_number(path, damage):
  kept = opened(path)
  places = kept.append(GROUPS)
  kept.close()
  start, end = places[1].offset, sum(places[1])
  content = path.read_bytes()
  path.write_bytes(content[:start] + damage(content[start:end]) + content[end:])
  kept = opened(path)
  # The header is line 1.
  with pytest.raises(ValueError, match=r"log.jsonl, line 3 \(byte") as caught:
    found(kept)
  assert "Bring the file back" in str(caught.value)
  with pytest.raises(ValueError, match="line 3"):
    kept.read(places[1])
  assert kept.read(places[0]) == GROUPS[0]
  assert kept.read(places[2]) == GROUPS[2]


@pytest.mark.parametrize("shift", [(1, 0), (0, 1), (0, -1), (10**9, 0)])
def test_a_place_where_no_record_stands_is_refused(path, shift):
  kept = opened(path)
  place = kept.append(GROUPS)[1]
  wrong = history.Place(place.offset + shift[0], place.length + shift[1])
  with pytest.raises(ValueError, match="is damaged"):
    kept.read(wrong)


def test_a_cut_log_is_as_it_was_and_goes_on(path, caplog):
  caplog.set_level("INFO")
  kept = opened(path)
  kept.append(GROUPS[:1])
  length, content = kept.length(), path.read_bytes()
  kept.append(GROUPS[1:])
  kept.cut(length)
  assert "written after the last checkpoint" in caplog.text
  assert path.read_bytes() == content
  assert found(kept) == GROUPS[:1]
  kept.append(GROUPS[1:])
  assert found(kept) == found(reopened(kept)) == GROUPS


def test_a_log_cut_to_nothing_keeps_its_header(path):
  kept = opened(path)
  kept.append(GROUPS)
  kept.cut(0)
  assert found(kept) == []
  assert found(reopened(kept)) == []


def test_a_log_shorter_than_the_checkpoint_knew_is_refused(path):
  kept = opened(path)
  length = kept.length()
  with pytest.raises(ValueError, match="what the run wrote is lost") as caught:
    kept.cut(length + 1)
  assert f"has {length} bytes, but had {length + 1}" in str(caught.value)


def test_a_cut_in_the_middle_of_a_record_is_refused(path):
  kept = opened(path)
  place = kept.append(GROUPS)[1]
  with pytest.raises(ValueError, match=r"No record of .* ends at byte"):
    kept.cut(place.offset + 1)
  assert found(kept) == GROUPS


def test_records_that_cannot_be_written_leave_no_trace(path):
  kept = opened(path)
  kept.append(GROUPS[:1])
  content = path.read_bytes()
  before = resource.getrlimit(resource.RLIMIT_FSIZE)
  # As on a full disk: room for one record more, and part of the next.
  room = len(records.encode(GROUPS[1])) + 20
  resource.setrlimit(resource.RLIMIT_FSIZE, (len(content) + room, before[1]))
  try:
    with pytest.raises(OSError, match="make room and run the same") as caught:
      kept.append(GROUPS[1:])
  finally:
    resource.setrlimit(resource.RLIMIT_FSIZE, before)
  assert str(path) in str(caught.value)
  assert path.read_bytes() == content
  kept.append(GROUPS[1:])
  assert found(kept) == GROUPS


def test_a_record_that_is_no_unicode_text_leaves_no_trace(path):
  kept = opened(path)
  with pytest.raises(ValueError):
    kept.append([GROUPS[0], things.group(text="\ud800")])
  assert found(kept) == []


def test_a_second_process_is_told_at_once(path):
  opened(path)
  code = (
    "import pathlib, sys\n"
    "from hrl_jax.services.memory import log\n"
    "log.Log(pathlib.Path(sys.argv[1]), sys.argv[2])\n"
  )
  other = subprocess.run(
    [sys.executable, "-c", code, path, things.BANK],
    capture_output=True,
    text=True,
    timeout=60,
  )
  assert other.returncode == 1
  message = other.stderr.splitlines()[-1]
  assert message.startswith(
    "ValueError: Another process has the harness memory"
  )
  assert str(path.parent) in message
  with pytest.raises(ValueError, match="Another process"):
    opened(path)


def test_a_place_that_cannot_be_written_to_is_refused(tmp_path):
  file = tmp_path / "file"
  file.touch()
  with pytest.raises(ValueError, match="Cannot open the harness log"):
    opened(file / "log.jsonl")


def test_the_digest_is_that_of_the_first_bytes(path):
  kept = opened(path)
  places = kept.append(GROUPS)
  content = path.read_bytes()
  # Forwards, backwards and after a cut.
  for length in (0, places[1].offset, len(content), places[0].offset):
    assert kept.digest(length) == hashlib.sha256(content[:length]).hexdigest()
  kept.digest(len(content))
  kept.cut(places[1].offset)
  kept.append([things.group(step=9)])
  content = path.read_bytes()
  expected = hashlib.sha256(content).hexdigest()
  assert kept.digest(len(content)) == expected
