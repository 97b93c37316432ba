"""How the specification curves are shown: a table of the claims, a curve of each, and what each choice does."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from fp2.extension import (
    Axis,
    Block,
    Chart,
    ChartKind,
    Column,
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
    Verdict,
    Weight,
    cut_label,
    plain,
    probe_labels,
    scorer_label,
    verdict_words,
)


class MultiverseSection(Section):
    """The claims of the primary scorer under every specification; no number of a single group.

    Figure files of a run have the curve of each cut's composite, or of its one probe; those of `fp2 multiverse`, in
    addition, the curve of every claim (charts with `in_files` false).
    """

    name = "multiverse"
    title = "Specification curves"
    detail = True

    def values(self, block: Block, results: Results) -> Iterator[Value]:
        """Yield by cut the claims, their curves, and the results by choice."""
        labels = probe_labels(results)
        yield Sentence(
            f"Specification curves: the claims about {scorer_label(block['scorer'])} under combinations of choices "
            "that another analyst could have made."
        )
        yield from (Sentence(warning, Weight.WARNING) for warning in block["warnings"])
        for about in block["cuts"]:
            rows = [row for row in block["rows"] if row["cut"] == about["cut"]]
            cut, n = about["cut"], len(about["specifications"])
            drawn_from = f", drawn at random from {about['n_possible']}" if about["n_possible"] > n else ""
            caption = f"By {cut_label(cut)}: {n} specifications{drawn_from}"
            claims = [_claim(row, labels) for row in rows]
            yield Table("claims", CLAIM_COLUMNS, claims, caption, primary=True, cut=cut)
            computed = [row for row in rows if row["n_computed"]]
            file = f"multiverse_{''.join(letter if letter.isalnum() or letter in '-_' else '-' for letter in cut)}"
            if rows[-1]["n_computed"]:  # of several probes, the last row is the composite
                yield _curve(rows[-1], about, labels, file)
            for row in computed:
                name = f"{file}_{rows.index(row) + 1}"
                yield _curve(row, about, labels, name, every=True)
                yield _medians(row, labels, name)
            choices = [
                Table(
                    "choices", CHOICE_COLUMNS, _choices(row), [Strong(claim_label(row, labels)), _summary(row)], cut=cut
                )
                for row in computed
            ]
            yield Part(f"Results by choice, {cut_label(cut)}", choices, folded=True, cut=cut)
        yield Sentence(HOW_TO_READ.format_map({**block, "notes": " ".join(block["notes"])}), Weight.DETAIL)


def _claim(row: Mapping[str, Any], labels: Mapping[str, str]) -> Row:
    n = row["n_computed"]
    return Row(
        [
            claim_label(row, labels),
            row["verdict"],
            f"{row['n_same_verdict']} of {n}" if n else "–",
            f"{row['n_same_direction']} of {row['n_compared_direction']}" if row["probe"] and n else "–",
            row["share_significant"],
            row["share_significant_null"],
            row["adjusted_share_p"],
            row["median_estimate"],
            row["adjusted_median_p"],
        ]
    )


def _curve(
    row: Mapping[str, Any], about: Mapping[str, Any], labels: Mapping[str, str], name: str, *, every: bool = False
) -> Chart:
    """Return the estimates of a claim in order, a series per verdict; `every`: only `fp2 multiverse` draws it."""
    pairs = zip(row["points"], about["specifications"], strict=True)
    computed = [pair for pair in pairs if pair[0]["status"] == "ok"]
    computed.sort(key=lambda pair: pair[0].get("estimate", 0.0))
    points: dict[str, list[Point]] = {}
    for x, (point, specification) in enumerate(computed, start=1):
        chosen = ", ".join(level_words(name, specification[name]) for name in about["choices"])
        own = "the run's own specification: " if point is row["points"][0] else ""
        estimate = point.get("estimate", 0.0)
        points.setdefault(point["verdict"], []).append(
            Point(estimate, own + chosen, x=x, low=point.get("low"), high=point.get("high"), verdict=point["verdict"])
        )
    return Chart(
        ChartKind.POINTS,
        name,
        f"Specification curve of {claim_label(row, labels)} by {cut_label(row['cut'])}",
        [Series(of_verdict, verdict_words(verdict)) for verdict, of_verdict in points.items()],
        value=Axis("gap, multiples of the smallest effect of interest"),
        x=Axis("specifications in order", 0, len(computed) + 1),
        references=[Reference(0), Reference(1, "smallest effect of interest")],
        caption=f"Intervals: {'90 %' if row['probe'] is None else '95 %'}. Verdicts: corrected in the specification.",
        cut="" if every else row["cut"],
        on_page=not every,
        in_files=not every,
    )


def _medians(row: Mapping[str, Any], labels: Mapping[str, str], file: str) -> Chart:
    """Return the median estimate of a claim at each level of each choice."""
    return Chart(
        ChartKind.BARS,
        f"{file}_choices",
        f"Specification curve of {claim_label(row, labels)} by {cut_label(row['cut'])}",
        [
            Series(
                [
                    Point(level["median_estimate"], f"{CHOICES[name]}: {level_words(name, level['level'])}")
                    for name, levels in row["by_choice"].items()
                    for level in levels
                ]
            )
        ],
        value=Axis("median gap of the specifications with this choice"),
        file=file,
        panel="Results by choice",
        on_page=False,
        in_files=False,
    )


def _choices(row: Mapping[str, Any]) -> list[Row]:
    return [
        Row(
            [
                CHOICES[name],
                level_words(name, level["level"]),
                level["n"],
                level["n_same_verdict"],
                level["n_significant"],
                level["median_estimate"],
            ]
        )
        for name, levels in row["by_choice"].items()
        for level in levels
    ]


def _summary(row: Mapping[str, Any]) -> str:
    """Return the verdicts of a claim's specifications, and why some were not computed."""
    verdicts = ", ".join(f"{verdict_words(name)} {count}" for name, count in row["verdicts"].items())
    left_out = "; ".join(f"{count} {STATUSES[status]}" for status, count in row["not_computed"].items())
    texts = [f": {verdicts}.", f"Of {row['n_specifications']} specifications {left_out}." if left_out else ""]
    if row.get("n_image_tests"):
        significant = f"{row['n_image_tests_significant']} of {row['n_image_tests']}"
        texts.append(f"With images taken as independent, which is not valid, {significant} would be significant.")
    return " ".join(text for text in texts if text)


def level_words(name: str, level: Any) -> str:
    """Return one level of a choice in words."""
    if name == "scorer":
        return scorer_label(level)
    if name == "refusals":
        return REFUSALS[level]
    if name == "question":
        return f"number {level}" if level else "all, averaged"
    if name == "covariates":
        return ", ".join(cut_label(covariate) for covariate in level) or "nothing"
    return f"{level} subjects" if name == "min_subjects" else str(level)


def claim_label(row: Mapping[str, Any], labels: Mapping[str, str]) -> str:
    """Return what a curve is about."""
    return "Composite" if row["probe"] is None else plain(labels[row["probe"]])


CHOICES = {
    "scorer": "Scorer", "refusals": "Refused answers", "question": "Question", "unit": "What counts alike",
    "covariates": "Held equal", "min_subjects": "Smallest group",
}  # fmt: skip
REFUSALS = {"missing": "missing", "neutral": "mean score of the answers", "worst": "worst score of the scale"}
STATUSES = {
    "same_data": "have the data and the test of another, and count once",
    "not_scored": "have no score for the probe, or not for every probe",
    "incomplete": "cannot be tested on every probe",
    Verdict.TOO_FEW_SUBJECTS: "have too few subjects",
    Verdict.UNINFORMATIVE: "have constant answers, or none",
    "not_separable": "cannot tell the groups from the covariates",
}
CLAIM_COLUMNS = [
    Column("Claim"),
    Column("Verdict of the run", Kind.VERDICT),
    Column("Same verdict"),
    Column("Same direction", terminal=False),
    Column("p ≤ α", Kind.SHARE, digits=2, title="Specifications that are significant one by one"),
    Column("By chance", Kind.SHARE, digits=2, terminal=False),
    Column("Joint p", Kind.P, title="Of the share of significant specifications"),
    Column("Median", Kind.NUMBER, digits=2, title="Of the estimates"),
    Column("p of median", Kind.P, title="Joint p of the median p-value"),
]
CHOICE_COLUMNS = [
    Column("Choice"),
    Column("Level"),
    Column("Specifications", Kind.COUNT),
    Column("Same verdict", Kind.COUNT),
    Column("Significant", Kind.COUNT),
    Column("Median estimate", Kind.NUMBER, digits=2),
]
HOW_TO_READ = (
    "Same verdict: specifications with the verdict of the run, each corrected for its own probes. p ≤ α: those "
    "significant one by one. The joint tests ask whether so many significant specifications, or so small a median "
    "p-value, would be expected if no group differed: specifications share their answers, so that their number alone "
    "proves nothing. Estimates are in multiples of each scorer's smallest effect of interest. {n_permutations:,} "
    "permutations of the group labels across subjects (seed {seed}), the same for every specification; joint p-values "
    "are corrected over {family}. {notes}"
)
