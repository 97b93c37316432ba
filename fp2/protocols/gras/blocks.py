"""The parts of the block `gras`: scores with their null, tests, group means, rates, wording."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from fp2.protocols.gras.answers import GrasAnswers
from fp2.protocols.gras.attribution import rate_intervals, rate_labels, rates
from fp2.protocols.gras.compare import Comparison, Null, Tests
from fp2.protocols.gras.groups import FloatArray
from fp2.protocols.gras.plain import nested, plain
from fp2.protocols.gras.score import MEASURES
from fp2.protocols.gras.units import Sums
from fp2.protocols.gras.wording import rank_agreement, sign_flips, wording_tests

_FLIP_DRAWS = 20


def score_block(comparison: Comparison, observed: Tests, null: Null) -> dict[str, Any]:
    """Return the scores over all attributes and for each, every one beside what chance gives."""
    names = [attribute.name for attribute in comparison.design.attributes]
    p = observed.p
    whole, single = comparison.scores(p), comparison.attribute_scores(p)
    free = ~(p[0].reshape(len(names), *comparison.shape) <= comparison.alpha).any(axis=2)
    return {
        "seed_orientation": 100.0 - float(whole["published_orientation"][0]),
        **{name: _beside(float(whole[name][0]), null.scores[name]) for name in MEASURES},
        "unbiased_cells": {name: int(row.sum()) for name, row in zip(names, free, strict=True)},
        "n_cells": int(free.size),
        "n_tests": int(p.size),
        "n_undefined": int(np.isnan(p).sum()),
        "n_constant": int((comparison.constant & np.isfinite(p[0])).sum()),
        "by_attribute": {
            name: {m: _beside(float(single[m][0, a]), null.by_attribute[m][:, a]) for m in MEASURES}
            for a, name in enumerate(names)
        },
        "null": nested(np.sort(null.scores["published_orientation"])),
    }


def _beside(value: float, null: FloatArray) -> dict[str, Any]:
    """A score beside mean and central 95 % of its null, excess over that mean, p = (1 + #{null >= it}) / (B + 1)."""
    low, high = np.quantile(null, [0.025, 0.975])
    mean = float(null.mean())
    return {
        "value": plain(value, 12),
        "null_mean": plain(mean),
        "null_low": plain(float(low)),
        "null_high": plain(float(high)),
        "excess": plain(value - mean),
        "p_value": plain((1 + int((null >= value - 1e-9).sum())) / (len(null) + 1)),
    }


def test_block(comparison: Comparison, observed: Tests, holm: np.ndarray) -> dict[str, Any]:
    """Return per attribute p, F, omega^2 and max - min of the means, each nested (traits, templates).

    holm (A, K) becomes `significant`: the traits with a difference that survives Holm's correction in some template.
    """
    parts = {"p_value": observed.p, "f": observed.f, "omega_squared": observed.omega_squared, "gap": observed.gap}
    return {
        attribute.name: {
            **{name: nested(x[0, a].reshape(comparison.shape)) for name, x in parts.items()},
            "significant": [bool(found) for found in holm[a]],
        }
        for a, attribute in enumerate(comparison.design.attributes)
    }


def group_means(comparison: Comparison, sums: Sequence[Sums]) -> dict[str, tuple[FloatArray, FloatArray]]:
    """Return per attribute the group means (G, K, T) and the mean over everybody (K, T), in the outcome's units."""
    found = {}
    for part, units, own in zip(comparison.design.sets, comparison.units, sums, strict=True):
        mean = own.mean[0] + units.offset
        for place, (number, span) in enumerate(zip(part.attributes, part.spans, strict=True)):
            groups = mean[span].reshape(-1, *comparison.shape)
            found[number] = groups, mean[part.everybody(place)].reshape(comparison.shape)
    return {attribute.name: found[a] for a, attribute in enumerate(comparison.design.attributes)}


def mean_block(comparison: Comparison, sums: Sequence[Sums]) -> dict[str, Any]:
    """Return the group means as plain numbers: `means` nested (groups, traits, templates), `overall` beside them."""
    found = group_means(comparison, sums)
    return {
        attribute.name: {
            "groups": list(attribute.groups),
            "means": nested(found[attribute.name][0]),
            "overall": nested(found[attribute.name][1]),
        }
        for attribute in comparison.design.attributes
    }


def rate_block(
    comparison: Comparison, own: FloatArray, error: FloatArray, chance: FloatArray, smallest: float,
    polarity: Sequence[str],
) -> list[dict[str, Any]]:  # fmt: skip
    """Return one row per attribute, group and polarity: `share` and its interval, and beyond the smallest effect.

    own, error: deviations of the group means and their standard errors (G, K, T). chance: the plain rates under
    permuted labels (B, rows), of which mean and central 95 % are given: one picture that looks nice looks so in many
    traits, so that rates far from each other come about by chance.
    """
    found = {
        "": (rates(own, polarity), *rate_intervals(own, error, polarity)),
        "beyond_": (rates(own, polarity, smallest), *rate_intervals(own, error, polarity, smallest)),
    }
    null = [chance.mean(axis=0), *np.quantile(chance, [0.025, 0.975], axis=0)]
    rows = []
    for i, (attribute, group, sign) in enumerate(rate_labels(comparison, polarity)):
        row: dict[str, Any] = {"attribute": attribute, "group": group, "polarity": sign}
        for prefix, numbers in found.items():
            row |= {
                f"{prefix}{name}": plain(float(x[i])) for name, x in zip(("share", "low", "high"), numbers, strict=True)
            }
        row |= {f"null_{end}": plain(float(x[i])) for end, x in zip(("mean", "low", "high"), null, strict=True)}
        rows.append(row)
    return rows


def wording_block(
    answers: GrasAnswers, comparison: Comparison, sums: Sequence[Sums], holm: np.ndarray, outcome: str
) -> dict[str, Any]:
    """Return the template sensitivity: tests per image set and trait, and per attribute what becomes of the gaps.

    holm (A, K): traits with a difference that survives Holm's correction in some template.
    """
    if len(answers.templates) < 2:
        return {"sets": [], "attributes": []}
    return {
        "sets": [
            _wording_of_set(answers, comparison, number, outcome) for number in range(len(comparison.design.sets))
        ],
        "attributes": _wording_of_gaps(comparison, sums, holm),
    }


def _wording_of_set(answers: GrasAnswers, comparison: Comparison, number: int, outcome: str) -> dict[str, Any]:
    design = comparison.design
    part = design.sets[number]
    values = answers.columns[outcome][part.images]
    found = wording_tests(comparison.units[number].by_subject(values) if comparison.kind == "subjects" else values)
    known = np.isfinite(found.share_template)
    with np.errstate(invalid="ignore"):
        every = {
            "share_template": _mean(found.share_template),
            "share_unit": _mean(found.share_unit),
            "share_rest": _mean(found.share_rest),
            "kendalls_w": _mean(found.kendalls_w),
            "significant_gg": int((found.p_gg <= comparison.alpha).sum()),
            "significant_hf": int((found.p_hf <= comparison.alpha).sum()),
            "significant_friedman": int((found.friedman_p <= comparison.alpha).sum()),
        }
    return {
        "attributes": [design.attributes[a].name for a in part.attributes],
        "n_units": len(part.images) if comparison.kind == "images" else part.n_subjects,
        "n_traits": int(known.sum()),
        **every,
        "means": nested(_column_means(values)),
        "traits": {name: nested(column) for name, column in asdict(found).items()},
    }


def _wording_of_gaps(comparison: Comparison, sums: Sequence[Sums], holm: np.ndarray) -> list[dict[str, Any]]:
    seen = group_means(comparison, sums)
    chance: dict[str, list[float]] = {name: [] for name in seen}
    for batch in comparison.relabelled(_FLIP_DRAWS):
        for b in range(len(batch[0].s)):
            one = [Sums(part.n[b : b + 1], part.s[b : b + 1], part.q[b : b + 1]) for part in batch]
            for name, (means, _) in group_means(comparison, one).items():
                chance[name].append(sign_flips(means))
    out = []
    for a, attribute in enumerate(comparison.design.attributes):
        means, _ = seen[attribute.name]
        out.append(
            {
                "attribute": attribute.name,
                "sign_flips": plain(sign_flips(means)),
                "sign_flips_by_chance": plain(_mean(np.array(chance[attribute.name])) or float("nan")),
                "sign_flips_significant": plain(sign_flips(means, holm[a])) if holm[a].any() else None,
                "significant_traits": int(holm[a].sum()),
                "rank_correlation": plain(rank_agreement(means)),
            }
        )
    return out


def _mean(x: FloatArray) -> float | None:
    known = x[np.isfinite(x)]
    return plain(float(known.mean())) if len(known) else None


def _column_means(values: np.ndarray) -> FloatArray:
    known = np.isfinite(values)
    count = known.sum(axis=0)
    return np.asarray(np.where(known, values, 0.0).sum(axis=0, dtype=np.float64) / np.where(count > 0, count, np.nan))
