import functools
import os
import pathlib
import resource

import pytest

from hrl_jax.services import chat, replies

pytestmark = pytest.mark.core

named = functools.partial(
  replies.key,
  b"a",
  step=3,
  purpose="train",
  subject="slot 1, rollout 2",
  attempt=0,
  ask=0,
)
KEY = named()
TEXT = 'line\n break \u2028 "quoted" \ud800 \x00'


@pytest.fixture
def path(tmp_path):
  return tmp_path / "replies.jsonl"


def opened(path, start=0):
  kept = replies.ReplayFile(path)
  kept.replay(start)
  return kept


def test_a_reply_is_found_by_the_next_process_and_by_no_later_asking(path):
  kept = opened(path)
  assert kept.get(KEY) is None
  kept.put(KEY, chat.Reply(TEXT, "stop"))
  # Nothing is closed: the process may have been killed here.
  again = opened(path)
  assert again.get(KEY) == chat.Reply(TEXT, "stop")
  assert again.get(KEY) is None


@pytest.mark.parametrize(
  "other",
  [
    named(attempt=1),
    named(subject="slot 0, rollout 2"),
    named(step=4),
    named(purpose="evaluation"),
    named(ask=1),
    KEY._replace(content=KEY.content[::-1]),
  ],
)
def test_another_grading_is_a_new_one(path, other):
  opened(path).put(KEY, chat.Reply("yes", "stop"))
  assert opened(path).get(other) is None


def test_another_content_has_another_key():
  # sha256("a") by sha256sum.
  assert KEY.content.startswith("ca978112ca1bbdcafac231b39a23dc4d")
  name = {k: v for k, v in KEY._asdict().items() if k != "content"}
  other = replies.key(b"b", **name)
  assert other.content != KEY.content
  assert other._replace(content=KEY.content) == KEY


def test_replies_before_the_checkpoint_are_not_read(path):
  kept = opened(path)
  kept.put(KEY, chat.Reply("old", "stop"))
  length = kept.length()
  newer = KEY._replace(step=4)
  kept.put(newer, chat.Reply("new", "stop"))
  again = opened(path, start=length)
  assert again.get(KEY) is None
  assert again.get(newer) == chat.Reply("new", "stop")


def test_what_a_reply_cost_is_kept_with_it(path):
  opened(path).put(KEY, chat.Reply("yes", "stop", 12))
  assert opened(path).get(KEY).tokens == 12


@pytest.mark.parametrize("kept_bytes", [1, 40, -1])
def test_half_a_line_is_cut_and_the_rest_is_whole(path, kept_bytes):
  kept = opened(path)
  kept.put(KEY, chat.Reply("whole", "stop"))
  whole = kept.length()
  kept.put(KEY._replace(subject="9"), chat.Reply("half", "stop"))
  line = path.read_bytes()[whole:]
  path.write_bytes(path.read_bytes()[:whole] + line[:kept_bytes])
  again = opened(path)
  assert again.length() == whole
  assert again.get(KEY._replace(subject="9")) is None
  again.put(KEY._replace(subject="9"), chat.Reply("anew", "stop"))
  last = opened(path)
  assert last.get(KEY) == chat.Reply("whole", "stop")
  assert last.get(KEY._replace(subject="9")) == chat.Reply("anew", "stop")


def test_a_broken_line_is_passed_over_and_said(path, caplog):
  kept = opened(path)
  kept.put(KEY, chat.Reply("yes", "stop"))
  with open(path, "ab") as file:
    file.write(b"\x00\x00\n[1]\n{}\n")
  kept.put(KEY._replace(subject="9"), chat.Reply("no", "stop"))
  again = opened(path)
  assert caplog.text.count("broken line") == 3
  assert again.get(KEY).text == "yes"
  assert again.get(KEY._replace(subject="9")).text == "no"


def test_a_file_that_is_shorter_than_the_checkpoint_knew_starts_anew(path):
  kept = opened(path, start=10**6)
  kept.put(KEY, chat.Reply("yes", "stop"))
  assert opened(path).get(KEY).text == "yes"


def test_a_reply_that_cannot_be_written_is_an_error_and_leaves_no_half(path):
  kept = opened(path)
  kept.put(KEY, chat.Reply("first", "stop"))
  length = kept.length()
  before = resource.getrlimit(resource.RLIMIT_FSIZE)
  # As on a full disk: the file may grow by 20 bytes, less than a line.
  resource.setrlimit(resource.RLIMIT_FSIZE, (length + 20, before[1]))
  try:
    with pytest.raises(OSError, match="make room") as caught:
      kept.put(KEY._replace(subject="9"), chat.Reply("second", "stop"))
  finally:
    resource.setrlimit(resource.RLIMIT_FSIZE, before)
  assert str(path) in str(caught.value)
  assert os.stat(path).st_size == length
  assert opened(path).get(KEY).text == "first"


def test_a_run_without_files_keeps_nothing():
  kept = replies.Forgetful()
  kept.put(KEY, chat.Reply("yes", "stop"))
  assert kept.get(KEY) is None
  assert isinstance(kept, replies.Replies)
  assert isinstance(
    replies.ReplayFile(pathlib.Path(os.devnull)), replies.Replies
  )
