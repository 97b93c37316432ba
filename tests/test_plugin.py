"""The example plug-in, installed outside the tree: a data set, an engine, a scorer, a protocol and config groups."""

from __future__ import annotations

import base64
import io
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from bench import REPOSITORY, environment, fp2

from fp2 import config, plugins
from fp2.app import main

pytestmark = pytest.mark.long


CACHED = (plugins.installed, config._plugin_folders)
"""What is read of the installed packages once."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with the installed plug-in, which is on the path of this process."""
    folder = tmp_path_factory.mktemp("site")
    words = ["install", "--quiet", "--no-deps", "--no-build-isolation", "--target", str(folder)]
    subprocess.run([sys.executable, "-m", "pip", *words, str(REPOSITORY / "examples" / "plugin")], check=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(folder))
        _forget()
        yield folder
    for name in [name for name in sys.modules if name.partition(".")[0] == "fp2_example"]:
        del sys.modules[name]
    _forget()


def _forget() -> None:
    for cached in CACHED:
        cached.cache_clear()
    if "fp2.methods.recorded.form" in sys.modules:
        sys.modules["fp2.methods.recorded.form"].forms.cache_clear()


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project folder for all runs."""
    return tmp_path_factory.mktemp("project")


@dataclass(frozen=True)
class Done:
    """A command that has ended."""

    returncode: int
    stdout: str
    stderr: str


def start(project: Path, *words: str, launch: bool = False) -> Done:
    """Run `launch.py` or the `fp2` command with the plug-in on the path, from a folder outside the tree."""
    out, err = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        patch.chdir(project)
        patch.setenv("FP2_ROOT", str(project))
        patch.setenv("COLUMNS", "160")
        status = main(list(words)) if launch else fp2(*words)
    return Done(status, out.getvalue(), err.getvalue())


@pytest.fixture(scope="module")
def consistency(site: Path, project: Path) -> tuple[str, Path]:
    """Output and folder of a run of the plug-in's protocol on its data, engine and battery, in a process of its own."""
    kept = environment(project)
    env = {**kept, "PYTHONPATH": f"{site}:{kept['PYTHONPATH']}", "COLUMNS": "160"}
    words = [str(REPOSITORY / "launch.py"), "experiment=consistency", "tracking=none"]
    done = subprocess.run(
        [sys.executable, *words], env=env, cwd=project, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout, next((project / "outputs").rglob("results.json")).parent


def read(folder: Path) -> Any:
    return json.loads((folder / "results.json").read_text(encoding="utf-8"))


@pytest.mark.package(name="maintenance")
def test_its_parts_are_listed_with_where_they_come_from(site: Path, project: Path) -> None:
    for kind, name in (("data", "tiles"), ("engines", "palette"), ("scorers", "word_count"), ("protocols", NAME)):
        listed = start(project, "list", kind)
        assert listed.returncode == 0, listed.stderr
        lines = [line for line in listed.stdout.splitlines() if f" {name} " in line]
        assert any("fp2-example 0.1.0" in line for line in lines), (kind, listed.stdout)
    cuts = start(project, "list", "cuts").stdout
    assert any(" team " in line and "fp2_example" in line for line in cuts.splitlines())


NAME = "consistency"


def test_its_protocol_analyses_its_data_and_adds_its_section(consistency: tuple[str, Path]) -> None:
    output, folder = consistency
    results = read(folder)
    assert results["answers"]["answered"] == results["answers"]["planned"] == 80
    rows = {row["group"]: row for row in results[NAME]["rows"]}
    answers = pd.read_parquet(folder / "responses.parquet").groupby("subject_id")["text"].nunique().eq(1)
    people = pd.read_parquet(folder / "people.parquet").explode("attr_team").drop_duplicates("subject_id")
    by_team = people.set_index("subject_id")["attr_team"]
    for team, row in rows.items():
        assert row["share"] == pytest.approx(answers[by_team[by_team == team].index].mean())
        assert row["ci_low"] - 1e-9 <= row["share"] <= row["ci_high"] + 1e-9
    assert f"{rows['warm']['share']:.2f} ({rows['warm']['ci_low']:.2f} to {rows['warm']['ci_high']:.2f})" in output
    assert not any(b"shelf" in path.read_bytes() for path in folder.rglob("*") if path.is_file())
    page = (folder / "dashboard.html").read_text(encoding="utf-8")
    assert "Do the images of a subject get the same answer?" in page
    assert "data-chart" in page
    assert (folder / "figures" / "consistency_shares.png").is_file()
    passport = json.loads((folder / "passport.json").read_text(encoding="utf-8"))
    predicate = json.loads(base64.b64decode(passport["payload"]))["predicate"]
    assert predicate["findings"][NAME] == results[NAME]["headline"]
    assert predicate["statistics"]["tests"] == {}  # it computes none
    assert not [line for line in predicate["limitations"] if "VADER" in line or "null mean" in line]


@pytest.mark.package(name="gate")
def test_its_results_are_checked_by_the_gate(consistency: tuple[str, Path], site: Path, project: Path) -> None:
    folder = consistency[1]
    shares = [row["share"] for row in read(folder)[NAME]["rows"]]
    gap = max(shares) - min(shares)
    untested = start(project, "gate", str(folder))
    assert untested.returncode == 1
    assert "differences between groups: none could be tested" in untested.stdout
    for limit, status in ((gap - 0.01, 1), (gap + 0.01, 0)):
        done = start(project, "gate", str(folder), "--allow-biased", "--max-disparity", str(limit))
        assert done.returncode == status, done.stdout + done.stderr
        assert f"{2 - status} of 2 conditions are met" in done.stdout


@pytest.mark.package(name="planning")
def test_its_run_is_planned_in_another_folder_and_small_groups_are_suppressed(
    site: Path, project: Path, tmp_path: Path
) -> None:
    folder = f"data.folder={tmp_path / 'tiles'}"
    plan = start(project, "plan", "experiment=consistency", folder, "data.n_subjects=22")
    assert plan.returncode == 0, plan.stderr
    assert "44 of 22 subjects" in plan.stdout
    assert len(list((tmp_path / "tiles").iterdir())) == 44
    words = ["experiment=consistency", folder, "data.n_subjects=22", "tracking=none", "report.suppress_below=12"]
    done = start(tmp_path, *words, launch=True)
    assert done.returncode == 0, done.stderr
    assert "too few subjects" in done.stdout


@pytest.mark.package(name="reruns")
def test_its_scorer_serves_the_default_protocol(site: Path, project: Path, tmp_path: Path) -> None:
    words = ["experiment=word_count", "tracking=none", "report=none", f"paths.outputs={tmp_path}"]
    done = start(project, *words, launch=True)
    assert done.returncode == 0, done.stderr
    folder = next(tmp_path.rglob("results.json")).parent
    (row,) = read(folder)["disparities"]
    assert (row["scorer"], row["worst_group"], row["verdict"]) == ("word_count", "cool", "biased")
    assert row["raw"] == pytest.approx(3, abs=0.5)  # "A red tile, warm and bright." against "A blue tile."
    again = start(project, "rescore", str(folder), "scorer=word_count", f"paths.outputs={tmp_path / 'again'}")
    assert again.returncode == 0, again.stderr
    assert "no model was asked" in again.stdout
    (rescored,) = read(next((tmp_path / "again").rglob("results.json")).parent)["disparities"]
    assert rescored["raw"] == pytest.approx(row["raw"], rel=1e-12)  # sums of floats in another memory alignment


def test_a_mistake_in_its_options_is_one_line(site: Path, project: Path) -> None:
    for word, says in (
        ("data.n_subjects=1", "data.n_subjects"),
        ("model.options.rad=hot", "unknown key 'rad' (model.options). Did you mean 'red'?"),
        ("cut.by=[shelf]", "no attribute 'shelf'"),
    ):
        done = start(project, "experiment=consistency", word, launch=True)
        assert done.returncode == 2
        lines = [line for line in done.stderr.splitlines() if not line.startswith("Drawing the tiles")]
        assert len(lines) == 1
        assert says in lines[0]


@pytest.mark.package(name="reruns")
def test_without_the_plugin_its_run_says_what_is_missing(consistency: tuple[str, Path], project: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "fp2.cli", "rerun", str(consistency[1])],
        env=environment(project),
        cwd=project,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 2
    assert "unknown" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.package(name="reruns")
@pytest.mark.package(name="withdrawal")
def test_its_run_is_repeated_and_purged_like_any_other(
    consistency: tuple[str, Path], site: Path, project: Path
) -> None:
    """At last: who is purged is in no later run of the project."""
    before = read(consistency[1])
    again = start(project, "rerun", str(consistency[1]))
    assert again.returncode == 0, again.stdout + again.stderr
    assert "all numbers are equal" in again.stdout
    gone = start(project, "purge", "--subject", "s0000", "--yes")
    assert gone.returncode == 0, gone.stderr
    after = read(consistency[1])
    assert after["n_subjects"] == before["n_subjects"] - 1
    counts = {row["group"]: row["n_subjects"] for row in after[NAME]["rows"]}
    assert counts == {"cool": 20, "warm": 19}
    absent = start(project, "purge", "--absent", "--yes", "data=tiles", "data.n_subjects=38")
    assert absent.returncode == 0, absent.stderr
    counts = {row["group"]: row["n_subjects"] for row in read(consistency[1])[NAME]["rows"]}
    assert counts == {"cool": 19, "warm": 18}
