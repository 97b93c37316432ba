"""What is decided of the order of a run and of finished ones at a look.

The number that is compared is the one by which a leaderboard ranks: the root mean square difference of two groups over
probes, corrected for noise (`fp2.methods.several_runs.profiles.Ranked`), of the answers that both runs were asked for.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from fp2.extension import adjust_p_values
from fp2.methods.several_runs.profiles import OrderTest
from fp2.methods.stopping.decisions import FUTILITY
from fp2.methods.stopping.estimates import predictive_power, two_sided_z
from fp2.methods.stopping.looks import EQUIVALENT, FUTILE, OPEN, StoppingLooks
from fp2.methods.stopping.sequential import nominal_levels

SMALLER: Final = "smaller"
LARGER: Final = "larger"
UNDECIDED: Final = "undecided"
PairKey = tuple[str, str]
"""Finished run, cut."""


@dataclass(frozen=True)
class Standing:
    """How a run stands to a finished one in a cut.

    Attributes
    ----------
    look : int
        At which it was decided, or else the last.
    decided : str
        `smaller` or `larger` than the finished run's difference, `equivalent`, `futile`, `undecided` after the last
        look, `open`.
    differences : (float, float) or None
        Of the run and of the finished one at that look, not corrected for stopping.
    p_value, equivalence_p : float
        Repeated, the smallest so far.
    side : str
        `smaller` or `larger`, at the look of `p_value`.
    adjusted_p, adjusted_equivalence_p : float
        Corrected over the finished runs and cuts (Holm).
    n_subjects : int
        Compared at that look.
    """

    look: int = 0
    decided: str = OPEN
    differences: tuple[float, float] | None = None
    p_value: float = 1.0
    equivalence_p: float = 1.0
    side: str = SMALLER
    adjusted_p: float = 1.0
    adjusted_equivalence_p: float = 1.0
    n_subjects: int = 0


def take_standings(
    looks: StoppingLooks,
    before: Mapping[PairKey, Standing],
    tests: Mapping[PairKey, tuple[OrderTest, int]],
    last: Mapping[PairKey, int],
) -> dict[PairKey, Standing]:
    """Return the standings after the look `now`.

    Parameters
    ----------
    before : mapping
        Those of the look before, of every pair.
    tests : mapping
        The test of each pair that is tested at this look, and the number of subjects.
    last : mapping
        The last look of each pair: the finished run has no further answers.
    """
    measured = {
        key: _measured(looks, standing, *tests[key]) if key in tests else standing for key, standing in before.items()
    }
    orders = adjust_p_values([standing.p_value for standing in measured.values()])
    equivalences = adjust_p_values([standing.equivalence_p for standing in measured.values()])
    out = {}
    for (key, standing), order, equivalence in zip(measured.items(), orders, equivalences, strict=True):
        standing = replace(standing, adjusted_p=order or 0.0, adjusted_equivalence_p=equivalence or 0.0)
        if standing.adjusted_p <= looks.alpha:
            decided = standing.side
        elif standing.adjusted_equivalence_p <= looks.alpha:
            decided = EQUIVALENT
        elif looks.now >= last[key]:
            decided = UNDECIDED
        elif standing.decided == FUTILE or (
            key in tests and _is_futile(looks, tests[key][0], last[key], len(measured))
        ):
            decided = FUTILE
        else:
            decided = OPEN
        look = standing.look if decided == standing.decided != OPEN else min(looks.now, last[key])
        out[key] = replace(standing, decided=decided, look=look)
    return out


def is_tested(looks: StoppingLooks, standing: Standing, last: int) -> bool:
    """Whether a pair is tested at the look `now`; futility does not bind."""
    return looks.now <= last and standing.decided in (OPEN, FUTILE)


def _measured(looks: StoppingLooks, before: Standing, test: OrderTest, n_subjects: int) -> Standing:
    p, equivalence = (looks.repeated(value) or 0.0 for value in (test.p_value, test.equivalence_p))
    return replace(
        before,
        differences=test.differences,
        n_subjects=n_subjects,
        p_value=min(p, before.p_value),
        equivalence_p=min(equivalence, before.equivalence_p),
        side=before.side if p > before.p_value else SMALLER if test.differences[0] < test.differences[1] else LARGER,
    )


def _is_futile(looks: StoppingLooks, test: OrderTest, last: int, n_pairs: int) -> bool:
    """Whether the conditional powers of an order and of equivalence are both small."""
    from scipy.special import ndtri

    level = nominal_levels(looks.alpha / n_pairs, looks.at[:last], looks.spending)[-1]
    fraction = looks.at[looks.now - 1] / looks.at[last - 1]
    order = predictive_power(two_sided_z(test.p_value), two_sided_z(level), fraction)
    equivalent = predictive_power(-float(ndtri(test.equivalence_p)), -float(ndtri(level)), fraction)
    return max(order, equivalent) < FUTILITY
