"""The analysis of one run's answers: the block `gras` of `results.json`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fp2.extension import BoolArray, FloatArray, nested, rounded
from fp2.methods.gras.answer_mass import mass_part, mass_warnings
from fp2.methods.gras.answers import GrasAnswers
from fp2.methods.gras.attribution import StandardErrors, deviations, known_errors, rate_rows, rates
from fp2.methods.gras.group_sums import IMAGES, SUBJECTS, CentredSums
from fp2.methods.gras.grouping import Attribute, Grouping, group_answers
from fp2.methods.gras.magnitude import ResampledMeans, magnitude
from fp2.methods.gras.options import OUTCOMES, GrasOptions
from fp2.methods.gras.prompt_sensitivity import prompt_sensitivity
from fp2.methods.gras.resampling import Null, TraitTests
from fp2.methods.gras.score import MEASURES
from fp2.methods.gras.welch import Welch

if TYPE_CHECKING:
    import pandas as pd

    from fp2.extension import Cut

Tick = Callable[[], None]
UNEVEN, SMALL = 1.15, 100
"""Where a group of fewer subjects than `SMALL` has a relative spread of at least `UNEVEN`, a difference between groups
may be one of spread: cells of that attribute are not called significant (`MEAN_OR_SPREAD`)."""
MEAN, MEAN_OR_SPREAD, NOT_SIGNIFICANT, NOT_TESTED = (
    "mean_differs", "mean_or_spread_differs", "not_significant", "not_tested",
)  # fmt: skip
"""What the step-down test says of a cell."""
STEPS = 9
"""How often `analyse` calls `tick` where subjects have several images."""
ONE_IMAGE_EACH = (
    "No subject is known to appear in two images: every image counts as a subject of its own. Where identities repeat "
    "unnoticed, p-values are too small and intervals too narrow."
)


def analyse(
    answers: GrasAnswers,
    people: pd.DataFrame,
    attributes: Sequence[Cut],
    options: GrasOptions,
    tick: Tick = lambda: None,
    part: float = 1.0,
) -> dict[str, Any]:
    """Return the block `gras`.

    Parameters
    ----------
    answers : GrasAnswers
    people : DataFrame
        The people table (ids may be salted keys if those of `answers` are).
    attributes : sequence of Cut
        What subjects are grouped by; each is one attribute of the score.
    options : GrasOptions
    tick : callable
        Called after each stage.
    part : float
        The part of alpha that this look at the answers has (`fp2.methods.gras.decisions.part_of_alpha`).

    Returns
    -------
    dict
        Finite JSON values: see docs/methods/gras.md.
    """
    grouping = group_answers(answers, people, attributes, options)
    units = {IMAGES: _analyse_unit(answers, grouping, options, IMAGES, tick, part)}
    if not grouping.one_image_each:
        units[SUBJECTS] = _analyse_unit(answers, grouping, options, SUBJECTS, tick, part)
    mass = mass_part(answers, grouping, options.outcome, options.mass_bound)
    tick()
    block = {
        "outcome": options.outcome,
        "options": asdict(options),
        "same_units": grouping.one_image_each,
        "n_images": len(answers.image_ids),
        "n_subjects": len(set(answers.subject_ids.tolist())),
        "templates": list(answers.templates),
        "traits": [{"word": t.word, "polarity": t.polarity, "valence": t.valence} for t in answers.traits],
        "attributes": _attributes(grouping),
        "units": units,
        "other_outcomes": _other_outcomes(answers, grouping, options),
        "mass": mass,
        "warnings": [*mass_warnings(mass, options.unanswered_share), *_warnings(grouping, options, units)],
    }
    return {**block, "metrics": _metrics(block), "headline": _headline(block)}


def _analyse_unit(
    answers: GrasAnswers, grouping: Grouping, options: GrasOptions, units: str, tick: Tick, part: float
) -> dict[str, Any]:
    """Return everything that depends on the unit: scores, magnitude, tests, means, rates, prompt sensitivity."""
    tests = TraitTests(answers, grouping, options, units, part=part)
    observed, sums = tests.observed()
    tick()
    polarity = [trait.polarity for trait in answers.traits]
    permuted: list[FloatArray] = []
    null = tests.null(options.permutations, lambda batch: permuted.append(rates(deviations(tests, batch), polarity)))
    tick()
    resampled, errors = ResampledMeans(), StandardErrors()
    for batch in tests.resamples(options.bootstrap):
        resampled.add(tests.tests(batch))
        errors.add(deviations(tests, batch))
    tick()
    adjusted = tests.adjusted_p(observed, null)
    group_means = means_of_groups(tests, sums)
    uneven = uneven_attributes(grouping, group_means)
    status = status_of_cells(adjusted <= options.alpha, np.isfinite(adjusted), uneven)
    significant = status == MEAN
    own, error = deviations(tests, sums)[0], known_errors(tests, errors.result())
    out = {
        "scores": {**_scores(tests, observed, null), "step_down": _step_down(adjusted, status)},
        "magnitude": magnitude(observed, null, resampled, grouping.names),
        "tests": _tests(tests, observed, adjusted, status),
        "group_means": group_means,
        "attribution": rate_rows(tests, own, error, np.concatenate(permuted), options.least_effect, polarity),
        "wording": prompt_sensitivity(answers, tests, sums, significant, options.outcome),
    }
    tick()
    return out


def _scores(tests: TraitTests, observed: Welch, null: Null) -> dict[str, Any]:
    """Return the scores over all attributes and for each, beside their permutation distributions."""
    names, p = tests.grouping.names, observed.p
    whole, single = tests.scores(p), tests.attribute_scores(p)
    free = ~(p[0].reshape(len(names), *tests.shape) <= tests.alpha).any(axis=2)
    return {
        "seed_orientation": 100.0 - float(whole["published_orientation"][0]),
        **{name: _beside_null(float(whole[name][0]), null.scores[name], tests.part) for name in MEASURES},
        "unbiased_cells": {name: int(row.sum()) for name, row in zip(names, free, strict=True)},
        "n_cells": int(free.size),
        "n_tests": int(p.size),
        "n_undefined": int(np.isnan(p).sum()),
        "n_constant": int((tests.constant & np.isfinite(p[0])).sum()),
        "by_attribute": {
            name: {m: _beside_null(float(single[m][0, a]), null.by_attribute[m][:, a], tests.part) for m in MEASURES}
            for a, name in enumerate(names)
        },
        "null": nested(np.sort(null.scores["published_orientation"])),
    }


def status_of_cells(rejected: BoolArray, tested: BoolArray, uneven: Sequence[bool]) -> NDArray[np.str_]:
    """Return the status of every cell, (A, K); `uneven` (A,): attributes with a small group of larger spread."""
    found = np.where(np.array(uneven)[:, None], MEAN_OR_SPREAD, MEAN)
    return np.where(rejected, found, np.where(tested, NOT_SIGNIFICANT, NOT_TESTED))


def _step_down(adjusted: FloatArray, status: NDArray[np.str_]) -> dict[str, Any]:
    """Return the shares of cells (A, K) whose means, and whose means or spreads, differ, in percent, and a p-value.

    The p-value is the smallest adjusted one: it tests that groups have the same distribution in all cells.
    """
    smallest = np.min(adjusted, initial=np.inf, where=np.isfinite(adjusted))
    shares = {
        name: rounded(100.0 * float((status == one).mean()), 12)
        for name, one in (("value", MEAN), ("mean_or_spread", MEAN_OR_SPREAD))
    }
    return {**shares, "p_value": rounded(float(smallest))}


def _beside_null(value: float, null: FloatArray, part: float) -> dict[str, Any]:
    """Return a score with mean and central 95 % of its null, its excess, and p = (1 + #{null >= score}) / (B + 1).

    p is divided by the part of alpha that this look has.
    """
    low, high = np.quantile(null, [0.025, 0.975])
    mean = float(null.mean())
    return {
        "value": rounded(value, 12),
        "null_mean": rounded(mean),
        "null_low": rounded(float(low)),
        "null_high": rounded(float(high)),
        "excess": rounded(value - mean),
        "p_value": rounded(min(1.0, (1 + int((null >= value - 1e-9).sum())) / (len(null) + 1) / part)),
    }


def _tests(tests: TraitTests, observed: Welch, adjusted: FloatArray, status: NDArray[np.str_]) -> dict[str, Any]:
    """Return per attribute p, F, omega^2 and max - min of the means, each nested (traits, templates).

    `adjusted_p`, `status` and `significant` are of the traits: the step-down max-F p-values (A, K), what follows from
    them, and whether that is a difference of means.
    """
    parts = {"p_value": observed.p, "f": observed.f, "omega_squared": observed.omega_squared, "gap": observed.gap}
    return {
        name: {
            **{key: nested(x[0, a].reshape(tests.shape)) for key, x in parts.items()},
            "adjusted_p": nested(adjusted[a]),
            "significant": [bool(found == MEAN) for found in status[a]],
            "status": status[a].tolist(),
        }
        for a, name in enumerate(tests.grouping.names)
    }


def means_of_groups(tests: TraitTests, sums: list[CentredSums]) -> dict[str, Any]:
    """Return per attribute `means`, nested (groups, traits, templates), and `overall`, nested (traits, templates).

    `relative_spread` are the groups' standard deviations over that of the other groups (`_relative_spread`).
    """
    groups = {attribute.name: attribute.groups for attribute in tests.grouping.attributes}
    spread = {
        tests.grouping.names[number]: _relative_spread(own.columns(span))
        for part, own in zip(tests.grouping.sets, sums, strict=True)
        for number, span in zip(part.attributes, part.spans, strict=True)
    }
    return {
        name: {
            "groups": list(groups[name]),
            "means": nested(means),
            "overall": nested(overall),
            "relative_spread": nested(spread[name]),
        }
        for name, (means, overall) in tests.group_means(sums).items()
    }


def _relative_spread(sums: CentredSums) -> FloatArray:
    """Return each group's standard deviation over the pooled one of the other groups, the median over questions (G,).

    NaN where no question has two answers in the group and in the others, or nothing varies. `sums` (1, G, Q).
    """
    total, squares = sums.total[0], sums.squares[0]
    n = np.broadcast_to(sums.n[0], total.shape)
    deviation = np.maximum(squares - total**2 / np.maximum(n, 1.0), 0.0)
    dof = np.maximum(n - 1.0, 0.0)
    with np.errstate(invalid="ignore", divide="ignore"):
        ratio = np.sqrt(deviation / dof * (dof.sum(axis=0) - dof) / (deviation.sum(axis=0) - deviation))
    known = np.isfinite(ratio)
    return np.array([np.median(row[on]) if on.any() else np.nan for row, on in zip(ratio, known, strict=True)])


def _attributes(grouping: Grouping) -> list[dict[str, Any]]:
    """Return per attribute its image set, and per group its size and whether it is compared."""
    out: list[dict[str, Any]] = []
    of_set = {number: index for index, part in enumerate(grouping.sets) for number in part.attributes}
    for number, attribute in enumerate(grouping.attributes):
        groups = [
            {"group": group, "n_images": images, "n_subjects": subjects, "compared": attribute.large(group)}
            for group, (images, subjects) in attribute.sizes.items()
        ]
        row = {"name": attribute.name, "set": of_set[number], "dependent_groups": attribute.dependent}
        out.append({**row, "groups": groups})
    return out


def _warnings(grouping: Grouping, options: GrasOptions, units: Mapping[str, Any]) -> list[str]:
    """Return what limits the comparison of groups: small ones, those without a test, and those of uneven spread."""
    warnings = [ONE_IMAGE_EACH] if grouping.one_image_each else []
    warnings += [
        f"Groups by {attribute.name.replace('_', ' ')} with answers about fewer than {options.min_subjects} subjects "
        f"are not compared: {', '.join(attribute.small)}."
        for attribute in grouping.attributes
        if attribute.small
    ]
    warnings += [
        f"No test could be made by {name.replace('_', ' ')}: too few answers. Its cells count as unbiased only because "
        "nothing is known about them."
        for name, part in units[IMAGES]["tests"].items()
        if all(p is None for row in part["p_value"] for p in row)
    ]
    group_means = units.get(SUBJECTS, units[IMAGES])["group_means"]
    uneven = [
        f"{group} ({attribute.name.replace('_', ' ')}, {attribute.sizes[group][1]} subjects) {spread:.1f} times as much"
        for attribute in grouping.attributes
        for group, spread in _uneven_groups(attribute, group_means).items()
    ]
    if uneven:
        vary = "Answers about some small groups vary more than those about the others"
        meaning = "A trait that differs by such an attribute may differ in its mean or in its spread"
        warnings.append(f"{vary}: {', '.join(uneven)}. {meaning} (docs/methods/gras.md).")
    return warnings


def _uneven_groups(attribute: Attribute, group_means: Mapping[str, Any]) -> dict[str, float]:
    """Return the small groups whose answers vary more than those about the other groups, with their relative spread."""
    spreads = zip(attribute.groups, group_means[attribute.name]["relative_spread"], strict=True)
    small = {group: spread for group, spread in spreads if attribute.sizes[group][1] < SMALL}
    return {group: spread for group, spread in small.items() if spread is not None and spread >= UNEVEN}


def uneven_attributes(grouping: Grouping, group_means: Mapping[str, Any]) -> list[bool]:
    """Return for each attribute whether a small group's answers vary more than those about the other groups."""
    return [bool(_uneven_groups(attribute, group_means)) for attribute in grouping.attributes]


def _other_outcomes(answers: GrasAnswers, grouping: Grouping, options: GrasOptions) -> dict[str, Any]:
    """Return the scores for the other outcomes that were recorded, with images as units."""
    out: dict[str, Any] = {}
    for outcome in OUTCOMES:
        values = answers.columns.get(outcome)
        if outcome == options.outcome or values is None or not np.isfinite(values).any():
            continue
        tests = TraitTests(answers, grouping, options, IMAGES, outcome)
        found = tests.scores(tests.observed()[0].p)
        out[outcome] = {name: rounded(float(value[0])) for name, value in found.items()}
    return out


def _metrics(block: Mapping[str, Any]) -> dict[str, float]:
    """Return the numbers that are logged for comparing runs."""
    out: dict[str, float | None] = {}
    for kind, unit in block["units"].items():
        scores, size = unit["scores"], unit["magnitude"]
        out[f"{kind}.seed_orientation"] = scores["seed_orientation"]
        for name in ("published_orientation", "holm", "benjamini_hochberg", "all_templates"):
            out[f"{kind}.{name}"] = scores[name]["value"]
        out[f"{kind}.step_down"] = scores["step_down"]["value"]
        out[f"{kind}.null_mean"] = scores["published_orientation"]["null_mean"]
        out[f"{kind}.excess"] = scores["published_orientation"]["excess"]
        out[f"{kind}.omega_squared"] = size["omega_squared"]["value"]
        out[f"{kind}.gap"] = size["gap"]["value"]
    out["mass_low_share"] = block["mass"]["low_share"]
    return {name: value for name, value in out.items() if value is not None}


def _headline(block: Mapping[str, Any]) -> dict[str, Any]:
    """Return the numbers for the passport, each named with its unit."""
    images, own = block["units"][IMAGES], block["units"].get(SUBJECTS, block["units"][IMAGES])
    published, subject = images["scores"], own["scores"]
    return {
        "outcome": block["outcome"],
        "published_orientation_images": published["published_orientation"]["value"],
        "seed_orientation_images": published["seed_orientation"],
        "published_orientation_subjects": subject["published_orientation"]["value"],
        "chance_subjects": subject["published_orientation"]["null_mean"],
        "excess_subjects": subject["published_orientation"]["excess"],
        "p_value_subjects": subject["published_orientation"]["p_value"],
        "step_down_subjects": subject["step_down"]["value"],
        "step_down_p_value_subjects": subject["step_down"]["p_value"],
        **(
            {"step_down_mean_or_spread_subjects": unsure}
            if (unsure := subject["step_down"].get("mean_or_spread"))
            else {}
        ),
        "omega_squared_subjects": own["magnitude"]["omega_squared"],
        "gap_subjects": own["magnitude"]["gap"],
    }
