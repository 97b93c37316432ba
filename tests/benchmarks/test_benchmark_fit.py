"""Weights that are fitted on people's labels: from a sheet, and from the labels of `fp2 label`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from benchmarks.scorers.__main__ import GOLD
from benchmarks.scorers.fit import main
from benchmarks.scorers.measure import read_gold
from fp2.errors import Fp2Error
from fp2.scorers.economic import Economic
from fp2.scorers.valence_context import ValenceContext


@pytest.fixture(scope="module")
def labelled() -> pd.DataFrame:
    gold = read_gold(GOLD / "held6.jsonl")
    table = pd.DataFrame({"probe": gold.probes, "text": gold.texts, **gold.labels})
    return table[table["refusal"] == 0].reset_index(drop=True)


def test_a_sheet_has_answers_of_every_probe_and_no_label(tmp_path: Path) -> None:
    assert main(["--sheet", str(tmp_path / "sheet.csv"), "--n", "60"]) == 0
    sheet = pd.read_csv(tmp_path / "sheet.csv")
    assert sheet["probe"].value_counts().to_dict() == dict.fromkeys(sheet["probe"], 10)
    assert sheet["label"].isna().all()


def test_a_scorer_uses_the_weights_of_a_labelled_sheet(labelled: pd.DataFrame, tmp_path: Path) -> None:
    sheet = tmp_path / "sheet.csv"
    for label, scorer in (("valence", ValenceContext), ("economic", Economic)):
        weights = tmp_path / f"{label}.yaml"
        labelled.assign(label=labelled[label]).to_csv(sheet, index=False)
        assert main(["--answers", str(sheet), "--label", label, "--to", str(weights)]) == 0
        mine = scorer(lexicon_file=str(weights))
        values = mine.score(labelled["text"].tolist(), labelled["probe"].tolist()).values
        assert np.mean(mine.label_scale.read(values) == labelled[label].to_numpy()) > 0.4
        assert mine.lexicon["sha256"] != scorer().lexicon["sha256"]


def test_labels_on_which_labellers_agree_are_joined_with_the_answers(labelled: pd.DataFrame, tmp_path: Path) -> None:
    answers = labelled.assign(image=labelled.index, subject="s", question=labelled["probe"])
    answers.to_csv(tmp_path / "answers.csv", index=False)
    given = answers[["image", "subject", "question"]].assign(label=labelled["valence"])
    other = given.assign(label=given["label"].where(given.index > 5, 1.0))
    pd.concat([given, other]).to_csv(tmp_path / "labels.csv", index=False)
    files = ["--answers", str(tmp_path / "answers.csv"), "--labels", str(tmp_path / "labels.csv")]
    assert main([*files, "--label", "valence", "--to", str(tmp_path / "mine.yaml")]) == 0
    agreed = int((given["label"] == other["label"]).sum())
    assert f"fitted on {agreed} labelled answers" in (tmp_path / "mine.yaml").read_text(encoding="utf-8")


def test_labels_of_another_scale_are_refused(labelled: pd.DataFrame, tmp_path: Path) -> None:
    labelled.assign(label=7).to_csv(tmp_path / "sheet.csv", index=False)
    with pytest.raises(Fp2Error, match="labels of valence are"):
        main(["--answers", str(tmp_path / "sheet.csv"), "--label", "valence", "--to", str(tmp_path / "mine.yaml")])
