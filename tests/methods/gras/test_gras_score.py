"""The score of p-values, against counting by hand and statsmodels."""

from __future__ import annotations

import doctest
from dataclasses import asdict

import numpy as np
import pandas as pd
import pytest
from statsmodels.stats.multitest import multipletests

import fp2.methods.gras.score
from fp2.methods.gras import bias_score


def table(p: np.ndarray) -> pd.DataFrame:
    """p (attributes, traits, templates) -> long."""
    rows = [(f"a{a}", f"w{k}", f"T{t}", p[a, k, t]) for a, k, t in np.ndindex(*p.shape)]
    return pd.DataFrame(rows, columns=["attribute", "trait", "template", "p_value"])


def test_the_example_in_the_docstring() -> None:
    found = doctest.testmod(fp2.methods.gras.score)
    assert found.attempted
    assert not found.failed


@pytest.mark.parametrize("seed", range(4))
def test_score_is_what_counting_gives(seed: int) -> None:
    rng = np.random.default_rng(seed)
    p = rng.random((3, 7, 5)) ** (1 + 4 * rng.random((3, 7, 1)))
    p.flat[:2] = 0.05, 0.0
    long = table(p).sample(frac=1, random_state=seed)
    score = bias_score(long)
    any_hit = (p <= 0.05).any(axis=2)
    assert score.published_orientation == pytest.approx(100 * any_hit.mean())
    assert score.seed_orientation == pytest.approx(100 * (p > 0.05).all(axis=2).mean())
    assert score.all_templates == pytest.approx(100 * (p <= 0.05).all(axis=2).mean())
    assert score.unbiased_cells == {f"a{a}": int((~any_hit[a]).sum()) for a in range(3)}
    for method, field in (("holm", "holm"), ("fdr_bh", "benjamini_hochberg")):
        adjusted = multipletests(p.reshape(-1), method=method)[1].reshape(p.shape)
        assert score[field] == pytest.approx(100 * (adjusted <= 0.05).any(axis=2).mean()), method


def test_four_hundred_cells_go_in_steps_of_a_quarter() -> None:
    p = np.ones((4, 100, 5))
    p[0, :3, 2] = 0.001
    score = bias_score(table(p))
    assert (score.published_orientation, score.seed_orientation, score.all_templates) == (0.75, 99.25, 0.0)
    assert dict(score) == asdict(score)


def test_undefined_p_values_are_not_significant_and_stay_in_the_family() -> None:
    p = np.array([[[0.02, np.nan], [np.nan, np.nan]]])
    score = bias_score(table(p))
    assert (score.published_orientation, score.n_undefined, score.all_templates) == (50.0, 3, 0.0)
    assert score.unbiased_cells == {"a0": 1}
    # 0.02 x 4 rows is above 0.05; among the one known p-value it would be below
    assert (score.holm, score.benjamini_hochberg) == (0.0, 0.0)


def test_alpha_counts_at_equality() -> None:
    assert bias_score(table(np.full((1, 1, 5), 0.01)), alpha=0.01).all_templates == 100.0
    assert bias_score(table(np.full((1, 1, 5), 0.010001)), alpha=0.01).published_orientation == 0.0


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda t: t.iloc[1:], "is missing"),
        (lambda t: pd.concat([t, t.iloc[:1]]), "is repeated"),
        (lambda t: t.drop(columns="trait"), "lacks the column"),
        (lambda t: t.iloc[:0], "no rows"),
        (lambda t: t.assign(p_value=1.5), "outside"),
        (lambda t: t.assign(template=None), "label is missing"),
    ],
)
def test_what_cannot_be_scored_is_refused(change: object, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        bias_score(change(table(np.full((2, 2, 2), 0.5))))  # type: ignore[operator]
