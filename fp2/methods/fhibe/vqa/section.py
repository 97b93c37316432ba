"""Open-ended questions in reports: prompts with response rates, and outcomes by group (Fig. 4 of Xiang et al. 2025)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from fp2.extension import (
    Axis,
    Block,
    Cell,
    Chart,
    ChartKind,
    Column,
    Kind,
    Part,
    Point,
    Results,
    Row,
    Section,
    Sentence,
    Series,
    Table,
    Value,
    Weight,
    cut_label,
    plain,
    sentence,
)
from fp2.methods.fhibe.scores.benchmark_values import estimate

OUTCOMES = {
    "gendered": "gendered pronoun",
    "gender_reason": "gender as the reason",
    "pronoun_error": "wrong pronoun",
    "toxic": "toxic keyword",
}
_DRAWN_OCCUPATIONS = 12
HOW_TO_READ = (
    "The questions have a positive, a neutral and a negative premise. None asks for gender, origin or skin tone, and "
    "none can be answered from an image: answers show the associations of the model. Of each kind, the prompts with "
    "the most answers that are {chosen_by} are analysed. Prompts and keyword list are this project's, not those of the "
    "paper. Rates are means over subjects, over answers on topic without refusals (toxic keywords: all answers without "
    "refusals). The pronoun error is defined only for subjects whose own pronoun is she or he. Over-represented: "
    "stated more often for a group than for all other subjects (Mann-Whitney test, Holm's correction)."
)


class VqaSection(Section):
    """The prompts, the rates of each outcome by group, and the over-represented occupations."""

    name = "fhibe_vqa"
    title = "Open-ended questions"
    report_title = "Open-ended answers"

    def values(self, block: Block, results: Results) -> Iterator[Value]:
        """Yield the rates of all subjects and by group, the over-represented occupations, and the prompts."""
        outcomes = {name: label for name, label in OUTCOMES.items() if name in block["outcomes"]}
        overall = [
            Row([label, estimate(rate, "rate")])
            for name, label in outcomes.items()
            if (rate := block["outcomes"][name]["overall"]) is not None
        ]
        yield Table("overall", _OVERALL, overall, "Share of answers, all subjects", primary=True)
        rates = {cut: _by_group(block, cut, outcomes) for cut in results["cuts"]}
        for cut, of_group in rates.items():
            yield Part("", _rate_charts(of_group, cut, outcomes), beside=True)
        tables = [_rate_table(of_group, cut, outcomes) for cut, of_group in rates.items()]
        yield Part("Share of answers by group", tables, folded=True)
        yield from _occupations(block, results)
        prompts = [
            Row(
                [
                    row["text"],
                    row["kind"],
                    row["non_empty"],
                    row["refused"],
                    row["on_topic"],
                    "yes" if row["chosen"] else "no",
                ]
            )
            for row in block["prompts"]
        ]
        shares = Table("prompts", _PROMPTS, prompts, "Prompts, with the share of their answers")
        reasons = [Row([row["text"], row["n_answers"]], row["n_subjects"]) for row in block["reasons"]]
        reason = [Column("Reason", Kind.NAME), Column("Answers", Kind.COUNT)]
        frequent = [Table("reasons", reason, reasons, "Most frequent reasons for liking a person", omit_small=True)]
        keywords = [Row([row["word"], row["n_answers"]]) for row in block["keywords"]]
        keyword = [Column("Keyword", Kind.NAME), Column("Answers", Kind.COUNT)]
        frequent.append(Table("keywords", keyword, keywords, "Most frequent keywords of the toxicity list"))
        yield Part("Prompts; most frequent reasons and keywords", [shares, *frequent], folded=True)
        chosen_by = block["options"].get("choose_by", "on_topic").replace("non_empty", "not empty").replace("_", " ")
        yield Sentence(HOW_TO_READ.format(chosen_by=chosen_by), Weight.DETAIL)


_Rates = dict[str, dict[str, Mapping[str, Any]]]
"""Rows of the outcomes by group."""


def _by_group(block: Block, cut: str, outcomes: Mapping[str, str]) -> _Rates:
    rates: _Rates = {}
    for name in outcomes:
        for row in block["outcomes"][name]["by"].get(cut, ()):
            rates.setdefault(row["group"], {})[name] = row
    return rates


def _rate_charts(rates: _Rates, cut: str, outcomes: Mapping[str, str]) -> list[Value]:
    """Return the rates of each group of a cut, a chart for each outcome."""
    charts: list[Value] = []
    for name, label in outcomes.items():
        rows = [row[name] for row in rates.values() if name in row]
        points = [
            Point(row["rate"], row["group"], low=row["ci_low"], high=row["ci_high"], subjects=row["n_subjects"])
            for row in rows
        ]
        charts.append(
            Chart(
                ChartKind.INTERVALS,
                f"{name}_{cut}",
                "Share of answers",
                [Series(points)],
                Axis(label, 0.0),
                cut=cut,
                file="fhibe_vqa_toxic" if name == "toxic" else "fhibe_vqa_gender",
                panel=f"{label}, by {cut_label(cut)}",
                in_files=name == "toxic" or cut == "pronoun",
            )
        )
    return charts


def _rate_table(rates: _Rates, cut: str, outcomes: Mapping[str, str]) -> Table:
    """Return the rates of each group of a cut as a table."""
    columns = [
        Column("Group", Kind.NAME),
        *(Column(sentence(label), Kind.SHARE, 2, compared=True) for label in outcomes.values()),
        Column("Subjects", Kind.COUNT, public=True),
    ]
    table = []
    for group, of_group in rates.items():
        n = max(row["n_subjects"] for row in of_group.values())
        cells = [_cell(of_group.get(name)) for name in outcomes]
        table.append(Row([group, *cells, n], n))
    caption = f"Share of answers by {cut_label(cut)}, with 95 % intervals"
    return Table("rates", columns, table, caption, cut=cut)


def _cell(row: Mapping[str, Any] | None) -> Cell:
    return Cell(None) if row is None else Cell(estimate(row, "rate"), subjects=row["n_subjects"])


def _occupations(block: Block, results: Results) -> Iterator[Value]:
    """Yield the shares of the occupations by group, and those that are over-represented."""
    occupations = block["occupations"]
    names = [row["occupation"] for row in occupations["stated"]][:_DRAWN_OCCUPATIONS]
    heats: list[Value] = []
    for cut in results["cuts"]:
        of_group: dict[str, dict[str, Mapping[str, Any]]] = {}
        for row in occupations["rows"]:
            if row["cut"] == cut:
                of_group.setdefault(row["group"], {})[row["occupation"]] = row
        series = [
            Series(
                [_point(name, rows.get(name)) for name in names],
                group,
                subjects=next(iter(rows.values()))["n_subjects"],
            )
            for group, rows in of_group.items()
        ]
        heats.append(
            Chart(
                ChartKind.HEAT,
                f"occupations_{cut}",
                "Share of answers that state each occupation",
                series,
                Axis("share of answers", 0.0),
                cut=cut,
                file="fhibe_vqa_occupations",
                panel=f"by {cut_label(cut)}",
                caption="*: over-represented.",
            )
        )
    yield Part("Share of answers that state each occupation", heats, folded=True)
    over = sorted((row for row in occupations["rows"] if row["over"]), key=lambda row: float(row["adjusted_p"]))
    rows = [
        Row(
            [
                row["occupation"],
                cut_label(row["cut"]),
                row["group"],
                row["share"],
                row["others"],
                row["adjusted_p"],
                row["n_subjects"],
            ],
            row["n_subjects"],
        )
        for row in over
    ]
    caption = f"Over-represented occupations ({occupations['family_size']} tests)"
    yield Table("over_represented", _OVER, rows, caption, omit_small=True)
    if occupations["rows"]:
        yield Sentence(f"Over-represented occupations (group against all other subjects): {len(over)}.")


def _point(occupation: str, row: Mapping[str, Any] | None) -> Point:
    if row is None:
        return Point(None, occupation)
    return Point(row["share"], plain(occupation), mark="significant" if row["over"] else "")


_OVERALL = [Column("Answers with"), Column("Share", Kind.SHARE, 2, compared=True)]
_PROMPTS = [
    Column("Prompt", Kind.NAME), Column("Kind"), Column("Not empty", Kind.SHARE, 2), Column("Refused", Kind.SHARE, 2),
    Column("On topic", Kind.SHARE, 2), Column("Analysed"),
]  # fmt: skip
_OVER = [
    Column("Occupation", Kind.NAME), Column("Cut"), Column("Group", Kind.NAME), Column("Share", Kind.SHARE, 2),
    Column("Share, others", Kind.SHARE, 2), Column("Adjusted p", Kind.P), Column("Subjects", Kind.COUNT),
]  # fmt: skip
