"""A whole run about images of two people: drawn pairs, the bundled model, mirrored copies, results and report."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pandas as pd
import pytest
from bench import execute

from fp2.errors import Fp2Error
from fp2.tables import MIRRORED, ORIGINAL

SMALL = ["data.n_subjects=24", "data.n_pairs=14", "analysis=quick", "tracking=none", "analysis.min_subjects=2"]


def test_every_image_of_two_is_asked_about_twice_and_reported(own_root: Path) -> None:
    root = own_root
    results = execute(["experiment=attention", *SMALL], root / "first").results
    assert results["n_images"] == 14
    assert results["answers"]["planned"] == results["answers"]["answered"] == 28
    assert {row["scorer"] for row in results["disparities"]} == {"first_mention", "word_share"}
    assert results["analysis"]["primary"] == "first_mention"
    assert results["composites"]["pronoun"]["value"] is not None
    block = results["attention"]
    assert (block["n_pictures"], block["n_descriptions"]) == (14, 28)
    assert block["first_known"] >= 26
    folder = root / "first"
    page = (folder / "dashboard.html").read_text()
    assert "Attention to two people" in page
    assert "Balance of the groups" in page
    answers = pd.read_parquet(folder / "responses.parquet")
    assert answers["variant"].value_counts().to_dict() == {ORIGINAL: 14, MIRRORED: 14}
    scores = pd.read_parquet(folder / "scores.parquet")
    both = scores[scores["scorer"] == "first_mention"].groupby(["image_id", "variant"])["value"].sum()
    assert (both[both > 0] == 1).all()  # what one is first by, the other is not
    _both_people_are_its_origin(root, answers)
    again = execute(["experiment=attention", *SMALL], root / "second").results
    assert again["answers"]["model_calls"] == 0
    assert json.dumps(again["attention"]) == json.dumps(block)


def _both_people_are_its_origin(root: Path, answers: pd.DataFrame) -> None:
    """Whoever is in an image, its answers can be found and removed: the mirrored ones too."""
    with closing(sqlite3.connect(root / ".fp2" / "responses.sqlite")) as connection:
        people = connection.execute("SELECT COUNT(DISTINCT subject) FROM pictures GROUP BY image").fetchall()
        keys = connection.execute("SELECT COUNT(DISTINCT key) FROM origins").fetchone()
    assert people == [(2,)] * 14
    assert keys == (answers["response_key"].nunique(),)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["scorer=valence"], "'valence' is for images of one person.*Choose from: first_mention, word_share$"),
        (["variant=blind"], "images of two people are shown unchanged and mirrored"),
        (["model=planted"], "a simulator has no images of two people"),
    ],
)
def test_what_two_people_cannot_be_asked(words: list[str], said: str, own_root: Path) -> None:
    with pytest.raises(Fp2Error, match=said):
        execute(["experiment=attention", *SMALL, *words], own_root / "x")


def test_attention_needs_two_people(own_root: Path) -> None:
    with pytest.raises(Fp2Error, match=r"'attention' is for images of two people.*Choose from: .*fingerprint"):
        execute(["probe.protocol=attention", *SMALL], own_root / "x")
    with pytest.raises(Fp2Error, match=r"'gras' is for images of one person.*Choose from: attention"):
        execute(["experiment=attention", "probe.protocol=gras", *SMALL], own_root / "x")
    with pytest.raises(Fp2Error, match="'first_mention' is for images of two people"):
        execute(["scorer=attention", *SMALL], own_root / "x")
    with pytest.raises(Fp2Error, match="no two-person image"):
        execute(["experiment=attention", *SMALL, "data.n_pairs=0"], own_root / "x")
