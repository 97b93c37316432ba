"""`fp2 label`: the sample, the page, labels on the disk, and what the analysis makes of them."""

from __future__ import annotations

import csv
import json
import shutil
import threading
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from bench import Bench, fp2, predicate_of

from fp2.commands.loopback import LoopbackServer
from fp2.errors import Fp2Error
from fp2.methods.labels.command import LabelServer
from fp2.methods.labels.sample import Sheet, Wanted, sheet_of, stratified
from fp2.methods.labels.table import RESOLVER

STRONG = "model.truth={seed: 4, effects: {trust: {gender: {f: -4}}}, refusals: {lifestyle: {base: 0.3}}}"


@pytest.fixture(scope="module")
def logged(tmp_path_factory: pytest.TempPathFactory, squares: Path) -> tuple[Bench, Path]:
    """A project with one run of a simulated model with a planted gap; not to be changed."""
    bench = Bench(tmp_path_factory.mktemp("label"), squares)
    return bench, bench.run(STRONG, "cut.each=[gender,region]").folder


@pytest.fixture
def project(logged: tuple[Bench, Path], own_root: Path) -> tuple[Bench, Path]:
    """A copy of the project."""
    bench, folder = logged
    copy = bench.copied_to(own_root / "project")
    return copy, copy.root / folder.relative_to(bench.root)


def sheet(project: tuple[Bench, Path], **wanted: Any) -> Sheet:
    bench, folder = project
    return sheet_of(folder, bench.config(), Wanted(**{"n": 72, "probes": ("trust",), **wanted}))


def true_labels(project: tuple[Bench, Path], one: Sheet) -> dict[tuple[str, str, str], float]:
    """Return labels of somebody who agrees with the scorer, as the scorer is read."""
    scores = pd.read_parquet(project[1] / "scores.parquet")
    own = scores[scores["scorer"] == "valence"].set_index(["image_id", "subject_id", "question_id"])["value"]
    return {answer: float(one.scale.read(np.array([own[answer]]))[0]) for answer in one.answers}


@pytest.fixture
def server(project: tuple[Bench, Path]) -> Iterator[LabelServer]:
    with LabelServer(sheet(project), "a", 0) as one:
        threading.Thread(target=one.serve_forever, daemon=True).start()
        yield one
        one.shutdown()


def fetch(
    server: LoopbackServer, name: str = "", form: dict[str, str] | None = None, origin: str | None = "own"
) -> str:
    data = None if form is None else urllib.parse.urlencode(form).encode()
    if origin == "own":
        origin = f"http://127.0.0.1:{server.server_address[1]}"
    headers = {} if origin is None else {"Origin": origin}
    with urllib.request.urlopen(urllib.request.Request(server.address + name, data, headers)) as reply:
        return str(reply.read().decode())


def test_the_page_shows_an_answer_and_hides_who_it_is_about(server: LabelServer, project: tuple[Bench, Path]) -> None:
    page = fetch(server)
    image, subject, _question = server.order[0]
    assert server.sheet.texts[server.order[0]][1] in page.replace("&#39;", "'").replace("&#34;", '"')
    people = pd.read_parquet(project[1] / "people.parquet")
    values = {str(v) for name in ("attr_gender", "attr_region") for cell in people[name] for v in cell if len(v) > 1}
    assert not [word for word in (image, subject, "img", *values) if word in page]
    assert "kbd" in fetch(server, "style.css")
    assert "keydown" in fetch(server, "label.js")
    for address in (server.address[:-2], server.address.replace(server.secret, "x"), server.address + "other"):
        with pytest.raises(urllib.error.HTTPError, match="404"):
            urllib.request.urlopen(address)
    elsewhere = urllib.request.Request(server.address, headers={"Host": "evil.example"})
    with pytest.raises(urllib.error.HTTPError, match="404"):
        urllib.request.urlopen(elsewhere)


def test_every_label_is_on_the_disk_at_once_and_can_be_taken_back(
    server: LabelServer, project: tuple[Bench, Path]
) -> None:
    first, second = server.order[:2]
    assert "1 of" in fetch(server, "", {"place": "0", "label": "-1"})
    fetch(server, "", {"place": "1", "label": ""})
    assert sheet(project).given("a") == {first: -1.0, second: None}
    fetch(server, "", {"undo": "1"})
    assert sheet(project).given("a") == {first: -1.0}
    for wrong in ({"place": "1", "label": "7"}, {"place": "99999", "label": "1"}, {"place": "x", "label": "1"}, {}):
        with pytest.raises(urllib.error.HTTPError, match="404"):
            fetch(server, "", wrong)
    assert sheet(project).given("a") == {first: -1.0}
    path = server.sheet.folder / "labels-a.csv"
    path.write_text(path.read_text() + "broken,li")  # the machine stopped while this was written
    server.sheet.append("a", second, 1.0)
    assert sheet(project).given("a") == {first: -1.0, second: 1.0}


@pytest.mark.parametrize("origin", [None, "null", "https://evil.example", "http://127.0.0.1:1"])
def test_a_form_of_another_site_is_not_taken(
    server: LabelServer, project: tuple[Bench, Path], origin: str | None
) -> None:
    with pytest.raises(urllib.error.HTTPError, match="404"):
        fetch(server, "", {"place": "0", "label": "-1"}, origin)
    assert sheet(project).given("a") == {}


def test_labellers_have_orders_of_their_own_and_the_sample_stays(project: tuple[Bench, Path]) -> None:
    one = sheet(project)
    assert one.order("a") != one.order("b")
    assert set(one.order("a")) == set(one.order("b")) == set(sheet(project, n=None, probes=None).answers)
    with pytest.raises(Fp2Error, match="drawn with"):
        sheet(project, n=7)
    with pytest.raises(Fp2Error, match="invalid name"):
        one.append("../x", one.answers[0], 1.0)
    shutil.rmtree(one.folder)
    for wrong, match in (
        ({"scorer": "nothing"}, "no scorer"),
        ({"by": "age"}, "no cut"),
        ({"n": 1}, "too few for"),
        ({"probes": ("nothing",)}, "no scored answer"),
    ):
        with pytest.raises(Fp2Error, match=match):
            sheet(project, **wrong)
    assert not one.folder.exists()


def test_inclusion_probabilities_are_those_of_the_draw() -> None:
    rng = np.random.default_rng(3)
    strata = np.sort(rng.choice(5, 400, p=[0.5, 0.3, 0.1, 0.07, 0.03]))
    cells, compared = np.array([0, 0, 1, 1, 2])[strata], np.array([True, True, True, True, False])[strata]
    counts = np.zeros(400)
    for seed in range(600):
        chosen, probability = stratified(strata, cells, compared, 60, seed)
        counts[chosen] += 1
        assert len(chosen) == 60
        assert (probability > 0).all()
    assert np.abs(counts / 600 - probability).max() < 0.1
    assert np.bincount(cells[chosen])[:2] == pytest.approx([29.5, 29.5], abs=1.5)
    assert (strata[chosen] == 4).sum() == 1


def test_a_run_is_rescored_with_the_labels_of_two_and_a_purge_removes_theirs(project: tuple[Bench, Path]) -> None:
    bench, folder = project
    one, labels = sheet(project), true_labels(project, sheet(project))
    for k, (answer, value) in enumerate(labels.items()):
        one.append("a", answer, value)
        one.append("b", answer, -value if k % 10 == 0 else value)
    assert set(one.differing()) == {a for k, (a, v) in enumerate(labels.items()) if k % 10 == 0 and v}
    assert set(one.order(RESOLVER)) == set(one.differing())
    (agreement,) = [found for *_, found in one.agreement()]
    assert agreement.kappa is not None
    assert 0.6 < agreement.kappa < 1
    for answer in one.differing():
        one.append(RESOLVER, answer, labels[answer])
    words = ("tracking=none", "report=none", "analysis.permutations=2999")
    known = set(bench.outputs.rglob("results.json"))
    assert fp2("label", str(folder), "--status", *bench.paths) == 0
    assert fp2("label", str(folder), "--analyse", *words, *bench.paths) == 0
    (path,) = set(bench.outputs.rglob("results.json")) - known
    results = json.loads(path.read_text())
    block = results["measurement_error"]
    rows = {(row["probe"], row["cut"]): row for row in block["rows"]}
    row = rows["trust", "gender"]
    assert set(rows) == {("trust", "gender"), ("trust", "region")}
    # whoever agrees with the scorer everywhere finds no error, and the gap as scored
    assert row["error_gap"] == pytest.approx(0, abs=1e-9)
    assert row["gap"] == pytest.approx(row["scored_gap"], abs=1e-9)
    assert (row["lower_group"], row["outcome"]) == ("f", "confirmed")
    assert {one["precision"][0] for one in row["classes"] if one["precision"]} == {1.0}
    assert block["labellers"][0]["n_labels"] == [len(labels)] * 2
    assert predicate_of(path.parent)["findings"]["measurement_error"]["labels_digest"]
    text = path.read_text()
    assert not [answer for answer in labels if answer[0] in text]
    assert fp2("check", str(path.parent), *bench.paths) == 0

    people = pd.read_csv(bench.table)
    gone = str(people["person"].iloc[0])
    assert fp2("purge", "--subject", gone, "--yes", *bench.paths) == 0
    after = json.loads(path.read_text())["measurement_error"]
    left = set(pd.read_parquet(path.parent / "people.parquet")["image_id"])
    for name in ("sample.csv", "labels-a.csv", "labels.csv"):
        assert {row["image"] for row in csv.DictReader((one.folder / name).open())} <= left, name
    assert fp2("check", str(path.parent), *bench.paths) == 0
    assert after["labellers"][0]["n_answers"] < block["labellers"][0]["n_answers"]
    assert set(pd.read_parquet(path.parent / "labels.parquet")["image_id"]) <= left


def test_a_file_of_ones_own_is_read_by_ids_and_wrong_ones_are_refused_in_one_line(
    project: tuple[Bench, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    bench, folder = project
    answers = bench.root / "answers.csv"
    assert fp2("export", str(folder), "--answers", str(answers), *bench.places) == 0
    table = pd.read_csv(answers)
    table = table[table["probe"] == "trust"].assign(label=0.0)
    own = bench.root / "own.csv"
    table.to_csv(own, index=False)
    words = (str(folder), "--labels", str(own), "tracking=none", "report=none", *bench.paths)
    known = set(bench.outputs.rglob("results.json"))
    assert fp2("label", *words) == 0
    (path,) = set(bench.outputs.rglob("results.json")) - known
    row = json.loads(path.read_text())["measurement_error"]["rows"][0]
    assert row["gap"] == 0
    assert row["outcome"] != "confirmed"
    first = bench.run(STRONG, "cut.each=[gender,region]", f"analysis.labels={own}", "analysis.permutations=99")
    again = first.results["measurement_error"]["rows"][0]
    assert {name: again[name] for name in ("gap", "error_gap", "n_labels")} == pytest.approx(
        {name: row[name] for name in ("gap", "error_gap", "n_labels")}
    )
    assert set(pd.read_parquet(first.folder / "labels.parquet")["image_id"]) <= set(
        pd.read_parquet(first.folder / "people.parquet")["image_id"]
    )
    capsys.readouterr()
    for change, said in (
        ({"label": 7.0}, "is not a label of valence"),
        ({"image": "nobody"}, "no label belongs to an answer of this run"),
        ({"probability": 0.0}, "out of range"),
        ({"scorer": "nothing"}, "no scorer 'nothing'"),
    ):
        table.assign(**change).to_csv(own, index=False)
        assert fp2("label", *words) != 0
        assert said in capsys.readouterr().err
    shutil.copyfile(bench.table, own)
    assert fp2("label", *words) != 0
    assert "no column" in capsys.readouterr().err
