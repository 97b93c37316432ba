"""The studies of `python -m benchmarks.validity` give their stored numbers, and the main claims hold.

The claims of docs/validity.md are measured on 4,000 data sets each by the benchmark. Here every study runs on three
data sets and gives what `validity_values.csv` says, so that a change of a number is noticed; the level, the coverage,
equivalence and power of a run's rows are tested on 50 to 300: a count has to lie within the central 99.9 % of a
binomial at the claim's bound.
"""

from __future__ import annotations

import csv
import json
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import binom
from stats_data import panel_of

from benchmarks.validity import studies
from benchmarks.validity.__main__ import jobs, merged, run_studies
from benchmarks.validity.measure import measure
from benchmarks.validity.rows import Row, judge
from benchmarks.validity.studies import (
    COVERAGE_WORLDS,
    EQUIVALENCE_WORLDS,
    STUDIES,
)
from benchmarks.validity.summary import summarise
from benchmarks.validity.worlds import World, draw

pytestmark = pytest.mark.long

N, CHUNK = 300, 100


def simulate(run, world, n=N, seed=7, chunk=CHUNK):
    """`n` data sets of a study in chunks, as the benchmark runs them."""
    parts = [run(world, chunk, seed + k) for k in range(n // chunk)]
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def at_most(hits, share):
    assert hits.sum() <= binom.ppf(0.9995, len(hits), share), f"{hits.sum()} of {len(hits)}"


def at_least(hits, share):
    assert hits.sum() >= binom.ppf(0.0005, len(hits), share), f"{hits.sum()} of {len(hits)}"


BESIDE = ("mixed_models", "scorer_intervals", "power", "planning")
"""Studies of other packages' numbers, and two that are tested below."""
EVERY_WORLD = ("null", "coverage", "equivalence", "minimum_effect", "matched", "matched_equivalence")
VALUES = Path(__file__).parent / "validity_values.csv"


def values_of(study):
    """The means of a study's quantities over three data sets, by world and quantity."""
    worlds = study.worlds if study.name in EVERY_WORLD else study.worlds[:1]
    return {
        (world.name, name): float(np.nanmean(values)) if np.isfinite(values).any() else np.nan
        for world in dict.fromkeys(worlds)
        for name, values in study.run(world, 3, 7).items()
    }


@pytest.mark.parametrize("study", [s for s in STUDIES if s.name not in BESIDE], ids=lambda s: s.name)
def test_a_study_gives_its_stored_numbers(study):
    with VALUES.open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["study"] == study.name]
    stored = {(row["world"], row["quantity"]): float(row["mean"]) for row in rows}
    # a tie that another processor breaks moves a share of permutations by a few
    assert values_of(study) == pytest.approx(stored, rel=1e-6, abs=0.004, nan_ok=True)


HELD = [World("normal"), World("normal", "spread")]


@pytest.mark.parametrize("world", HELD, ids=lambda w: f"{w.outcome} {w.condition}")
def test_null_data_sets_are_rejected_as_often_as_they_should(world):
    rejected = simulate(partial(studies.null, n_permutations=399), world)["p"] <= 0.05
    unequal = world.condition in ("spread", "images")
    at_most(rejected, 0.07 if unequal else 0.06)
    if not unequal and world.outcome != "rare":
        at_least(rejected, 0.04)


FAST_COVERAGE = [COVERAGE_WORLDS[number] for number in (0, 2, 13)]


@pytest.mark.parametrize("world", FAST_COVERAGE, ids=lambda w: f"{w.outcome} {w.gap:g} SD")
def test_the_interval_covers_the_gap(world):
    found = simulate(studies.coverage, world)
    covered = (found["low"] - 1e-9 <= world.true_gap) & (world.true_gap <= found["high"] + 1e-9)
    at_least(covered, 0.94 if world.gap else 0.93)
    assert ((found["p"] <= 0.05) == (found["low"] > 0)).all()
    if world.outcome not in ("normal", "yes/no"):
        return
    if world.gap == 0:
        # what the estimates make of nothing: raw is above it, excess centred on it, shrunken between
        assert abs(found["excess"].mean()) < 0.1 * found["raw"].mean()
        assert 0 < found["shrunken"].mean() < 0.6 * found["raw"].mean()
    elif world.gap == 0.8:
        unit = world.true_gap / 0.8
        assert -0.45 < (found["excess"].mean() - world.true_gap) / unit < -0.1
        assert abs(found["shrunken"].mean() - world.true_gap) < abs(found["excess"].mean() - world.true_gap)


def test_a_gap_of_mde80_is_found_in_about_eighty_percent():
    """Whichever two groups differ: here the two smallest of five."""
    found = simulate(studies.power, World("normal", where="two smallest"), CHUNK // 2, chunk=CHUNK // 2)
    assert 0.6 < (found["p_1"] <= 0.05).mean() < 0.95, "after Holm over 24 rows"
    shares = [(found[f"p_{m:g}"] <= 0.05).mean() for m in studies.MULTIPLES]
    assert shares == sorted(shares)


def test_equivalence_holds_its_level_at_the_bound():
    at_most(simulate(studies.equivalence, EQUIVALENCE_WORLDS[1])["p"] <= 0.05, 0.05)


@pytest.mark.parametrize(
    "world",
    [World("normal"), World("yes/no", "images"), World("zero-heavy", "straddling"), World("yes/no", "multi-valued")],
    ids=lambda w: f"{w.outcome} {w.condition}",
)
def test_what_is_simulated_are_the_rows_own_numbers(world):
    data = draw(world, np.random.default_rng(1), 6)
    options = {"n_permutations": 99, "seed": 3}
    found = measure(world, data, **options)
    panel = panel_of(
        data.values,
        data.groups,
        data.subjects,
        images=data.images,
        value_range=world.scale,
        yes_no=world.yes_no,
        n_bootstrap=0,
        **options,
    )
    names = {"p": "p_value", "low": "ci_low", "high": "ci_high", "exceeds_p": "minimum_effect_p"}
    for j, row in enumerate(panel.rows):
        for name, values in found.items():
            if np.isfinite(values[j]):
                assert values[j] == pytest.approx(getattr(row, names.get(name, name)), abs=1e-9), name


def test_yes_no_with_few_images_takes_the_variance_that_these_make():
    """|T| of two groups, one with a single image a subject, by hand."""
    rng = np.random.default_rng(2)
    images = np.array([4] * 15 + [1] * 12)
    rate = rng.beta(1, 2, 27)
    y = [(rng.random(k) < r).astype(float) for k, r in zip(images, rate, strict=True)]
    subject = np.repeat(np.arange(27), images)
    group = np.where(subject < 15, "a", "b")
    row = panel_of(
        np.concatenate(y), group, subject, yes_no=True, value_range=(0, 1), n_permutations=9, n_bootstrap=0, seed=0
    ).rows[0]
    means = np.array([part.mean() for part in y])
    total, centre = images.sum(), np.concatenate(y).mean()
    between = (images * (means - centre) ** 2).sum() / 26
    within = sum(k * m * (1 - m) for k, m in zip(images, means, strict=True)) / (total - 27)
    k0 = (total - (images**2).sum() / total) / 26
    icc = np.clip((between - within) / (between + (k0 - 1) * within), 0, 1)
    relative = icc + (1 - icc) / images
    relative = relative / relative.mean()
    pool = (14 * means[:15].var(ddof=1) + 11 * means[15:].var(ddof=1)) / 25
    overall, error = means.mean(), 0.0
    for part in (slice(0, 15), slice(15, 27)):
        own = means[part]
        design = min(own.var() / (own.mean() * (1 - own.mean())), 1.0)
        error += max(pool * relative[part].mean(), overall * (1 - overall) * design) / len(own)
    assert row.max_t == pytest.approx(abs(means[:15].mean() - means[15:].mean()) / np.sqrt(error))
    assert relative[20] > relative[0]


def test_a_stopped_run_goes_on_and_is_summarised(tmp_path, monkeypatch):
    short = tuple(replace(s, chunk=3, worlds=s.worlds[:1]) for s in STUDIES if s.name in ("null", "matched"))
    monkeypatch.setattr("benchmarks.validity.__main__.STUDIES", short)
    assert len(jobs(6)) == 4
    first = run_studies(tmp_path, 3, quiet=True)
    files = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.npz")}
    assert len(files) == 2
    next(iter(files)).write_bytes(b"cut short")
    again = run_studies(tmp_path, 6, quiet=True)
    assert len(list(tmp_path.rglob("*.npz"))) == 4
    for key, arrays in first.items():
        for name, values in arrays.items():
            np.testing.assert_array_equal(again[key][name][:3], values)
    rows = summarise(again)
    assert {row.n for row in rows} == {6}
    assert judge(0.065, 0.003, 0.04, 0.06) == "within error"
    assert judge(0.07, 0.003, 0.04, 0.06) == "no"


def test_studies_that_ran_again_replace_their_own_rows_only(tmp_path):
    old = [Row("level", f"old {name}", name, 0.05, 0.01, 9, "", "") for name in ("matched sets p", "p_value")]
    (tmp_path / "validity.json").write_text(json.dumps({"rows": [asdict(row) for row in old]}))
    new = Row("level", "new sets", "matched sets p", 0.04, 0.01, 99, "", "")
    assert merged([new], tmp_path) == [old[1], new]
