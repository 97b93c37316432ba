"""Sequential looks (`analysis.looks`): verdicts that account for the looks that were declared.

People are added and the run is repeated: each repetition is a look. Repeated p-values (`sequential`) take the
place of all p-values in the correction of the family, from which the verdicts follow (`family.corrected`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Annotated, Any, ClassVar, Literal, Self

from annotated_types import Ge, Gt, Le, Len

from fp2.extension import DisparityRow, Fp2Error, Note, NoteKind, RowKey, Stage, read_options
from fp2.methods.stopping.sequential import nominal_levels, repeated_p

P_VALUES = {
    "p_value": "repeated_p", "minimum_effect_p": "repeated_minimum_effect_p", "equivalence_p": "repeated_equivalence_p",
}  # fmt: skip
"""Of the three hypotheses of a row (`fp2.stats.adjustment.adjust`) -> the column of the repeated one."""
LOOK = NoteKind(
    "look",
    Stage.ANALYSIS,
    "Look {now} of {n}: adjusted p-values, verdicts, minimum detectable effects and the selected intervals of "
    "disparities and composites account for the {n} declared looks ({spending} alpha spending); other intervals and "
    "the other blocks do not.",
)


@dataclass(frozen=True, kw_only=True)
class Looks:
    """The declared looks (`fp2.protocols.fingerprint.settings.Looks`).

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

    def at_probe(self, probe: str) -> Self:
        """Return the looks with that of the rows of a probe as `now`."""
        return self

    def repeated_p_values(self, key: RowKey, row: DisparityRow) -> dict[str, float | None]:
        """Return the repeated p-values of a row's hypotheses, by the names of `P_VALUES`."""
        return {name: self.repeated(getattr(row, name)) for name in P_VALUES}

    def composite_p(self, cut: str, p: float | None) -> float | None:
        """Return the repeated p-value of a composite."""
        return self.repeated(p)

    def applied_to(
        self, rows: Sequence[tuple[str, str, str, DisparityRow]], composites: Mapping[str, dict[str, Any]]
    ) -> list[DisparityRow]:
        """Return the rows with repeated p-values in place of their own, and set `repeated_p` of the composites."""
        for cut, composite in composites.items():
            composite["repeated_p"] = self.composite_p(cut, composite["p_value"])
        repeated: list[dict[str, Any]] = [self.repeated_p_values(row[:3], row[3]) for row in rows]
        return [replace(row, **p_values) for (*_, row), p_values in zip(rows, repeated, strict=True)]

    def columns(self, key: RowKey, row: DisparityRow, unadjusted: DisparityRow) -> dict[str, float | None]:
        """Return the p-values of the data at this look, and beside them the repeated ones that `row` has."""
        repeated = {column: getattr(row, name) for name, column in P_VALUES.items()}
        return {name: getattr(unadjusted, name) for name in P_VALUES} | repeated

    def repeated(self, p: float | None) -> float | None:
        """Return the repeated p-value of a p-value at this look."""
        return None if p is None else repeated_p(p, self.at, self.now, self.spending)

    def level(self, alpha: float) -> float:
        """Return the nominal level of this look, where `alpha` is spent over all of them."""
        return nominal_levels(alpha, self.at[: self.now], self.spending)[-1]

    def stated(self) -> dict[str, object]:
        """Return the looks as `results.json` states them."""
        return {"at": self.at, "now": self.now, "spending": self.spending}

    def note(self) -> Note:
        """Return the limitation that says which look a run is."""
        return LOOK(now=self.now, n=len(self.at), spending=self.spending)


def looks_of(declared: Mapping[str, Any]) -> Looks:
    """Return the looks that a config declares (`analysis.looks`).

    Raises
    ------
    Fp2Error
        If they are out of range.
    """
    looks = read_options(Looks, declared, "analysis.looks")
    if any(b <= a for a, b in pairwise(looks.at)):
        raise Fp2Error("the looks must increase", where="analysis.looks.at", fix="Such as [0.25, 0.5, 1.0]")
    if looks.now > len(looks.at):
        raise Fp2Error(f"there are only {len(looks.at)} looks", where="analysis.looks.now")
    return looks
