"""Files of labels: ids and salted keys on either side, and one label an answer."""

from __future__ import annotations

import csv
from pathlib import Path

import pandas as pd
import pytest

from fp2.errors import Fp2Error
from fp2.methods.labels.sample import Sheet
from fp2.methods.labels.table import KEY, RESOLVER, agreed, read_labels
from fp2.scorers.labels import LabelScale
from fp2.scorers.registry import build_scorer
from fp2.store.salted_keys import keyed_frame

SALT = b"s" * 32
SCORERS = {"valence": build_scorer("valence", {"target": "fp2.scorers.valence:Valence"})}
ANSWERS = pd.DataFrame(
    {
        "image_id": ["i1", "i2", "i3", "i3"], "subject_id": ["p1", "p1", "p2", "p3"], "question_id": ["q"] * 4,
        "probe": ["trust"] * 4, "status": ["answered"] * 4,
    }
)  # fmt: skip
KEYED = keyed_frame(ANSWERS, SALT)


def written(folder: Path, answers: pd.DataFrame, **columns: object) -> str:
    rows = answers.rename(columns={"image_id": "image", "subject_id": "subject", "question_id": "question"})
    path = folder / "labels.csv"
    rows[["image", "subject", "question"]].assign(**{"label": [1, 0, "", -1], **columns}).to_csv(path, index=False)
    return str(path)


@pytest.mark.parametrize("given", [ANSWERS, KEYED])
@pytest.mark.parametrize("own", [ANSWERS, KEYED])
def test_labels_find_their_answers_by_ids_and_by_salted_keys(
    tmp_path: Path, given: pd.DataFrame, own: pd.DataFrame
) -> None:
    found = read_labels(written(tmp_path, given), own.sample(frac=1, random_state=1), SALT, SCORERS, "valence")
    wanted = own.loc[[0, 1, 3], KEY].assign(label=[1.0, 0.0, -1.0])  # the third was skipped
    both = found.merge(wanted, on=[*KEY, "label"])
    assert len(found) == len(both) == 3
    assert set(found["probability"]) == {1.0}


def test_an_answer_that_was_not_answered_has_no_label_and_none_is_an_error(tmp_path: Path) -> None:
    failed = ANSWERS.assign(status="error")
    with pytest.raises(Fp2Error, match="no label belongs to an answer"):
        read_labels(written(tmp_path, ANSWERS), failed, SALT, SCORERS, "valence")
    twice = written(tmp_path, ANSWERS.loc[[0, 0, 1, 3]])
    with pytest.raises(Fp2Error, match="two labels by one labeller"):
        read_labels(twice, ANSWERS, SALT, SCORERS, "valence")
    with pytest.raises(Fp2Error, match="is not a number"):
        read_labels(written(tmp_path, ANSWERS, label="good"), ANSWERS, SALT, SCORERS, "valence")


def test_names_that_look_like_formulas_are_quoted_in_every_file_of_labels(tmp_path: Path) -> None:
    answers = ANSWERS.assign(question_id="=1+1")
    keys = [tuple(row) for row in answers[KEY].to_numpy()]
    rows = [{"image": i, "subject": s, "question": q, "probability": "0.5"} for i, s, q in keys]
    sheet = Sheet(
        tmp_path,
        LabelScale("valence", "is it kind?", {-1: "no", 1: "yes"}),
        rows,
        dict.fromkeys(keys, ("", "")),
        {"scorer": "valence"},
        tmp_path,
    )
    for answer in keys:
        sheet.append("-a", answer, -1)
    assert sheet.given("-a") == dict.fromkeys(keys, -1)
    merged = sheet.merge()
    for path in tmp_path.glob("*.csv"):
        with path.open(encoding="utf-8", newline="") as file:
            cells = [(name, cell) for row in csv.DictReader(file) for name, cell in row.items()]
        assert {name for name, cell in cells if cell[0] in "=+-@"} == {"label"}, "a number below 0 is no formula"
    assert read_labels(str(merged), answers, SALT, SCORERS, "valence")["labeller"].tolist() == ["-a"] * 4


def test_the_resolver_decides_and_else_the_mean_counts() -> None:
    rows = [("i1", "a", 1.0), ("i1", "b", -1.0), ("i2", "a", 1.0), ("i2", "b", 0.0), ("i2", RESOLVER, 0.0)]
    table = pd.DataFrame(rows, columns=["image_id", "labeller", "label"])
    table = table.assign(subject_id="p", question_id="q", probability=0.5)
    found = agreed(table)
    assert found["label"].tolist() == [0.0, 0.0]
    assert found["differ"].tolist() == [True, False]
