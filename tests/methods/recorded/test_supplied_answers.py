"""Answers that exist already: a run's answers, exported in every form and read again, give the run's numbers."""

from __future__ import annotations

import base64
import csv
import json
import shutil
import stat
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from bench import Bench, check_counts, execute, fp2, predicate_of

from fp2.ask.answers import read_tables
from fp2.errors import Fp2Error
from fp2.methods.exports.answers import export_answers
from fp2.methods.recorded.options import RecordedOptions
from fp2.methods.recorded.table import read_answers
from fp2.progress import Progress
from fp2.tables import YES_NO_NUMBERS

FORMS = ("csv", "tsv", "parquet", "jsonl", "eval", "json", "lmms_eval", "openai_batch", "every_eval_ever")
TEXT = (
    "probe.select=[trust,lifestyle]", "scorer=[valence,refusal]",
    "model.truth={effects: {trust: {gender: {m: -3}}}, refusals: {all: {base: 0.1}}}",
)  # fmt: skip
GRAS = (
    "probe=gras", "probe.traits={kind: 2.6, cruel: -2.9, calm: 1.1}", "probe.select=[direct,judgment]", "scorer=none",
    "probe.options.permutations=99", "probe.options.bootstrap=20",
)  # fmt: skip
NUMBERS = ("disparities", "composites", "diversity", "refusal_rates", "coverage", "gras", "missing")


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory, squares: Path) -> Bench:
    """A project with one run of text and one of probabilities; not to be changed."""
    return Bench(tmp_path_factory.mktemp("project"), squares)


@pytest.fixture(scope="module")
def text_run(project: Bench) -> Any:
    return project.run(*TEXT, folder="text")


@pytest.fixture(scope="module")
def dense_run(project: Bench) -> Any:
    return project.run(*GRAS, folder="dense")


@pytest.fixture
def here(project: Bench, own_root: Path) -> Bench:
    """The project, with outputs and a store of the test's own."""
    shutil.copytree(project.root / "state", own_root / "state")
    (own_root / "state" / "responses.sqlite").unlink()
    return Bench(own_root, project.pictures)


def exported(bench: Bench, folder: Path, form: str) -> Path:
    """Return a file with the answers of a run."""
    path = bench.root / f"answers.{form if '_' not in form else 'jsonl'}"
    chosen = None if path.suffix == f".{form}" else form
    export_answers(folder, bench.config(), path, Progress(quiet=True), form=chosen)
    return path


def supplied(bench: Bench, path: Path, *words: str) -> Any:
    """Run on the answers of a file, without any image."""
    gone = bench.root / "nowhere"
    names = ("model=recorded", "model.name=simulator", f"engine.answers={path}", f"data.image_root={gone}")
    return bench.run(*(word for word in words if not word.startswith("model.")), *names)


def test_exported_texts_give_the_numbers_of_the_run(here: Bench, text_run: Any) -> None:
    again = supplied(here, exported(here, text_run.folder, "csv"), *TEXT).results
    for name in NUMBERS:
        assert again.get(name) == text_run.results.get(name), name
    assert again["answers"]["answered"] == text_run.results["answers"]["answered"]
    assert again["model"]["embedded"]  # the file says that its model's effects were planted


def test_exported_probabilities_give_the_numbers_of_the_run(here: Bench, dense_run: Any) -> None:
    again = supplied(here, exported(here, dense_run.folder, "parquet"), *GRAS).results
    for name in NUMBERS:
        assert again.get(name) == dense_run.results.get(name), name


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", ["text", "dense"])
def test_every_form_holds_the_same_answers(here: Bench, text_run: Any, dense_run: Any, kind: str, form: str) -> None:
    run = text_run if kind == "text" else dense_run
    other = read_answers(RecordedOptions(answers=str(exported(here, run.folder, form)))).frame
    answers = read_tables(run.folder).answers
    assert len(other) == run.results["answers"]["planned"]
    if kind == "text":
        assert other["text"].tolist() == answers.frame["text"].tolist()
    else:
        for name in YES_NO_NUMBERS:
            assert other[name].tolist() == answers.columns[name].reshape(-1).tolist(), name


def test_what_is_missing_is_counted_as_missing_by_group_and_fails_nothing(here: Bench, text_run: Any) -> None:
    path = exported(here, text_run.folder, "csv")
    rows = list(csv.DictReader(path.open(encoding="utf-8", newline="")))
    people = {row["file"]: row for row in csv.DictReader(here.table.open(encoding="utf-8", newline=""))}
    women = [row for row in rows if people[row["image"]]["gender"] == "f"]
    kept = [row for row in rows if row not in women[: len(women) // 2]]
    write_csv(path, kept)
    outcome = supplied(here, path, *TEXT)
    results = outcome.results
    check_counts(results)
    assert (outcome.exit_status, results["complete"]) == (0, True)
    assert results["answers"]["not_supplied"] == len(women) // 2
    assert results["answers"]["failed"] == 0
    by_group = {row["group"]: row for row in results["answers_by_group"]}
    assert by_group["f"]["not_supplied"] == len(women) // 2
    assert "not_supplied" not in by_group["m"]
    assert any(row["verdict"] == "biased" and row["worst_group"] == "f" for row in results["missing"]["rows"])
    assert any(
        f"{len(women) // 2} of {len(rows)} planned answers were not supplied" in line for line in results["limitations"]
    )
    twice = supplied(here, path, *TEXT).results
    assert twice["answers"]["not_supplied"] == len(women) // 2
    assert twice["answers"]["cached"] == len(kept)


def test_missing_probabilities_are_counted_too(here: Bench, dense_run: Any) -> None:
    path = exported(here, dense_run.folder, "jsonl")
    lines = path.read_text(encoding="utf-8").splitlines()
    path.write_text("\n".join(lines[5:]), encoding="utf-8")
    results = supplied(here, path, *GRAS).results
    check_counts(results)
    assert results["answers"]["not_supplied"] == 5
    assert results["answers"]["failed"] == 0


def test_every_output_says_that_the_answers_were_supplied(here: Bench, text_run: Any, mlflow_store: None) -> None:
    import mlflow

    path = exported(here, text_run.folder, "parquet")
    words = ["model=recorded", "model.name=theirs", f"engine.answers={path}", "report=default", "report.figures=false"]
    outcome = execute([*here.words(*TEXT[:1], *words), "tracking=mlflow"], here.outputs / "one")
    said = "supplied, not asked here"
    dashboard = (outcome.folder / "dashboard.html").read_text(encoding="utf-8")
    passport = predicate_of(outcome.folder)
    assert said in dashboard
    assert said in passport["limitations"][1]
    assert passport["model"]["supplied"]["digest"].startswith("sha256:")
    assert passport["protocol"]["decoding"] is None
    payload = json.loads((outcome.folder / "passport.json").read_text(encoding="utf-8"))["payload"]
    statement = json.loads(base64.b64decode(payload))
    import jsonschema

    schema = files("fp2.report").joinpath("schemas/bias-passport-v1.schema.json").read_text(encoding="utf-8")
    jsonschema.Draft202012Validator(json.loads(schema)).validate(statement)
    assert "supplied-answers" in {subject["name"] for subject in statement["subject"]}
    client = mlflow.MlflowClient(tracking_uri=f"sqlite:///{here.root / 'mlruns' / 'mlflow.db'}")
    assert said in client.get_run(outcome.run_id).data.tags["fp2.answers"]
    assert said in terminal(outcome)
    assert str(path.parent) not in (outcome.folder / "config.yaml").read_text(encoding="utf-8")


def terminal(outcome: Any) -> str:
    """Return what the terminal shows of a run."""
    from rich.console import Console

    from fp2.report.terminal import print_results

    console = Console(width=100, record=True, file=open("/dev/null", "w", encoding="utf-8"))  # noqa: SIM115
    print_results(outcome.results, console, sections=outcome.sections)
    return console.export_text()


def test_the_digest_of_the_answers_is_in_keys_and_hash(here: Bench, text_run: Any) -> None:
    path = exported(here, text_run.folder, "csv")
    first = supplied(here, path, *TEXT).results
    rows = list(csv.DictReader(path.open(encoding="utf-8", newline="")))
    rows[0]["text"] += " Really."
    write_csv(path, rows)
    second = supplied(here, path, *TEXT).results
    assert first["response_set"] != second["response_set"]
    assert first["config_hash"] != second["config_hash"]
    assert second["answers"]["cached"] == 0


def test_an_export_is_readable_by_its_owner_only_and_can_keep_salted_keys(here: Bench, text_run: Any) -> None:
    path = here.root / "answers.csv"
    assert fp2("export", str(text_run.folder), "--answers", str(path), *here.paths) == 0
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    ids = {row["file"] for row in csv.DictReader(here.table.open(encoding="utf-8", newline=""))}
    assert {row["image"] for row in csv.DictReader(path.open(encoding="utf-8", newline=""))} == ids
    assert fp2("export", str(text_run.folder), "--answers", str(path), "--keys", *here.paths) == 0
    assert not {row["image"] for row in csv.DictReader(path.open(encoding="utf-8", newline=""))} & ids


def test_an_export_without_the_data_set_says_what_to_do(
    here: Bench, text_run: Any, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    elsewhere = [f"paths.root={tmp_path}", f"paths.state={tmp_path / 'other'}"]
    assert fp2("export", str(text_run.folder), "--answers", str(tmp_path / "a.csv"), *elsewhere) == 2
    assert "--keys" in capsys.readouterr().err


def test_a_control_variant_cannot_be_supplied(here: Bench, text_run: Any) -> None:
    path = exported(here, text_run.folder, "csv")
    with pytest.raises(Fp2Error, match="control variant"):
        supplied(here, path, *TEXT, "variant=blind")


def write_csv(path: Path, rows: list[dict[str, str]]) -> None:
    with path.open("w", encoding="utf-8", newline="") as handle:
        writer = csv.DictWriter(handle, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
