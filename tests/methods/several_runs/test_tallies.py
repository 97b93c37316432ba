"""How often groups are worst and best over many outcomes: the counts, what chance gives, and error rates."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from stats_data import panel_of

from fp2.methods.several_runs.tallies import Tally, tally_extremes

GROUPS = np.array(list("AAAABBBCCD"))


def crowd(rng: np.random.Generator, n: int = 120, outcomes: int = 12, shared: float = 0.9) -> tuple[np.ndarray, ...]:
    """Scores of subjects in groups of unequal size, correlated over outcomes as those of models on the same images."""
    groups = rng.choice(GROUPS, n)
    own = rng.normal(0, 1, (n, 1))
    values = 0.2 * (np.sqrt(shared) * own + np.sqrt(1 - shared) * rng.normal(0, 1, (n, outcomes)))
    return values, groups, np.arange(n)


def tally(values: np.ndarray, groups: np.ndarray, subjects: np.ndarray, n: int = 99, **more: object) -> Tally:
    m = values.shape[1]
    options = {"higher_is_better": [True] * m, "yes_no": [False] * m, "min_subjects": 5} | more
    found = tally_extremes(values, groups, subjects, n_permutations=n, seed=3, **options)  # type: ignore[arg-type]
    assert found is not None
    return found


def test_the_counts_are_those_of_the_rows() -> None:
    rng = np.random.default_rng(1)
    values, groups, subjects = crowd(rng, outcomes=10, shared=0.2)
    values[:, 3] = 0.25  # constant: no end
    values[:, 4] = (values[:, 4] > 0) * 1.0
    values[rng.random(values.shape) < 0.1] = np.nan
    higher, yes_no = [True] * 8 + [False] * 2, [j == 4 for j in range(10)]
    found = tally(values, groups, subjects, higher_is_better=higher, yes_no=yes_no)
    rows = panel_of(
        values,
        groups,
        subjects,
        higher_is_better=higher,
        yes_no=yes_no,
        n_permutations=9,
        n_bootstrap=0,
        seed=1,
        min_subjects=5,
        value_range=[(0.0, 1.0) if j == 4 else (-2.0, 2.0) for j in range(10)],
    ).rows
    assert found.n == 9
    for end, counted in (("worst", found.worst), ("best", found.best)):
        named = Counter(getattr(row, f"{end}_group") for row in rows if row.worst_group is not None)
        assert {one.group: one.count for one in counted} == {name: named[name] for name in "ABCD"}
        assert sum(one.expected for one in counted) == pytest.approx(found.n)


def test_the_expectation_and_the_p_value_follow_from_relabelling_by_hand() -> None:
    """Of two groups the worse one has the lower mean: nothing of the package is needed to count that."""
    rng = np.random.default_rng(2)
    values, _, subjects = crowd(rng, n=60, outcomes=5, shared=0.3)
    groups = np.repeat(["A", "B"], (45, 15))
    found = {one.group: one for one in tally(values, groups, subjects, n=2000).worst}
    counts = np.zeros(4000)
    for b in range(4000):
        mine = rng.permutation(groups) == "A"
        counts[b] = (values[mine].mean(axis=0) < values[~mine].mean(axis=0)).sum()
    own = int((values[groups == "A"].mean(axis=0) < values[groups == "B"].mean(axis=0)).sum())
    assert (found["A"].count, found["B"].count) == (own, 5 - own)
    assert found["A"].expected == pytest.approx(counts.mean(), abs=0.15)
    centre = counts.mean()
    for name, excess in (("A", own - centre), ("B", centre - own)):
        reached = (np.maximum(counts - centre, centre - counts) >= excess - 1e-9).mean()
        assert found[name].p_value == pytest.approx(reached, abs=0.05)


def test_runs_that_repeat_one_accident_are_no_finding() -> None:
    """With equal shares as the yardstick most of these would be: the same subjects are in every outcome."""
    found_any, naive = 0, 0
    for seed in range(60):
        found = tally(*crowd(np.random.default_rng(100 + seed), n=80))
        found_any += min(one.p_value for one in found.worst) <= 0.05
        naive += max(one.count for one in found.worst) >= 8  # binomial, 12 at 1/4: 0.3 % for one group
    assert found_any <= 9  # 5 % of 60 is 3; 9 or fewer with probability 0.998
    assert naive >= 30


def test_a_group_that_is_worst_everywhere_is_found_where_the_outcomes_are_not_the_same() -> None:
    values, groups, subjects = crowd(np.random.default_rng(5), shared=0.2)
    values[groups == "C"] -= 0.4
    found = {one.group: one for one in tally(values, groups, subjects, n=199).worst}
    assert found["C"].count == 12
    assert found["C"].p_value <= 0.05
    assert found["C"].p95 < 12
    assert found["A"].p_value > 0.5
    values, groups, subjects = crowd(np.random.default_rng(5), shared=0.95)
    values[groups == "C"] -= 0.4  # some group would often be the worst everywhere: the count alone tells little
    assert {one.group: one for one in tally(values, groups, subjects, n=199).worst}["C"].p_value > 0.1


def test_nothing_to_count() -> None:
    values, groups, subjects = crowd(np.random.default_rng(6), n=30)
    options = {"higher_is_better": [True] * 12, "yes_no": [False] * 12, "n_permutations": 9, "seed": 1}
    assert tally_extremes(values, groups, subjects, min_subjects=40, **options) is None  # type: ignore[arg-type]
    assert tally_extremes(values * 0, groups, subjects, min_subjects=2, **options) is None  # type: ignore[arg-type]
