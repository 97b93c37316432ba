"""First mentions and words relative to area as the Fingerprint² page counts them, against plain loops."""

from __future__ import annotations

import json
import math
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pandas as pd
import pytest
from test_attention import SCORERS, drawn

from fp2.cuts import Cut
from fp2.methods.attention.attention_ratio import AttentionRatio, AttentionRatioSection
from fp2.methods.attention.protocol import Attention, per_person
from fp2.report.values import as_cell, suppressed, tables
from fp2.scorers.registry import flag_refusals, score_answers
from fp2.tables import MIRRORED

CUTS = (Cut("pronoun", ("pronoun",)),)


def block_of(people: pd.DataFrame, scores: pd.DataFrame, published: bool = True) -> Any:
    config = SimpleNamespace(analysis=SimpleNamespace(published=published))
    run = SimpleNamespace(config=config, disparities=[{}], scores=scores, people=people, cuts=CUTS)
    return AttentionRatio().block(cast("Any", run))


def reference(people: pd.DataFrame, raw: pd.DataFrame) -> dict[str, dict[str, list[float]]]:
    """Return group -> measure -> a value per description and person, from the scores of the left person shown."""
    out: dict[str, dict[str, list[float]]] = {}
    by_image = {image: rows.to_dict("records") for image, rows in people.groupby("image_id")}
    for row in raw.to_dict("records"):
        left, right = sorted(by_image[row["image_id"]], key=lambda one: one["side"] != "left")
        shown = (right, left) if row["variant"] == MIRRORED else (left, right)
        for place, (me, other) in enumerate((shown, shown[::-1])):
            own = out.setdefault(me["attr_pronoun"][0], {"first": [], "ratio": [], "share": []})
            if row["scorer"] == "first_mention":
                own["first"].append(row["value"] if place == 0 else 1 - row["value"])
            else:
                words = json.loads(row["details"])
                mine, theirs = (words["left_words"], words["right_words"])[:: 1 if place == 0 else -1]
                area, others = (one["box_w"] * one["box_h"] for one in (me, other))
                own["ratio"].append((mine / theirs) / (area / others))
                own["share"].append((mine / (mine + theirs)) / (area / (area + others)))
    return out


def test_each_group_has_the_pages_numbers() -> None:
    people, answers = drawn(30)
    raw = score_answers(flag_refusals(answers, SCORERS), SCORERS)
    block = block_of(people, per_person(raw, people))
    expected = reference(people, raw)
    assert [row["group"] for row in block["rows"]] == sorted(expected)
    for row in block["rows"]:
        own = expected[row["group"]]
        assert row["first_mention"] == pytest.approx(np.mean(own["first"]))
        assert row["token_over_area"] == pytest.approx(np.mean(own["ratio"]))
        assert row["share_over_share"] == pytest.approx(np.mean(own["share"]))
        assert row["token_over_area_geometric"] == pytest.approx(math.exp(np.mean(np.log(own["ratio"]))))
        assert row["n_words_known"] == len(own["ratio"])
        assert row["token_over_area"] >= row["token_over_area_geometric"]
    assert block_of(people, per_person(raw, people), published=False) is None
    assert "published" in Attention.requires.takes_analysis
    sizes = {row["group"]: row["n_subjects"] for row in block["rows"]}
    (table,) = tables(suppressed(AttentionRatioSection().values(block, {}), max(sizes.values())))
    assert [as_cell(row.cells[1]).value for row in table.rows] == [max(sizes.values())] * len(table.rows)
    assert f"{len(sizes) - len(table.rows)} of small groups not shown" in table.label


def test_descriptions_that_name_no_side_have_no_numbers() -> None:
    people, answers = drawn(30)
    raw = score_answers(flag_refusals(answers.assign(text="Two people."), SCORERS), SCORERS)
    for row in block_of(people, per_person(raw, people))["rows"]:
        assert (row["n_first_known"], row["n_words_known"]) == (0, 0)
        assert {row[name] for name in ("first_mention", "token_over_area", "share_over_share")} == {None}
