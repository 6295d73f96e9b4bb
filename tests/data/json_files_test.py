import pytest

from hrl_jax.data import json_files
from tests.messages import check_message


def test_an_object_is_read(tmp_path):
  path = tmp_path / "config.json"
  path.write_bytes(b'{"a": "\xc3\xa9"}')
  assert json_files.read(path) == {"a": "\u00e9"}


@pytest.mark.parametrize(
  "content",
  [b"", b"{", b"[]", b"null", b"\xff", b"[" * 10**5, b'"%b"' % (b"x" * 10**6)],
)
def test_anything_else_is_told_by_the_name_of_the_file(tmp_path, content):
  path = tmp_path / "config.json"
  path.write_bytes(content)
  with pytest.raises(ValueError, match=r"config\.json") as error:
    json_files.read(path)
  assert "again." in check_message(error.value)


def test_a_file_that_is_not_there_or_is_a_folder_is_told(tmp_path):
  with pytest.raises(FileNotFoundError, match=r"has no config\.json") as error:
    json_files.read(tmp_path / "config.json")
  check_message(error.value)
  with pytest.raises(ValueError, match=r"Cannot read .*: Is a dir") as error:
    json_files.read(tmp_path)
  check_message(error.value)
