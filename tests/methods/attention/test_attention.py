"""Attention to two people: the planted order of the drawn pairs comes out, and what cannot be known is missing."""

import re
from dataclasses import replace
from functools import lru_cache

import numpy as np
import pandas as pd
import pytest

from fp2.ask.answers import RowAnswers
from fp2.cuts import Cut
from fp2.data.base import people_table
from fp2.data.sampling import one_row_each, two_person
from fp2.methods.attention.protocol import POSITION, attention_block, comparisons, per_person
from fp2.methods.attention.scorers import FirstMention, WordShare
from fp2.methods.peeps.data.annotate import labels
from fp2.methods.peeps.data.cast import plan_people
from fp2.methods.peeps.data.figure import AGES, TONES
from fp2.methods.peeps.data.spec import PeepsSpec
from fp2.protocols.fingerprint.disparities import fingerprint
from fp2.protocols.fingerprint.settings import ComparisonSettings
from fp2.scorers.registry import score_answers
from fp2.tables import MIRRORED, ORIGINAL
from training.peeps.cues import see
from training.peeps.planted import load_planted

CUTS = tuple(Cut(name, (name,)) for name in ("pronoun", "skin_tone", "age"))
SCORERS = {
    "first_mention": FirstMention("first_mention", True, (0.0, 1.0), 0.05),
    "word_share": WordShare("word_share", True, (0.0, 1.0), 0.025),
}
COMPARISON = ComparisonSettings(
    correction="holm", family="scorer", primary="first_mention", n_permutations=999, n_bootstrap=100, seed=1
)
BOUNDS = {"low": 0.02, "moderate": 0.1, "high": 0.25}


@lru_cache(maxsize=4)
def drawn(n_pairs: int, seed: int = 5, n_subjects: int = 400) -> tuple[pd.DataFrame, pd.DataFrame]:
    """People in drawn pairs (never drawn here), and what a model that keeps to the planted truth says of them."""
    planted = load_planted()
    spec = PeepsSpec(seed=seed, n_subjects=n_subjects, images_per_subject=1, n_pairs=n_pairs)
    pictures = [picture for picture in plan_people(spec) if len(picture.people) == 2]
    rng = np.random.default_rng(seed)
    rows, answers = [], []
    for picture in pictures:
        left, right = sorted(picture.people, key=lambda person: person.right)
        for place, person in enumerate((left, right)):
            found = labels(person)
            rows.append(
                {
                    "image_id": picture.image_id,
                    "subject_id": person.subject_id,
                    "image_path": f"/{picture.image_id}.png",
                    "is_primary": person.is_primary,
                    "n_people": 2,
                    "box_x": 10.0 + 190 * place,
                    "box_y": 0.0,
                    "box_w": float(rng.uniform(120, 160)),
                    "box_h": float(rng.uniform(250, 350)),
                    "attr_pronoun": [found["pronoun"][0]],
                    "attr_skin_tone": [TONES[person.cues.skin]],
                    "attr_age": [AGES[person.cues.age]],
                }
            )
        seen = [see(person.cues) for person in (left, right)]
        answers.append(answer(picture.image_id, left, ORIGINAL, planted.pair_answer(*seen)))
        answers.append(answer(picture.image_id, left, MIRRORED, planted.pair_answer(*reversed(seen))))
    columns = {name: [row[name] for row in rows] for name in rows[0]}
    people, notes = two_person(people_table(columns))
    assert notes == ()
    return people, pd.DataFrame(answers)


def answer(image_id, person, variant, text):
    return {
        "response_key": f"{image_id}{variant}",
        "image_id": image_id,
        "subject_id": person.subject_id,
        "variant": variant,
        "question_id": "q",
        "probe": "attention",
        "text": text,
        "status": "answered",
        "error": None,
        "refused": False,
    }


def scored(people, answers):
    return per_person(score_answers(answers, SCORERS), people)


def test_the_planted_order_comes_out_and_nothing_else():
    people, answers = drawn(400)
    block = attention_block(scored(people, answers), people, CUTS, COMPARISON)
    assert block["n_pictures"] == 400
    assert block["first_known"] == block["both_named"] == 800
    for regression in block["regressions"]:
        tests = {test["attribute"]: test["significant"] for test in regression["attributes"]}
        assert tests == {"pronoun": True, "skin_tone": True, "age": False}
        terms = {(term["attribute"], term["term"]): term for term in regression["terms"]}
        low, high = (terms["skin_tone", tone] for tone in ("I", "VI"))
        assert low["ci_low"] > 0 > high["ci_high"]  # against a tone in the middle
        area = terms[None, "area (log ratio)"]
        assert area["ci_low"] < 0 < area["ci_high"]
        assert terms[None, POSITION]["ci_low"] > 0  # the person on the left comes first where the points are equal


def test_the_shares_of_being_first_are_the_truths_own():
    """Means of `first_mention` counted by hand: first, second, or (points equal) left in both copies: a half."""
    people, answers = drawn(400)
    planted = load_planted()
    spec = PeepsSpec(seed=5, n_subjects=400, images_per_subject=1, n_pairs=400)
    counted: dict[str, list[float]] = {}
    for picture in plan_people(spec):
        if len(picture.people) == 2:
            left, right = sorted(picture.people, key=lambda person: person.right)
            gap = planted.pair_gap(see(left.cues), see(right.cues))
            for person, sign in ((left, 1), (right, -1)):
                counted.setdefault(person.subject_id, []).append(0.5 + 0.5 * np.sign(sign * gap))
    scores = scored(people, answers)
    mine = scores[scores["scorer"] == "first_mention"].groupby("subject_id")["value"].mean()
    assert mine.to_dict() == pytest.approx({subject: np.mean(values) for subject, values in counted.items()})
    found = fingerprint(scores, people, CUTS, SCORERS, COMPARISON, BOUNDS)
    verdicts = {(row["scorer"], row["cut"]): row["significant"] for row in found.disparities}
    assert verdicts["first_mention", "skin_tone"]
    assert verdicts["word_share", "skin_tone"]
    assert not verdicts["first_mention", "age"]


def test_a_mirrored_answer_speaks_of_the_other_person():
    people, _ = drawn(20)
    one = people.iloc[:2]
    said = "The person on the left wears a hat. The person on the right."
    left, right = (one.set_index("side").loc[side, "subject_id"] for side in ("left", "right"))
    person = type("P", (), {"subject_id": left})
    rows = [answer(one["image_id"].iloc[0], person, variant, said) for variant in (ORIGINAL, MIRRORED)]
    scores = scored(one, pd.DataFrame(rows))
    first = scores[scores["scorer"] == "first_mention"].set_index(["variant", "subject_id"])["value"]
    assert first.to_dict() == {
        (ORIGINAL, left): 1,
        (ORIGINAL, right): 0,
        (MIRRORED, left): 0,
        (MIRRORED, right): 1,
    }
    table = comparisons(scores, one).set_index("variant")
    assert table["words"].to_dict() == pytest.approx({ORIGINAL: np.log(8 / 5), MIRRORED: -np.log(8 / 5)})
    assert table["first"].to_dict() == {ORIGINAL: 1, MIRRORED: 0}
    assert table["position"].to_dict() == {ORIGINAL: 0.5, MIRRORED: -0.5}
    sizes = (one["box_w"] * one["box_h"]).groupby(one["side"]).sum()
    assert table["area"].tolist() == pytest.approx([np.log(sizes["left"] / sizes["right"])] * 2)


def test_one_answer_counts_for_both_people_and_refusals_for_none():
    people, answers = drawn(60)
    answers = answers.assign(refused=answers["image_id"] == answers["image_id"].iloc[0])
    scores = scored(people, answers)
    assert len(scores) == 2 * 2 * len(answers)
    block = attention_block(scores, people, CUTS[:1], COMPARISON)
    assert block["first_known"] == len(answers) - 2
    by_group = RowAnswers(answers).counts_by_group(people, CUTS[:1])
    assert sum(row["planned"] for row in by_group) == 2 * len(answers)
    assert sum(row["refused"] for row in by_group) == 4


def test_what_cannot_be_known_is_said():
    people, answers = drawn(20)
    block = attention_block(scored(people, answers), people, CUTS, replace(COMPARISON, min_subjects=2))
    assert {regression["reason"] for regression in block["regressions"]} == {"too few images for the terms"}
    silent = answers.assign(text="Two people who smile.")
    block = attention_block(scored(people, silent), people, CUTS, COMPARISON)
    assert (block["first_known"], block["left_first"], block["same_person_first_when_mirrored"]) == (0, None, None)
    people, answers = drawn(60)
    same = people.assign(attr_pronoun=[["x"]] * len(people))
    regression = attention_block(scored(same, answers), same, CUTS[:1], COMPARISON)["regressions"][0]
    assert regression["dropped"] == ["pronoun: it does not differ within any image"]
    assert [term["term"] for term in regression["terms"]] == [POSITION, "area (log ratio)"]


def test_sides_need_two_boxes_that_lie_apart():
    people, _ = drawn(20)
    images = list(dict.fromkeys(people["image_id"]))
    broken = people.drop(columns="side")
    broken.loc[broken["image_id"] == images[0], "box_x"] = 50.0
    broken.loc[broken["image_id"] == images[0], "box_w"] = 100.0
    broken.loc[(broken["image_id"] == images[1]) & broken["is_primary"], "box_w"] = np.nan
    broken.loc[broken["image_id"] == images[2], "n_people"] = 1
    broken = broken.drop(index=broken.index[broken["image_id"] == images[3]][0])
    pairs, notes = two_person(broken)
    assert set(pairs["image_id"]) == set(images[4:])
    assert pairs.groupby("image_id")["side"].agg(sorted).tolist() == [["left", "right"]] * 16
    assert [re.search(r": (\d+)", note).group(1) for note in notes] == ["1", "1", "2"]
    rows = one_row_each(pairs)
    assert rows["image_id"].is_unique
    assert rows["is_primary"].all()
