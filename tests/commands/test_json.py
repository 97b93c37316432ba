"""--json: every command that prints results prints them as one JSON document, and nothing else, on demand."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from bench import Bench, fp2, package_marks, results_of
from typer.main import get_command

from fp2.app import _output_to_error
from fp2.cli import app


def leaves(command: click.Command, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Yield every command below `command` with its words."""
    inner = getattr(command, "commands", None)
    if inner is None:
        yield path, command
        return
    for name, one in inner.items():
        yield from leaves(one, (*path, name))


def options_of(command: click.Command) -> set[str]:
    return {option for parameter in command.params for option in parameter.opts}


def test_every_command_takes_json_or_declares_why_not() -> None:
    """Those that only serve pages until Ctrl-C cannot."""
    found = dict(leaves(get_command(app)))
    core = "run show check diff log verify sign keygen relocate"  # the other commands are those of packages
    assert {(name,) for name in core.split()} <= found.keys()
    served = {path for path, one in found.items() if "--port" in options_of(one) and "--status" not in options_of(one)}
    assert {path for path, one in found.items() if "--json" not in options_of(one)} == served


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory, squares: Path) -> tuple[Bench, Path]:
    """A project with one finished run, not logged."""
    bench = Bench(tmp_path_factory.mktemp("json"), squares)
    return bench, bench.run("model.truth={seed: 2}").folder


# those that existed before have tests beside their own
COMMANDS = {
    "plan": "plan {words} --json -",
    "plan without data": "plan model=planted data=fhibe {paths} --json -",
    "plan --power": "plan --power --sd 0.3 --icc 0.2 --groups 4 {words} --json -",
    "pin": "pin planted {paths} --json",
    "rerun": "rerun {run} {places} --json",
    "rescore": "rescore {run} analysis.alpha=0.01 tracking=none {paths} --json",
    "show": "show {run} {paths} --json",
    "gate": "gate {run} {paths} --json",
    "export": "export {run} {paths} --csv {new}/rows.csv --json",
    "report": "report {run} {paths} --to {new}/report report.figures=false --json",
    "verify": "verify {run}/passport.json --key {key} --json",
    "passport": "passport {run}/passport.json --html {new}/p.html --json",
    "keygen": "keygen {new}/key.pem --json",
    "new": "new scorer politeness --folder {new} --json",
    "purge": "purge --subject p0 --dry-run {paths} --json",
    "data verify": "data verify {words} --json",
    "store merge": "store merge {store} {new}/copy.sqlite --into {new}/both.sqlite --json",
    "store check": "store check {store} --json",
}


@pytest.mark.parametrize("name", [pytest.param(name, marks=package_marks(name)) for name in COMMANDS])
def test_standard_output_is_one_document(
    name: str, project: tuple[Bench, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bench, run = project
    (tmp_path / "copy.sqlite").write_bytes(bench.store.read_bytes())
    filled = {"run": [str(run)], "paths": bench.paths, "places": bench.places, "words": bench.words()}
    words: list[str] = []
    for word in COMMANDS[name].split():
        known = filled.get(word.strip("{}")) if word.startswith("{") and word.endswith("}") else None
        words += known or [
            word.format(run=run, new=tmp_path, store=bench.store, key=bench.root / "state/keys/passport_key.pub.pem")
        ]
    status = fp2(*words)
    said = capsys.readouterr()
    assert status in (0, 1), said.err
    assert json.loads(said.out)  # one document: json.loads refuses a second one, and an empty output


def test_a_run_prints_its_results_and_a_sweep_a_list(bench: Bench, capfd: pytest.CaptureFixture[str]) -> None:
    capfd.readouterr()
    assert fp2("run", "--json", *bench.words()) == 0
    said = capfd.readouterr()
    (folder,) = bench.run_folders()
    assert json.loads(said.out) == results_of(folder)
    assert f"passport     {folder / 'passport.json'}" in said.err
    assert "by gender" in said.err
    assert fp2("run", "-m", *bench.words("model.truth={seed: 2},{wrong: 2}"), "--json") != 0
    said = capfd.readouterr()
    assert json.loads(said.out) == [results_of(bench.run_folders()[-1])]
    assert "1 of 2 runs finished" in said.err
    assert fp2("run", *bench.words("model=plantd"), "--json") == 2
    said = capfd.readouterr()
    assert (said.out, "planted" in said.err) == ("", True)
    with _output_to_error():
        subprocess.run(["echo", "from a child"], check=True)
        print("from here")
    assert capfd.readouterr() == ("", "from a child\nfrom here\n")


@pytest.mark.package(name="withdrawal")
def test_what_a_purge_would_ask_is_refused(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    assert fp2("purge", "--subject", "p0", "--json", *bench.paths) == 2
    said = capsys.readouterr()
    assert not said.out
    assert "--dry-run" in said.err
