"""Everything that is said about one run's answers, as one block of plain data."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

    from fp2.cuts import Cut
    from fp2.protocols.gras.answers import GrasAnswers
    from fp2.protocols.gras.options import GrasOptions


def analyse(
    answers: GrasAnswers,
    people: pd.DataFrame,
    attributes: Sequence[Cut],
    options: GrasOptions,
    tick: Callable[[], None] = lambda: None,
) -> dict[str, Any]:
    """Return the block `results["gras"]`.

    Parameters
    ----------
    answers : GrasAnswers
        The answers.
    people : DataFrame
        The people table (ids may be salted keys, as long as they are those of `answers`).
    attributes : sequence of Cut
        What people are grouped by; each is one attribute of the score.
    options : GrasOptions
        Level, sizes, seed.
    tick : callable
        Told after each stage.

    Returns
    -------
    dict
        JSON-able and finite: see docs/results.md.

    Raises
    ------
    Fp2Error
        If the outcome was not recorded, or no attribute has two groups to compare.
    """
    raise NotImplementedError
