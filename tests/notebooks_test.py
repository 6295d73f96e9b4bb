import pathlib

import nbclient
import nbformat
import pytest

NOTEBOOKS = sorted(
  (pathlib.Path(__file__).parents[1] / "notebooks").glob("*.ipynb")
)


@pytest.mark.slow
# The kernel's client, not the notebook, warns about its own event loop.
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_every_notebook_runs_from_top_to_bottom(path):
  notebook = nbformat.read(path, as_version=4)
  client = nbclient.NotebookClient(
    notebook, timeout=300, resources={"metadata": {"path": path.parents[1]}}
  )
  client.execute()
  drawn = [
    output
    for cell in notebook.cells
    for output in cell.get("outputs", ())
    if "image/png" in output.get("data", {})
  ]
  assert drawn
