"""Sequential looks (`analysis.looks`): verdicts that account for the looks that were declared.

People are added and the run is repeated: each repetition is a look. The repeated p-value of a row takes the place of
its p-value in the correction of the family and in the verdict (`fp2.stats.sequential`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from annotated_types import Ge, Gt, Le, Len

from fp2.errors import Fp2Error
from fp2.plugins import read_options
from fp2.protocols.fingerprint.disparities import Disparities
from fp2.protocols.fingerprint.settings import STEP_DOWN, ComparisonSettings

if TYPE_CHECKING:
    from fp2.config import Config

NOTE = (
    "Look {now} of {n}: adjusted p-values and verdicts of disparities account for the {n} declared looks ({spending} "
    "alpha spending); intervals, severity and the other blocks do not."
)
_TESTED = ("biased", "significant_but_small", "equivalent", "no_difference_found")


@dataclass(frozen=True, kw_only=True)
class Looks:
    """The declared looks.

    Attributes
    ----------
    at : tuple of float
        Information fraction of each look, such as the share of the planned subjects: increasing, the last at most 1.
    now : int
        Which look this run is, from 1.
    spending : str
        `obrien_fleming` or `pocock`.
    """

    at: Annotated[tuple[Annotated[float, Gt(0), Le(1)], ...], Len(1, 20)]
    now: Annotated[int, Ge(1)]
    spending: Literal["obrien_fleming", "pocock"] = "obrien_fleming"

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}


def looks_of(config: Config) -> Looks | None:
    """Return the declared looks of a config, None without any.

    Raises
    ------
    Fp2Error
        If they are out of range.
    """
    if config.analysis.looks is None:
        return None
    looks = read_options(Looks, config.analysis.looks, "analysis.looks")
    if any(b <= a for a, b in pairwise(looks.at)):
        raise Fp2Error("the looks must increase", where="analysis.looks.at", fix="Such as [0.25, 0.5, 1.0]")
    if looks.now > len(looks.at):
        raise Fp2Error(f"there are only {len(looks.at)} looks", where="analysis.looks.now")
    return looks


def with_looks(found: Disparities, looks: Looks, c: ComparisonSettings) -> Disparities:
    """Return the disparities with `repeated_p`, and adjusted p-values and verdicts that follow from it."""
    from fp2.stats.adjustment import adjust_p_values

    def repeated(p: float | None) -> float | None:
        from fp2.stats.sequential import repeated_p

        return None if p is None else repeated_p(p, looks.at, looks.now, looks.spending)

    rows = [{**row, "repeated_p": repeated(row["p_value"])} for row in found.disparities]
    families: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        families.setdefault("run" if c.family == "run" else row["scorer"], []).append(row)
    for family in families.values():
        if c.correction == STEP_DOWN:
            adjusted = [repeated(row["adjusted_p"]) for row in family]
        else:
            adjusted = adjust_p_values([row["repeated_p"] for row in family], c.correction)
        for row, p in zip(family, adjusted, strict=True):
            row.update(adjusted_p=p, significant=p is not None and p <= c.alpha)
            row["verdict"] = _verdict(row, repeated(row["equivalence_p"]), c.alpha)
    composites = {
        cut: {**one, "repeated_p": repeated(one["p_value"])} for cut, one in found.composites.items()
    }  # fmt: skip
    return replace(found, disparities=rows, composites=composites)


def _verdict(row: Mapping[str, Any], equivalence_p: float | None, alpha: float) -> str:
    """Return the verdict at this look; one that is not about a test stays."""
    verdict = str(row["verdict"])
    if row["significant"] or verdict not in _TESTED:
        return verdict
    return "equivalent" if equivalence_p is not None and equivalence_p <= alpha else "no_difference_found"
