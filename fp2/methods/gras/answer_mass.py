"""Whether the model answers at all: the joint probability of yes and no, and the share of missing answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fp2.extension import rounded
from fp2.methods.gras.answers import GrasAnswers
from fp2.methods.gras.grouping import Grouping

_UNEQUAL = 0.05
"""Difference between two groups' shares of unusable answers from which on a warning is given."""


def mass_part(answers: GrasAnswers, grouping: Grouping, outcome: str, bound: float) -> dict[str, Any]:
    """Return the mass p_yes + p_no of the answers, overall, by template and by group.

    `low_share` is the share of answers with less mass than `bound`; `median` and `mean` are of the mass (None where
    the run did not record it); `missing_share` is the share of answers without `outcome`.
    """
    missing = ~np.isfinite(answers.columns[outcome])
    mass = answers.columns.get("mass")
    low = None if mass is None else np.where(np.isfinite(mass), mass < bound, np.nan)
    every = slice(None)
    by_template = [
        {"template": name, **_shares(low, missing, (every, every, t))} for t, name in enumerate(answers.templates)
    ]
    groups = []
    for part in grouping.sets:
        rows = part.units.label_set[part.record]
        for number, span in zip(part.attributes, part.spans, strict=True):
            for column, group in zip(range(span.start, span.stop), grouping.attributes[number].groups, strict=True):
                here = part.images[part.units.label_sets[rows, column]]
                name = grouping.attributes[number].name
                groups.append({"attribute": name, "group": group, **_shares(low, missing, (here,))})
    known = None if mass is None or not np.isfinite(mass).any() else mass
    return {
        "bound": bound,
        "median": None if known is None else rounded(float(np.nanmedian(known))),
        "mean": None if known is None else rounded(float(np.nanmean(known))),
        **_shares(low, missing, (every,)),
        "by_template": by_template,
        "by_group": groups,
    }


def _shares(low: Any, missing: Any, where: tuple[Any, ...]) -> dict[str, Any]:
    here = None if low is None else low[where]
    known = here is not None and bool(np.isfinite(here).any())
    return {
        "low_share": rounded(float(np.nanmean(np.asarray(here)))) if known else None,
        "missing_share": rounded(float(missing[where].mean())),
    }


def mass_warnings(part: dict[str, Any], unanswered_share: float) -> list[str]:
    """Return a line each where the model does not answer yes or no, or groups differ in that."""
    lines = []
    low = part["low_share"]
    if low is None:
        lines.append("The probabilities of Yes and No were not recorded: whether the model answered is unknown.")
    elif low >= unanswered_share:
        lines.append(
            f"The model does not answer yes or no: in {100 * low:.0f} % of the answers, P(Yes) + P(No) is below "
            f"{part['bound']:g}. P(Yes) is then hardly informative."
        )
    for key, what in (("low_share", "answers that are neither yes nor no"), ("missing_share", "missing answers")):
        lines += [line for name, shares in _by_attribute(part, key) if (line := _unequal(name, shares, what))]
    return lines


def _by_attribute(part: dict[str, Any], key: str) -> list[tuple[str, Sequence[tuple[str, float]]]]:
    found: dict[str, list[tuple[str, float]]] = {}
    for row in part["by_group"]:
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
