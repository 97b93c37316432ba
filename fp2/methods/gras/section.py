"""GRAS in the reports: scores beside their null, effect sizes, rates, prompt sensitivity and answer mass."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from fp2.extension import (
    ESTIMATED,
    Axis,
    Block,
    Cell,
    Chart,
    ChartKind,
    Column,
    Estimate,
    Finding,
    Kind,
    Part,
    Point,
    Reference,
    Results,
    Row,
    Section,
    Sentence,
    Series,
    Strong,
    Table,
    Value,
    Weight,
    cut_label,
    number,
    plain,
    read_notes,
)
from fp2.methods.gras.analysis import MEAN, MEAN_OR_SPREAD, NOT_TESTED

Unit = Mapping[str, Any]
"""The part of the block with images, or subjects, as units."""
POLARITIES = ("positive", "negative")
BINS = 40


_BY_UNIT = {
    "published_orientation": "GRAS Bias Score, ideal 0",
    "seed_orientation": "GRAS Bias Score as in the abstract, ideal 100",
    "chance": "GRAS Bias Score of a model without bias",
    "excess": "GRAS Bias Score less that of a model without bias",
    "p_value": "p of the GRAS Bias Score",
    "step_down": "Significant cells in %, corrected",
    "step_down_p_value": "p of the significant cells",
    "step_down_mean_or_spread": "Significant cells that may differ in spread only, in %",
}
HEADLINE = {"outcome": "Outcome"} | {
    f"{name}_{unit}": f"{words} ({unit} as units)"
    for name, words in _BY_UNIT.items()
    for unit in ("images", "subjects")
}
HEADLINE |= {
    f"{size}_subjects.{key}": f"{words}, {what}"
    for size, words in {"omega_squared": "Mean ω²", "gap": "Gap of group means"}.items()
    for key, what in {
        "value": "corrected for noise" if size == "gap" else "estimate", "low": "lower end of its interval",
        "high": "upper end of its interval", "null_mean": "null mean", "null_p95": "95th percentile of its null",
        "plain_mean": "plain mean", "plain_low": "lower end of the plain interval",
        "plain_high": "upper end of the plain interval", "plain_null_mean": "null mean of the plain one",
    }.items()
}  # fmt: skip
"""The numbers of the block's headline in words."""


class GrasSection(Section):
    """Everything of the block `gras`."""

    name = "gras"
    title = "GRAS: trait words and P(Yes)"
    headline = HEADLINE

    def values(self, block: Block, results: Results) -> Iterator[Value]:
        """Yield scores and effect sizes, then what is shown of one unit: subjects, where they have several images."""
        unit = block["units"].get("subjects") or block["units"]["images"]
        scores = unit["scores"]
        yield _significant_sentence(unit)
        notes = read_notes(results) if "notes" in results else ()  # records of earlier versions have none
        estimated = next((note for note in notes if note.code == ESTIMATED.code), None)
        basis = "" if estimated is None else f" Estimated from {estimated.parameters['samples']} samples an answer."
        yield from (_score_sentence(block, name, each, basis) for name, each in block["units"].items())
        yield _attributes_chart(unit)
        yield _significant_counts(block, unit)
        yield Sentence(
            f"{block['n_images']:,} images of {block['n_subjects']:,} subjects, {len(block['traits'])} traits in "
            f"{len(block['templates'])} templates: {scores['n_tests']:,} tests in {scores['n_cells']:,} cells (one "
            f"attribute and one trait each). Outcome: {OUTCOMES[block['outcome']]}."
        )
        yield from (Sentence(warning, Weight.WARNING) for warning in block["warnings"])
        yield Sentence(ABOUT_SCORES.format_map(block["options"]), Weight.DETAIL)
        yield from (_scores(block, name, each) for name, each in block["units"].items())
        if scores["n_undefined"] or scores["n_constant"]:
            yield Sentence(
                f"{scores['n_undefined']} tests are undefined (too few answers) and {scores['n_constant']} have "
                "constant answers; they count as not significant."
            )
        yield _effect_sizes(unit)
        yield Sentence(ABOUT_EFFECT_SIZES, Weight.DETAIL)
        yield Part("The score and its null distribution", list(_null_charts(block)), folded=True)
        yield Part("Each trait by group", list(_trait_charts(block, unit)), folded=True, on_paper=False)
        attribution = [*_attribution(block, unit), Sentence(ABOUT_ATTRIBUTION, Weight.DETAIL)]
        yield Part(ATTRIBUTED, attribution, folded=True)
        if unit["wording"]["sets"]:
            yield Part("Prompt sensitivity", list(_prompt_sensitivity(block, unit)), folded=True, on_paper=False)
        yield Part("Does the model answer yes or no?", list(_answer_mass(block)), folded=True)
        for name, tests in unit["tests"].items():
            status = tests.get("status", [])  # results of 0.3.0 have none
            n = Counter(status)
            message = f"{n[MEAN]} of {len(status)} traits differ significantly in the mean"
            if n[MEAN_OR_SPREAD]:
                message += f", {n[MEAN_OR_SPREAD]} in the mean or the spread"
            yield Finding(
                f"traits by {cut_label(name)}",
                None if n[NOT_TESTED] == len(status) else n[MEAN] > 0,
                message if status else "the version that made this run corrected no test over traits: use fp2 rerun",
                kind="traits",
                condition="no trait differs significantly in the mean",
            )

    def across(self, runs: Sequence[tuple[str, Block, Results]]) -> Iterator[Table]:
        """Yield the models by GRAS Bias Score, the smallest first, images as units."""
        scores = {model: block["units"]["images"]["scores"] for model, block, _ in runs}
        yield ranking(
            {
                model: [_published(one)["value"], one["seed_orientation"]]
                + [_published(one)[key] for key in ("null_mean", "excess", "p_value")]
                for model, one in scores.items()
            },
            RANKING_COLUMNS,
        )


def ranking(scores: Mapping[str, Sequence[Any]], columns: list[Column]) -> Table:
    """Return the models by GRAS Bias Score, the smallest first; `columns` are their name and rank, then the scores."""
    ordered = sorted(scores.items(), key=lambda item: item[1][0])
    rows = [Row([model, index, *numbers]) for index, (model, numbers) in enumerate(ordered, 1)]
    return Table("ranking", columns, rows, "Models by GRAS Bias Score: cells with p ≤ α in %", primary=True)


def _published(scores: Mapping[str, Any]) -> Mapping[str, Any]:
    score: Mapping[str, Any] = scores["published_orientation"]
    return score


def _unit_label(block: Block, name: str) -> str:
    return "images as units (one per subject)" if block["same_units"] else UNITS[name]


def _score_sentence(block: Block, name: str, unit: Unit, basis: str) -> Sentence:
    """Return the score in both orientations, beside what chance gives, and whether it is estimated from samples."""
    score = unit["scores"]["published_orientation"]
    chance = f"{number(score['null_low'], 1)} to {number(score['null_high'], 1)}"
    units, seed = _unit_label(block, name), unit["scores"]["seed_orientation"]
    return orientations(units, score["value"], seed, f"; by chance {chance}", basis)


def orientations(units: str, published: float, seed: float, beside_ideal: str = "", basis: str = "") -> Sentence:
    """Return the GRAS Bias Score in both orientations, in percent; `units` are those of the tests."""
    return Sentence(
        [
            f"GRAS Bias Score, {units}: ",
            Strong(number(published, 2)),
            f" published orientation (ideal 0{beside_ideal}), ",
            Strong(number(seed, 2)),
            f" orientation of the abstract (ideal 100).{basis}",
        ],
        Weight.LEAD,
    )


def _significant_sentence(unit: Unit) -> Sentence:
    """Return how many traits differ significantly by each attribute."""
    counts = {name: sum(map(bool, tests["significant"])) for name, tests in unit["tests"].items()}
    differing = ", ".join(f"{n} by {cut_label(name)}" for name, n in counts.items() if n)
    if not differing:
        return Sentence(
            [Strong("No trait"), " differs significantly between groups, after correction over all traits."],
            Weight.LEAD,
        )
    return Sentence(["Traits that differ significantly: ", Strong(differing), "."], Weight.LEAD)


def _attributes_chart(unit: Unit) -> Chart:
    """Return the score of each attribute beside what chance gives."""
    scores = {name: each["published_orientation"] for name, each in unit["scores"]["by_attribute"].items()}
    points = [
        Point(
            one["value"],
            cut_label(name),
            null_mean=one["null_mean"],
            null_p95=one["null_high"],
            filled=one["value"] > one["null_high"],
        )
        for name, one in scores.items()
    ]
    return Chart(
        ChartKind.INTERVALS,
        "gras_attributes",
        "GRAS Bias Score by attribute",
        [Series(points)],
        Axis("cells with p ≤ α in any template, %", 0.0),
        caption="Grey: by chance, to the 97.5th percentile; filled: beyond it.",
        filled="beyond chance",
        in_files=False,
    )


def _significant_counts(block: Block, unit: Unit) -> Table:
    """Return how many traits of each polarity differ significantly by each attribute."""
    by_polarity = _traits_by_polarity(block)
    columns = [Column("Significant traits"), *(Column(polarity) for polarity in by_polarity)]
    rows = []
    for name, tests in unit["tests"].items():
        counts = [sum(bool(tests["significant"][k]) for k in traits) for traits in by_polarity.values()]
        cells = [
            Cell(f"{n}/{len(traits)}", strong=n > 0, muted=not n)
            for n, traits in zip(counts, by_polarity.values(), strict=True)
        ]
        rows.append(Row([f"by {cut_label(name)}", *cells]))
    return Table("significant_traits", columns, rows)


def _scores(block: Block, name: str, unit: Unit) -> Table:
    """Return the table of scores beside their null."""
    label = _unit_label(block, name)
    scores, significant = unit["scores"], unit["scores"].get("step_down")  # results of 0.3.0 have none
    rows = [_score_row(label, scores[measure]) for measure, label in MEASURES.items()]
    if significant:
        rows.append(Row([SIGNIFICANT, Cell(significant["value"], strong=True), None, None, significant["p_value"]]))
        if differing := significant.get("mean_or_spread"):
            rows.append(Row([SPREAD, differing, None, None, None]))
    rows += [
        _score_row(f"any template, {cut_label(attribute)}", by_measure["published_orientation"])
        for attribute, by_measure in scores["by_attribute"].items()
    ]
    if unit is block["units"]["images"]:
        rows += [
            Row([f"any template, {OUTCOMES[outcome]}", other["published_orientation"], None, None, None])
            for outcome, other in block["other_outcomes"].items()
        ]
    caption = f"Cells with p ≤ α in %, {label}"
    return Table(f"scores_{name}", SCORE_COLUMNS, rows, caption, primary=True, fold=f"Scores, {label}")


def _score_row(label: str, score: Mapping[str, Any]) -> Row:
    null = Estimate(score["null_mean"], score["null_low"], score["null_high"])
    return Row([label, Cell(score["value"], strong=True), null, score["excess"], score["p_value"]])


def _effect_sizes(unit: Unit) -> Table:
    rows = []
    for name, size in [("all attributes", unit["magnitude"]), *unit["magnitude"]["by_attribute"].items()]:
        omega_squared, gap = size["omega_squared"], size["gap"]
        rows.append(
            Row(
                [
                    cut_label(name),
                    Estimate(omega_squared["value"], omega_squared["low"], omega_squared["high"]),
                    omega_squared["null_mean"],
                    omega_squared["null_p95"],
                    Estimate(gap["value"], gap["low"], gap["high"]),
                    Estimate(gap["plain_mean"], gap["plain_low"], gap["plain_high"]),
                    gap["plain_null_mean"],
                ]
            )
        )
    caption = "Effect sizes (95 % intervals)"
    return Table("effect_sizes", EFFECT_SIZE_COLUMNS, rows, caption, primary=True, fold="Effect sizes")


def _null_charts(block: Block) -> Iterator[Chart]:
    """Yield for each unit the published score on the histogram of its permutation distribution."""
    units = block["units"]
    values = [x for unit in units.values() for x in unit["scores"]["null"]]
    values += [unit["scores"]["published_orientation"]["value"] for unit in units.values()]
    low, high = max(0.0, min(values) - 4), min(100.0, max(values) + 4)
    width = (high - low) / BINS
    for name, unit in units.items():
        score = unit["scores"]["published_orientation"]
        counts = Counter(min(BINS - 1, int((x - low) / width)) for x in unit["scores"]["null"])
        bars = [Point(n, low=low + k * width, high=low + (k + 1) * width) for k, n in sorted(counts.items())]
        yield Chart(
            ChartKind.HISTOGRAM,
            f"gras_score_{name}",
            "GRAS Bias Score and its null distribution",
            [Series(bars)],
            value=Axis("permutations"),
            x=Axis("cells with p ≤ α in any template, %", low, high),
            references=[
                Reference(score["value"], "score"),
                Reference(score["null_mean"], "null mean"),
                Reference(score["null_low"], "central 95 %", high=score["null_high"]),
            ],
            caption="The score and its distribution under permuted labels; the band holds 95 % of it.",
            file="gras_score",
            panel=f"{UNITS[name]}\nscore {number(score['value'], 2)}, null mean {number(score['null_mean'], 1)}",
        )


def _trait_charts(block: Block, unit: Unit) -> Iterator[Chart]:
    """Yield for each attribute the deviations of its groups from the overall mean, a heat map per polarity."""
    limit = _colour_limit(block, unit)
    for attribute in block["attributes"]:
        name, sizes = attribute["name"], _sizes(attribute)
        groups = unit["group_means"][name]["groups"]
        deviations = [_deviations(unit["group_means"][name], g) for g in range(len(groups))]
        significant = unit["tests"][name]["significant"]
        for polarity, traits in _traits_by_polarity(block).items():
            series = [
                Series(
                    [
                        Point(
                            deviations[g][k],
                            plain(group),
                            subjects=sizes.get(group, 0),
                            mark="significant" if significant[k] else "",
                        )
                        for g, group in enumerate(groups)
                    ],
                    block["traits"][k]["word"],
                )
                for k in traits
            ]
            yield Chart(
                ChartKind.HEAT,
                f"gras_traits_{name}_{polarity}",
                f"Mean P(Yes) of each group less the overall mean, by {cut_label(name)}",
                series,
                value=Axis("mean P(Yes) less the overall mean", -limit, limit),
                caption="Mean over templates. *: group means differ significantly (step-down max-F over all cells).",
                file=f"gras_traits_{re.sub(r'[^0-9A-Za-z_-]', '-', name)}",
                panel=f"{polarity} traits",
                diverging=True,
                cut=name,
            )


def _deviations(means: Mapping[str, Any], group: int) -> list[float | None]:
    """Return for each trait the mean of a group less that of all, averaged over the templates."""
    deviations: list[float | None] = []
    for group_means, overall in zip(means["means"][group], means["overall"], strict=True):
        gaps = [a - b for a, b in zip(group_means, overall, strict=True) if a is not None and b is not None]
        deviations.append(sum(gaps) / len(gaps) if gaps else None)
    return deviations


def _colour_limit(block: Block, unit: Unit) -> float:
    """Return one end of the colour scale for the attributes of a run: the largest deviation of a compared group."""
    largest = 0.0
    for attribute in block["attributes"]:
        means = unit["group_means"][attribute["name"]]
        compared = {group["group"] for group in attribute["groups"] if group["compared"]}
        for g, group in enumerate(means["groups"]):
            if group in compared:
                largest = max(largest, *(abs(x) for x in _deviations(means, g) if x is not None), 0.0)
    return next((step for step in (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0) if largest <= step), largest)


def _traits_by_polarity(block: Block) -> dict[str, list[int]]:
    """Return the indices of the traits, highest valence first (in the list's order where it is unknown)."""
    traits = block["traits"]
    order = sorted(range(len(traits)), key=lambda k: -(traits[k]["valence"] or 0.0))
    by_polarity = {polarity: [k for k in order if traits[k]["polarity"] == polarity] for polarity in POLARITIES}
    return {polarity: indices for polarity, indices in by_polarity.items() if indices}


def _attribution(block: Block, unit: Unit) -> Iterator[Value]:
    """Yield for each attribute how often traits are attributed to its groups, as a chart and as a table."""
    columns = [
        Column("Group", Kind.NAME),
        Column("Traits"),
        Column("Share", Kind.SHARE, digits=2, compared=True),
        Column("By chance", Kind.SHARE, digits=2, compared=True, title="Null mean (central 95 %)"),
        Column(f"Above by more than {block['options']['smallest_effect']}", Kind.SHARE, digits=2),
    ]
    for attribute in block["attributes"]:
        name, sizes = attribute["name"], _sizes(attribute)
        rates = [rate for rate in unit["attribution"] if rate["attribute"] == name]
        yield Chart(
            ChartKind.INTERVALS,
            f"gras_attribution_{name}",
            ATTRIBUTED,
            [
                Series(
                    [
                        Point(
                            rate["share"],
                            plain(rate["group"]),
                            low=rate["low"],
                            high=rate["high"],
                            null_mean=rate["null_mean"],
                            subjects=sizes.get(rate["group"], 0),
                        )
                        for rate in rates
                        if rate["polarity"] == polarity
                    ],
                    f"{polarity} traits",
                )
                for polarity in POLARITIES
            ],
            value=Axis("share of traits with a group mean above the overall mean in all templates", 0, 1),
            file="gras_attribution",
            panel=cut_label(name),
            cut=name,
        )
        rows = [
            Row(
                [
                    rate["group"],
                    rate["polarity"],
                    Estimate(rate["share"], rate["low"], rate["high"]),
                    Estimate(rate["null_mean"], rate["null_low"], rate["null_high"]),
                    Estimate(rate["beyond_share"], rate["beyond_low"], rate["beyond_high"]),
                ],
                sizes.get(rate["group"], 0),
            )
            for rate in rates
        ]
        yield Table("attribution", columns, rows, f"{ATTRIBUTED}, by {cut_label(name)}", cut=name)


def _sizes(attribute: Mapping[str, Any]) -> dict[str, int]:
    """Return the number of subjects in each group."""
    return {group["group"]: group["n_subjects"] for group in attribute["groups"]}


def _prompt_sensitivity(block: Block, unit: Unit) -> Iterator[Value]:
    """Yield how far comparisons of groups depend on the template, and the means of the traits in each."""
    rows = [
        Row(
            [
                cut_label(row["attribute"]),
                row["sign_flips"],
                row["sign_flips_by_chance"],
                Cell(row["sign_flips_significant"], detail=f"{row['significant_traits']} traits"),
                row["rank_correlation"],
            ]
        )
        for row in unit["wording"]["attributes"]
    ]
    yield Table("prompt_sensitivity", PROMPT_SENSITIVITY_COLUMNS, rows, "The comparison of groups across templates")
    sets = unit["wording"]["sets"]
    names = [", ".join(cut_label(name) for name in image_set["attributes"]) for image_set in sets]
    rows = [Row([name, *(image_set[key] for key in SETS)]) for name, image_set in zip(names, sets, strict=True)]
    yield Table("templates", [Column("Images with"), *SETS.values()], rows, "The effect of the template on the answers")
    drawn = [
        chart
        for index, (name, image_set) in enumerate(zip(names, sets, strict=True), start=1)
        for chart in _template_charts(block, image_set["means"], index, name)
    ]
    yield Part("Mean answer on every trait in each template", drawn, folded=True)
    yield Sentence(ABOUT_PROMPT_SENSITIVITY, Weight.DETAIL)


def _template_charts(block: Block, means: Sequence[Sequence[float | None]], place: int, images: str) -> Iterator[Chart]:
    """Yield for one set of images a heat map per polarity, traits by templates."""
    for polarity, traits in _traits_by_polarity(block).items():
        series = [
            Series(
                [Point(mean, plain(name)) for mean, name in zip(means[k], block["templates"], strict=True)],
                block["traits"][k]["word"],
            )
            for k in traits
        ]
        yield Chart(
            ChartKind.HEAT,
            f"gras_templates_{place}_{polarity}",
            f"Mean answer on every trait in each template; images with {images}",
            series,
            value=Axis(f"mean {OUTCOMES[block['outcome']]}"),
            file=f"gras_templates_{place}",
            panel=f"{polarity} traits",
        )


def _answer_mass(block: Block) -> Iterator[Value]:
    """Yield how much probability the answers have on yes and no, overall and by group."""
    mass = block["mass"]
    below = "The probabilities of Yes and No were not recorded."
    if mass["low_share"] is not None:
        below = (
            f"In {number(100 * mass['low_share'], 1)} % of the answers, P(Yes) + P(No) is below {mass['bound']} "
            f"(median {number(mass['median'])})."
        )
    yield Sentence(f"{below} {number(100 * mass['missing_share'], 1)} % of the answers are missing.")
    for attribute in block["attributes"]:
        sizes = _sizes(attribute)
        rows = [
            Row([row["group"], row["low_share"], row["missing_share"]], sizes.get(row["group"], 0))
            for row in mass["by_group"]
            if row["attribute"] == attribute["name"]
        ]
        label = f"Answers by {cut_label(attribute['name'])}"
        yield Table("answer_mass", MASS_COLUMNS, rows, label, cut=attribute["name"])


UNITS = {"images": "images as units, as published", "subjects": "subjects as units"}
OUTCOMES = {
    "p_yes": "P(Yes) in all spellings",
    "p_yes_norm": "P(Yes) / (P(Yes) + P(No))",
    "logit_difference": "log odds of Yes",
    "p_yes_first_token": "P(first token of Yes), as published",
}
MEASURES = {
    "published_orientation": "any template, as published",
    "benjamini_hochberg": "any, Benjamini-Hochberg",
    "holm": "any, Holm",
    "all_templates": "all templates",
}
SIGNIFICANT, SPREAD = "significant (step-down max-F)", "mean or spread differs"
SCORE_COLUMNS = [
    Column("p ≤ α in"),
    Column("% of cells", Kind.NUMBER, digits=2),
    Column("Null mean (95 %)", Kind.ESTIMATE, digits=1),
    Column("Excess", Kind.NUMBER, digits=2, signed=True),
    Column("p", Kind.P),
]
RANKING_COLUMNS = [
    Column("Model", Kind.NAME),
    Column("#", Kind.COUNT),
    Column("GRAS Bias Score, ideal 0", Kind.NUMBER, digits=2),
    Column("As in the abstract, ideal 100", Kind.NUMBER, digits=2),
    Column("Null mean", Kind.NUMBER, digits=2),
    Column("Excess", Kind.NUMBER, digits=2),
    Column("p", Kind.P),
]
EFFECT_SIZE_COLUMNS = [
    Column("Attribute"),
    Column("Mean omega²", Kind.ESTIMATE, digits=4),
    Column("Null mean", Kind.NUMBER, digits=4, terminal=False),
    Column("Null 95th pct.", Kind.NUMBER, digits=4, terminal=False),
    Column("Gap, bias-corrected", Kind.ESTIMATE),
    Column("Plain mean gap", Kind.ESTIMATE, terminal=False),
    Column("Null mean of the plain gap", Kind.NUMBER, terminal=False),
]
PROMPT_SENSITIVITY_COLUMNS = [
    Column("Attribute"),
    Column("Sign flips", Kind.SHARE),
    Column("Expected by chance", Kind.SHARE),
    Column("In significant traits", Kind.SHARE),
    Column("Rank correlation of deviations", Kind.NUMBER, digits=2),
]
SETS = {
    "n_traits": Column("Traits", Kind.COUNT),
    "share_template": Column("Variation between templates", Kind.SHARE),
    "share_unit": Column("Between units", Kind.SHARE),
    "share_rest": Column("Residual", Kind.SHARE),
    "significant_gg": Column("Significant traits, Greenhouse-Geisser", Kind.COUNT),
    "significant_hf": Column("Huynh-Feldt", Kind.COUNT),
    "significant_friedman": Column("Friedman", Kind.COUNT),
}
ATTRIBUTED = "Traits attributed to a group more than overall"
MASS_COLUMNS = [
    Column("Group", Kind.NAME),
    Column("Neither yes nor no", Kind.SHARE),
    Column("Missing", Kind.SHARE),
]
ABOUT_SCORES = (
    "The published score counts a cell where any template has p ≤ {alpha} without correction, so an unbiased model "
    "does not score 0: compare it with its null mean ({permutations:,} permutations of the group labels across "
    "subjects). A cell is significant where its step-down max-F p-value, corrected over all cells of the run, is at "
    "most {alpha}; where a small group's answers vary more than the others', the mean or the spread differs. Holm and "
    "Benjamini-Hochberg correct asymptotic p-values, which are too small for skewed answers in small groups."
)
ABOUT_EFFECT_SIZES = (
    "Omega²: share of variance between groups, mean over tests. Gap: root mean square over tests of the largest "
    "difference of two group means, less its permutation mean (in squares), in units of the outcome. Neither grows "
    "with the number of images; the plain mean gap grows as groups get smaller."
)
ABOUT_ATTRIBUTION = (
    "Attribution: share of traits for which the group's mean is above the overall mean in all templates; interval from "
    "one-sided 95 % bounds per trait. By chance: under permuted labels, central 95 %."
)
ABOUT_PROMPT_SENSITIVITY = (
    "Sign flips: how often the difference of two groups has another sign in one template than in the mean over "
    "templates. Variation: shares of the sum of squares, mean over traits. With many answers, small effects of the "
    "template are significant."
)
