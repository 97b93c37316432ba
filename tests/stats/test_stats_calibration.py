"""Error rates, coverage and power by simulation: many data sets are columns of a few panels, so that it stays fast."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom
from stats_data import UNEQUAL, clustered

from fp2.stats import adjust_p_values, disparity_panel
from fp2.stats.layout import make_cells, read_entries
from fp2.stats.permutation import Permuter
from fp2.stats.prepare import prepare
from fp2.stats.studentised import moments, worst_shares
from fp2.stats.sums import group_totals

WIDE = (-50.0, 50.0)
UNIT_SIZES = (1586, 1064, 184, 86, 61, 19)


def panels(make, n_panels=6, **options):
    """Rows of `n_panels` panels; `make(rng)` gives values, groups, subjects, images."""
    rows = []
    for k in range(n_panels):
        values, groups, subjects, images = make(np.random.default_rng(100 + k))
        defaults = {"n_permutations": 399, "n_bootstrap": 0, "seed": k, "value_ranges": WIDE}
        rows += disparity_panel(values, groups, subjects, images=images, **{**defaults, **options}).rows
    return rows


def expect_level(p_values, level=0.05):
    """Rejections lie within the central 99.9 % of a binomial at `level`, widened for the draws that columns share."""
    n = len(p_values)
    low, high = binom.ppf([0.0005, 0.9995], n, level)
    rejected = sum(p <= level for p in p_values)
    assert 0.8 * low <= rejected <= 1.1 * high, f"{rejected} of {n}"


def twice_the_spread(rng):
    values, groups, subjects, images = clustered(rng, columns=100)
    return np.where((groups == "group E")[:, None], 2.0, 1.0) * values, groups, subjects, images


def missing_by_group(rng):
    values, groups, subjects, images = clustered(rng, columns=100)
    values[rng.random(values.shape) < np.where(groups == "group A", 0.5, 0.05)[:, None]] = np.nan
    return values, groups, subjects, images


def straddling(rng):
    values, groups, subjects, images = clustered(rng, sizes=(40, 30, 20), columns=100)
    moved = (subjects % 4 == 0) & (images % 3 == 2)
    following = {"group A": "group B", "group B": "group C", "group C": "group A"}
    return values, np.where(moved, [following[g] for g in groups], groups), subjects, images


def multi_valued(rng):
    values, groups, subjects, images = clustered(rng, sizes=(40, 30, 20), columns=100)
    also = subjects % 5 == 0
    second = np.where(groups[also] == "group A", "group B", "group A")
    return (
        np.r_[values, values[also]],
        np.r_[groups, second],
        np.r_[subjects, subjects[also]],
        np.r_[images, images[also]],
    )


@pytest.mark.parametrize(
    "make",
    [lambda rng: clustered(rng, columns=100), twice_the_spread, missing_by_group, straddling, multi_valued],
    ids=["clustered", "small group twice the spread", "missing by group", "straddling", "multi-valued"],
)
def test_five_percent_of_null_data_sets_are_rejected(make):
    expect_level([row.p_value for row in panels(make)])


def test_yes_no_outcomes_hold_the_level():
    def make(rng):
        group = np.repeat(np.arange(len(UNEQUAL)), UNEQUAL)
        rate = rng.beta(0.1 * 7 / 3, 0.9 * 7 / 3, (len(group), 100))
        subject = np.repeat(np.arange(len(group)), 3)
        return (
            (rng.random((len(subject), 100)) < rate[subject]).astype(float),
            group[subject],
            subject,
            np.arange(len(subject)),
        )

    expect_level([row.p_value for row in panels(make, yes_no=True, value_ranges=(0, 1))])


def test_images_as_units_would_have_rejected_far_too_often():
    """Trap 1 of statistics.md: the same data with the image as the subject."""

    def make(rng):
        values, groups, _, images = clustered(rng, images=6, columns=50)
        return values, groups, images, images

    rejected = np.mean([row.p_value <= 0.05 for row in panels(make, n_panels=3, n_permutations=199)])
    assert 0.3 < rejected < 0.55


def test_holm_holds_the_family_wise_error():
    rows = panels(lambda rng: clustered(rng, columns=180), n_permutations=799)
    families = np.array([row.p_value for row in rows]).reshape(-1, 6)
    errors = sum(min(adjust_p_values(list(family))) <= 0.05 for family in families)
    assert errors <= 1.1 * binom.ppf(0.9995, len(families), 0.05)


@pytest.mark.parametrize("gap", [0.0, 0.8])
@pytest.mark.parametrize("sizes", [(80,) * 5, UNEQUAL], ids=["equal", "unequal"])
def test_interval_covers_the_gap(gap, sizes):
    """A2 covers 93-97 % at a gap of 0 and more at 0.8 SD; SD is that of one answer."""
    rows = panels(
        lambda rng: clustered(rng, sizes=sizes, columns=75, gap=gap * 0.2),
        n_panels=4,
        n_permutations=9,
        n_bootstrap=400,
    )
    covered = np.mean([row.ci_low - 1e-12 <= gap * 0.2 <= row.ci_high for row in rows])
    assert covered >= 0.91
    if gap == 0:
        assert covered <= 0.985
    else:
        assert np.mean([row.ci_low > 0 for row in rows]) > 0.5


def test_interval_covers_when_subjects_straddle_groups():
    for gap in (0.0, 0.16):

        def make(rng, gap=gap):
            values, groups, subjects, images = straddling(rng)
            return values[:, :60] + gap * (groups == "group C")[:, None], groups, subjects, images

        rows = panels(make, n_panels=4, n_permutations=9, n_bootstrap=400)
        assert np.mean([row.ci_low - 1e-12 <= gap <= row.ci_high for row in rows]) >= 0.91


def test_a_gap_of_mde80_is_found_in_about_eighty_percent():
    sizes = (40, 40)
    known = panels(lambda rng: clustered(rng, sizes=sizes, columns=50), n_panels=2)
    gap = float(np.mean([row.mde80 for row in known]))
    rows = panels(lambda rng: clustered(rng, sizes=sizes, columns=150, gap=gap), n_panels=4)
    assert np.mean([row.p_value <= 0.05 for row in rows]) == pytest.approx(0.8, abs=0.06)


def test_equivalence_holds_its_level_at_the_bound():
    rows = panels(lambda rng: clustered(rng, sizes=(60, 60), columns=150, gap=0.1), smallest_effects=0.1)
    shown = np.mean([row.equivalence_p <= 0.05 for row in rows])
    assert shown <= 0.075


def test_the_worst_group_of_noise_is_named_again_as_often_as_expected():
    """p_worst of chance findings averages to p_worst_null: the number beside it is its chance level."""
    rows = panels(lambda rng: clustered(rng, sizes=(80, 40, 20, 12), columns=100), n_bootstrap=200)
    smallest = [row for row in rows if row.worst_group == "group D"]
    assert len(smallest) > 150
    assert np.mean([r.p_worst for r in smallest]) == pytest.approx(
        np.mean([r.p_worst_null for r in smallest]), abs=0.04
    )


def test_chance_level_of_six_unequal_groups():
    """Trap 2 of statistics.md: null mean 0.106 and 95th percentile 0.20 at SD 0.35; smallest group extreme in 69 %."""
    rng = np.random.default_rng(0)
    groups = np.repeat([f"g{k}" for k in range(6)], UNIT_SIZES)
    values = rng.normal(0, 0.35, (len(groups), 1))
    panel = disparity_panel(
        values, groups, np.arange(len(groups)), n_permutations=2_000, n_bootstrap=0, seed=1, value_ranges=WIDE
    )
    row, unit = panel.rows[0], 0.35 / values.std()
    assert row.null_mean * unit == pytest.approx(0.106, abs=0.004)
    assert row.null_p95 * unit == pytest.approx(0.20, abs=0.01)

    entries = read_entries(values, groups, np.arange(len(groups)), None)
    prepared = prepare(entries, make_cells(entries), 10)
    found = moments(
        group_totals(prepared.data, Permuter(prepared.slots, 2).draw(1_000)),
        prepared.eligible,
        np.zeros(1, dtype=bool),
        1.0,
    )
    extreme = sum(float(worst_shares(found, np.array([sign]))[5].mean()) for sign in (1.0, -1.0))
    assert extreme == pytest.approx(0.69, abs=0.03)


def test_chance_level_with_six_images_a_subject():
    """Trap 2: the same groups as images at six a subject and ICC 0.3 give 0.168."""
    sizes = tuple(round(n / 6) for n in UNIT_SIZES)
    values, groups, subjects, images = clustered(np.random.default_rng(3), sizes, images=6, sd=0.35)
    panel = disparity_panel(
        values,
        groups,
        subjects,
        images=images,
        n_permutations=4_000,
        n_bootstrap=0,
        seed=1,
        value_ranges=WIDE,
        min_subjects=3,
    )
    expected = 0.35 * np.sqrt((1 + 5 * 0.3) / 6)
    spread = np.std([values[subjects == s].mean() for s in np.unique(subjects)])
    assert panel.rows[0].null_mean * expected / spread == pytest.approx(0.168, abs=0.008)
