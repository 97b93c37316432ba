"""The `fp2` command: its commands reach what they name, and what a run prints at its end."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from bench import Bench, fp2, results_of


def test_run_and_its_options(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    assert fp2("run", *bench.words()) == 0
    out = capsys.readouterr().out
    assert "by gender" in out
    assert str(bench.run_folders()[-1] / "results.json") in out
    assert fp2("run", "modle=planted") == 2
    assert capsys.readouterr().err.startswith("error: unknown key 'modle'")
    assert fp2("nonsense") == 2


def test_the_end_of_a_run_names_the_dashboard_and_the_mlflow_command(
    bench: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    assert fp2("run", *bench.words("report=default", "report.figures=false", "tracking=mlflow")) == 0
    out = capsys.readouterr().out
    (folder,) = bench.run_folders()
    assert re.search(rf"^dashboard +{re.escape(str(folder / 'dashboard.html'))}$", out, re.MULTILINE)
    assert re.search(r"^MLflow +fp2 ui$", out, re.MULTILINE)
    assert results_of(folder)["run_id"] in out


def test_verify_inputs_reads_every_image_again(bench: Bench) -> None:
    from fp2.data import pixels

    bench.run()
    seen: list[Path] = []
    with pytest.MonkeyPatch.context() as patch:
        original = pixels.digest_image
        patch.setattr(pixels, "digest_image", lambda path: (seen.append(path), original(path))[1])
        assert fp2("run", *bench.words()) == 0
        assert seen == []
        assert fp2("run", "--verify-inputs", *bench.words()) == 0
    assert len(seen) == 72


@pytest.mark.parametrize("command", ["rerun", "rescore"])
def test_the_help_shows_how_overrides_are_written(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Square brackets are not swallowed as markup."""
    assert fp2(command, "--help") == 0
    assert "RUN_ID [KEY=VALUE]..." in capsys.readouterr().out
