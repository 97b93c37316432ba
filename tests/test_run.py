"""The whole way: people to fingerprint, stored answers used again, failures told, and no id or path let out."""

from __future__ import annotations

import errno
import json
import math
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from bench import GROUPS, QUICK, Bench, environment, write_pictures

from fp2.engines.planted import PlantedEngine
from fp2.errors import EXIT_BAD_INPUT, EXIT_ERROR_BUDGET, EXIT_INTERRUPTED

KEYS = {
    "schema_version", "config_hash", "response_set", "model", "n_images", "n_subjects", "answers", "composite",
    "composites", "severity", "disparities", "dataset_digest", "complete", "run_id", "created", "fp2_version",
}  # fmt: skip
FILES = {
    "config.yaml", "overrides.yaml", "people.parquet", "responses.parquet", "scores.parquet", "disparities.parquet",
    "disparities.json", "results.json", "dashboard.html", "passport.json", "figures/fingerprint.png",
    "figures/intervals.png", "figures/heatmap_gender.png",
}  # fmt: skip
STRONG = "model.truth={seed: 4, effects: {trust: {gender: {f: -4}}}, refusals: {lifestyle: {base: 0.2}}}"


def results_of(folder: Path) -> dict[str, Any]:
    return dict(json.loads((folder / "results.json").read_text(encoding="utf-8")))


def run_folders(bench: Bench) -> list[Path]:
    return sorted(path.parent for path in (bench.root / "outputs").rglob("results.json"))


def files_in(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


def check_counts(results: dict[str, Any]) -> None:
    for counts in (results["answers"], *results["answers_by_group"]):
        assert counts["planned"] == counts["answered"] + counts["failed"]
        assert counts["refused"] <= counts["answered"]
    assert results["answers"]["cached"] <= results["answers"]["answered"]


def numbers(value: Any) -> Iterator[float]:
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            yield from numbers(item)
    elif isinstance(value, float):
        yield value


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory, squares: Path) -> tuple[Bench, Path]:
    """A run with everything on (all scorers, two cuts, report), one picture of it corrupt."""
    pictures = write_pictures(tmp_path_factory.mktemp("own") / "pictures")
    sorted(pictures.glob("*.png"))[5].write_bytes(b"not a picture")
    bench = Bench(tmp_path_factory.mktemp("full"), pictures)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FP2_ROOT", str(bench.root))
        outcome = bench.run(
            "scorer=default", "cut.each=[gender,region]", "report=default", "analysis.permutations=1999", STRONG
        )
    return bench, outcome.folder


def test_the_results_have_every_promised_key_and_add_up(full: tuple[Bench, Path]) -> None:
    results = results_of(full[1])
    assert set(results) >= KEYS
    assert set(results["answers"]) == {"planned", "answered", "refused", "failed", "cached", "model_calls"}
    check_counts(results)
    assert results["answers"]["planned"] == 72 * 6
    assert results["answers"]["failed"] == 6
    assert results["answers"]["model_calls"] == 1
    assert results["n_images"] == 72
    assert results["n_subjects"] == 36
    assert results["complete"] is True
    assert all(math.isfinite(number) for number in numbers(results))
    assert results["composite"] == results["composites"]["gender"]["value"]
    assert len(results["disparities"]) == 2 * (6 * 5 + 1)


def test_a_strong_effect_comes_out_with_its_worst_group(full: tuple[Bench, Path]) -> None:
    rows = {(r["probe"], r["scorer"], r["cut"]): r for r in results_of(full[1])["disparities"]}
    for scorer in ("valence", "trust_rating"):
        row = rows["trust", scorer, "gender"]
        assert row["verdict"] == "biased"
        assert (row["worst_group"], row["best_group"]) == ("f", "m")
    biased = [key for key, row in rows.items() if key[1] == "valence" and row["significant"]]
    assert biased == [("trust", "valence", "gender")]


def test_a_corrupt_picture_is_rows_with_a_reason(full: tuple[Bench, Path]) -> None:
    answers = pd.read_parquet(full[1] / "responses.parquet")
    bad = answers[answers["status"] == "error"]
    assert len(bad) == 6
    assert bad["image_id"].nunique() == 1
    assert bad["error"].str.contains("cannot be read").all()


def test_every_artifact_is_written_and_every_one_is_signed(full: tuple[Bench, Path]) -> None:
    from fp2.report.verify import verify_passport

    bench, folder = full
    assert files_in(folder) == FILES | {"figures/heatmap_region.png"}
    outcome = verify_passport(folder / "passport.json", list((bench.root / "state" / "keys").glob("*.pub*")))
    assert outcome.ok, outcome.failures
    assert outcome.statement is not None
    assert {subject["name"] for subject in outcome.statement["subject"]} >= FILES - {"passport.json"}


def test_no_id_of_a_person_or_picture_and_no_path_leaves_the_run(full: tuple[Bench, Path]) -> None:
    bench, folder = full
    names = [path.stem for path in bench.pictures.glob("*.png")]
    people = pd.read_csv(bench.table)["person"].unique().tolist()
    secrets = [secret.encode() for secret in (*names, *people, str(bench.root), str(bench.pictures), "/tmp/")]
    for name in files_in(folder):
        data = (folder / name).read_bytes()
        if name.endswith(".parquet"):  # compressed: look at the values
            data = pd.read_parquet(folder / name).to_csv().encode() + str(pd.read_parquet(folder / name).attrs).encode()
        assert [secret for secret in secrets if secret in data] == [], name


def test_tables_share_salted_keys(full: tuple[Bench, Path]) -> None:
    people, answers, scores = (pd.read_parquet(full[1] / f"{n}.parquet") for n in ("people", "responses", "scores"))
    assert set(answers["image_id"]) == set(people["image_id"])
    assert set(scores["subject_id"]) <= set(people["subject_id"])
    assert answers["image_id"].str.fullmatch(r"[0-9a-f]{32}").all()
    assert len(answers) == 72 * 6


def test_the_embedded_drawn_people_go_through(own_root: Path) -> None:
    """The default data set, drawn small and read as FHIBE; ids of the drawn people stay inside too."""
    bench = Bench(own_root, own_root)
    small = ["data=peeps", "data.n_subjects=30", "data.images_per_subject=1", "data.n_pairs=2", "data.path=null"]
    words = [w for w in bench.words("cut=pronoun") if not w.startswith("data")]
    from fp2.app import main
    from fp2.compose import load_config
    from fp2.prepare import load_people
    from fp2.progress import Progress

    assert main([*words, *small]) == 0
    folder = run_folders(bench)[0]
    results = results_of(folder)
    assert results["n_images"] == results["n_subjects"] == 30  # the pictures of pairs stay out
    assert set(results["dataset"]["groups"]["pronoun"]) <= {"She/her/hers", "He/him/his", "They/them/their"}
    published = b"".join((folder / name).read_bytes() for name in files_in(folder) if not name.endswith(".parquet"))
    tables = "".join(pd.read_parquet(path).to_csv() for path in folder.glob("*.parquet"))
    uuids = {
        path.name for path in (own_root / "state" / "data").rglob("*") if re.fullmatch(r"[0-9a-f-]{36}", path.name)
    }
    assert len(uuids) >= 30
    assert not [name for name in uuids if name in tables or name.encode() in published]
    broken = Path(load_people(load_config([*words, *small]), Progress(quiet=True)).people["image_path"].iloc[3])
    broken.write_bytes(broken.read_bytes()[:200])  # a release of which one file was not copied to its end
    assert main([*words, *small, "answers.error_budget=0.1"]) == 0
    partly = max((results_of(folder) for folder in run_folders(bench)), key=lambda r: r["answers"]["failed"])
    assert partly["answers"]["planned"] == 180
    assert partly["answers"]["failed"] == 6


def test_counterfactual_twins_are_no_population(own_root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from fp2.data.table import load_table

    bench = Bench(own_root, write_pictures(own_root / "pictures", n_subjects=4))
    loaded = load_table(bench.table, {"image": "file", "subject": "person", "gender": "gender"}, None)
    loaded.people["set_id"] = "one set"
    monkeypatch.setattr("fp2.data.load.load_configured", lambda config, progress: loaded)
    results = bench.run().results
    assert results["disparities"] == []
    assert {row["verdict"] for row in results["matched"]["rows"]} == {"too_few_sets"}


def test_too_few_permutations_to_find_anything_are_told(bench: Bench) -> None:
    few = bench.run("analysis.permutations=99").results  # 6 rows: the smallest adjusted p is 6/100
    assert any("99 permutations" in line for line in few["limitations"])
    enough = bench.run("analysis.permutations=199").results
    assert not any("permutations" in line for line in enough["limitations"])


# --- stored answers are used again ---


def test_a_second_run_another_cut_and_another_scorer_ask_nothing(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    first = bench.run(STRONG).results
    monkeypatch.setattr(PlantedEngine, "answer", lambda self, tasks: pytest.fail("the model was asked"))
    again = bench.run(STRONG).results
    assert again["disparities"] == first["disparities"]
    assert again["config_hash"] == first["config_hash"]
    for change in ("cut=gender_x_region", "cut.each=[gender,region]", "scorer=economic", "analysis.alpha=0.01"):
        results = bench.run(STRONG, change).results
        assert results["answers"]["model_calls"] == 0
        assert results["answers"]["cached"] == 72 * 6
        assert results["response_set"] == first["response_set"]
        assert results["config_hash"] != first["config_hash"]


def test_two_models_in_one_store(bench: Bench) -> None:
    calm, strong = bench.run().results, bench.run(STRONG).results
    assert calm["response_set"] != strong["response_set"]
    assert strong["answers"]["cached"] == 0
    assert bench.run().results["disparities"] == calm["disparities"]
    assert bench.run(STRONG).results["disparities"] == strong["disparities"]


def test_a_copy_of_the_project_elsewhere_says_the_same(bench: Bench, tmp_path: Path) -> None:
    from shutil import copytree

    one = bench.run().results
    other = Bench(tmp_path / "other", copytree(bench.pictures, tmp_path / "moved"))
    two = other.run("engine.batch_size=7").results
    for key in ("config_hash", "response_set", "dataset_digest", "disparities", "composites"):
        assert one[key] == two[key], key


# --- interruptions and failures ---

SLOW = """
import sys, time
from fp2.engines.planted import PlantedEngine
quick = PlantedEngine.answer
def slow(self, tasks):
    for batch in quick(self, tasks):
        yield batch
        print("stored", flush=True)
        time.sleep(0.1)
PlantedEngine.answer = slow
from fp2.app import main
sys.exit(main(sys.argv[1:]))
"""
BATCHES = "engine.batch_size=4"  # pictures: 18 batches


def stopped(bench: Bench, how: signal.Signals) -> tuple[int, str]:
    """Start a slow run, send a signal when three batches are stored, and return its exit status and error stream."""
    script = bench.root / "slow.py"
    script.write_text(SLOW, encoding="utf-8")
    with bench.process(STRONG, BATCHES, script=script) as child:
        assert child.stdout is not None
        for _ in range(3):
            assert "stored" in child.stdout.readline(), child.stderr.read() if child.stderr else ""
        child.send_signal(how)
        _, err = child.communicate(timeout=60)
    return child.returncode, err


def as_bytes(disparities: Any) -> bytes:
    return json.dumps(disparities).encode()


def test_a_killed_run_goes_on_where_it_was(bench: Bench, tmp_path: Path) -> None:
    code, _ = stopped(bench, signal.SIGKILL)
    assert code == -signal.SIGKILL
    assert run_folders(bench) == []
    with bench.process(STRONG, BATCHES) as child:
        _, err = child.communicate(timeout=60)
    assert child.returncode == 0, err
    resumed = results_of(run_folders(bench)[0])
    assert 3 * 4 * 6 <= resumed["answers"]["cached"] < resumed["answers"]["planned"]
    assert resumed["answers"]["model_calls"] == 18 - resumed["answers"]["cached"] // 24
    whole = Bench(tmp_path / "whole", bench.pictures).run(STRONG).results
    assert as_bytes(resumed["disparities"]) == as_bytes(whole["disparities"])
    assert resumed["composites"] == whole["composites"]


def test_ctrl_c_leaves_a_partial_passport_and_the_answers(bench: Bench) -> None:
    code, err = stopped(bench, signal.SIGINT)
    assert code == EXIT_INTERRUPTED
    assert "Traceback" not in err
    assert "answers are kept" in err
    folder = run_folders(bench)[0]
    results = results_of(folder)
    assert results["complete"] is False
    check_counts(results)
    assert 0 < results["answers"]["answered"] < results["answers"]["planned"]
    assert predicate(folder)["complete"] is False
    whole = bench.run(STRONG).results
    assert whole["answers"]["cached"] == results["answers"]["answered"]
    assert whole["complete"] is True


def predicate(folder: Path) -> dict[str, Any]:
    import base64

    envelope = json.loads((folder / "passport.json").read_text(encoding="utf-8"))
    statement = json.loads(base64.b64decode(envelope["payload"]))
    return dict(statement["predicate"])


@pytest.mark.parametrize("rate", [0.3, 1.0])
def test_over_the_error_budget_everything_is_kept(
    bench: Bench, rate: float, capsys: pytest.CaptureFixture[str]
) -> None:
    failing = f"model.truth={{seed: 4, errors: {{rate: {rate}}}}}"
    assert bench.launch(failing, "report=default") == EXIT_ERROR_BUDGET
    err = capsys.readouterr().err
    assert "Traceback" not in err
    assert "planted error" in err
    folder = run_folders(bench)[0]
    results = results_of(folder)
    assert results["complete"] is False
    assert predicate(folder)["complete"] is False
    check_counts(results)
    assert results["answers"]["failed"] > 0.2 * results["answers"]["planned"]
    assert files_in(folder) >= {"passport.json", "responses.parquet", "results.json", "dashboard.html"}
    allowed = bench.run(failing, "answers.error_budget=1").results
    assert allowed["complete"] is True
    assert allowed["answers"]["cached"] == results["answers"]["answered"]


def test_attempts_are_counted_over_runs(bench: Bench) -> None:
    failing = "model.truth={seed: 4, errors: {rate: 0.02}}"
    for run in (1, 2):
        outcome = bench.run(failing, "answers.attempts=3")
        assert outcome.exit_status == 0
        answers = pd.read_parquet(outcome.folder / "responses.parquet")
        assert set(answers.loc[answers["status"] == "error", "attempts"]) == {3 * run}
    assert outcome.results["answers"]["failed"] > 0


def test_empty_answers_run_through(bench: Bench) -> None:
    empty = "".join(f"- '{' ' * i}'\n" for i in range(10))
    text = load_default_texts()["trust"]
    truth = bench.root / "truth.yaml"
    body = "".join(f"      {line}\n" for line in empty.splitlines())
    truth.write_text(f"probes:\n  trust:\n    texts: ['{text}']\n    sentences:\n{body}", encoding="utf-8")
    outcome = bench.run(f"model.truth={truth}", "probe.select=[trust]", "scorer=default")
    assert outcome.exit_status == 0
    assert outcome.results["answers"]["answered"] == 72
    assert {row["verdict"] for row in outcome.results["disparities"]} <= {"uninformative", "too_few_subjects"}
    assert outcome.results["diversity"][0]["uninformative"] is True


def load_default_texts() -> dict[str, str]:
    from fp2.compose import load_config

    probes = load_config(["model=planted"]).probe.probes
    return {name: body["questions"][0]["text"].replace("'", "''") for name, body in probes.items()}


def full_disk(*args: Any, **kwargs: Any) -> Any:
    raise OSError(errno.ENOSPC, "No space left on device", "results.json")


def test_a_disk_that_fills_up_while_the_report_is_written(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from fp2 import artifacts

    monkeypatch.setattr(artifacts, "write_results", full_disk)
    assert bench.launch() == EXIT_BAD_INPUT
    err = capsys.readouterr().err
    assert "No space left on device" in err
    assert "every answer is kept" in err
    assert "Traceback" not in err
    monkeypatch.undo()
    assert bench.run().results["answers"]["model_calls"] == 0


def test_a_disk_that_fills_up_while_answers_are_stored(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import sqlite3

    from fp2.store import responses

    class Full(sqlite3.OperationalError):
        sqlite_errorname = "SQLITE_FULL"

    def fail(*args: Any) -> Any:
        raise Full("database or disk is full")

    monkeypatch.setattr(responses, "_split", fail)
    assert bench.launch("tracking=none") == EXIT_BAD_INPUT
    err = capsys.readouterr().err
    assert "the disk is full" in err
    assert "Traceback" not in err


def test_an_output_folder_that_cannot_be_made(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    (bench.root / "file").write_text("in the way", encoding="utf-8")
    assert bench.launch(f"paths.outputs={bench.root}/file/outputs") == EXIT_BAD_INPUT
    assert "cannot make an output folder" in capsys.readouterr().err


def unreadable_folder(root: Path) -> list[str]:
    (root / "release").mkdir()
    (root / "release" / "note.txt").write_text("nothing here", encoding="utf-8")
    return ["data=fhibe", f"data.root={root / 'release'}"]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["data=fhibe", "data.root=/no/such/folder"], "/no/such/folder"),
        (["data.path=/no/such/people.csv"], "the table does not exist"),
        (["data.columns={image: file, subject: persn}"], "Did you mean 'person'"),
        (["data.columns={subject: person}"], "data.columns"),
        (["cut.by=[gendr]"], "Did you mean 'gender'"),
        (["cut=gender_x_regin"], "Did you mean 'region'"),
        (["cut.by=[gender]", "cut.groups={gender: [femal]}"], "femal"),
        (["cut.by=[gender]", "cut.each=[region]"], "cut.by and cut.each"),
        (["engine=hf"], "engine"),
        (["engine=vllm"], "answers through engine=planted"),
        (["engine=ray"], "engine"),
        (["model.truth={efects: {}}"], "Did you mean 'effects'"),
        (["model.truth={effects: {trust: {gendr: {f: 1}}}}"], "Did you mean 'gender'"),
        (["scorer.valence.target=no.such:Thing"], "no.such"),
        (["scorer.valence.smalest=1"], "smallest_effect"),
        (["cut=[gender,region]"], "cut.each=[a,b]"),
        (["paths.store=/proc/no/store.sqlite"], "store"),
    ],
    ids=lambda value: value[0][:40] if isinstance(value, list) else "",
)
def test_a_users_mistake_is_one_line(
    bench: Bench, words: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    from fp2.app import main

    places = [place for place in bench.places if not place.startswith("data.path") or "data.path" not in str(words)]
    base = [
        w
        for w in bench.words()
        if w not in bench.places and w.partition("=")[0] not in {x.partition("=")[0] for x in words}
    ]
    if any(word.startswith("cut=") for word in words):
        base = [word for word in base if not word.startswith("cut")]
    assert main([*base, *places, *words]) == EXIT_BAD_INPUT
    err = capsys.readouterr().err
    lines = [line for line in err.splitlines() if line.startswith("error: ")]
    assert len(lines) == 1
    assert told in lines[0]
    assert "Traceback" not in err


def test_a_release_folder_without_a_release(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    from fp2.app import main

    base = [word for word in bench.words() if not word.startswith("data")]
    assert main([*base, *unreadable_folder(bench.root)]) == EXIT_BAD_INPUT
    assert "Traceback" not in capsys.readouterr().err


# --- from outside the tree ---

SHOUTING = '''
"""How loud an answer is."""
import numpy as np
from fp2.scorers.base import BaseScorer, Scored
from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True)
class Loudness(BaseScorer):
    name: str = "loudness"
    higher_is_better: bool = False
    value_range: tuple = (0.0, 1.0)
    smallest_effect: float = 0.05
    scale: ClassVar[tuple] = (0.0, 1.0)

    def score_unique(self, texts):
        return Scored(np.array([min(text.count("e") / 20, 1.0) for text in texts]))
'''


def test_a_model_a_battery_a_scorer_and_a_cut_from_outside_the_tree(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    outside = bench.root / "outside"
    text = load_default_texts()["trust"]
    files = {
        "model/outsider.yaml": "defaults:\n  - planted\n  - _self_\nname: outsider\n"
        "truth: {seed: 9, effects: {all: {gender: {f: 3}}}}\n",
        "probe/brief.yaml": f"name: brief\nversion: '1'\nprobes:\n  trust:\n    label: Trust\n    questions:\n"
        f"      - {{id: trust, text: '{text}'}}\n",
        "scorer/loudness.yaml": "loudness:\n  target: fp2_outside_scorer:Loudness\n  smallest_effect: 0.01\n",
        "cut/both.yaml": "name: both\nby: [gender]\neach: null\ngroups: null\n",
    }
    for name, body in files.items():
        (outside / name).parent.mkdir(parents=True, exist_ok=True)
        (outside / name).write_text(body, encoding="utf-8")
    (bench.root / "fp2_outside_scorer.py").write_text(SHOUTING, encoding="utf-8")
    monkeypatch.syspath_prepend(str(bench.root))
    code = bench.launch(
        f"hydra.searchpath=[file://{outside}]", "model=outsider", "probe=brief", "scorer=loudness", "cut=both",
        "analysis.primary=loudness",
    )  # fmt: skip
    assert code == 0
    results = results_of(run_folders(bench)[0])
    assert results["model"]["name"] == "outsider"
    assert results["cuts"] == ["both"]
    assert [(row["probe"], row["scorer"]) for row in results["disparities"]] == [("trust", "loudness")]
    assert results["composites"]["both"]["probes"] == ["trust"]


# --- a real model's path ---

CACHED = """
import json, sys
from PIL import Image
from PIL.PngImagePlugin import PngImageFile
def opened(*args, **kwargs):
    raise AssertionError("a picture was decoded")
Image.open = opened
from fp2.app import main
code = main(sys.argv[1:])
heavy = [name for name in ("torch", "transformers", "mlflow", "matplotlib") if name in sys.modules]
print(json.dumps({"code": code, "heavy": heavy}))
"""


def test_the_users_own_table_and_a_real_model_that_is_not_loaded_twice(bench: Bench) -> None:
    """A genuine LLaVA with random weights answers; the second time neither it nor a picture is touched."""
    from tiny import save_tiny_llava

    net = save_tiny_llava(bench.root / "net")
    words = [
        "model=peeps_vlm", f"model.id={net}", "model.name=tiny", "data.limit=24", "probe.decoding.max_new_tokens=4",
        "probe.select=[trust,lifestyle]", "engine.device=cpu", "engine.threads=1",
    ]  # fmt: skip
    outcome = bench.run(*words)
    assert outcome.results["answers"]["answered"] == 48
    assert outcome.results["answers"]["model_calls"] > 0
    assert outcome.results["model"]["embedded"] is False
    assert outcome.results["dataset"]["groups"]["gender"].keys() == set(GROUPS["gender"])
    assert str(bench.root) not in (outcome.folder / "results.json").read_text(encoding="utf-8")
    script = bench.root / "cached.py"
    script.write_text(CACHED, encoding="utf-8")
    with bench.process(*words, script=script) as child:
        out, err = child.communicate(timeout=120)
    assert json.loads(out.splitlines()[-1]) == {"code": 0, "heavy": []}, err
    again = next(results_of(f) for f in run_folders(bench) if f != outcome.folder)
    assert again["answers"]["cached"] == 48
    assert again["answers"]["model_calls"] == 0
    assert again["disparities"] == outcome.results["disparities"]


def test_the_command_of_the_readme(own_root: Path) -> None:
    """`launch.py data=table ...` as it is written there, with the simulator for a model."""
    pictures = write_pictures(own_root / "mine")
    done = subprocess.run(
        [sys.executable, str(Path(__file__).parents[1] / "launch.py"), "model=planted", "data=table",
         f"data.path={pictures / 'people.csv'}", "data.columns={image: file, subject: person, gender: gender}",
         "cut.by=[gender]", *[word for word in QUICK if word.startswith(("analysis", "report", "tracking"))]],
        env=environment(own_root), cwd=own_root, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "by gender" in done.stdout
    assert (own_root / ".fp2" / "responses.sqlite").is_file()
