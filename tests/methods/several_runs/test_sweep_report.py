"""The report of a sweep: made at its end, again by command, with runs missing, without answers, and after a purge."""

from __future__ import annotations

import io
import json
import re
from contextlib import redirect_stdout
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from bench import REPOSITORY, Bench, execute, fp2

COLUMNS = "data.columns={image: file, subject: person, region: region, gender: gender}"
DRAWN = ("report=default", "report.figures=false")
RELEASED = REPOSITORY / "tests" / "releases" / "0.3.0" / "runs"


def truth(folder: Path, name: str, points: float) -> Path:
    path = folder / f"{name}.yaml"
    path.write_text(f"seed: 7\neffects: {{all: {{gender: {{f: {points}}}}}}}\n", encoding="utf-8")
    return path


def report_of(folder: Path) -> dict[str, Any]:
    return dict(json.loads((folder / "results.json").read_text(encoding="utf-8")))


@pytest.fixture(scope="module")
def made(squares: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Bench, str]:
    """A project with a sweep of which one job failed, and what the sweep printed; not to be changed."""
    root = tmp_path_factory.mktemp("swept")
    bench = Bench(root, squares)
    given = ",".join(str(truth(root, name, points)) for name, points in (("fair", 0.0), ("harsh", -4)))
    said = io.StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(said):
        patch.setenv("FP2_ROOT", str(root))
        assert fp2("run", *bench.words("-m", f"model.truth={given},{root}/no/such.yaml", *DRAWN)) == 2
    return bench, said.getvalue()


@pytest.fixture
def swept(made: tuple[Bench, str]) -> Path:
    """The folder of that sweep."""
    (folder,) = made[0].outputs.glob("*/*")
    return folder


def test_a_sweep_ends_with_its_report(made: tuple[Bench, str], swept: Path) -> None:
    assert f"report       {swept / 'report' / 'report.html'}" in made[1]
    found = report_of(swept / "report")
    assert {path.name for path in (swept / "report").iterdir()} == {"results.json", "report.html", "report.md"}
    assert len(found["runs"]) == 2
    (missing,) = found["missing"]
    assert missing["run"] == "model.truth=local:such.yaml"
    assert "local:such.yaml" in missing["reason"]
    (panel,) = found["panels"]
    runs = [json.loads((swept / str(place) / "results.json").read_text(encoding="utf-8")) for place in (0, 1)]
    for line, run in zip(panel["lines"], runs, strict=True):
        assert {p: row["raw"] for p, row in line["rows"].items()} == {r["probe"]: r["raw"] for r in run["disparities"]}
    board = {row["run"]: row for row in found["leaderboard"]}
    assert [(board[place]["rank_low"], board[place]["rank_high"]) for place in (0, 1)] == [(1, 1), (2, 2)]
    (tally,) = panel["tallies"]
    worst = {group["group"]: group for group in tally["groups"]}
    named = [row["worst_group"] for run in runs for row in run["disparities"]]
    assert {name: group["worst_count"] for name, group in worst.items()} == {n: named.count(n) for n in ("f", "m")}
    assert sum(group["worst_expected"] for group in worst.values()) == pytest.approx(tally["n"], abs=0.1)
    everything = "".join((swept / "report" / name).read_text(encoding="utf-8") for name in ("report.md", "report.html"))
    everything += json.dumps(found)
    assert not re.search(r"subject_id|image_id|[0-9a-f]{64}\.png", everything)  # aggregates only
    assert str(made[0].root) not in everything


def test_the_command_makes_it_again_from_the_folder_or_from_runs(
    made: tuple[Bench, str], swept: Path, bench: Bench, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bench = replace(bench, root=made[0].root)
    first = report_of(swept / "report")
    assert fp2("report", str(swept), "--to", str(tmp_path / "again"), "report.figures=false", *bench.paths) == 0
    assert "missing" in capsys.readouterr().out
    again = report_of(tmp_path / "again")
    timeless = {"created", "sweep_id"}
    assert {key: again[key] for key in again if key not in timeless} == {
        key: first[key] for key in first if key not in timeless
    }
    words = bench.words("cut=region", COLUMNS)
    other = execute(words, tmp_path / "other").folder
    words = [str(swept / "0"), str(other), str(other)]
    assert fp2("report", *words, "--to", str(tmp_path / "two"), *bench.paths) == 0
    two = report_of(tmp_path / "two")
    assert [run["label"] for run in two["runs"]] == ["by gender", "by region"]
    assert [panel["cut"] for panel in two["panels"]] == ["gender", "region"]
    assert (tmp_path / "two" / "fingerprints.png").is_file()


def test_mistakes_are_one_line(swept: Path, bench: Bench, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "taken").write_text("a file")
    (tmp_path / "empty").mkdir()
    for words, said in (
        ([], "no run is named"),
        ([str(tmp_path / "empty")], "not a run's"),
        (["no-such-sweep"], "no-such-sweep"),
        ([str(swept / "0"), "--to", str(tmp_path / "taken" / "below")], "cannot write"),
        ([str(swept / "0"), "--to", str(swept / "0")], "would replace its results"),
    ):
        assert fp2("report", *words, *bench.paths) == 2
        error = capsys.readouterr().err.splitlines()[-1]
        assert error.startswith("error: ")
        assert said in error or said == "no-such-sweep"


def test_a_report_that_fails_costs_no_run(
    bench: Bench, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from fp2.methods.several_runs import sweep_page as sweep

    def broken(block: Any, sample: Any) -> str:
        raise RuntimeError("a slip")

    monkeypatch.setattr(sweep, "render_sweep", broken)
    assert fp2("run", *bench.words("-m", "cut=region,pronoun", COLUMNS.replace("gender:", "pronoun:"), *DRAWN)) == 0
    said = capsys.readouterr()
    assert "2 of 2 runs finished" in said.out
    assert "the report of the sweep was not made: RuntimeError: a slip. Make it with: fp2 report" in said.err


def test_a_purge_deletes_the_reports_in_which_the_person_is_counted(
    made: tuple[Bench, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import pandas as pd

    bench = made[0].copied_to(tmp_path / "copy")
    (swept,) = bench.outputs.glob("*/*")
    person = pd.read_csv(bench.table)["person"].iloc[0]
    assert fp2("purge", "--subject", person, "--dry-run", *bench.paths) == 0
    assert "report" in capsys.readouterr().out
    assert (swept / "report").is_dir()
    assert fp2("purge", "--subject", person, "--yes", *bench.paths) == 0
    assert f"fp2 report {swept} makes it again" in capsys.readouterr().out.replace("\n", " ")
    assert not (swept / "report").exists()
    assert fp2("report", str(swept), "report.figures=false", *bench.paths) == 0
    assert [run["n_subjects"] for run in report_of(swept / "report")["runs"]] == [35, 35]


@pytest.mark.parametrize("name", sorted(path.name for path in RELEASED.iterdir() if path.is_dir()))
def test_runs_of_every_protocol_have_a_report(name: str, own_root: Path) -> None:
    """Runs as version 0.3.0 wrote them, with their blocks in place of disparities where they have none."""
    from fp2.compose import load_config
    from fp2.methods.several_runs.sweep_report import make_report
    from fp2.progress import Progress

    here = load_config(["report.figures=false"])
    make_report([str(RELEASED / name)], here, own_root / "report", Progress(quiet=True))
    page = (own_root / "report" / "report.html").read_text(encoding="utf-8")
    found = report_of(own_root / "report")
    assert found["panels"] or found["headlines"] or name in ("twins",)
    assert "</html>" in page
