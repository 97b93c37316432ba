"""What a run adds to the fingerprint: one block of results per protocol, made from the tables alone.

A block is made when the run ends, and again whenever its tables change (a purge, a rescoring); there, ids are salted
keys. Each function is given an `Analysed` and returns the block (finite JSON values), or None where it does not apply.
Two keys of a block are read by everything: `metrics` (flat name -> number) is logged to MLflow, and `headline` (a small
mapping) goes into the passport.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

    from fp2.config import Config
    from fp2.cuts import Cut
    from fp2.probes.battery import Battery
    from fp2.protocols.fingerprint import Comparison
    from fp2.scorers.base import Scorer

BLOCKS = {
    "attention": "fp2.protocols.attention:block",
    "matched": "fp2.protocols.matched:block",
    "pairwise": "fp2.protocols.pairwise:block",
    "missing": "fp2.protocols.missing:block",
    "templates": "fp2.protocols.wording:block",
    "intersections": "fp2.protocols.intersections:block",
    "fhibe_clip": "fp2.protocols.fhibe.clip:block",
    "fhibe_vqa": "fp2.protocols.fhibe.vqa:block",
}
"""Name of the block -> module:function."""


@dataclass(frozen=True)
class Analysed:
    """The tables of a run and how it was compared."""

    config: Config
    battery: Battery
    answers: pd.DataFrame
    scores: pd.DataFrame
    people: pd.DataFrame
    cuts: Sequence[Cut]
    scorers: Mapping[str, Scorer]
    comparison: Comparison
    disparities: Sequence[Mapping[str, Any]] = ()


def attributes_of(battery: Battery, cuts: Sequence[Cut]) -> set[str]:
    """Return the attributes of the people that a run's tables have to keep: the cuts', and the protocol's own."""
    used = {attribute for cut in cuts for attribute in cut.by}
    if battery.protocol == "fhibe_clip":
        from fp2.protocols.fhibe.clip import attributes

        used |= attributes(battery)
    if battery.protocol == "fhibe_vqa":
        used.add("pronoun")  # an answer's pronoun is right or wrong by the person's own
    return used


def extra_blocks(run: Analysed) -> dict[str, Any]:
    """Return every block that applies to the run, by name."""
    blocks: dict[str, Any] = {}
    for name, place in BLOCKS.items():
        module, _, function = place.partition(":")
        made = getattr(importlib.import_module(module), function)(run)
        if made is not None:
            blocks[name] = made
    return blocks
