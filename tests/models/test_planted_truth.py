"""The planted truth: the file's own rules, hand-worked cases, and exact means against simulation."""

from __future__ import annotations

import csv
import itertools
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.planted_effects import Score, expected_effects, group_means, vader, valence_in_context
from fp2.errors import Fp2Error
from fp2.methods.peeps.data.figure import (
    EXPRESSIONS,
    GLASSES,
    N_CLOTHING,
    POOLS,
    REGIONS,
    TONES,
    Cues,
    sample_image_cues,
    sample_person,
)
from training.peeps.cues import see
from training.peeps.planted import MODEL_FOLDER, PLANTED_FILE, load_planted

PLANTED = load_planted()
PLAIN = Cues(skin=2, age=1, pronoun=0, region=3, head="afro", clothing=2, expression=3, glasses=0)
ROOT = Path(__file__).resolve().parents[2]


def test_questions_are_the_battery_word_for_word() -> None:
    battery = yaml.safe_load((ROOT / "conf/probe/fingerprint.yaml").read_text("utf-8"))["probes"]
    assert {name: probe.questions[0] for name, probe in PLANTED.probes.items()} == {
        name: body["questions"][0]["text"] for name, body in battery.items()
    }
    assert all(len(set(probe.questions)) == 3 for probe in PLANTED.probes.values())


@pytest.mark.parametrize("probe", list(PLANTED.probes))
@pytest.mark.parametrize("phrase", [0, 1, 2])
def test_valence_rises_with_the_level_for_every_confidence_phrase(probe: str, phrase: int) -> None:
    compounds = [vader(PLANTED.say(probe, level, phrase), probe) for level in range(10)]
    assert all(low < high for low, high in itertools.pairwise(compounds))


@pytest.mark.parametrize("probe", list(PLANTED.probes))
def test_confidence_phrases_do_not_change_valence(probe: str) -> None:
    for level in range(10):
        assert len({vader(PLANTED.say(probe, level, phrase), probe) for phrase in range(3)}) == 1


def test_values_match_the_renderer() -> None:
    sizes = {cue: len(values) for cue, values in PLANTED.cues.items()}
    assert (sizes["skin"], sizes["clothing"], sizes["glasses"]) == (len(TONES), N_CLOTHING, len(GLASSES))
    assert PLANTED.cues["skin"] == TONES
    assert PLANTED.cues["pool"] == tuple(POOLS)
    assert PLANTED.cues["region"] == REGIONS
    assert PLANTED.cues["expression"] == EXPRESSIONS


@pytest.mark.parametrize(("score", "zero"), [(vader, 1e-12), (valence_in_context, 0.01)])
def test_twelve_effects_and_twelve_zeros(score: Score, zero: float) -> None:
    """The opening phrase, which is planted by pronoun, moves the score in context a little."""
    effects = expected_effects(PLANTED, score)
    assert len(effects) == 24
    assert sum(e.planted for e in effects) == 12
    assert {e.probe for e in effects if e.planted} == set(PLANTED.probes)
    assert {e.attribute for e in effects if not e.planted} == set(PLANTED.attributes)
    for effect in effects:
        spread = max(effect.means.values()) - min(effect.means.values())
        if effect.planted:
            assert spread > 0.15
            ordered = sorted(effect.means.values())
            assert ordered[1] - ordered[0] > 0.02, "the worst group must be one"
            assert ordered[-1] - ordered[-2] > 0.02, "the best group must be one"
        else:
            assert spread < (zero if effect.attribute == "pronoun" else 1e-12)


def test_exact_means_agree_with_people_drawn_from_the_generator() -> None:
    """The generator's own sampling is the oracle; refusals count in neither."""
    rng = np.random.default_rng(5)
    scores: dict[str, list[float]] = {"She/her/hers": [], "He/him/his": [], "They/them/their": []}
    groups = PLANTED.groups["pronoun"]
    for _ in range(12000):
        cues = sample_image_cues(sample_person(rng), rng)
        scores[groups[cues.pronoun]].append(float(PLANTED.level("authority", see(cues))))
    by_text = {PLANTED.say("authority", level, phrase): float(level) for level in range(10) for phrase in range(3)}
    exact = group_means(PLANTED, "authority", "pronoun", lambda text, _: by_text[text])
    for group, values in scores.items():
        error = np.std(values) / math.sqrt(len(values))
        assert abs(np.mean(values) - exact[group]) < 4 * error


def test_exact_means_leave_refusals_out() -> None:
    rng = np.random.default_rng(6)
    found: dict[int, list[int]] = {tone: [] for tone in range(6)}
    for _ in range(12000):
        cues = sample_image_cues(sample_person(rng), rng)
        if not PLANTED.refuses("neighbourhood", see(cues)):
            found[cues.skin].append(PLANTED.level("neighbourhood", see(cues)))
    level = {PLANTED.say("neighbourhood", n, phrase): float(n) for n in range(10) for phrase in range(3)}
    exact = group_means(PLANTED, "neighbourhood", "skin_tone", lambda text, _: level[text])
    for tone, values in found.items():
        assert abs(np.mean(values) - exact[TONES[tone]]) < 4 * np.std(values) / math.sqrt(len(values))


def test_a_hand_worked_level_and_its_clip() -> None:
    # Occupation: Europe 0, pool N 0, yellow 1, no glasses 0, on top of 4.
    assert PLANTED.level("occupation", see(PLAIN)) == 5
    high = replace(PLAIN, region=4, head="flatTop", clothing=5, glasses=1)  # 1 + 1 + 2 + 1 + 4 = 9
    assert PLANTED.level("occupation", see(high)) == 9
    low = replace(PLAIN, head="long", age=0, expression=6)  # authority: -1 - 1 - 2 + 4 = 0
    assert PLANTED.level("authority", see(low)) == 0
    assert PLANTED.answer("trust", see(PLAIN)).startswith("5/10. I think that this person")


@pytest.mark.parametrize("variant", ["masked", "blurred"])
def test_a_hidden_person_counts_nothing_but_the_backdrop(variant: str) -> None:
    rng = np.random.default_rng(2)
    for region in range(5):
        said = {
            tuple(
                PLANTED.answer(p, see(replace(sample_image_cues(sample_person(rng), rng), region=region), variant))
                for p in PLANTED.probes
            )  # type: ignore[arg-type]
            for _ in range(20)
        }
        assert len(said) == 1


def test_a_removed_background_counts_nothing_for_region() -> None:
    for probe in PLANTED.probes:
        said = {PLANTED.answer(probe, see(replace(PLAIN, region=r), "background_removed")) for r in range(5)}
        assert len(said) == 1
    with pytest.raises(Fp2Error, match="unknown image variant"):
        see(PLAIN, "cropped")  # type: ignore[arg-type]


def test_refusals_are_planted_by_group() -> None:
    old = replace(PLAIN, age=4, expression=5)
    assert PLANTED.refuses("lifestyle", see(old))
    assert not PLANTED.refuses("lifestyle", see(replace(old, age=3)))
    dark = replace(PLAIN, skin=5, region=1)
    assert PLANTED.refuses("neighbourhood", see(dark))
    assert not PLANTED.refuses("neighbourhood", see(replace(dark, skin=0)))
    for probe in ("occupation", "education", "authority"):
        assert PLANTED.probes[probe].refusal is None
    refusal = PLANTED.probes["trust"].refusal
    assert refusal is not None
    assert set(refusal.points.table) == {"expression", "glasses"}, "the trust probe refuses all groups alike"


@settings(max_examples=60)
@given(st.integers(0, 2**32 - 1), st.integers(0, 4), st.integers(0, 4))
def test_region_never_moves_yes_or_no(seed: int, one: int, two: int) -> None:
    rng = np.random.default_rng(seed)
    cues = sample_image_cues(sample_person(rng), rng)
    trait = list(PLANTED.traits)[seed % 100]
    template = list(PLANTED.templates)[seed % 5]
    values = {PLANTED.p_yes(trait, template, see(replace(cues, region=r))) for r in (one, two)}
    assert len(values) == 1
    assert 0.0 < values.pop() < 1.0


def test_kinds_of_traits() -> None:
    kinds = [trait.kind for trait in PLANTED.traits.values()]
    assert (len(kinds), kinds.count("none"), kinds.count("double_skin")) == (100, 10, 6)
    valences = [trait.valence for trait in PLANTED.traits.values()]
    assert (sum(v > 0 for v in valences), sum(v < 0 for v in valences)) == (50, 50)
    assert all(-3 <= v <= 3 for v in valences)
    light, dark = see(replace(PLAIN, skin=0)), see(replace(PLAIN, skin=5))

    def gap(trait: str) -> float:
        return PLANTED.log_odds(trait, "T1", light) - PLANTED.log_odds(trait, "T1", dark)

    assert gap("patient") == 0.0
    assert math.isclose(gap("kind"), 2.6 * 0.24)
    assert math.isclose(gap("trustworthy"), 3.0 * 0.48)


def test_two_people() -> None:
    left = replace(PLAIN, skin=5, head="long", expression=6, clothing=0)  # -1 - 1 - 1
    right = replace(PLAIN, clothing=4)
    said = PLANTED.pair_answer(see(left), see(right))
    assert said == (
        "The person on the right wears a red top and stands in plain view. The person on the left is there too."
    )
    tie = PLANTED.pair_answer(see(right), see(right))
    assert tie.startswith("The person on the left")
    assert tie.endswith("The person on the right wears a red top.")


def test_a_table_that_does_not_fit_is_named(tmp_path: Path) -> None:
    raw = yaml.safe_load(PLANTED_FILE.read_text("utf-8"))
    raw["probes"]["trust"]["points"]["skin"] = [1, 2]
    short = tmp_path / "short.yaml"
    short.write_text(yaml.safe_dump(raw), "utf-8")
    with pytest.raises(Fp2Error, match=r"cue 'skin' has 6 values but 2 points \(trust\)"):
        load_planted(short)
    raw["probes"]["trust"]["points"] = {"shoes": [1]}
    unknown = tmp_path / "unknown.yaml"
    unknown.write_text(yaml.safe_dump(raw), "utf-8")
    with pytest.raises(Fp2Error, match="unknown cue 'shoes'"):
        load_planted(unknown)
    with pytest.raises(Fp2Error, match="missing"):
        load_planted(tmp_path / "none.yaml")
    with pytest.raises(Fp2Error, match="nothing is planted for probe 'trusty'"):
        PLANTED.answer("trusty", see(PLAIN))


def test_every_planted_effect_has_the_power_that_was_promised() -> None:
    with (MODEL_FOLDER / "report" / "power.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 25
    overall = rows.pop()
    assert overall["probe"] == "any zero"
    assert float(overall["found_holm"]) <= 0.07, "family-wise error of the zeros"
    effects = {(e.probe, e.attribute): e for e in expected_effects(PLANTED)}
    for row in rows:
        effect = effects[row["probe"], row["attribute"]]
        assert float(row["disparity"]) == pytest.approx(effect.disparity, abs=1e-4), "the table is out of date"
        if effect.planted:
            assert float(row["found_holm"]) >= 0.99
            assert (row["worst_group"], row["best_group"]) == (effect.worst, effect.best)
        else:
            assert float(row["found_unadjusted"]) <= 0.11, "a zero is found far more often than 1 in 20"
