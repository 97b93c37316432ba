"""What a run says while it goes on: stage, counts, the line below the bar."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from bench import Bench

import fp2 as package
from fp2.artifacts import LIVE
from fp2.progress import Progress
from fp2.runs.live import LiveRun, line_of, watched
from fp2.tables import Answer

RUN, OTHER = "a1b2c3d4e5f6", "a1b2ffffffff"


@contextmanager
def asking(folder: Path, shown: list[Any] | None = None) -> Iterator[LiveRun]:
    """Yield a run that asks; a refusal is an answer with `cannot` in it."""
    said = [] if shown is None else shown

    def refusals(batch: Any) -> int:
        return sum("cannot" in (one.text or "") for one in batch)

    with (
        watched(folder, Progress(quiet=True)) as live,
        live.asking("Asking m", lambda *args: said.append(args), lambda metrics, step: None, refusals),
    ):
        live.names = {"run_id": RUN, "config_hash": "77aa88bb"}
        yield live


def test_counts_rates_refusals_and_errors_by_kind(tmp_path: Path) -> None:
    shown: list[Any] = []
    with asking(tmp_path, shown) as live:
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
        "planned": 10,
        "done": 7,
        "failed": 2,
        "refused": 1,
        "errors": {"timeout": 2},
    }
    assert facts["seconds_left"] == pytest.approx(3 / facts["answers_per_second"])
    assert facts["tokens_per_second"] / facts["answers_per_second"] == pytest.approx(8 / 5)
    done, planned, line = shown[-1]
    assert (done, planned) == (7, 10)
    assert "1 refusals · 2 failed: timeout (2) · last: a \\x1b[31mbaker[/red]" in line
    after = live.facts()
    time.sleep(0.01)
    assert live.facts()["answers_per_second"] == after["answers_per_second"]  # the clock stops with the asking
    assert after["seconds_left"] is None


def test_the_file_is_there_while_the_run_goes_on(tmp_path: Path) -> None:
    folder = tmp_path / "2026-11-22" / "run"
    folder.mkdir(parents=True)
    with asking(folder) as live:
        live._written = 0.0
        live.start(2, 0)
        facts = json.loads((folder / LIVE).read_text())
        assert facts["pid"] == os.getpid()
        assert facts["steps"] == [0, 2]
        assert line_of(facts) == "0 answers/s"
    assert not (folder / LIVE).exists()


REFUSAL = "Probably someone who cannot say no."
"""A refusal by the weights that were fitted for the default probes, and none by the patterns alone."""


def test_a_run_says_all_its_stages_and_counts_refusals_as_its_results_do(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[dict[str, Any]] = []
    write = LiveRun._write

    def spy(live: LiveRun) -> None:
        write(live)
        said.append(live.facts())

    monkeypatch.setattr(LiveRun, "_write", spy)
    run = package.evaluate(
        model=lambda image, question: REFUSAL,
        data="table",
        overrides=[word for word in bench.words() if not word.startswith(("model=", "data=", "scorer="))],
        root=bench.root,
        progress=False,
    )
    assert said[-1]["refused"] == run.results["answers"]["refused"] > 0
    stages = list(dict.fromkeys(facts["stage"] for facts in said))
    assert stages == [
        "Reading the data",
        "Reading the images",
        "Asking function",
        "Scoring",
        "Comparing groups",
        "Writing the report",
        "Logging the run",
        "Checking the run",
    ]
    assert said[-1]["run_id"] == run.run_id
    assert not (run.folder / LIVE).exists()
