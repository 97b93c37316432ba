"""Alpha spending: published boundaries, simulated crossing probabilities, and repeated p-values."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm

from fp2.methods.stopping.sequential import SPENDING, nominal_levels, repeated_p, spent

QUARTERS = (0.25, 0.5, 0.75, 1.0)


@pytest.mark.parametrize(
    ("spending", "z"),
    [("obrien_fleming", (4.3326, 2.9631, 2.3590, 2.0141)), ("pocock", (2.3683, 2.3675, 2.3580, 2.3499))],
)
def test_the_boundaries_are_the_published_ones(spending: str, z: tuple[float, ...]) -> None:
    """Proschan, Lan and Wittes (2006), two-sided 5 %, four equally spaced looks."""
    found = [float(norm.isf(level / 2)) for level in nominal_levels(0.05, QUARTERS, spending)]
    assert found == pytest.approx(list(z), abs=6e-4)


@pytest.mark.parametrize(
    ("spending", "z"),
    [
        ("pocock", (2.8131, 2.6750, 2.6330, 2.4943, 2.4003, 2.3006)),
        ("obrien_fleming", (9.08, 5.6697, 4.4281, 3.3581, 2.6036, 1.9864)),
    ],
)
def test_boundaries_of_unequal_looks_are_those_of_another_implementation(spending: str, z: tuple[float, ...]) -> None:
    """The integration of gsdesign 0.1.5 (`h1`, `hupdate`, r = 40), solved for the same spending."""
    levels = nominal_levels(0.05, (0.06, 0.15, 0.24, 0.4, 0.63, 1.0), spending)
    assert [float(norm.isf(level / 2)) for level in levels] == pytest.approx(list(z), rel=6e-4)


@pytest.mark.parametrize("spending", SPENDING)
def test_all_of_alpha_is_spent_and_no_more(spending: str) -> None:
    """Crossing probabilities of a random walk with unequal looks, in 400,000 draws."""
    fractions = (0.2, 0.3, 0.8, 1.0)
    steps = np.random.default_rng(3).normal(size=(400_000, 4)) * np.sqrt(np.diff([0.0, *fractions]))
    p = 2 * norm.sf(np.abs(steps.cumsum(axis=1) / np.sqrt(fractions)))
    crossed = np.maximum.accumulate(p <= nominal_levels(0.05, fractions, spending), axis=1).mean(axis=0)
    assert crossed == pytest.approx([spent(0.05, t, spending) for t in fractions], abs=0.0015)
    assert spent(0.05, 1.0, spending) == pytest.approx(0.05)


def test_one_look_at_all_the_data_changes_nothing() -> None:
    assert nominal_levels(0.05, [1.0]) == pytest.approx([0.05])
    assert repeated_p(0.0123, [1.0], 1) == pytest.approx(0.0123, rel=2e-3)


@pytest.mark.parametrize("spending", SPENDING)
@pytest.mark.parametrize("look", [1, 2, 3, 4])
def test_the_repeated_p_value_is_the_alpha_whose_level_is_p(spending: str, look: int) -> None:
    for alpha in (0.002, 0.05, 0.2):
        level = nominal_levels(alpha, QUARTERS, spending)[look - 1]
        expected = alpha if level > 1e-6 else None
        found = repeated_p(level, QUARTERS, look, spending)
        assert found >= level
        if expected is not None:
            assert found == pytest.approx(expected, rel=0.03)
    values = [repeated_p(p, QUARTERS, look, spending) for p in (0.0001, 0.001, 0.01, 0.1, 1.0)]
    assert values == sorted(values)
    assert values[-1] == 1.0


def test_what_is_out_of_range_is_refused() -> None:
    for bad in ([], [0.5, 0.5], [0.5, 1.2]):
        with pytest.raises(ValueError, match="fraction"):
            nominal_levels(0.05, bad)
    with pytest.raises(ValueError, match="unknown spending"):
        spent(0.05, 0.5, "haybittle")
    with pytest.raises(ValueError, match="a look from 1 to 4"):
        repeated_p(0.01, QUARTERS, 5)
