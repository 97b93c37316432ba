"""Items: one image with texts, options and a key of its own; what is asked, scored, shared and refused."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml
from bench import Bench, execute, fp2, results_of

import fp2 as package
from fp2.data.readers.table import load_table
from fp2.errors import Fp2Error
from fp2.probes.battery import load_battery
from fp2.probes.items import Items

pytestmark = [pytest.mark.package(name="benchmarks"), pytest.mark.package(name="recorded")]

N = 24
OCCUPATIONS = ("teacher", "pilot")
CHOICE = """
name: occupation
version: "1"
fields: [named, other]
decoding: {choice_orders: given}
probes:
  occupation:
    label: Occupation
    questions:
      - {id: occupation, kind: choice, text: "Is it the {named}? {options}", choices: ["{named}", "{other}", "unclear"]}
"""
WORDS = """
name: work
version: "1"
fields: [named]
probes:
  work:
    label: Work
    questions:
      - {id: work, text: "How well does the {named} in the image work?"}
"""
COLUMNS = "{image: file, item: id, subject: person, gender: gender, key: key, field_named: named, field_other: other}"


def items(bench: Bench) -> pd.DataFrame:
    """Two items about each of 24 images, with the options exchanged in the second."""
    pictures = sorted(path.name for path in bench.pictures.iterdir() if path.suffix == ".png")[:N]
    rows = []
    for number, name in enumerate(pictures):
        for turn in (0, 1):
            named, other = OCCUPATIONS if turn == 0 else OCCUPATIONS[::-1]
            gender = "fm"[number % 2]
            rows.append((f"{number}_{turn}", name, f"s{number}", gender, named, other, "pilot"))
    return pd.DataFrame(rows, columns=["id", "file", "person", "gender", "named", "other", "key"])


@pytest.fixture
def words(bench: Bench, tmp_path: Path) -> list[str]:
    items(bench).to_csv(tmp_path / "items.csv", index=False)
    (tmp_path / "conf" / "probe").mkdir(parents=True)
    for name, text in (("occupation", CHOICE), ("work", WORDS)):
        (tmp_path / "conf" / "probe" / f"{name}.yaml").write_text(text)
    answers = {}
    for row in items(bench).itertuples():
        number = int(row.id.split("_")[0])
        right = row.gender == "f" or number % 4 == 1  # 12 of 12, 6 of 12
        p = {"pilot": 0.7 if right else 0.2, "teacher": 0.2 if right else 0.7}
        answers[row.id] = {"p": {**p, "unclear": 0.1}}
    (tmp_path / "answers.json").write_text(json.dumps(answers))
    return [
        "data=table",
        f"data.path={tmp_path / 'items.csv'}",
        f"data.image_root={bench.pictures}",
        f"data.columns={COLUMNS}",
        "cut.by=[gender]",
        f"hydra.searchpath=[file://{tmp_path / 'conf'}]",
        "probe=occupation",
        "model=recorded",
        "model.name=mine",
        f"engine.answers={tmp_path / 'answers.json'}",
        "engine.columns={probabilities: p}",
        "scorer=choice_agreement",
        "scorer.choice_agreement.attribute=key",
        "analysis.permutations=199",
        "analysis.bootstrap=50",
        "report=none",
        "tracking=none",
        f"paths.root={bench.root}",
        f"paths.state={bench.root / 'state'}",
    ]


def means(results: dict[str, Any]) -> dict[str, float]:
    (row,) = results["disparities"]
    return {group["group"]: group["mean"] for group in row["groups"]}


@pytest.mark.package(name="recorded")
def test_each_item_is_asked_and_agrees_with_its_own_key(words: list[str], bench: Bench) -> None:
    folder = bench.root / "outputs" / "one"
    results = execute(words, folder).results
    assert results["answers"]["answered"] == 2 * N
    assert means(results) == pytest.approx({"f": 1.0, "m": 0.5})
    others = [word for word in words if "choice_agreement" not in word]
    shown = ["scorer=choice_probability", "scorer.choice_probability.choice='{named}'"]
    first = execute([*others, *shown], bench.root / "outputs" / "two").results
    assert means(first) == pytest.approx({"f": 0.45, "m": 0.45})  # each option is named in one of two items


@pytest.mark.package(name="recorded")
@pytest.mark.package(name="reruns")
@pytest.mark.package(name="exports")
def test_a_finished_run_of_items_is_scored_again(words: list[str], bench: Bench) -> None:
    folder = bench.root / "outputs" / "one"
    execute(words, folder)
    assert fp2("rescore", str(folder), "scorer.choice_agreement.matches={pilot: '{named}'}", *words[-4:]) == 0
    again = next(path.parent for path in (bench.root / "outputs").rglob("results.json") if path.parent != folder)
    assert means(results_of(again)) == pytest.approx({"f": 0.5, "m": 0.5})
    assert fp2("export", str(folder), "--answers", str(bench.root / "given.jsonl"), "--keys", *words[-2:]) == 0
    asked = Counter(json.loads(line)["question_text"] for line in (bench.root / "given.jsonl").read_text().splitlines())
    assert asked == {f"Is it the {name}? {{options}}": N for name in OCCUPATIONS}


def test_questions_are_filled_in_and_one_image_is_opened_once(bench: Bench, tmp_path: Path) -> None:
    (tmp_path / "conf" / "probe").mkdir(parents=True)
    (tmp_path / "conf" / "probe" / "work.yaml").write_text(WORDS)
    asked: list[tuple[Any, str]] = []

    def model(image: Any, question: str) -> str:
        asked.append((image, question))
        return "Well." if "teacher" in question else "Badly."

    frame = items(bench).rename(columns={"file": "image", "id": "item", "named": "field_named"}).drop(columns="other")
    given = {
        "data": frame.rename(columns={"person": "subject"}),
        "image_root": bench.pictures,
        "probes": "work",
        "cuts": "gender",
        "scorers": "valence",
        "root": bench.root,
        "progress": False,
        "overrides": [f"hydra.searchpath=[file://{tmp_path / 'conf'}]", "analysis.permutations=99", "report=none"],
    }
    run = package.evaluate(model=package.FunctionModel(model, "mine", "1"), **given)
    assert {question for _, question in asked} == {
        f"How well does the {name} in the image work?" for name in OCCUPATIONS
    }
    assert len(asked) == 2 * N
    answers = run.answers.merge(run.people[["image_id", "field_named"]], on="image_id")
    assert (answers["text"] == answers["field_named"].map({"teacher": "Well.", "pilot": "Badly."})).all()
    again = package.evaluate(model=package.FunctionModel(model, "mine", "1"), **given)
    assert len(asked) == 2 * N
    assert again.config_hash == run.config_hash


@pytest.mark.package(name="recorded")
@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"other": "teacher"}, r"item '0_0' \(row 1\) has the option 'teacher' twice"),
        ({"other": ""}, "column 'other' is empty in row 1"),
        ({"key": "nurse"}, r"item '0_0' \(row 1\) has the key 'nurse', which is no option"),
        ({"id": "same"}, "have one image and subject|two images have one id"),
    ],
)
def test_a_wrong_item_is_named_before_anything_is_asked(
    words: list[str], tmp_path: Path, bench: Bench, change: dict[str, str], error: str
) -> None:
    items(bench).assign(**change).to_csv(tmp_path / "items.csv", index=False)
    with pytest.raises(Fp2Error, match=error) as caught:
        execute(words, bench.root / "outputs" / "wrong")
    assert "\n" not in str(caught.value)


@pytest.mark.package(name="recorded")
@pytest.mark.parametrize(
    ("more", "error"),
    [
        ("~data.columns.field_other", "no field 'other'.*data.columns.field_other"),
        ("probe.fields=[named,other,third]", "no question reads the field 'third'"),
    ],
)
def test_fields_that_do_not_fit_the_battery_are_one_line(words: list[str], bench: Bench, more: str, error: str) -> None:
    if more.startswith("~"):
        words = [word.replace(", field_other: other", "") for word in words]
    with pytest.raises(Fp2Error, match=error):
        execute([*words, *([] if more.startswith("~") else [more])], bench.root / "outputs" / "wrong")


@pytest.mark.parametrize("form", ["csv", "jsonl", "parquet"])
@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"other": ""}, r"column 'other' is empty in row 5 \(item '2_0'\)"),
        ({"other": None}, r"column 'other' is empty in row 5 \(item '2_0'\)"),
        ({"file": None}, r"column 'file' is empty in row 5 \(item '2_0'\)"),
        ({"other": "teacher"}, r"item '2_0' \(row 5\) has the option 'teacher' twice"),
    ],
)
def test_a_wrong_item_is_named_with_its_row_in_every_form(
    bench: Bench, tmp_path: Path, form: str, change: dict[str, Any], error: str
) -> None:
    frame, path = items(bench), tmp_path / f"items.{form}"
    for name, value in change.items():
        frame.loc[4, name] = value
    if form == "csv":
        frame.to_csv(path, index=False)
    elif form == "jsonl":
        frame.to_json(path, orient="records", lines=True)
    else:
        frame.to_parquet(path)
    columns = {"image": "file", "item": "id", "subject": "person", "field_named": "named", "field_other": "other"}
    battery = load_battery(yaml.safe_load(CHOICE))
    with pytest.raises(Fp2Error, match=error):
        Items(battery.questions, battery.fields, load_table(path, columns, bench.pictures).people).of(4)
