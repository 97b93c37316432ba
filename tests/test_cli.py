"""The `fp2` command: its commands reach what they name, and what a run prints at its end."""

from __future__ import annotations

import json
import re
import shlex
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import typer
from bench import Bench, environment, fp2
from test_docs import problem_of

from fp2.app import main
from fp2.cli import app


def test_run_and_its_options(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    assert fp2("run", *bench.words()) == 0
    out = capsys.readouterr().out
    assert "by gender" in out
    assert str(bench.run_folders()[-1] / "results.json") in out
    (command,) = re.findall(r"^verify +(fp2 .*)$", out, re.MULTILINE)
    assert fp2(*shlex.split(command)[1:]) == 0
    assert capsys.readouterr().out.splitlines()[-1].startswith("passport valid: signature and files")
    assert fp2("run", "modle=planted") == 2
    assert capsys.readouterr().err.startswith("error: unknown key 'modle'")
    assert fp2("nonsense") == 2


def test_verify_inputs_reads_every_image_again(finished: Bench) -> None:
    from fp2.data import pixels

    seen: list[Path] = []
    with pytest.MonkeyPatch.context() as patch:
        original = pixels.digest_image
        patch.setattr(pixels, "digest_image", lambda path: (seen.append(path), original(path))[1])
        assert fp2("run", *finished.words()) == 0
        assert seen == []
        assert fp2("run", "--verify-inputs", *finished.words()) == 0
    assert len(seen) == 72


def commands(known: Any, name: str = "fp2") -> Iterator[tuple[str, Any]]:
    """Yield every command and group with what is typed to call it."""
    yield name, known
    for key, inner in getattr(known, "commands", {}).items():
        yield from commands(inner, f"{name} {key}")


def test_the_help_of_every_command_shows_its_text_as_it_is_and_examples_that_parse(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Square brackets are not swallowed as markup."""
    monkeypatch.setenv("COLUMNS", "200")
    for name, command in commands(typer.main.get_command(app)):
        _, *words = name.split()
        assert fp2(*words, "--help") == 0
        shown = squeezed(capsys.readouterr().out)
        if words != ["run"]:
            inner = [one.help.partition("\n\n")[0] for one in getattr(command, "commands", {}).values()]
            for text in [command.help, *inner, *(one.help for one in command.params if one.name != "help")]:
                assert squeezed(text or "") in shown, name
        examples = re.findall(r"`(fp2 [^`]+)`", command.epilog or "")
        if not hasattr(command, "commands"):
            assert examples, name
            assert all(f"{example} ".startswith(f"{name} ") for example in examples)
            assert [problem_of(example) for example in examples] == [None] * len(examples), name
            assert ("[KEY=VALUE]..." in command.options_metavar) is command.context_settings.get(
                "allow_extra_args", False
            )


def squeezed(text: str) -> str:
    """Return a text without white space, frames and the marks of code, which a table breaks lines at."""
    return re.sub(r"[\s│`]", "", text)


def test_the_help_of_a_run_calls_it_as_it_was_called(capsys: pytest.CaptureFixture[str]) -> None:
    assert fp2("run", "--help") == 0
    out = capsys.readouterr().out
    assert "fp2 run model=NAME" in out
    assert "launch.py" not in out
    assert "hydra:" not in out
    assert main(["--help"]) == 0
    assert "launch.py model=NAME" in capsys.readouterr().out


def completed(line: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """Return what bash completes at the end of a line, which it breaks into words at `=`, too."""
    words = re.findall(r"=|[^ =]+", line) + [""] * line.endswith(" ")
    given = {"_FP2_COMPLETE": "complete_bash", "COMP_WORDS": " ".join(words), "COMP_CWORD": str(len(words) - 1)}
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys.modules["__main__"], "__package__", "")  # of `python -m pytest`: the program is fp2
    capsys.readouterr()
    fp2()
    said = capsys.readouterr()
    assert said.err == ""
    return said.out.split()


def test_the_shell_completes_commands_settings_and_runs(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def found(line: str) -> list[str]:
        return completed(line, monkeypatch, capsys)

    monkeypatch.setenv("FP2_ROOT", str(bench.root))
    assert found("fp2 ru") == ["run"]
    assert {"model=peeps_vlm", "model=planted"} <= set(found("fp2 run -m mod"))
    assert found("fp2 run model=planted experiment=smo") == ["smoke"]
    assert "model=" in found("fp2 run ")
    assert found("fp2 run model=nosuch") == found("fp2 show ") == []  # neither a store nor runs yet
    for number, day in enumerate(("2026-01-01", "2026-01-02")):
        folder = bench.outputs / day / "10-00-00"
        folder.mkdir(parents=True)
        status = {"run_id": f"{number}abc{number}", "model": "planted", "cuts": ["gender"]}
        (folder / "status.json").write_text(json.dumps(status))
    (bench.outputs / "2026-01-03" / "10-00-00").mkdir(parents=True)
    (bench.outputs / "2026-01-03" / "10-00-00" / "status.json").write_text("{")  # half written
    assert found("fp2 show ") == ["1abc1", "0abc0"]
    assert found("fp2 diff 0abc0 1") == ["1abc1"]
    (bench.root / "mlruns").mkdir()
    (bench.root / "mlruns" / "mlflow.db").write_bytes(b"not a database")
    assert found("fp2 show 0") == ["0abc0"]
    with closing(sqlite3.connect(bench.root / "mlruns" / "other.db")) as store, store:
        store.execute("CREATE TABLE runs (run_uuid, name, status, lifecycle_stage, start_time)")
        store.executemany(
            "INSERT INTO runs VALUES (?, ?, 'FINISHED', 'active', ?)", [("2fff", "older", 1), ("3fff", "newer", 2)]
        )
    (bench.root / "mlruns" / "other.db").replace(bench.root / "mlruns" / "mlflow.db")
    assert found("fp2 show ") == ["3fff", "2fff", "1abc1", "0abc0"]


def test_completion_is_fast_and_silent(tmp_path: Path) -> None:
    """It answers while somebody waits: without the config, MLflow and pandas."""
    start = "import sys; sys.argv = ['fp2']; from fp2.cli import main\ntry: main()\nfinally: print(*sys.modules)"
    for words in ("fp2 show ", "fp2 run mod"):
        given = {"_FP2_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": "2"}
        done = subprocess.run(
            [sys.executable, "-c", start], env=environment(tmp_path) | given, capture_output=True, text=True
        )
        assert done.stderr == ""
        assert not {"mlflow", "pandas", "hydra", "numpy"} & set(done.stdout.split())
    assert "model=planted" in done.stdout
