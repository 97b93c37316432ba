"""`fp2 new`: every kind gives a package that installs and passes its own test."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from bench import environment, fp2

from fp2.methods.maintenance.new import KINDS

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One package of each kind, installed into `site`."""
    folder = tmp_path_factory.mktemp("new")
    for kind in KINDS:
        assert fp2("new", kind, f"own_{kind}", "--folder", str(folder)) == 0
    words = ["install", "--quiet", "--no-deps", "--no-build-isolation", "--target", str(folder / "site")]
    projects = [str(folder / f"fp2_own_{kind}") for kind in KINDS]
    subprocess.run([sys.executable, "-m", "pip", *words, *projects], check=True)
    return folder


@pytest.mark.thorough
def test_each_passes_its_own_test(packages: Path, tmp_path: Path) -> None:
    env = environment(tmp_path)
    env["PYTHONPATH"] = f"{packages / 'site'}:{env['PYTHONPATH']}"
    tests = [str(packages / f"fp2_own_{kind}" / "tests") for kind in KINDS]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--import-mode=importlib", *tests]
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout
    assert "7 passed" in done.stdout


def test_no_placeholder_is_left(packages: Path) -> None:
    made = [path for kind in KINDS for path in (packages / f"fp2_own_{kind}").rglob("*") if path.is_file()]
    files = [path for path in made if path.suffix != ".pyc"]  # of the test above
    assert len(files) >= 4 * 6
    for path in files:
        text = path.read_text(encoding="utf-8") + str(path)
        assert not any(word in text for word in ("[[ ", " ]]", "PACKAGE", "NAME.")), path


@pytest.mark.parametrize(
    ("kind", "name", "line"),
    [
        ("scoerr", "mine", "'scoerr' cannot be created"),
        ("scorer", "My-Scorer", "is not a valid name"),
        ("scorer", "class", "is not a valid name"),
        ("scorer", "valence", "'valence' is taken by fp2.scorers.valence:Valence"),
        ("scorer", "here", "the folder exists already"),
    ],
)
def test_what_cannot_be_created_is_one_line(
    kind: str, name: str, line: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "fp2_here").mkdir()
    assert fp2("new", kind, name, "--folder", str(tmp_path)) == 2
    assert line in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["fp2_here"]
