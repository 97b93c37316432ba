"""What a run says while it goes on: counts, the line below the bar, `fp2 watch`."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest
from bench import Bench, fp2

from fp2.artifacts import LIVE
from fp2.runs.live import LiveRun, line_of, newest, read
from fp2.tables import Answer


def live_in(folder: Path, shown: list[Any]) -> LiveRun:
    return LiveRun(
        folder, "Asking m", lambda *args: shown.append(args), lambda metrics, step: None, lambda text: "cannot" in text
    )


def test_counts_rates_refusals_and_errors_by_kind(tmp_path: Path) -> None:
    shown: list[Any] = []
    live = live_in(tmp_path, shown)
    live.start(10, 4)
    live.saw(
        [
            Answer("a", "q", "I cannot say", tokens=3),
            Answer("b", "q", "a \x1b[31mbaker[/red]", tokens=5),
            Answer("c", "q", None, error="timeout: after 3 s"),
            Answer("d", "q", None, error="timeout: after 4 s"),
            Answer("e", "q", "Yes", numbers={"p_yes": 0.9}),
        ]
    )
    live.tick(3, 2)
    facts = live.facts()
    assert {name: facts[name] for name in ("planned", "done", "failed", "refused", "errors")} == {
        "planned": 10, "done": 7, "failed": 2, "refused": 1, "errors": {"timeout": 2},
    }  # fmt: skip
    assert facts["seconds_left"] == pytest.approx(3 / facts["answers_per_second"])
    assert facts["tokens_per_second"] / facts["answers_per_second"] == pytest.approx(8 / 5)
    done, planned, line = shown[-1]
    assert (done, planned) == (7, 10)
    assert "1 refusals · 2 failed: timeout (2) · last: a \\x1b[31mbaker[/red]" in line


def test_the_file_is_there_while_the_run_goes_on(tmp_path: Path) -> None:
    folder = tmp_path / "2026-11-22" / "run"
    folder.mkdir(parents=True)
    assert newest(tmp_path) is None
    live = live_in(folder, [])
    live.start(2, 0)
    assert newest(tmp_path) == folder
    facts = read(folder)
    assert facts is not None
    assert facts["pid"] == os.getpid()
    assert line_of(facts) == "0 answers/s"
    live.end()
    assert read(folder) is None


def test_a_run_whose_process_is_gone_does_not_go_on(tmp_path: Path) -> None:
    (tmp_path / LIVE).write_text(json.dumps({"pid": 2**22 + 1, "planned": 1, "done": 0}))
    assert read(tmp_path) is None


def test_watch_shows_the_run_until_it_ends(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert fp2("watch", *bench.paths) == 2
    assert "no run is asking" in capsys.readouterr().err
    folder = bench.outputs / "2026-11-22" / "run"
    folder.mkdir(parents=True)
    live = live_in(folder, [])
    live.start(2, 0)
    live.saw([Answer("a", "q", "a baker")])
    live._written = 0.0
    live.tick(1, 0)
    assert fp2("watch", "--json", *bench.paths) == 0
    assert json.loads(capsys.readouterr().out)["done"] == 1
    monkeypatch.setattr(time, "sleep", lambda seconds: live.end())
    assert fp2("watch", *bench.paths) == 0
    said = capsys.readouterr().err
    assert "last: a baker" in said
    assert "Asking has ended" in said


def test_a_run_leaves_no_live_file(bench: Bench) -> None:
    assert not (bench.run().folder / LIVE).exists()
