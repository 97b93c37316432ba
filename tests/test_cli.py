"""The `fp2` command and sweeps: what they print, and the status that they end with."""

from __future__ import annotations

import json
import os
import re
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from shutil import copytree, move
from typing import Any

import pytest
from bench import REPOSITORY, Bench, environment, fp2, write_pictures

from fp2.engines.planted.engine import PlantedEngine

COLUMNS = "data.columns={image: file, subject: person, region: region, pronoun: gender}"


def places(bench: Bench) -> list[str]:
    return [place for place in bench.places if place.startswith("paths")]


def newest(bench: Bench) -> Path:
    return max(
        (path.parent for path in (bench.root / "outputs").rglob("results.json")), key=lambda p: p.stat().st_mtime_ns
    )


def results_of(folder: Path) -> dict[str, Any]:
    return dict(json.loads((folder / "results.json").read_text(encoding="utf-8")))


def tamper(store: Path) -> None:
    """Change answers of the women in the store, and mend the checksums, as a careful liar would."""
    from dataclasses import replace

    from fp2.store.rows import ResponseStore

    with ResponseStore(store) as opened:
        keys = [row[0] for row in opened.connection.execute("SELECT key FROM answers")]
        found = opened.get_many(keys)
    with closing(sqlite3.connect(store)) as connection, connection:
        for key in sorted(keys)[::3]:
            lie = replace(found[key], text="This is wonderful, lovely and great!")
            connection.execute(
                "UPDATE answers SET text = ?, checksum = ? WHERE key = ?", (lie.text, lie.checksum(), key)
            )


def test_run_and_its_options(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    assert fp2("run", *bench.words()) == 0
    out = capsys.readouterr().out
    assert "by gender" in out
    assert str(newest(bench) / "results.json") in out
    assert fp2("run", "modle=planted") == 2
    assert capsys.readouterr().err.startswith("error: unknown key 'modle'")
    assert fp2("nonsense") == 2


def test_the_end_of_a_run_names_the_dashboard_and_the_mlflow_command(
    bench: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    assert fp2("run", *bench.words("report=default", "tracking=mlflow")) == 0
    out = capsys.readouterr().out
    assert re.search(rf"^dashboard +{re.escape(str(newest(bench) / 'dashboard.html'))}$", out, re.MULTILINE)
    assert f"mlflow ui --backend-store-uri sqlite:///{bench.root}/mlruns/mlflow.db" in out
    assert results_of(newest(bench))["run_id"] in out


def test_verify_inputs_reads_every_picture_again(bench: Bench) -> None:
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


def test_plan_counts_and_asks_nobody(
    bench: Bench, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def rows() -> dict[str, str]:
        assert fp2("plan", *bench.words()) == 0
        lines = capsys.readouterr().out.splitlines()
        pairs = [re.split(r"\s*│\s*", line.strip("│ ")) for line in lines if "│" in line]
        return {pair[0]: pair[1] for pair in pairs if len(pair) == 2}

    before = rows()
    assert before["pictures"] == "72 of 36 people"
    assert before["questions a picture"] == "6"
    assert before["answers planned"] == "432"
    assert before["answers to ask"] == "432"
    assert before["in the store"] == "0"
    bench.run("data.limit=24")
    after = rows()
    assert (after["in the store"], after["answers to ask"]) == ("144", "288")
    monkeypatch.setattr(PlantedEngine, "answer", lambda self, tasks: pytest.fail("the model was asked"))
    assert fp2("plan", *bench.words("cut.by=[gendr]")) == 2
    assert "Did you mean 'gender'" in capsys.readouterr().err


def test_plan_of_a_real_model_imports_no_torch(bench: Bench) -> None:
    """Not even the size of the model needs it."""
    code = (
        "import sys; from fp2.cli import main\n"
        "try: main()\n"
        "except SystemExit as e: assert not e.code, e.code\n"
        "assert not {'torch', 'transformers', 'mlflow'} & set(sys.modules)"
    )
    net = bench.root / "net"
    net.mkdir()
    for name in ("config.json", "preprocessor_config.json", "tokenizer_config.json"):
        (net / name).write_text('{"model_type": "llava"}', encoding="utf-8")
    (net / "model.safetensors").write_bytes(b"weights")
    words = bench.words("model=peeps_vlm", f"model.id={net}", "engine.device=cpu")
    done = subprocess.run(
        [sys.executable, "-c", code, "plan", *words],
        env=environment(bench.root), capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "432" in done.stdout


def test_rerun_says_the_same_and_a_lie_in_the_store_is_different(
    bench: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    run_id = bench.run("tracking=mlflow").run_id
    folder = newest(bench)
    assert "local:people.csv" in (folder / "config.yaml").read_text(encoding="utf-8")
    assert fp2("rerun", run_id, *places(bench)) == 0
    captured = capsys.readouterr()
    assert "every number is the same" in captured.out
    assert "drift" not in captured.out
    assert captured.out.count("yes") == 6
    again = results_of(newest(bench))
    assert again["run_id"] != run_id
    assert fp2("rerun", again["run_id"], *places(bench)) == 0  # a rerun can be run again
    assert "drift" not in capsys.readouterr().out
    assert fp2("rerun", str(folder), *places(bench)) == 0  # from the folder, without MLflow's copy
    tamper(bench.store)
    capsys.readouterr()
    assert fp2("rerun", run_id, *places(bench)) == 1
    assert "the numbers are not the same" in capsys.readouterr().out


def test_rerun_elsewhere_asks_where_the_pictures_are(
    bench: Bench, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = bench.run().folder
    there = Bench(tmp_path / "there", copytree(bench.pictures, tmp_path / "copy"))
    assert fp2("rerun", str(folder), *places(there)) == 2
    assert "data.path=PATH" in capsys.readouterr().err
    assert fp2("rerun", str(folder), *places(there), f"data.path={there.table}") == 0
    assert "every number is the same" in capsys.readouterr().out


def test_rerun_refuses_what_would_be_another_run(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    folder = bench.run().folder
    config = folder / "config.yaml"
    text = config.read_text(encoding="utf-8")
    config.write_text(text.replace("seed: 20260101", "seed: 7"), encoding="utf-8")
    assert fp2("rerun", str(folder), *places(bench)) == 2
    assert "another config hash" in capsys.readouterr().err
    config.write_text(text, encoding="utf-8")
    assert fp2("rerun", str(folder), *places(bench), "seed=3") == 2
    assert "a rerun cannot change 'seed'" in capsys.readouterr().err
    assert fp2("rerun", "no-such-run", *places(bench)) == 2
    err = capsys.readouterr().err
    assert err.startswith("error: ")
    assert "Traceback" not in err


def test_rerun_of_changed_pictures_is_different(
    bench: Bench, own_root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    own = Bench(own_root, write_pictures(own_root / "own", n_subjects=24))
    folder = own.run().folder
    table = own.table.read_text(encoding="utf-8").splitlines()
    own.table.write_text("\n".join(table[:-4]) + "\n", encoding="utf-8")
    assert fp2("rerun", str(folder), *places(own)) == 1
    out = capsys.readouterr().out
    assert "dataset_digest  differs" in out
    assert "the numbers are not the same" in out


def test_verify_and_keygen(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    folder = bench.run().folder
    key = next(iter((bench.root / "state" / "keys").glob("*.pub*")))
    assert fp2("verify", str(folder / "passport.json"), "--key", str(key)) == 0
    assert "the passport holds" in capsys.readouterr().out
    assert fp2("keygen", str(bench.root / "other.pem")) == 0
    out = capsys.readouterr().out
    other = Path(re.search(r"public key.*: (.+)", out)[1])  # type: ignore[index]
    assert (bench.root / "other.pem").stat().st_mode & 0o077 == 0
    assert fp2("verify", str(folder / "passport.json"), "--key", str(other)) == 1
    assert fp2("keygen", str(bench.root / "other.pem")) == 2  # never over a key that is there
    capsys.readouterr()
    results = folder / "results.json"
    results.write_text(
        results.read_text(encoding="utf-8").replace('"composite": 0', '"composite": 1'), encoding="utf-8"
    )
    assert fp2("verify", str(folder / "passport.json"), "--key", str(key)) == 1
    assert "results.json" in capsys.readouterr().err


def test_doctor_is_content_here(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    assert fp2("doctor", *bench.words("tracking=mlflow", "engine.device=cpu")) == 0
    out = capsys.readouterr().out
    assert "BAD" not in out
    assert out.count("ok ") >= 8
    bench.store.parent.mkdir(parents=True, exist_ok=True)
    bench.store.write_text("not a store at all, but a text of some length" * 40, encoding="utf-8")
    assert fp2("doctor", *bench.words("engine.device=cpu")) == 1
    assert "BAD" in capsys.readouterr().out


def test_relocate_after_a_move(bench: Bench, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    old = Bench(tmp_path / "old", bench.pictures)
    run_id = old.run("tracking=mlflow").run_id
    new = Bench(Path(move(old.root, tmp_path / "new")), bench.pictures)
    assert fp2("rerun", run_id, *places(new)) == 2
    assert "fp2 relocate" in capsys.readouterr().err
    assert fp2("relocate", *places(new)) == 0
    assert "2 addresses changed" in capsys.readouterr().out
    assert fp2("rerun", run_id, *places(new)) == 0


def test_a_sweep_over_cuts_asks_once_and_is_ranked(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    import mlflow

    from fp2.tracking.client import tracking_uri

    words = bench.words(
        "-m", "cut=region,pronoun,region_x_pronoun", COLUMNS, "tracking=mlflow", "analysis.min_subjects=6"
    )
    assert fp2("run", *words) == 0
    out = capsys.readouterr().out
    assert "3 of 3 runs finished" in out
    sweep = re.search(r"fp2 leaderboard (\S+)", out)[1]  # type: ignore[index]
    client = mlflow.MlflowClient(tracking_uri=tracking_uri(bench.config("tracking=mlflow")))
    runs = client.search_runs(["1"], order_by=["attributes.start_time ASC"])
    assert [run.data.tags["fp2.sweep_id"] for run in runs] == [sweep] * 3
    assert [run.data.metrics["answers.model_calls"] for run in runs] == [1, 0, 0]
    assert [run.data.params["cut"] for run in runs] == ["region", "pronoun", "region_x_pronoun"]
    assert len({run.data.tags["fp2.response_set"] for run in runs}) == 1
    assert len({run.data.tags["fp2.config_hash"] for run in runs}) == 3
    assert not any("mlflow.parentRunId" in run.data.tags for run in runs)
    bench.run("tracking=mlflow")  # a run of no sweep
    os.environ["COLUMNS"] = "200"
    assert fp2("leaderboard", sweep, *places(bench)) == 0
    shown = capsys.readouterr().out
    assert [run.info.run_id in shown for run in runs] == [True] * 3
    assert "gender" not in shown
    assert fp2("leaderboard", *places(bench)) == 0
    assert "gender" in capsys.readouterr().out
    assert fp2("leaderboard", "no'such", *places(bench)) == 2
    assert "no finished run" in capsys.readouterr().err


def test_a_sweep_from_a_file(own_root: Path, bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    words = [word for word in bench.words("sweep=scorers", "analysis.primary=valence") if word != "scorer=valence"]
    assert fp2("run", *words) == 0
    assert "5 of 5 runs finished" in capsys.readouterr().out


def test_one_failing_job_does_not_stop_the_others(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    assert fp2("run", *bench.words("-m", "cut=age,region", COLUMNS)) == 2
    captured = capsys.readouterr()
    assert "1 of 2 runs finished" in captured.out
    errors = [line for line in captured.err.splitlines() if line.startswith("error: ")]
    assert len(errors) == 1
    assert "cut=age" in errors[0]
    assert "no attribute 'age'" in errors[0]
    assert "Traceback" not in captured.err


def test_a_bug_in_one_job_does_not_stop_the_others(
    bench: Bench, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from fp2 import artifacts

    write, calls = artifacts.write_results, []

    def once_broken(*args: Any) -> Any:
        calls.append(args)
        if len(calls) == 1:
            raise RuntimeError("a slip")
        return write(*args)

    monkeypatch.setattr(artifacts, "write_results", once_broken)
    assert fp2("run", *bench.words("-m", "cut=region,pronoun", COLUMNS)) == 1
    captured = capsys.readouterr()
    assert "1 of 2 runs finished" in captured.out
    assert "cut=region" in captured.err
    assert "RuntimeError: a slip" in captured.err


@pytest.mark.parametrize(
    "words",
    [["cut=[region,age]"], ["-m", "cut=region,agee"], ["model=planted", "cut=region,age"], ["data=fhibe"]],
    ids=" ".join,
)
def test_the_launcher_ends_with_one_line_and_a_status(words: list[str], own_root: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(REPOSITORY / "launch.py"), *words],
        env=environment(own_root), cwd=own_root, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert done.returncode == 2
    assert len(done.stderr.strip().splitlines()) == 1
    assert done.stderr.startswith("error: ")
    assert not (own_root / "outputs").exists()
