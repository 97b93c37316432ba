"""Every notebook of `examples/` runs from its first cell to its last."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from bench import REPOSITORY

NOTEBOOKS = sorted((REPOSITORY / "examples").glob("*.ipynb"))


@pytest.mark.long
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(path: Path, own_root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import nbformat
    from nbclient import NotebookClient

    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, [str(REPOSITORY), os.environ.get("PYTHONPATH")])))
    book = nbformat.read(path, as_version=4)
    NotebookClient(book, timeout=600, kernel_name="python3", resources={"metadata": {"path": str(own_root)}}).execute()
    shown = [data for cell in book.cells for out in cell.get("outputs", []) for data in [out.get("data", {})]]
    html = " ".join(str(data.get("text/html", "")) for data in shown)
    assert "data:image/png;base64," in html
    assert "<td>biased</td>" in html
    assert list((own_root / "outputs").rglob("results.json"))
