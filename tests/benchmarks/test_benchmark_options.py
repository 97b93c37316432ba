"""`make bench` gives every script `--json`, so that each has to take it."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import pytest
from bench import REPOSITORY

SCRIPTS = [path for path in sorted((REPOSITORY / "benchmarks").glob("*.py")) if "__main__" in path.read_text("utf-8")]


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_scripts_take_json(script: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "path", [str(script.parent), *sys.path[1:]])
    monkeypatch.setattr(sys, "argv", [str(script), "--help"])
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(script), run_name="__main__")
    assert ended.value.code == 0
    assert "--json" in capsys.readouterr().out
