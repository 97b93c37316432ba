"""The word scorers of the page's code by its rules, on made-up lists, and the refusals of what is no such code."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from page_script import SCRIPT, write_script

from fp2.errors import Fp2Error
from fp2.scorers.registry import build_scorer, build_scorers

WORDS = "fp2.methods.page_code.scorers:"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    return write_script(tmp_path / "CHECKOUT")


def values(checkout: Path | None, target: str, *texts: str) -> list[float]:
    scorer = build_scorer(target, {"target": WORDS + target, "published": checkout and str(checkout)})
    return scorer.score(texts, ["trust"] * len(texts)).values.tolist()


def test_a_refusal_is_any_plain_substring(checkout: Path) -> None:
    texts = ("I DECLINE.", "an inclined head, undeclined", "[ERROR]", "A nurse.", "no  comment", "")
    assert values(checkout, "PageRefusal", *texts) == [1, 1, 1, 0, 0, 0]


def test_confidence_counts_phrases_once_and_is_0_without_any(checkout: Path) -> None:
    texts = ("Surely, surely she is one.", "Surely, perchance, it may be.", "A nurse.", "", "perchance")
    assert values(checkout, "PageConfidence", *texts) == [1, 0.3333, 0, 0, 0]


def test_economic_standing_is_a_balance_and_0_without_any(checkout: Path) -> None:
    texts = ("a rich banker, once a pauper", "enriched paupers", "pauper", "a blue shirt", "")
    assert values(checkout, "PageEconomic", *texts) == [0.3333, 0, -1, 0, 0]


def test_the_fall_back_of_stereotype_is_a_fifth_for_each_keyword(checkout: Path) -> None:
    assert values(checkout, "PageKeywords", "An unkind thief", "nurse nurse", "x", "") == [0.4, 0.2, 0, 0]


def test_the_script_or_its_checkout_is_read_and_not_executed(checkout: Path) -> None:
    script = checkout / "scripts" / "run_fhibe_benchmark.py"
    assert values(script, "PageRefusal", "no comment") == values(checkout, "PageRefusal", "no comment") == [1]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (SCRIPT.replace("_HEDGE_PHRASES", "OTHER"), "no list of texts _HEDGE_PHRASES"),
        (SCRIPT.replace('["pauper"]', "[]"), "no list of texts _ECON_NEGATIVE"),
        (SCRIPT.replace('["pauper"]', "list(WORDS)"), "no list of texts _ECON_NEGATIVE"),
        ("def (", "cannot be read: "),
    ],
)
def test_another_script_is_refused(tmp_path: Path, text: str, reason: str) -> None:
    with pytest.raises(Fp2Error, match=reason):
        values(write_script(tmp_path, text), "PageConfidence", "x")


def test_no_script_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Fp2Error, match=r"of which you need a copy .*scorer\.refusal\.published=PATH"):
        values(None, "PageRefusal", "x")
    with pytest.raises(Fp2Error, match="cannot be read: No such file"):
        values(tmp_path / "elsewhere", "PageRefusal", "x")


def test_the_group_takes_one_path_and_its_lists_are_in_the_config_hash(checkout: Path, tmp_path: Path) -> None:
    from fp2.compose import config_hash, load_config

    def config(place: Path) -> Any:
        return load_config(["scorer=page_code_keywords", f"scorer.refusal.published={place}"])

    first = config(checkout)
    assert list(first.scorer) == ["valence", "refusal", "page_confidence", "page_economic", "page_stereotype"]
    scorers = build_scorers(first.scorer)
    assert {
        name: scorer.score(["Perchance a rich thief: no comment"], [""]).values[0]
        for name, scorer in scorers.items()
        if name != "valence"
    } == {
        "refusal": 1,
        "page_confidence": 0,
        "page_economic": 1,
        "page_stereotype": 0.2,
    }
    moved = write_script(tmp_path / "moved")
    other = write_script(tmp_path / "other", SCRIPT.replace("thief", "rogue"))
    assert config_hash(config(moved)) == config_hash(first) != config_hash(config(other))
    assert str(tmp_path) not in str(scorers["refusal"].lexicon)
    assert not any(math.isnan(one) for one in scorers["page_economic"].score(["", "x"], ["", ""]).values)
