"""`fp2 watch`: which run it finds, and what it shows."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from bench import Bench, fp2

from fp2.artifacts import LIVE
from fp2.methods.maintenance.watch import read, running
from fp2.progress import Progress
from fp2.runs.live import LiveRun, watched
from fp2.tables import Answer

RUN, OTHER = "a1b2c3d4e5f6", "a1b2ffffffff"


@contextmanager
def asking(folder: Path) -> Iterator[LiveRun]:
    """Yield a run that asks."""
    silent = (lambda *counts: None, lambda metrics, step: None, lambda batch: 0)
    with watched(folder, Progress(quiet=True)) as live, live.asking("Asking m", *silent):
        live.names = {"run_id": RUN, "config_hash": "77aa88bb"}
        yield live


def test_a_run_is_found_while_it_goes_on(tmp_path: Path) -> None:
    folder = tmp_path / "2026-11-22" / "run"
    folder.mkdir(parents=True)
    assert running(tmp_path) is None
    with asking(folder) as live:
        live._written = 0.0
        live.start(2, 0)
        assert running(tmp_path) == folder
        assert read(folder) is not None
    assert read(folder) is None


def test_a_run_whose_process_is_gone_does_not_go_on(tmp_path: Path) -> None:
    (tmp_path / LIVE).write_text(json.dumps({"pid": 2**22 + 1, "planned": 1, "done": 0}))
    assert read(tmp_path) is None


def test_a_run_is_named_by_the_beginning_of_its_id_or_config_hash(
    tmp_path: Path, bench: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = (bench.outputs / "2026-11-22" / name for name in ("1", "2"))
    for folder, names in ((first, {"run_id": RUN, "config_hash": "77"}), (second, {"run_id": OTHER})):
        folder.mkdir(parents=True)
        (folder / LIVE).write_text(json.dumps({**LiveRun(folder, names).facts(), "stage": folder.name}))
    assert running(bench.outputs) == second
    for word, found in ((RUN[:6], first), ("77", first), (OTHER[:5], second), (str(first), first)):
        assert running(bench.outputs, word) == found
    assert fp2("watch", RUN[:6], "--json", *bench.paths) == 0
    assert json.loads(capsys.readouterr().out)["stage"] == "1"
    assert fp2("watch", "a1b2", *bench.paths) == 2
    assert f"matches 2 runs: {RUN}, {OTHER}" in capsys.readouterr().err
    assert fp2("watch", "beef", *bench.paths) == 2
    assert "no such run is in progress (beef)" in capsys.readouterr().err


def test_watch_shows_the_run_until_it_ends(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert fp2("watch", *bench.paths) == 2
    assert "no run is in progress" in capsys.readouterr().err
    folder = bench.outputs / "2026-11-22" / "run"
    folder.mkdir(parents=True)
    with asking(folder) as live:
        live.start(2, 0)
        live.saw([Answer("a", "q", "a baker")])
        live._written = 0.0
        live.tick(1, 0)
        assert fp2("watch", "--json", *bench.paths) == 0
        assert json.loads(capsys.readouterr().out)["done"] == 1

        def later(seconds: float) -> None:
            """Go on to the next stage, and end after it."""
            if live.stage == "Comparing groups":
                (folder / LIVE).unlink()
            live.at("Comparing groups", 3, 9)

        monkeypatch.setattr(time, "sleep", later)
        assert fp2("watch", *bench.paths) == 0
    said = capsys.readouterr().err
    assert "last: a baker" in said
    assert "Comparing groups" in said
    assert "3/9" in said
    assert "The run has ended" in said
