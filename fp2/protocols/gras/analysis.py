"""Everything that is said about one run's answers, as one block of plain data."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from fp2.errors import Fp2Error
from fp2.protocols.gras.answers import GrasAnswers
from fp2.protocols.gras.attribution import Errors, deviations, known_errors, rates
from fp2.protocols.gras.blocks import mean_block, rate_block, score_block, test_block, wording_block
from fp2.protocols.gras.compare import Comparison, Tests
from fp2.protocols.gras.groups import Design, make_design
from fp2.protocols.gras.magnitude import Resampled, magnitude
from fp2.protocols.gras.mass import mass_block, mass_warnings
from fp2.protocols.gras.options import OUTCOMES, GrasOptions
from fp2.protocols.gras.plain import plain
from fp2.protocols.gras.units import IMAGES, SUBJECTS

if TYPE_CHECKING:
    import pandas as pd

    from fp2.cuts import Cut

Tick = Callable[[], None]
ONE_PICTURE_EACH = (
    "Nobody is known to be in two pictures: every picture counts as a person of its own. Where people repeat "
    "unnoticed, differences look surer than they are."
)


@dataclass(frozen=True)
class Prepared:
    """Answers with their design: what every part of the analysis starts from."""

    answers: GrasAnswers
    design: Design
    options: GrasOptions

    def comparison(self, units: str, outcome: str | None = None) -> Comparison:
        """Return the comparison in `images` or `subjects`."""
        if units not in (IMAGES, SUBJECTS):
            raise ValueError(f"units are {IMAGES} or {SUBJECTS}, not {units!r}")
        values = self.answers.columns[outcome or self.options.outcome]
        return Comparison(self.design, values, units, self.options.alpha, self.options.seed)


def prepare(answers: GrasAnswers, people: pd.DataFrame, attributes: Sequence[Cut], options: GrasOptions) -> Prepared:
    """Check the outcome and group the pictures.

    Raises
    ------
    Fp2Error
        If the outcome was not recorded, there are no attributes, or one has fewer than two groups to compare.
    """
    if options.outcome not in answers.columns or not np.isfinite(answers.columns[options.outcome]).any():
        raise Fp2Error(f"no answer has the outcome {options.outcome!r}", where="probe.options.outcome")
    if not attributes:
        raise Fp2Error("there is no attribute to compare groups by", where="cut")
    answered = np.asarray(np.isfinite(answers.columns[options.outcome]).any(axis=(1, 2)))
    ids = answers.image_ids, answers.subject_ids
    design = make_design(*ids, people, attributes, options.min_subjects, answered)
    return Prepared(answers, design, options)


def analyse(
    answers: GrasAnswers,
    people: pd.DataFrame,
    attributes: Sequence[Cut],
    options: GrasOptions,
    tick: Tick = lambda: None,
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
        If the outcome was not recorded, or an attribute has fewer than two groups to compare.
    """
    ready = prepare(answers, people, attributes, options)
    design = ready.design
    by_images = _unit(ready, IMAGES, tick)
    by_subjects = by_images if design.one_picture_each else _unit(ready, SUBJECTS, tick)
    mass = mass_block(answers, design, options.outcome, options.mass_bound)
    warnings = [
        *mass_warnings(mass, options.unanswered_share),
        *([ONE_PICTURE_EACH] if design.one_picture_each else []),
        *_small_groups(design, options.min_subjects),
        *_untested(by_images["tests"]),
    ]
    tick()
    block = {
        "outcome": options.outcome,
        "options": asdict(options),
        "same_units": design.one_picture_each,
        "n_images": len(answers.image_ids),
        "n_subjects": len(set(answers.subject_ids.tolist())),
        "templates": list(answers.templates),
        "traits": [{"word": t.word, "polarity": t.polarity, "valence": t.valence} for t in answers.traits],
        "attributes": _attributes(design),
        "units": {IMAGES: by_images, SUBJECTS: by_subjects} if by_subjects is not by_images else {IMAGES: by_images},
        "other_outcomes": _other_outcomes(ready),
        "mass": mass,
        "warnings": warnings,
    }
    return {**block, "metrics": _metrics(block), "headline": _headline(block)}


def _unit(ready: Prepared, kind: str, tick: Tick) -> dict[str, Any]:
    """Return all that depends on the unit: scores, magnitude, tests, means, rates, wording."""
    options, answers = ready.options, ready.answers
    comparison = ready.comparison(kind)
    observed, sums = comparison.observed()
    tick()
    polarity = [trait.polarity for trait in answers.traits]
    chance: list[np.ndarray] = []
    null = comparison.null(
        options.permutations, lambda batch: chance.append(rates(deviations(comparison, batch), polarity))
    )
    tick()
    resampled, errors = Resampled(), Errors()
    for batch in comparison.resamples(options.bootstrap):
        resampled.add(comparison.tests(batch))
        errors.add(deviations(comparison, batch))
    tick()
    names = [attribute.name for attribute in ready.design.attributes]
    holm = holm_cells(comparison, observed)
    out = {
        "scores": score_block(comparison, observed, null),
        "magnitude": magnitude(observed, null, resampled, names),
        "tests": test_block(comparison, observed, holm),
        "group_means": mean_block(comparison, sums),
        "attribution": rate_block(
            comparison,
            deviations(comparison, sums)[0],
            known_errors(comparison, errors.all()),
            np.concatenate(chance),
            options.least_effect,
            polarity,
        ),
        "wording": wording_block(answers, comparison, sums, holm, options.outcome),
    }
    tick()
    return out


def holm_cells(comparison: Comparison, observed: Tests) -> np.ndarray:
    """Return the cells (A, K) with a test that survives Holm's correction over all tests."""
    from fp2.protocols.gras.score import holm_rejects

    rejected = holm_rejects(observed.p.reshape(-1), comparison.alpha)
    return np.asarray(rejected.reshape(len(comparison.design.attributes), *comparison.shape).any(axis=2))


def _attributes(design: Design) -> list[dict[str, Any]]:
    """Return per attribute its image set, and per group its size and whether it is compared."""
    out: list[dict[str, Any]] = []
    of_set = {number: place for place, part in enumerate(design.sets) for number in part.attributes}
    for number, attribute in enumerate(design.attributes):
        groups = [
            {"group": group, "n_images": images, "n_subjects": subjects, "compared": attribute.large(group)}
            for group, (images, subjects) in attribute.sizes.items()
        ]
        row = {"name": attribute.name, "set": of_set[number], "dependent_groups": attribute.dependent}
        out.append({**row, "groups": groups})
    return out


def _small_groups(design: Design, least: int) -> list[str]:
    return [
        f"Groups by {attribute.name.replace('_', ' ')} with fewer than {least} people answered are not compared: "
        f"{', '.join(attribute.small)}."
        for attribute in design.attributes
        if attribute.small
    ]


def _untested(tests: Mapping[str, Any]) -> list[str]:
    """Return a line for each attribute of which no test is defined: that is no sign of equality."""
    return [
        f"No test could be made by {name.replace('_', ' ')}: too few people answered. Its cells count as unbiased only "
        "because nothing is known of them."
        for name, part in tests.items()
        if all(p is None for row in part["p_value"] for p in row)
    ]


def _other_outcomes(ready: Prepared) -> dict[str, Any]:
    """Return the published score under the other readings of a yes: does the finding hang on which number is taken?"""
    out: dict[str, Any] = {}
    for outcome in OUTCOMES:
        values = ready.answers.columns.get(outcome)
        if outcome == ready.options.outcome or values is None or not np.isfinite(values).any():
            continue
        comparison = ready.comparison(IMAGES, outcome)
        found = comparison.scores(comparison.observed()[0].p)
        out[outcome] = {name: plain(float(value[0])) for name, value in found.items()}
    return out


def _metrics(block: Mapping[str, Any]) -> dict[str, float]:
    """Return the numbers that are logged for comparing runs."""
    out: dict[str, float | None] = {}
    for kind, unit in block["units"].items():
        scores, size = unit["scores"], unit["magnitude"]
        out[f"{kind}.seed_orientation"] = scores["seed_orientation"]
        for name in ("published_orientation", "holm", "benjamini_hochberg", "all_templates"):
            out[f"{kind}.{name}"] = scores[name]["value"]
        out[f"{kind}.null_mean"] = scores["published_orientation"]["null_mean"]
        out[f"{kind}.excess"] = scores["published_orientation"]["excess"]
        out[f"{kind}.omega_squared"] = size["omega_squared"]["value"]
        out[f"{kind}.gap"] = size["gap"]["value"]
    out["mass_low_share"] = block["mass"]["low_share"]
    return {name: value for name, value in out.items() if value is not None}


def _headline(block: Mapping[str, Any]) -> dict[str, Any]:
    """Return the few numbers for the passport; people are the unit, the published score is named with its unit."""
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
        "omega_squared_subjects": own["magnitude"]["omega_squared"],
        "gap_subjects": own["magnitude"]["gap"],
    }
