"""The family of a run: all rows and composites together, and how they share alpha.

A run of six scorers tested scorer by scorer makes a false claim in up to 26 % of runs. Testing composites first, and
rows only within those that are rejected, does not help: one true disparity opens its whole family, and a composite
dilutes a disparity of a single probe (docs/statistics.md has the figures). So all of them are one weighted family: that
controls the family-wise error over the whole run, whatever is true.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from fp2.protocols.fingerprint.settings import STEP_DOWN, ComparisonSettings, Row

if TYPE_CHECKING:
    from fp2.stats.rows import Panel


def shares(scorers: Sequence[str], comparison: ComparisonSettings) -> list[float]:
    """Return the share of alpha of each test (they add up to 1), given the scorer that it belongs to.

    `family="run"`: equal shares. `family="scorer"`: half of alpha belongs to the tests of the primary scorer, the other
    half in equal parts to the other scorers. Without the primary scorer all scorers have equal parts.
    """
    if not scorers:
        return []
    if comparison.family == "run":
        return [1 / len(scorers)] * len(scorers)
    sizes = {name: scorers.count(name) for name in dict.fromkeys(scorers)}
    share_of = dict.fromkeys(sizes, 1 / len(sizes))
    if comparison.primary in sizes and len(sizes) > 1:
        share_of = {name: 0.5 if name == comparison.primary else 0.5 / (len(sizes) - 1) for name in sizes}
    return [share_of[name] / sizes[name] for name in scorers]


def corrected(
    rows: Sequence[Row],
    panels: Sequence[Panel],
    composites: Mapping[str, dict[str, Any]],
    comparison: ComparisonSettings,
) -> list[dict[str, Any]]:
    """Correct rows and composites together; set `adjusted_p` of the composites, and return the rows as dicts.

    `panels` hold the rows' columns in the same order. Composites are tests of the primary scorer. At a declared look,
    repeated p-values take the place of all p-values, and rows and composites have them beside their own.
    """
    from fp2.stats.adjustment import adjust_p_values, decide, in_family

    looks = comparison.looks
    at_look = [row for *_, row in rows] if looks is None else looks.applied_to(rows, composites)
    p_name = "repeated_p" if looks else "p_value"
    tested = [composite for composite in composites.values() if composite[p_name] is not None]
    counted = [scorer for (_, scorer, *_), row in zip(rows, at_look, strict=True) if row.p_value is not None]
    share = iter(shares([*counted, *[comparison.primary] * len(tested)], comparison))
    # a row that was not tested has no p-value, and its weight does not count
    weights = [next(share) if row.p_value is not None else 1.0 for row in at_look]
    weights += share
    size, none = len(rows), [1.0] * len(tested)
    if comparison.correction == STEP_DOWN:
        adjusted, larger = (_stepped_down(rows, panels, weights, comparison, minimum_effect=m) for m in (False, True))
        apart = adjust_p_values([composite[p_name] for composite in tested])
        tail = sum(weights[size:])
        adjusted += [None if p is None else min(1.0, p / tail) for p in apart]
        method = "holm"
    else:
        method = comparison.correction
        p = [row.p_value for row in at_look] + [composite[p_name] for composite in tested]
        adjusted = adjust_p_values(p, method, weights)
        larger = adjust_p_values([*in_family(at_look, "minimum_effect_p"), *none], method, weights)
    for composite, value in zip(tested, adjusted[size:], strict=True):
        composite["adjusted_p"] = value
    alpha = comparison.alpha
    levels = [alpha if method == "none" else alpha * weight for weight in weights[:size]]
    nominal = [looks.at_probe(probe).level for probe, *_ in rows] if looks else None
    decided = decide(at_look, adjusted[:size], larger[:size], levels, method=method, alpha=alpha, nominal=nominal)
    columns = []
    for (probe, scorer, cut, unadjusted), row in zip(rows, decided, strict=True):
        entry = {
            "probe": probe,
            "scorer": scorer,
            "cut": cut,
            "family_size": len(counted) + len(tested),
            **row.to_dict(),
        }
        if looks:
            entry |= looks.columns((probe, scorer, cut), row, unadjusted)
        columns.append(entry)
    return columns


def _stepped_down(
    rows: Sequence[Row],
    panels: Sequence[Panel],
    weights: Sequence[float],
    comparison: ComparisonSettings,
    *,
    minimum_effect: bool,
) -> list[float | None]:
    """Return step-down max-T p-values of the rows: scorer by scorer, each divided by the scorer's share of alpha.

    At a declared look they are those of the whole scorer, repeated before they are divided.
    """
    from fp2.stats.adjustment import step_down

    groups: dict[str, list[int]] = {}
    for i, (_, scorer, _, row) in enumerate(rows):
        if row.p_value is not None:
            groups.setdefault("run" if comparison.family == "run" else scorer, []).append(i)
    adjusted: list[float | None] = [None] * len(rows)
    for members in groups.values():
        share = sum(weights[i] for i in members)
        p_values = step_down(panels, members, minimum_effect=minimum_effect)
        if comparison.looks:
            p_values = [comparison.looks.repeated(p) for p in p_values]
        for i, p in zip(members, p_values, strict=True):
            adjusted[i] = None if p is None else min(1.0, p / share)
    return adjusted
