"""Every notebook of `examples/` runs from its first cell to its last."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from bench import REPOSITORY
from thorough import thorough_but

NOTEBOOKS = sorted((REPOSITORY / "examples").glob("*.ipynb"))


@pytest.fixture(scope="module")
def kernel() -> Iterator[Any]:
    """The process that the notebooks run in, one after the other: libraries are imported once."""
    from jupyter_client.manager import KernelManager

    with pytest.MonkeyPatch.context() as patch:
        path = os.pathsep.join(filter(None, [str(REPOSITORY), os.environ.get("PYTHONPATH")]))
        patch.setenv("PYTHONPATH", path)
        manager = KernelManager(kernel_name="python3")
        manager.start_kernel()
    yield manager
    manager.shutdown_kernel(now=True)


@pytest.mark.long
@pytest.mark.parametrize("path", thorough_but(NOTEBOOKS, NOTEBOOKS[0]), ids=lambda path: path.stem)
def test_a_notebook_runs(path: Path, own_root: Path, kernel: Any) -> None:
    import nbformat
    from nbclient import NotebookClient

    book = nbformat.read(path, as_version=4)
    fresh = f"%reset -f\nimport os\nos.chdir({str(own_root)!r})\nos.environ['FP2_ROOT'] = {str(own_root)!r}\n%reset -f"
    book.cells.insert(0, nbformat.v4.new_code_cell(fresh))
    NotebookClient(book, timeout=600, km=kernel).execute()
    shown = [data for cell in book.cells for out in cell.get("outputs", []) for data in [out.get("data", {})]]
    html = " ".join(str(data.get("text/html", "")) for data in shown)
    assert "data:image/png;base64," in html
    assert "<td>biased</td>" in html
    assert list((own_root / "outputs").rglob("results.json"))
