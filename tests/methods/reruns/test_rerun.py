"""`fp2 rerun`: the same numbers again, what is refused, and that every difference is named."""

from __future__ import annotations

import math
import re
import sqlite3
from contextlib import closing
from pathlib import Path
from shutil import copytree
from typing import Any

import pandas as pd
import pytest
from bench import Bench, fp2, results_of, write_pictures

from fp2.results import differences
from fp2.store.rows import ResponseStore

UNTRACKED = "tracking.enabled=false"


def tamper(store: Path) -> None:
    """Change every third answer in the store, and its checksum, as a careful liar would."""
    with ResponseStore(store) as opened:
        keys = [row[0] for row in opened.connection.execute("SELECT key FROM answers")]
        found = opened.get_many(keys)
    with closing(sqlite3.connect(store)) as connection, connection:
        for key in sorted(keys)[::3]:
            lie = found[key]._replace(text="This is wonderful, lovely and great!")
            connection.execute(
                "UPDATE answers SET text = ?, checksum = ? WHERE key = ?", (lie.text, lie.checksum(), key)
            )


@pytest.mark.usefixtures("mlflow_store")
def test_the_numbers_are_the_same_and_a_lie_in_the_store_is_different(
    bench: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    outcome = bench.run("tracking=mlflow")
    run_id, folder = outcome.run_id, outcome.folder
    assert "local:people.csv" in (folder / "config.yaml").read_text(encoding="utf-8")
    assert fp2("rerun", run_id, *bench.paths) == 0
    captured = capsys.readouterr()
    assert "all numbers are equal" in captured.out
    assert "drift" not in captured.out
    # a cell of the table, not a word: the run's folder has a name drawn at random
    assert len(re.findall(r"│\s+yes\s+│", captured.out)) == 6
    again = results_of(bench.run_folders()[-1])
    assert again["run_id"] != run_id
    assert fp2("rerun", again["run_id"], *bench.paths) == 0  # a rerun can be run again
    assert "drift" not in capsys.readouterr().out
    assert fp2("rerun", str(folder), *bench.paths) == 0  # from the folder, without MLflow's copy
    tamper(bench.store)
    capsys.readouterr()
    assert fp2("rerun", run_id, *bench.paths) == 1
    assert "the numbers differ" in capsys.readouterr().out


def test_a_share_of_the_answers_is_asked_again_and_a_lie_is_found(
    bench: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = bench.run().folder
    n = results_of(folder)["answers"]["answered"]
    assert fp2("rerun", str(folder), UNTRACKED, *bench.paths) == 0
    assert "All answers came from the store: the model was not asked" in capsys.readouterr().out
    before = bench.store.read_bytes()
    assert fp2("rerun", str(folder), "--fresh", "0.1", UNTRACKED, *bench.paths) == 0
    said = capsys.readouterr().out
    assert f"{math.ceil(n / 10)} stored answers (10.0% of the run's, drawn at random) were asked again: all are" in said
    assert results_of(bench.run_folders()[-1])["answers"]["model_calls"] > 0
    assert bench.store.read_bytes() == before
    tamper(bench.store)
    assert fp2("rerun", str(folder), "--fresh", "1", UNTRACKED, *bench.paths) == 1
    assert f"{math.ceil(n / 3)} differ" in capsys.readouterr().out
    assert fp2("rerun", str(folder), "--fresh", "0", UNTRACKED, *bench.paths) == 2
    assert "0.0 is not a share of the answers" in capsys.readouterr().err


def test_elsewhere_it_asks_where_the_images_are(
    finished: Bench, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = finished.outputs / "one"
    there = Bench(tmp_path / "there", copytree(finished.pictures, tmp_path / "copy"))
    assert fp2("rerun", str(folder), UNTRACKED, *there.paths) == 2
    assert "data.path=PATH" in capsys.readouterr().err
    assert fp2("rerun", str(folder), UNTRACKED, *there.paths, f"data.path={there.table}") == 0
    assert "all numbers are equal" in capsys.readouterr().out


def test_the_execution_and_every_path_of_this_machine_may_change(
    bench: Bench, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ids = tmp_path / "ids.txt"
    ids.write_text("\n".join(pd.read_csv(bench.table)["file"]), encoding="utf-8")
    folder = bench.run(f"data.ids={ids}").folder
    there = Bench(tmp_path / "there", copytree(bench.pictures, tmp_path / "copy"))
    words = ("rerun", str(folder), UNTRACKED, *there.places, f"data.image_root={there.pictures}")
    assert fp2(*words) == 2
    err = capsys.readouterr().err
    assert "Give their paths on this machine: data.ids=PATH" in err
    more = ("engine.batch_size=3", "model.base_url=null", "model.api_key_env=null", "answers.attempts=1")
    assert fp2(*words, f"data.ids={ids}", *more) == 0
    assert "all numbers are equal" in capsys.readouterr().out


def test_options_of_a_data_set_that_decide_results_cannot_be_changed(
    finished: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = finished.outputs / "one"
    for word in ("data.limit=3", "data.pathology=3", "model.ident=x"):
        assert fp2("rerun", str(folder), *finished.paths, word) == 2
        err = capsys.readouterr().err
        assert f"a rerun cannot change '{word.partition('=')[0]}'" in err
        assert "data.image_root, data.path, engine.*" in err


def test_what_would_be_another_run_is_refused(finished: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    folder = finished.outputs / "one"
    config = folder / "config.yaml"
    text = config.read_text(encoding="utf-8")
    config.write_text(text.replace("seed: 20260101", "seed: 7"), encoding="utf-8")
    assert fp2("rerun", str(folder), *finished.paths) == 2
    assert "another config hash" in capsys.readouterr().err
    config.write_text(text, encoding="utf-8")
    assert fp2("rerun", str(folder), *finished.paths, "seed=3") == 2
    assert "a rerun cannot change 'seed'" in capsys.readouterr().err
    assert fp2("rerun", "no-such-run", *finished.paths) == 2
    err = capsys.readouterr().err
    assert err.startswith("error: ")
    assert "Traceback" not in err


def test_a_changed_data_set_is_different(own_root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    own = Bench(own_root, write_pictures(own_root / "own", n_subjects=24))
    folder = own.run().folder
    table = own.table.read_text(encoding="utf-8").splitlines()
    own.table.write_text("\n".join(table[:-4]) + "\n", encoding="utf-8")
    assert fp2("rerun", str(folder), UNTRACKED, *own.paths) == 1
    out = capsys.readouterr().out
    assert "dataset_digest  differs" in out
    assert "the numbers differ" in out


def test_yaml_files_that_changed_since_are_named_and_the_logged_config_runs(
    finished: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = finished.outputs / "one"
    overrides = folder / "overrides.yaml"
    overrides.write_text(overrides.read_text().replace("analysis.bootstrap=50", "analysis.bootstrap=60"))
    assert fp2("rerun", str(folder), UNTRACKED, *finished.paths) == 0
    assert "drift: the YAML files have changed since this run was logged" in capsys.readouterr().out
    overrides.write_text("- model=plantd\n")
    assert fp2("rerun", str(folder), UNTRACKED, *finished.paths) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "drift: the logged overrides no longer compose (unknown model 'plantd'" in out


def test_files_that_are_not_a_runs_are_one_line(
    finished: Bench, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def error_of(folder: Path) -> str:
        assert fp2("rerun", str(folder), UNTRACKED, *finished.paths) == 2
        err = capsys.readouterr().err
        assert err.count("\n") == 1
        return err

    empty = tmp_path / "empty"
    empty.mkdir()
    assert "this folder is not a run's" in error_of(empty)
    for text in ("[]", "{}", "no json"):
        (empty / "results.json").write_text(text)
        assert "results of a run" in error_of(empty) or "files cannot be read" in error_of(empty)
    folder = finished.outputs / "one"
    (places,) = (finished.root / "state" / "places").glob("*.json")
    places.write_text("no json")
    assert "the run's paths cannot be read" in error_of(folder)


OLD = {"a": 1.0, "b": [1, 2.5, None], "c": {"d": "x", "e": True}}


@pytest.mark.parametrize(
    ("new", "places"),
    [
        (OLD, []),
        ({**OLD, "a": 1.0 + 1e-12}, []),
        ({**OLD, "a": 1.0001}, ["a"]),
        ({**OLD, "a": None}, ["a"]),
        ({**OLD, "b": [1, 2.6, None]}, ["b.1"]),
        ({**OLD, "b": [1, 2.5]}, ["b"]),
        ({**OLD, "c": {"d": "y", "e": 1, "f": 0}}, ["c.d", "c.e", "c.f"]),
        ({"a": 1.0}, ["b", "c"]),
        (None, [""]),
    ],
)
def test_every_place_that_differs_in_a_block_is_named(new: Any, places: list[str]) -> None:
    assert list(differences(OLD, new)) == places
