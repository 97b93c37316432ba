"""Counterfactual sets compared within the set: images of one scene that differ in one attribute.

The unit of analysis is the set (all sets of one person together). Labels are permuted within sets only: differences
between scenes cancel, and one subject may be in several groups. Such a run has no composite, because its effect sizes
are differences within a scene and not disparities of a population.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, cast

from rich.text import Text

from fp2.cuts import varying
from fp2.data.sampling import units
from fp2.protocols.base import Inputs
from fp2.protocols.fingerprint.comparison import GroupComparison
from fp2.protocols.fingerprint.family import shares
from fp2.protocols.fingerprint.settings import ComparedRun, ComparisonSettings
from fp2.report import reading
from fp2.report.figures.style import CHANCE, FAINT, INK, figure, head, save, shorten, style
from fp2.report.reading import cut_label, number, plain, primary_scorer, probe_labels, scorer_label, verdict_words
from fp2.report.section import Block, Finding, Results, Section, row_finding
from fp2.scorers.outcomes import outcome_columns
from fp2.verdicts import Verdict, mark_of

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

    from fp2.cuts import Cut
    from fp2.scorers.base import Scorer
    from fp2.stats.matched import MatchedTest

SAME = 1e-12


class Matched(GroupComparison):
    """The fingerprint's questions about counterfactual sets, compared within the set."""

    name = "matched"
    within_sets = True
    special_case_of = "fingerprint"
    supplements = ()
    sections = ("fp2.methods.matched.protocol:MatchedSection",)
    tests: ClassVar = {
        "p_value": "permutation of the versions within every set, largest studentised difference of pairs of versions",
        "chance_level": "mean and 95th percentile of max - min under the same permutations",
        "interval": "t interval of the mean difference within sets, for each pair of versions",
    }

    def title(self, inputs: Inputs) -> str:
        """Return what the report is called."""
        return "Counterfactual comparison"

    def own_blocks(self, run: ComparedRun) -> dict[str, Any]:
        """Return the comparison within the sets."""
        return {"matched": matched_block(run.scores, run.people, run.cuts, run.scorers, run.comparison)}


def matched_block(
    scores: pd.DataFrame,
    people: pd.DataFrame,
    cuts: Sequence[Cut],
    scorers: Mapping[str, Scorer],
    comparison: ComparisonSettings,
) -> dict[str, Any]:
    """Compare the versions of every set on every score.

    Returns
    -------
    dict
        `rows`: one per probe x scorer x cut, with `raw` (largest mean within-set difference of two versions), its
        null mean, `p_value`, `adjusted_p` over the family, `equivalence_p`, `mde80`, `verdict`, `versions` (mean of
        each less the mean of the set) and `pairs` (differences with 95 % intervals). `cuts`: the number of sets that
        vary in each. `metrics` and `headline` as in every block.
    """
    wide = outcome_columns(scores)
    columns = [(str(probe), str(scorer)) for probe, scorer in cast("list[tuple[str, str]]", list(wide.columns))]
    unit = dict(zip(zip(people["image_id"], people["subject_id"], strict=True), units(people), strict=True))
    rows: list[dict[str, Any]] = []
    found: list[MatchedTest] = []
    sizes: list[dict[str, Any]] = []
    for cut in cuts:
        table = _lines(varying(people, cut), cut, unit)
        sizes.append(_cut(table, cut))
        tests = _tests(wide, columns, table, scorers, comparison) if columns and len(table) else []
        for (probe, scorer), (test, same) in zip(columns, tests, strict=False):
            rows.append({"probe": probe, "scorer": scorer, "cut": cut.name, **_row(test, same, scorers[scorer])})
            found.append(test)
    _decide(rows, found, comparison)
    primary = [row for row in rows if row["scorer"] == comparison.primary]
    return {
        "unit": "set",
        "n_sets": len(set(unit.values())),
        "min_sets": comparison.min_subjects,
        "method": "permutation of the versions inside every set, largest |t| over pairs of versions",
        "cuts": sizes,
        "rows": rows,
        "metrics": _metrics(primary),
        "headline": {
            "scorer": comparison.primary,
            "biased": [[row["probe"], row["cut"]] for row in primary if row["verdict"] == Verdict.BIASED],
            "largest_raw": max((row["raw"] for row in primary if row["raw"] is not None), default=None),
        },
    }


def _lines(people: pd.DataFrame, cut: Cut, unit: Mapping[tuple[str, str], str]) -> pd.DataFrame:
    """Return one row per (image, version) with its unit."""
    from fp2.cuts import memberships

    table = memberships(people, cut)
    keys = zip(table["image_id"], table["subject_id"], strict=True)
    return table.assign(unit=[unit[key] for key in keys])


def _cut(table: pd.DataFrame, cut: Cut) -> dict[str, Any]:
    sizes = table.groupby("group")["unit"].nunique()
    return {
        "cut": cut.name,
        "n_sets": int(table["unit"].nunique()),
        "versions": [{"version": str(name), "n_sets": int(n)} for name, n in sizes.items()],
    }


def _tests(
    wide: pd.DataFrame, columns: list[tuple[str, str]], table: pd.DataFrame, scorers: Mapping[str, Scorer],
    c: ComparisonSettings,
) -> list[tuple[MatchedTest, bool]]:  # fmt: skip
    """Return each outcome's test, and whether all its values are equal."""
    import numpy as np

    from fp2.stats.matched import matched_panel

    found = wide.reindex(list(zip(table["image_id"], table["subject_id"], strict=True))).to_numpy(dtype="float64")
    tests = matched_panel(
        found,
        table["group"].to_numpy(dtype=object),
        table["unit"].to_numpy(dtype=object),
        higher_is_better=[scorers[scorer].higher_is_better for _, scorer in columns],
        n_permutations=c.n_permutations,
        seed=c.seed,
        alpha=c.alpha,
        min_sets=c.min_subjects,
    )
    known = [column[np.isfinite(column)] for column in found.T]
    return [(test, not len(y) or float(np.ptp(y)) <= SAME) for test, y in zip(tests, known, strict=True)]


def _row(test: MatchedTest, same: bool, scorer: Scorer) -> dict[str, Any]:
    """Return one outcome's numbers; `_decide` adds the verdict."""
    from fp2.stats.matched import matched_equivalence

    low, high = scorer.value_range
    status = Verdict.UNINFORMATIVE if same else Verdict.TOO_FEW_SETS if test.raw is None else None
    excess = None if test.raw is None or test.null_mean is None else test.raw - test.null_mean
    return {
        "raw": test.raw,
        "null_mean": test.null_mean,
        "null_p95": test.null_p95,
        "excess": excess,
        "p_value": test.p_value,
        "equivalence_p": matched_equivalence(test, scorer.smallest_effect, high - low),
        "minimum_effect_p": test.exceeds_p(scorer.smallest_effect),
        "smallest_effect": scorer.smallest_effect,
        "worst_version": test.worst_group,
        "best_version": test.best_group,
        "n_sets": test.n_sets,
        "n_permutations": test.n_permutations,
        "status": status.value if status else "ok",
        "versions": [asdict(version) for version in test.versions],
        "pairs": [asdict(pair) for pair in test.pairs],
    }


def _minimum_detectable(test: MatchedTest, level: float) -> float | None:
    """Return the minimum detectable effect (80 % power) at the level of the family's first step, or None.

    The standard error of rare differences is unreliable: pairs in which few sets differ at all are left out.
    """
    from fp2.stats.matched import FEW, minimum_detectable

    errors = [pair.standard_error for pair in test.pairs if pair.standard_error and pair.n_different >= FEW]
    critical = test.critical(level)
    return None if critical is None or not errors else minimum_detectable(critical, max(errors))


def _decide(rows: list[dict[str, Any]], tests: Sequence[MatchedTest], c: ComparisonSettings) -> None:
    """Set adjusted p-values, `mde80`, `family_size`, `significant`, `verdict`: the run is one family."""
    from fp2.stats.adjustment import adjust_p_values, verdict_of

    tested = [row["p_value"] is not None for row in rows]
    share = iter(shares([row["scorer"] for row, known in zip(rows, tested, strict=True) if known], c))
    weights = [next(share) if known else 1.0 for known in tested]
    adjusted = {
        name: adjust_p_values([row[name] for row in rows], c.correction, weights)
        for name in ("p_value", "minimum_effect_p", "equivalence_p")
    }
    for place, (row, test) in enumerate(zip(rows, tests, strict=True)):
        p, larger, small = (values[place] for values in adjusted.values())
        significant = p is not None and p <= c.alpha
        level = c.alpha if c.correction == "none" else c.alpha * weights[place]
        row.update(
            adjusted_p=p, adjusted_minimum_effect_p=larger, adjusted_equivalence_p=small, family_size=sum(tested),
            family_level=level, significant=significant,
            mde80=_minimum_detectable(test, level) if row["status"] == "ok" else None,
        )  # fmt: skip
        row["verdict"] = row["status"] if row["status"] != "ok" else verdict_of(p, larger, small, c.alpha)


def _metrics(rows: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    return {
        f"{row['probe']}.{row['scorer']}.{row['cut']}.{key}": row[key]
        for row in rows
        for key in ("raw", "adjusted_p")
        if row[key] is not None
    }


class MatchedSection(Section):
    """Differences within the sets, a table per cut and scorer."""

    name = "matched"
    title = "Differences within counterfactual sets"

    def context(self, block: Block, results: Results, min_cell: int) -> dict[str, Any]:
        """Return the tables, with the interval of each difference where enough sets have both versions."""
        labels, primary = probe_labels(results), primary_scorer(results)
        tables = [
            {
                "cut": cut["cut"],
                "scorer": scorer["name"],
                "n_sets": cut["n_sets"],
                "lines": [_line(row, labels, min_cell) for row in _rows_of(block, cut["cut"], scorer["name"])],
            }
            for cut in block["cuts"]
            for scorer in results["scorers"]
        ]
        tables = [table for table in tables if table["lines"]]
        drawn = {cut["cut"]: _file(cut["cut"]) for cut in block["cuts"] if cut["n_sets"] >= min_cell}
        return {
            "matched": block,
            "tables": tables,
            "scorers": sorted(
                dict.fromkeys(str(table["scorer"]) for table in tables), key=lambda name: name != primary
            ),
            "drawn": drawn,
            "alts": {
                name: f"Mean {scorer_label(primary)} of each version less the mean of the set, by {cut_label(cut)}; "
                "the grey bar is the 95th percentile of the difference expected by chance"
                for cut, name in drawn.items()
            },
            "verdicts": reading.verdict_meanings(block["rows"]),
        }

    def figures(self, block: Block, results: Results, folder: Path, min_cell: int) -> Iterator[Path]:
        """Draw one figure per cut: the levels of the versions under each probe for the primary scorer."""

        for cut in block["cuts"]:
            rows = [row for row in _rows_of(block, cut["cut"], primary_scorer(results)) if row["raw"] is not None]
            if rows and cut["n_sets"] >= min_cell:
                yield version_levels(rows, cut["cut"], results, folder / _file(cut["cut"]), min_cell)

    def lines(self, block: Block, results: Results, min_cell: int) -> list[Text]:
        """Return for each cut the differences and verdicts of the primary scorer."""
        labels, out = probe_labels(results), []
        for cut in block["cuts"]:
            line = Text(f"within {cut['n_sets']} sets that vary in {cut_label(cut['cut'])}: ")
            for place, row in enumerate(_rows_of(block, cut["cut"], primary_scorer(results))):
                ends = (
                    f" ({plain(row['worst_version'])} worse than {plain(row['best_version'])})"
                    if row["significant"]
                    else ""
                )
                size = f" {number(row['raw'])}" if row["raw"] is not None else ""
                line.append(f"{'; ' if place else ''}{labels[row['probe']]}{size} ")
                line.append(
                    reading.verdict_words(row["verdict"]) + ends, style=mark_of(row["verdict"]).terminal or "dim"
                )
            out.append(line)
        return out

    def findings(self, block: Block, results: Results) -> Iterator[Finding]:
        """Yield every row; those of the primary scorer with their size."""
        primary = primary_scorer(results)
        for row in block["rows"]:
            name = f"{scorer_label(row['scorer'])} of {plain(row['probe'])} within sets that vary in "
            ends = (
                f", {plain(row['worst_version'])} against {plain(row['best_version'])}" if row["worst_version"] else ""
            )
            yield row_finding(name + cut_label(row["cut"]), row, ends, sized=row["scorer"] == primary)


def _rows_of(block: Block, cut: str, scorer: str) -> list[Mapping[str, Any]]:
    return [row for row in block["rows"] if row["cut"] == cut and row["scorer"] == scorer]


def _file(cut: str) -> str:
    return f"matched_{re.sub(r'[^0-9A-Za-z_-]', '-', cut)}.png"


def _line(row: Mapping[str, Any], labels: Mapping[str, str], min_cell: int) -> dict[str, Any]:
    """Return one probe's line: the row, and the interval of its pair, from the worst version to the best."""
    ends = {row["worst_version"], row["best_version"]}
    pair = next((pair for pair in row["pairs"] if {pair["first"], pair["second"]} == ends), None)
    if pair is None or pair["n_sets"] < min_cell:
        return {"label": labels[row["probe"]], "row": row, "pair": None, "hidden": pair is not None}
    low, high = pair["ci_low"], pair["ci_high"]
    if pair["difference"] < 0:
        low, high = (None if high is None else -high), (None if low is None else -low)
    shown = {"n_sets": pair["n_sets"], "low": low, "high": high}
    return {"label": labels[row["probe"]], "row": row, "pair": shown, "hidden": False}


def version_levels(
    rows: Sequence[Mapping[str, Any]], cut: str, results: Mapping[str, Any], path: Path, least: int
) -> Path:
    """Draw the levels of the versions of one cut, a line per probe, without versions of fewer than `least` sets."""
    labels = probe_labels(results)
    reach = max(
        [abs(v["level"]) for row in rows for v in row["versions"] if v["level"] is not None]
        + [row["null_p95"] / 2 for row in rows]
        + [0.05]
    )
    with style():
        drawn = figure(8.2, 2.0 + 0.62 * len(rows))
        width, height = drawn.get_figwidth(), drawn.get_figheight()
        axes = drawn.add_axes((1.75 / width, 0.85 / height, 1 - 3.5 / width, 1 - 1.85 / height))
        for y, row in enumerate(rows):
            _draw_probe(axes, y, row, reach, least)
        axes.axvline(0, color=FAINT, linewidth=0.8, zorder=1)
        axes.set(xlim=(-1.8 * reach, 1.8 * reach), ylim=(len(rows) - 0.4, -0.6))
        axes.set_yticks(range(len(rows)), [shorten(labels[row["probe"]], 20) for row in rows])
        axes.tick_params(axis="y", length=0)
        axes.spines["left"].set_visible(False)
        axes.set_xlabel(f"mean {scorer_label(primary_scorer(results))} less the mean of the set")
        head(drawn, f"Within-set differences by {shorten(cut_label(cut), 40)}: {rows[0]['n_sets']} sets", [results])
        note = "Filled: significant after correction. Grey bar: 95th percentile of the difference expected by chance."
        drawn.text(0.15 / width, 0.15 / height, note, fontsize=7.5, color=FAINT)
        return save(drawn, path)


def _draw_probe(axes: Axes, y: int, row: Mapping[str, Any], reach: float, least: int) -> None:
    """Draw one probe: the null as a bar around 0, the versions as points, and the ends named where significant."""
    axes.barh(y, row["null_p95"], left=-row["null_p95"] / 2, height=0.46, color=CHANCE, alpha=0.6, zorder=1)
    colour, _, filled, *_ = mark_of(row["verdict"])
    known = [v for v in row["versions"] if v["level"] is not None and v["n_sets"] >= least]
    levels = [v["level"] for v in known]
    if not levels:
        return
    axes.plot([min(levels), max(levels)], [y, y], color=colour, linewidth=1.2, zorder=2)
    axes.scatter(levels, [y] * len(levels), s=26, facecolor=colour if filled else "white", edgecolor=colour, zorder=3)
    if row["significant"]:
        named = [v for v in known if v["name"] in (row["worst_version"], row["best_version"])]
        for version in named:
            left = version["level"] == min(v["level"] for v in named)
            axes.annotate(
                shorten(plain(version["name"]), 16), (version["level"], y), (-6 if left else 6, 0),
                textcoords="offset points", ha="right" if left else "left", va="center", fontsize=8, color=INK,
            )  # fmt: skip
    gap = f"{number(row['raw'])} {verdict_words(row['verdict'])}"
    axes.text(1.85 * reach, y, gap, va="center", ha="left", fontsize=8, color=INK if row["significant"] else FAINT)
