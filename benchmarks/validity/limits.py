"""Limits that hold for every method, computed without simulation."""

from __future__ import annotations

from scipy.special import ndtr

from benchmarks.validity.composites import BOUNDS, PEOPLE, known_error
from benchmarks.validity.rows import FREE, Row


def limits() -> list[Row]:
    """Return the rows of what no method can do."""
    return [*_severity(), *_equivalence()]


def _severity() -> list[Row]:
    """A single label where the truth lies 20 % below or above a bound b, with the best estimate and its error known.

    The estimate is normal with standard error s. No rule tells .8 b from 1.2 b with a higher probability for both than
    Phi(.2 b / s), that of the likelihood ratio (Neyman and Pearson 1933).
    """
    claim = "A single label of severity by any rule, truth 20 % below or above a bound: right in at most"
    rows = []
    for people in (PEOPLE, tuple(4 * size for size in PEOPLE)):
        for level, bound in BOUNDS.items():
            where = f"6 probes, normal, {'/'.join(map(str, people))}, true composite {0.8 * bound:g} or {1.2 * bound:g}"
            value = float(ndtr(0.2 * bound / known_error(people)))
            rows.append(Row(claim, where, f"bound of {level}", value, 0.0, 0, FREE, ""))
    return rows


def _equivalence(bound: float = 0.05) -> list[Row]:
    """Independent answers of a group with a true rate at the bound: how often none is yes."""
    claim = f"Equivalence with a bound of {100 * bound:g} %, stated where no answer of a group is yes: false in"
    sizes = (20, 40, 58, 59, 80)
    where = "independent answers, true rate at the bound"
    return [Row(claim, f"{n} {where}", "any rule", (1 - bound) ** n, 0.0, 0, FREE, "") for n in sizes]
