"""Missing answers as outcomes: refusals, values missing for other reasons, and the gaps that refusals could hide.

A refusal is an outcome of its own (scorer `refusal`). Values missing for other reasons (failures, replies that cannot
be parsed, texts in which nothing matched) are tested by group here, among the answers that were not refused. The
two-part table of a probe gives refusals by group, the score given an answer, and the range of gaps that the refused
answers could have led to. In a run without the scorer `refusal`, refusals are tested here too.

These tests are a family of their own: how many there are depends on which answers happen to be missing, and would move
the verdicts on all other rows of a run with every answer that fails or is asked again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from fp2.extension import (
    NOT_ASKED,
    REFUSAL,
    STEP_DOWN,
    Block,
    Cell,
    Column,
    ComparedRun,
    Estimate,
    Kind,
    Results,
    Row,
    Section,
    Sentence,
    Supplement,
    Table,
    Value,
    Verdict,
    Weight,
    cut_label,
    first_of,
    number,
    outcome_columns,
    plain,
    probe_labels,
    scorer_label,
)
from fp2.methods.secondary.family import group_means, n_permutations, rate, tested

if TYPE_CHECKING:
    import pandas as pd

SMALLEST = 0.02
"""Smallest effect of interest: a difference of two rates of missing values."""


class Missing(Supplement):
    """Tests of missing answers and refusals by group."""

    def block(self, run: ComparedRun) -> dict[str, Any] | None:
        """Return the block `missing`, or None where no value is missing and no answer was refused."""
        if not run.disparities or run.battery.people != 1:
            return None
        columns = _columns(run)
        names = cast("list[tuple[str, str]]", list(columns.columns))
        tests = tested(run, columns, [rate(SMALLEST)] * len(names)) if names else []
        rows = [
            {
                "probe": str(names[test.column][0]),
                "scorer": str(names[test.column][1]),
                "cut": test.cut,
                "n_missing": len(set(test.images[test.values > 0])),
                "n_images": test.row.n_images,
                "raw": test.row.raw,
                "p_value": test.row.p_value,
                "worst_group": test.row.worst_group,
                "best_group": test.row.best_group,
                "groups": group_means(test.row, "rate"),
                "adjusted_p": test.row.adjusted_p,
                "significant": test.row.significant,
                "family_size": len(tests),
                "verdict": test.row.verdict,
            }
            for test in tests
        ]
        two_part = _two_part(run, rows)
        if not rows and not two_part:
            return None
        return {
            "meaning": "share of answers without a value among those that were not refused",
            "family": "all rows of this block, step-down max-T",
            "correction": STEP_DOWN,
            "n_permutations": n_permutations(run),
            "smallest_effect": SMALLEST,
            "rows": rows,
            "two_part": two_part,
        }


def _columns(run: ComparedRun) -> pd.DataFrame:
    """Return (image, subject) x (probe, scorer): 1 without a value, 0 with one, missing where the answer was refused.

    Outcomes with the same missing answers (a failed answer has no value for any scorer) are kept once, under the first.
    Refusals come last, as outcomes of their own, for probes without disparities of refusals.
    """
    wide = outcome_columns(run.scores)
    asked = run.answers[run.answers["error"] != NOT_ASKED]
    keys = asked.drop_duplicates(["image_id", "subject_id"])[["image_id", "subject_id"]]
    wide = wide.reindex(list(zip(keys["image_id"], keys["subject_id"], strict=True)))
    refused = asked.groupby(["image_id", "subject_id", "probe"])["refused"].all().unstack("probe")
    refused = refused.reindex(wide.index).fillna(True).astype(bool)  # so that what was not asked does not count either
    by_row: dict[tuple[str, str], Any] = {}
    pairs_seen: set[tuple[str, bytes]] = set()
    names = cast("list[tuple[str, str]]", list(wide.columns))
    for probe, scorer in names:
        if scorer == REFUSAL:
            continue
        absent = wide[probe, scorer].isna() & ~refused[probe]
        pattern = (probe, absent.to_numpy().tobytes())
        if absent.any() and pattern not in pairs_seen:
            pairs_seen.add(pattern)
            by_row[probe, scorer] = absent.astype("float64").mask(refused[probe])
    answered = run.answers[run.answers["status"] == "answered"]
    rates = answered.groupby(["image_id", "subject_id", "probe"])["refused"].mean().unstack("probe")
    for probe in dict.fromkeys(probe for probe, _ in names):
        if (probe, REFUSAL) not in names and probe in rates and (rates[probe] > 0).any():
            by_row[probe, REFUSAL] = rates[probe].astype("float64").reindex(wide.index)
    import pandas as pd

    return pd.DataFrame(by_row, index=wide.index)


def _two_part(run: ComparedRun, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return refusals and the primary score side by side, for probes with refusals.

    `rows` are those of this block, for refusals without disparities.
    """
    primary = run.comparison.primary
    refusal_rows = [row for row in rows if row["scorer"] == REFUSAL]
    by_key = {(row["probe"], row["scorer"], row["cut"]): row for row in [*refusal_rows, *run.disparities]}
    answered = run.answers[run.answers["status"] == "answered"]
    rates = answered.groupby("probe")["refused"].mean()
    out = []
    for (probe, scorer, cut), row in by_key.items():
        refusal = by_key.get((probe, REFUSAL, cut))
        if scorer != primary or refusal is None or not rates.get(probe, 0.0):
            continue
        out.append(
            {
                "probe": probe,
                "cut": cut,
                "refusal_rate": float(rates[probe]),
                "refusal": _part(refusal),
                "answered": _part(row),
                "bounds_low": row["bounds_low"],
                "bounds_high": row["bounds_high"],
                "bounds_ci_low": row["bounds_ci_low"],
                "bounds_ci_high": row["bounds_ci_high"],
                "holds_under_refusals": row["holds_under_refusals"],
            }
        )
    return out


def _part(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: row[name] for name in ("raw", "adjusted_p", "verdict", "worst_group")}


class MissingSection(Section):
    """Refusals beside the score given an answer, and the tests of missing values."""

    name = "missing"
    title = "Missing answers and refusals"
    detail = True

    def values(self, block: Block, results: Results) -> Iterator[Value]:
        """Yield the outcomes that are missing more often for one group, which scores do not show, and the tables."""
        labels = probe_labels(results)
        differing = [
            f"{labels[row['probe']]} ({scorer_label(row['scorer'])}) by {cut_label(row['cut'])} "
            f"{100 * row['raw']:.0f} percentage points, most for {plain(row['worst_group'])}"
            for row in sorted(block["rows"], key=lambda row: -(row["raw"] or 0.0))
            if row["verdict"] == Verdict.BIASED
        ]
        if differing:
            text = "Differences in the rates of answers without a value: "
            yield Sentence(f"{text}{first_of(differing, 1)}.", Weight.WARNING)
        for cut in results["cuts"]:
            refusals = [_refusal_row(row, labels) for row in block["two_part"] if row["cut"] == cut]
            caption = f"Refusals, and the score given an answer, by {cut_label(cut)}"
            yield Table("refusals", REFUSAL_COLUMNS, refusals, fold=caption, cut=cut)
        for cut in results["cuts"]:
            yield _missing_values(cut, [row for row in block["rows"] if row["cut"] == cut], labels)
        yield Sentence(HOW_TO_READ.format_map(block), Weight.DETAIL)


def _refusal_row(row: Mapping[str, Any], labels: Mapping[str, str]) -> Row:
    refusal, answered, detail = row["refusal"], row["answered"], []
    if row.get("bounds_ci_low") is not None and row.get("bounds_ci_high") is not None:
        detail.append(f"95 % CI {number(row['bounds_ci_low'])} to {number(row['bounds_ci_high'])}")
    if row.get("holds_under_refusals") is not None:
        detail.append(f"{'robust' if row['holds_under_refusals'] else 'not robust'} to the refused answers")
    differs = refusal["verdict"] in (Verdict.BIASED, Verdict.SIGNIFICANT_BUT_SMALL)
    return Row(
        [
            labels[row["probe"]],
            row["refusal_rate"],
            refusal["raw"],
            refusal["adjusted_p"],
            Cell(refusal["worst_group"], muted=not differs),
            answered["raw"],
            answered["adjusted_p"],
            Cell(Estimate(None, row["bounds_low"], row["bounds_high"]), detail="; ".join(detail)),
        ]
    )


def _missing_values(cut: str, rows: Sequence[Mapping[str, Any]], labels: Mapping[str, str]) -> Table:
    """Return the tests of missing values by one cut, with the rate of each group."""
    groups = list(dict.fromkeys(group["group"] for row in rows for group in row["groups"]))
    sentences = []
    for row in rows:
        rates = {group["group"]: Cell(group["rate"], subjects=group["n_subjects"]) for group in row["groups"]}
        tested = [labels[row["probe"]], scorer_label(row["scorer"]), row["n_missing"], row["n_images"], row["raw"]]
        cells = [*tested, row["adjusted_p"], row["verdict"], *(rates.get(group) for group in groups)]
        sentences.append(Row(cells))
    columns = [*MISSING_COLUMNS, *(Column(group, Kind.SHARE, digits=2) for group in groups)]
    differing = sum(bool(row["significant"]) for row in rows)
    title = f"Missing values by {cut_label(cut)}: {differing} of {len(rows)} outcomes differ between groups"
    return Table("missing", columns, sentences, fold=title, cut=cut)


REFUSAL_COLUMNS = [
    Column("Probe"),
    Column("Refused", Kind.SHARE),
    Column("Disparity of refusals", Kind.NUMBER),
    Column("Adjusted p of refusals", Kind.P),
    Column("Most refused", Kind.NAME),
    Column("Disparity given an answer", Kind.NUMBER),
    Column("Adjusted p given an answer", Kind.P),
    Column("Worst-case (Manski) bounds under refusals", Kind.INTERVAL),
]
MISSING_COLUMNS = [
    Column("Probe"),
    Column("Score"),
    Column("Missing", Kind.COUNT),
    Column("Images", Kind.COUNT),
    Column("Difference of rates", Kind.NUMBER),
    Column("Adjusted p", Kind.P),
    Column("Verdict", Kind.VERDICT),
]
HOW_TO_READ = (
    "Missing answers can hide a difference. The worst-case bounds are the least and the largest disparity that the "
    "refused answers could have led to. Values missing for other reasons (a failure, a reply that cannot be parsed, a "
    "text in which nothing matched) are tested among the answers that were not refused: {n_permutations:,} "
    "permutations of the group labels across subjects; family: {family}. Outcomes with the same missing answers are "
    "listed once."
)
