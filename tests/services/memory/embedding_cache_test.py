import resource

import numpy as np
import pytest

from hrl_jax.services.memory import embedder, embedding_cache
from tests.services.memory import things

VECTORS = things.points(40, 8)
TEXTS = [f"text {number}" for number in range(40)]


@pytest.fixture
def points():
  return things.Points(VECTORS)


def opened(folder, points):
  return embedding_cache.EmbeddingCache(folder, points)


def the_file(folder):
  (path,) = folder.glob("embeddings-*.f32")
  return path


def test_a_text_is_embedded_once(tmp_path, points):
  kept = opened(tmp_path, points)
  first = kept.vectors([TEXTS[3], TEXTS[1], TEXTS[3]])
  np.testing.assert_array_equal(first, VECTORS[[3, 1, 3]])
  np.testing.assert_array_equal(
    kept.vectors([TEXTS[1], TEXTS[2]]), VECTORS[[1, 2]]
  )
  assert points.asked == [TEXTS[3], TEXTS[1], TEXTS[2]]


def test_the_next_process_finds_what_this_one_embedded(tmp_path, points):
  # Nothing is closed: the process may have been killed here.
  opened(tmp_path, points).vectors(TEXTS[:20])
  points.asked.clear()
  np.testing.assert_array_equal(
    opened(tmp_path, points).vectors(TEXTS), VECTORS
  )
  assert points.asked == TEXTS[20:]


def test_more_texts_than_a_batch(tmp_path, points, monkeypatch, caplog):
  caplog.set_level("INFO")
  monkeypatch.setattr(embedding_cache, "_BATCH", 7)
  monkeypatch.setattr(embedding_cache, "_READ_ENTRIES", 3)
  kept = opened(tmp_path, points)
  np.testing.assert_array_equal(kept.vectors(TEXTS), VECTORS)
  assert "Embedded 14 of 40 texts." in caplog.text
  np.testing.assert_array_equal(
    opened(tmp_path, points).vectors(TEXTS[::-1]), VECTORS[::-1]
  )
  assert len(points.asked) == 40


def test_another_embedder_has_a_file_of_its_own(tmp_path, points):
  other = things.Points(VECTORS[::-1], name="other")
  opened(tmp_path, points).vectors(TEXTS)
  np.testing.assert_array_equal(
    opened(tmp_path, other).vectors(TEXTS), VECTORS[::-1]
  )
  points.asked.clear()
  opened(tmp_path, points).vectors(TEXTS)
  assert not points.asked


@pytest.mark.parametrize("left", [1, 0.3, 0.5, 0.98])
def test_a_torn_end_is_cut_and_embedded_again(tmp_path, points, caplog, left):
  opened(tmp_path, points).vectors(TEXTS)
  path = the_file(tmp_path)
  content = path.read_bytes()
  path.write_bytes(content[: left if left == 1 else int(left * len(content))])
  points.asked.clear()
  kept = opened(tmp_path, points)
  assert "which were not whole" in caplog.text
  np.testing.assert_array_equal(kept.vectors(TEXTS), VECTORS)
  assert points.asked == TEXTS[len(TEXTS) - len(points.asked) :]
  assert (left == 1) == (len(points.asked) == 40)
  assert path.read_bytes() == content


def test_any_changed_byte_is_noticed(tmp_path, points, caplog):
  opened(tmp_path, points).vectors(TEXTS)
  path = the_file(tmp_path)
  content = path.read_bytes()
  rng = np.random.default_rng(0)
  for place in rng.choice(len(content), 60, replace=False):
    damaged = bytearray(content)
    damaged[place] ^= 1 << rng.integers(8)
    path.write_bytes(damaged)
    caplog.clear()
    points.asked.clear()
    np.testing.assert_array_equal(
      opened(tmp_path, points).vectors(TEXTS), VECTORS
    )
    assert points.asked and caplog.text


def test_a_model_that_changed_under_its_name_is_refused(tmp_path, points):
  opened(tmp_path, points).vectors(TEXTS[:1])
  wider = things.Points(things.points(40, 9))
  with pytest.raises(ValueError, match="Give another model another name"):
    opened(tmp_path, wider).vectors(TEXTS)


def test_vectors_of_another_length_or_number_are_refused(tmp_path, points):
  points.vectors = VECTORS * 2
  with pytest.raises(ValueError, match="not of length 1, such as one of 2"):
    opened(tmp_path, points).vectors(TEXTS)
  points.vectors = VECTORS * np.nan
  with pytest.raises(ValueError, match="not of length 1"):
    opened(tmp_path, points).vectors(TEXTS)

  class Short(things.Points):
    def embed(self, texts):
      return super().embed(texts)[1:]

  with pytest.raises(ValueError, match=r"gave \(39, 8\) numbers for 40 texts"):
    opened(tmp_path, Short(VECTORS, "short")).vectors(TEXTS)


def test_what_cannot_be_written_is_an_error_and_leaves_no_half(
  tmp_path, points
):
  kept = opened(tmp_path, points)
  kept.vectors(TEXTS[:5])
  path = the_file(tmp_path)
  content = path.read_bytes()
  before = resource.getrlimit(resource.RLIMIT_FSIZE)
  resource.setrlimit(resource.RLIMIT_FSIZE, (len(content) + 20, before[1]))
  try:
    with pytest.raises(OSError, match="make room"):
      kept.vectors(TEXTS)
  finally:
    resource.setrlimit(resource.RLIMIT_FSIZE, before)
  assert path.read_bytes() == content
  np.testing.assert_array_equal(kept.vectors(TEXTS), VECTORS)


def test_any_text_has_a_vector(tmp_path):
  kept = opened(tmp_path, embedder.HashEmbedder(8))
  texts = ["", "\x00", "\ud800", "\u2028 \U0001f600", "a" * 10**5]
  assert kept.vectors(texts).shape == (5, 8)
