"""Does the model answer at all? The probability of yes and no together, and how many answers are missing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fp2.protocols.gras.answers import GrasAnswers
from fp2.protocols.gras.groups import Design
from fp2.protocols.gras.plain import plain

_UNEQUAL = 0.05
"""Groups whose shares of answers that are none differ by this much are pointed out."""


def mass_block(answers: GrasAnswers, design: Design, outcome: str, bound: float) -> dict[str, Any]:
    """Return what is known of the answers' mass p_yes + p_no, over all, by template and by group.

    `low_share`: share of answers with less mass than `bound`; `median`, `mean` of the mass (None where the run did not
    record it). `missing_share`: answers without `outcome`.
    """
    missing = ~np.isfinite(answers.columns[outcome])
    mass = answers.columns.get("mass")
    low = None if mass is None else np.where(np.isfinite(mass), mass < bound, np.nan)
    every = slice(None)
    by_template = [
        {"template": name, **_share(low, missing, (every, every, t))} for t, name in enumerate(answers.templates)
    ]
    groups = []
    for part in design.sets:
        rows = part.label_row[part.slot]
        for number, span in zip(part.attributes, part.spans, strict=True):
            for column, group in zip(range(span.start, span.stop), design.attributes[number].groups, strict=True):
                here = part.images[part.member[rows, column] > 0]
                name = design.attributes[number].name
                groups.append({"attribute": name, "group": group, **_share(low, missing, (here,))})
    middle = None if mass is None or not np.isfinite(mass).any() else mass
    return {
        "bound": bound,
        "median": None if middle is None else plain(float(np.nanmedian(middle))),
        "mean": None if middle is None else plain(float(np.nanmean(middle))),
        **_share(low, missing, (every,)),
        "by_template": by_template,
        "by_group": groups,
    }


def _share(low: Any, missing: Any, where: tuple[Any, ...]) -> dict[str, Any]:
    here = None if low is None else low[where]
    known = here is not None and bool(np.isfinite(here).any())
    return {
        "low_share": plain(float(np.nanmean(np.asarray(here)))) if known else None,
        "missing_share": plain(float(missing[where].mean())),
    }


def mass_warnings(block: dict[str, Any], unanswered_share: float) -> list[str]:
    """Return one line each when the model does not answer yes or no, or groups differ in that."""
    lines = []
    low = block["low_share"]
    if low is None:
        lines.append("The run did not record how much probability yes and no have: whether it answered is not known.")
    elif low >= unanswered_share:
        lines.append(
            f"The model does not answer yes or no: in {100 * low:.0f} % of the answers both together have less than "
            f"{block['bound']:g} of the probability. P(Yes) then says little."
        )
    for key, what in (("low_share", "answers that are neither yes nor no"), ("missing_share", "missing answers")):
        lines += [line for name, shares in _by_attribute(block, key) if (line := _unequal(name, shares, what))]
    return lines


def _by_attribute(block: dict[str, Any], key: str) -> list[tuple[str, Sequence[tuple[str, float]]]]:
    found: dict[str, list[tuple[str, float]]] = {}
    for row in block["by_group"]:
        if row[key] is not None:
            found.setdefault(row["attribute"], []).append((row["group"], row[key]))
    return list(found.items())


def _unequal(attribute: str, shares: Sequence[tuple[str, float]], what: str) -> str | None:
    least, most = (end(shares, key=lambda item: item[1]) for end in (min, max))
    if most[1] - least[1] < _UNEQUAL:
        return None
    return (
        f"Groups by {attribute.replace('_', ' ')} differ in {what}: {100 * most[1]:.0f} % for {most[0]}, "
        f"{100 * least[1]:.0f} % for {least[0]}."
    )
