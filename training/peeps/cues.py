"""The visible cues of a drawing, and points for them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from fp2.extension import Fp2Error, nearest
from fp2.methods.peeps.data.figure import POOLS, Cues

Variant = Literal["original", "masked", "blurred", "background_removed"]
Seen = Mapping[str, int]
"""Cue name -> index of its value; a cue that the image does not show is absent."""
CueValues = Mapping[str, tuple[str, ...]]
"""Cue name -> its values."""

VARIANTS: Final[tuple[Variant, ...]] = ("original", "masked", "blurred", "background_removed")
_POOLS: Final = tuple(POOLS)


def see(cues: Cues, variant: Variant = "original") -> Seen:
    """Return the cues that an image of `cues` shows in one variant."""
    if variant not in VARIANTS:
        raise Fp2Error(f"unknown image variant {variant!r}", fix=nearest(variant, VARIANTS))
    person = {
        "skin": cues.skin,
        "age": cues.age,
        "pool": _POOLS.index(cues.pool),
        "beard": int(bool(cues.beard)),
        "clothing": cues.clothing,
        "expression": cues.expression,
        "glasses": cues.glasses,
    }
    shown = {} if variant in ("masked", "blurred") else person
    return shown if variant == "background_removed" else {**shown, "region": cues.region}


@dataclass(frozen=True, slots=True)
class Points:
    """Points for each value of each cue, summed over the cues that are seen."""

    table: Mapping[str, tuple[float, ...]]

    @classmethod
    def read(cls, raw: Mapping[str, Any], cues: CueValues, where: str) -> Points:
        """Return the points of a mapping from cues to lists."""
        for cue, values in raw.items():
            if cue not in cues:
                raise Fp2Error(f"unknown cue {cue!r}", where=where, fix=nearest(cue, cues))
            if len(values) != len(cues[cue]):
                raise Fp2Error(f"cue '{cue}' has {len(cues[cue])} values but {len(values)} points", where=where)
        return cls({cue: tuple(map(float, values)) for cue, values in raw.items()})

    def of(self, seen: Seen) -> float:
        """Return the sum of points (0 for a cue that is not seen)."""
        return sum(values[seen[cue]] for cue, values in self.table.items() if cue in seen)

    @property
    def cues(self) -> frozenset[str]:
        """The cues that have points."""
        return frozenset(self.table)
