"""FHIBE's bias analyses in reports: highest disparities, conditions, error models, error patterns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from fp2.extension import (
    Axis,
    Block,
    Cell,
    Chart,
    ChartKind,
    Column,
    Kind,
    Name,
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
    correction_label,
    cut_label,
    number,
    plain,
)
from fp2.methods.fhibe.scores.benchmark_values import (
    ABBREVIATED,
    AGREEMENT,
    estimate,
    extreme_cells,
    group_cell,
    highest_disparities,
    intersection_findings,
    sizes_of,
    within_table,
)
from fp2.methods.fhibe.scores.published import REASONS

_RULES = 20
HOW_TO_READ = (
    "Published analysis (FHIBE): one score per subject and image, medians, Mann-Whitney tests of all pairs of groups, "
    "Bonferroni correction; several images of one subject count as independent. D = 1 − median of the worst group / "
    "median of the best (binary scores: proportions). Subject-level analysis: disparities (largest group mean minus "
    "the smallest) of means over subjects, group labels permuted across subjects, p adjusted over all cuts of a score "
    "({correction}). Where the two disagree, the reason that is given was checked on the data. A "
    "disparity that the features account for is not harmless: the groups may differ in just these features. A residual "
    "disparity does not show a cause: a feature may be missing. " + ABBREVIATED
)


class ScoresSection(Section):
    """The highest disparities, and for each outcome the two analyses, the error model and the error patterns."""

    name = "fhibe_scores"
    title = "FHIBE's bias analyses"

    def values(self, block: Block, results: Results) -> Iterator[Value]:
        """Yield the outcomes, the highest disparities, and the analyses of each outcome."""
        rows = []
        for scored in block["outcomes"]:
            whole = scored["benchmark"]
            both = sum(row["agreement"] == "both" for row in whole["rows"])
            highest = whole["top"][0]["disparity"] if whole["top"] else None
            detail = "some scores are below 0, of which D is not defined" if whole["negative"] else ""
            cells = [
                scored["label"],
                Cell(whole["direction"], detail),
                whole["n_subjects"],
                whole["n_images"],
                whole["overall"],
                highest,
                whole["n_cases"],
                both,
            ]
            rows.append(Row(cells))
        yield Table("outcomes", _OUTCOMES, rows, "Scores", primary=True)
        yield from highest_disparities(block, "fhibe_scores_top")
        for n, outcome in enumerate(block["outcomes"]):
            yield Part([Name(outcome["label"])], [*_analyses(outcome, n)])
        yield Sentence(
            HOW_TO_READ.format(correction=correction_label(results["analysis"]["correction"])), Weight.DETAIL
        )
        yield from intersection_findings(block, results)


def _analyses(outcome: Mapping[str, Any], n: int) -> Iterator[Value]:
    """Yield the analyses of one outcome."""
    rows = outcome["benchmark"]["rows"]
    compared = [
        Row(
            [
                cut_label(row["cut"]),
                row["n_groups"],
                (row["published"] or {}).get("disparity"),
                row["ours"]["raw"],
                row["ours"]["null_mean"],
                row["ours"]["adjusted_p"],
                AGREEMENT[row["agreement"]],
                "; ".join(REASONS.get(code, code) for code in row["reasons"]),
            ]
        )
        for row in rows
    ]
    yield Table(f"analyses_{n}", _COMPARED, compared, fold="Both analyses by cut")
    differing = [row for row in rows if row["agreement"] in ("both", "ours_only", "published_only")]
    if shares := [row for row in differing if (row.get("shares") or {}).get("pair")]:
        caption = "Proportions of the worst and the best group where one is significant, with 95 % intervals"
        yield Table(f"proportions_{n}", _PROPORTIONS, [_proportions(row) for row in shares], caption)
    for index, within in enumerate(outcome["within"]):
        yield within_table(outcome, within, f"within_{n}_{index}")
        label = outcome["label"]
        model, patterns = within.get("error_model") or {}, within.get("patterns") or {}
        if model.get("status") == "ok":
            yield _explained(model, [Strong(label), " within ", Name(within["condition"])])
        if patterns.get("status") == "ok":
            yield _replicated(patterns, [Strong(label), " within ", Name(within["condition"])])
    yield from _error_model(outcome.get("error_model") or {}, outcome["label"], n)
    yield from _patterns(outcome.get("patterns") or {}, outcome["label"], n)


def _proportions(row: Mapping[str, Any]) -> Row:
    pair, sizes = row["shares"]["pair"], sizes_of(row["shares"]["groups"])
    estimates = [estimate(pair, name, f"{name}_low", f"{name}_high") for name in ("difference", "ratio")]
    published = row["agreement"] == "published_only"
    groups = [replace(group_cell(pair[end], sizes), muted=published) for end in ("worst", "best")]
    cells: list[Any] = [cut_label(row["cut"]), *groups, AGREEMENT[row["agreement"]], *estimates]
    return Row(cells, min(sizes[pair["worst"]], sizes[pair["best"]]))


def _explained(model: Mapping[str, Any], what: list[str]) -> Sentence:
    features = ", ".join(plain(name.replace("_", " ")) for name in model["selected"])
    result = f"errors are associated with {features}" if model["explains"] else "no feature predicts the errors"
    auc = "" if model.get("auc") is None else f", AUC {number(model['auc'], 2)}"
    ends = f"{number(model['r2_low'], 2)} to {number(model['r2_high'], 2)}"
    return Sentence([*what, f": {result} (out-of-fold R² {number(model['r2'], 2)}, 95 % interval {ends}{auc})."])


def _replicated(patterns: Mapping[str, Any], what: list[str]) -> Sentence:
    share = f", {patterns['low_share']:.0%} of the images" if "low_share" in patterns else ""
    return Sentence(
        [
            *what,
            f": {patterns['n_held']} of {patterns['n_rules']} rules for low scores (up to "
            f"{number(patterns['threshold'])}{share}) were replicated on held-out subjects, whose base rate is "
            f"{number(patterns['base_rate_held'], 2)}.",
        ]
    )


def _error_model(model: Mapping[str, Any], label: str, n: int) -> Iterator[Value]:
    """Yield the features that are associated with errors, with their directions."""
    if model.get("status") != "ok":
        if model:
            reason = "all scores are equal" if model["status"] == "constant" else "too few subjects or features"
            yield Sentence([Strong(label), f": no error model, {reason}."])
        return
    yield _explained(model, [Strong(label)])
    if not model["explains"]:
        yield Sentence("The interval of R² is not above 0: the importances are not interpretable.", Weight.WARNING)
    points, rows = [], []
    for row in model["importances"]:
        feature = plain(row["feature"].replace("_", " "))
        points.append(Point(row["permutation"], feature, low=row["ci_low"], high=row["ci_high"], filled=row["found"]))
        selected = "yes" if row["feature"] in model["selected"] else "no"
        rows.append(
            Row([feature, "yes" if row["sensitive"] else "no", row["impurity"], estimate(row, "permutation"), selected])
        )
    title = f"Importance of each feature for the errors: {label}"
    axis = Axis("permutation importance out of fold (share of variance)")
    yield Chart(
        ChartKind.INTERVALS,
        f"importances_{n}",
        title,
        [Series(points[:_RULES])],
        axis,
        references=[Reference(0.0)],
        file=f"fhibe_scores_{n}_importances",
        filled="",
        caption="Filled: above 0 after Bonferroni correction.",
    )
    yield Table(f"importances_{n}", _IMPORTANCES, rows, fold="Importances of all features")
    yield Table(f"tree_{n}", _TREE, _nodes(model["tree"]["nodes"]), fold="Decision tree of the selected features")
    caption = f"Mean score on both sides of each selected feature ({model['resamples']:,} bootstrap resamples)"
    directions = [_direction(side) for side in model["directions"]]
    yield Table(f"directions_{n}", _DIRECTIONS, directions, fold=caption, omit_small=True)
    keys = ("gap", "chance", "p", "left", "left_chance", "left_p")
    gaps = [Row([cut_label(gap["attribute"]), *(gap[key] for key in keys)]) for gap in model["gaps"]]
    caption = "Disparities in the score, and in the residuals of a forest without sensitive attributes"
    yield Table(f"residuals_{n}", _RESIDUALS, gaps, caption)


def _nodes(nodes: Iterable[Mapping[str, Any]]) -> list[Row]:
    """Return a row per node of a tree, each after the one that it splits, with all conditions from the root on."""
    by_id: dict[int, Mapping[str, Any]] = {node["id"]: node for node in nodes}
    rows: list[Row] = []

    def add(node: Mapping[str, Any], conditions: tuple[str, ...]) -> None:
        cells = [node["depth"], " and ".join(conditions) or "all", node["n_subjects"], node["n_images"], node["mean"]]
        rows.append(Row(cells, node["n_subjects"]))
        if node["feature"] is not None:
            for side in ("low", "high"):
                add(by_id[node[side]], (*conditions, _condition(node, side)))

    if len(by_id) > 1:
        add(by_id[0], ())
    return rows


def _condition(node: Mapping[str, Any], side: str) -> str:
    feature = plain(node["feature"].replace("_", " "))
    if node["value"] is not None:
        return f"{feature} {'is not' if side == 'low' else 'is'} {plain(node['value'])}"
    return f"{feature} {'≤' if side == 'low' else '>'} {node['threshold']:.3g}"


def _direction(side: Mapping[str, Any]) -> Row:
    split = "no | yes" if side["threshold"] is None else f"≤ | > {side['threshold']:.3g}"
    means = [Cell(side[f"mean_{end}"], f"{side[f'n_subjects_{end}']} subjects") for end in ("low", "high")]
    cells = [side["column"].replace("_", " "), split, *means, estimate(side, "difference"), side["se"]]
    return Row(cells, min(side["n_subjects_low"], side["n_subjects_high"]))


def _patterns(patterns: Mapping[str, Any], label: str, n: int) -> Iterator[Value]:
    """Yield the rules for low scores, and the disparities by their features."""
    if patterns.get("status") != "ok":
        if patterns:
            reason = "all scores are equal" if patterns["status"] == "constant" else "too few subjects"
            yield Sentence([Strong(label), f": no error patterns, {reason}."])
        return
    yield _replicated(patterns, [Strong(label)])
    rules = [
        Row(
            [
                rule["text"].replace("_", " "),
                *(rule[key] for key in _RULE_KEYS),
                rule["n_subjects"] + rule["held_subjects"],
                rule["q"],
                "yes" if rule["held"] else "no",
            ],
            min(rule["n_subjects"], rule["held_subjects"]),
        )
        for rule in patterns["rules"]
    ]
    yield Table(f"rules_{n}", _RULE_COLUMNS, rules[:_RULES], fold="Rules for low scores", omit_small=True)
    for index, feature in enumerate(patterns.get("found", ())):
        rows = []
        for row in feature["rows"]:
            groups = extreme_cells(row, ("worst", "best"))
            rows.append(Row([cut_label(row["cut"]), row["disparity"], row["gap"], row["chance"], row["p"], *groups]))
        caption = f"{cut_label(feature['feature'])}, alone and with each sensitive attribute"
        yield Table(f"follow_up_{n}_{index}", _FOLLOW_UP, rows, fold=f"Follow-up of {caption}")


_OUTCOMES = [
    Column("Score", Kind.NAME), Column("Direction", terminal=False), Column("Subjects", Kind.COUNT),
    Column("Images", Kind.COUNT, terminal=False), Column("Mean", Kind.NUMBER, compared=True, title="Over subjects"),
    Column("Highest D", Kind.NUMBER, 2, compared=True), Column("Cases", Kind.COUNT, title="Cuts with a significant D"),
    Column("In both", Kind.COUNT, title="Of these, significant in the subject-level analysis, too"),
]  # fmt: skip
_COMPARED = [
    Column("Cut"), Column("Groups", Kind.COUNT), Column("Published D", Kind.NUMBER, 2),
    Column("Disparity", Kind.NUMBER), Column("Null mean", Kind.NUMBER), Column("Adjusted p", Kind.P),
    Column("Significant in"), Column("Why they differ"),
]  # fmt: skip
_PROPORTIONS = [
    Column("Cut"), Column("Worst", Kind.NAME), Column("Best", Kind.NAME), Column("Significant in"),
    Column("Difference", Kind.ESTIMATE, signed=True), Column("Ratio", Kind.ESTIMATE, 2),
]  # fmt: skip
_IMPORTANCES = [
    Column("Feature", Kind.NAME), Column("Sensitive"), Column("Impurity (published)", Kind.NUMBER),
    Column("Permutation, out of fold", Kind.ESTIMATE), Column("Selected"),
]  # fmt: skip
_TREE = [
    Column("Depth", Kind.COUNT, public=True), Column("Condition"), Column("Subjects", Kind.COUNT, public=True),
    Column("Images", Kind.COUNT), Column("Mean score", Kind.NUMBER),
]  # fmt: skip
_DIRECTIONS = [
    Column("Feature", Kind.NAME), Column("Sides"), Column("Mean, first side", Kind.NUMBER),
    Column("Mean, second side", Kind.NUMBER), Column("Difference", Kind.ESTIMATE, signed=True),
    Column("Standard error", Kind.NUMBER),
]  # fmt: skip
_RESIDUALS = [
    Column("Attribute"), Column("Score", Kind.NUMBER), Column("Null mean", Kind.NUMBER), Column("Adjusted p", Kind.P),
    Column("Residuals", Kind.NUMBER), Column("Null mean, residuals", Kind.NUMBER),
    Column("Adjusted p, residuals", Kind.P),
]  # fmt: skip
_RULE_KEYS = ("support", "confidence", "lift", "held_confidence", "held_lift")
_RULE_COLUMNS = [
    Column("Rule", Kind.NAME), Column("Support", Kind.NUMBER), Column("Confidence", Kind.NUMBER, 2),
    Column("Lift", Kind.NUMBER, 2), Column("Confidence, held-out", Kind.NUMBER, 2),
    Column("Lift, held-out", Kind.NUMBER, 2), Column("Subjects", Kind.COUNT), Column("Adjusted p", Kind.P),
    Column("Replicated"),
]  # fmt: skip
_FOLLOW_UP = [
    Column("Cut"), Column("Published D", Kind.NUMBER, 2), Column("Disparity", Kind.NUMBER),
    Column("Null mean", Kind.NUMBER), Column("Adjusted p", Kind.P), Column("Worst", Kind.NAME),
    Column("Best", Kind.NAME),
]  # fmt: skip
