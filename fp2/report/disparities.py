"""The section that every run with disparities has: charts, tables of disparities and group means, composites."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from fp2.report import reading
from fp2.report.disparity_charts import disparity_charts, interval_charts
from fp2.report.reading import answers_link, cut_label, number, plain, rows_of, scorer_names, verdict_words
from fp2.report.section import Section, row_finding, worst_and_best
from fp2.report.values import (
    Cell,
    Column,
    Estimate,
    Kind,
    Name,
    Part,
    Row,
    Sentence,
    Strong,
    Table,
    Value,
    Weight,
)
from fp2.results import Block, ComparedRow, GroupRow, RunResults
from fp2.scorers.lexicon import agreement_of
from fp2.text import plural
from fp2.verdicts import Verdict

HOW_TO_READ = (
    "Disparity: the largest group mean minus the smallest, over groups with enough subjects. A subject's images are "
    "averaged first: the unit of analysis is the subject.",
    "Null mean: the disparity expected by chance, its mean when group labels are permuted across subjects. A largest "
    "mean minus a smallest one is above 0 by chance alone, most of all with small groups.",
    "Interval: for the true difference of the extreme groups, simultaneous over all pairs of groups, not corrected for "
    "the number of tests or for selection: an interval above 0 does not by itself make a disparity significant.",
    "p, adjusted p: the probability of a result at least as extreme when group labels are permuted; adjusted for all "
    "tests of the family. Equivalence has a test of its own.",
    "Hedges' g, d per answer: the difference of the two groups that differ most clearly, in standard deviations of "
    "subject means (g, which grows with the images per subject) and of one answer (d, which does not). The pair is "
    "selected for being the clearest: both are too large on average.",
    "Coverage: the share of images whose answers have a value. The others were refused, failed, or do not state what "
    "the scorer measures. Refusals and failures never enter the mean of another score.",
    "MDE: minimum detectable effect, the difference, in units of the score, that this sample would have detected with "
    "80 % power, after correction.",
    "Worst and best are the two groups that differ most clearly, in the direction that the scorer states; they are "
    "faint where the disparity is not significant: the data then do not show which group is worst.",
)
COMPOSITE = (
    "Composite: the mean disparity of the primary scorer over the probes with a value. Magnitude: the composite "
    "corrected for noise, the root of its square less its mean square under permutation, with its interval. Severity: "
    "where that interval lies ({}); none is stated where the composite is not significant, unless its whole interval "
    "is below the lowest bound."
)
MEANS = (
    "Group means: where a disparity is significant, ▼ marks the lower and ▲ the higher one of the two groups that "
    "differ most clearly. Another group can have a more extreme mean by chance, if it is small."
)


INTERVAL = "of the true difference of the extreme groups; of a significant row corrected for its selection"


class DisparitiesSection(Section):
    """Disparities of every probe, scorer and cut, and the composites of the primary scorer."""

    name = "disparities"
    title = "Disparities between groups"

    def applies(self, results: RunResults) -> bool:
        """Return whether groups were compared."""
        return bool(results["disparities"] or results["composites"])

    def values(self, block: Block, results: RunResults) -> Iterator[Value]:
        """Yield what differs, tables and charts by cut and scorer, and a finding for each row."""
        yield from _leads(results)
        yield from disparity_charts(results)
        tables = _disparity_tables(results, scorer_names(results))
        for pair in zip(interval_charts(results), tables, strict=True):
            yield from pair
        yield from _remarks(results)
        yield from _composites(results)
        yield from _explanations(results)
        yield Part("Group means", list(_means(results)))
        primary = reading.primary_scorer(results)
        for row in results["disparities"]:
            name = f"{reading.scorer_label(row['scorer'])} of {plain(row['probe'])} by {cut_label(row['cut'])}"
            details = "; ".join([worst_and_best(row), *_beyond(row)])
            yield row_finding(name, row, details, sized=row["scorer"] == primary)

    def brief(self, block: Block, results: RunResults) -> Iterator[Value]:
        """Yield what differs by the first scorer, what limits that, and the composites."""
        yield from _leads(results)
        yield from _disparity_tables(results, scorer_names(results)[:1])
        yield from _remarks(results)
        yield from _composites(results)


def significant_of(n: int, n_tested: int) -> Cell:
    """Return how many disparities are significant, of those that could be tested."""
    if not n_tested:
        return Cell(Verdict.UNINFORMATIVE.label)
    return Cell(f"{n}/{n_tested}", strong=n > 0, muted=n == 0)


def _first_scorer(results: RunResults) -> str:
    """Return the primary scorer, or the first that has rows."""
    return next(iter(scorer_names(results)), reading.primary_scorer(results))


def _leads(results: RunResults) -> Iterator[Sentence]:
    """Yield for each cut how many probes differ significantly by the first scorer, of those that were tested."""
    if not results["disparities"]:
        yield Sentence("No question was answered: there is nothing to compare.")
    scorer = _first_scorer(results)
    for cut in results["cuts"]:
        rows = rows_of(results, cut, scorer)
        tested = [probe for probe, row in rows.items() if row["status"] == "ok"]
        n = sum(bool(rows[probe]["significant"]) for probe in tested)
        if not rows:
            continue
        subject = f"{reading.sentence(reading.scorer_label(scorer))} by {cut_label(cut)}: "
        if not tested:
            why = reading.untested_words(rows.values())
            yield Sentence([subject, f"no probe could be tested: {why}."], cut=cut)
            continue
        verb = "differs" if 1 in (n, len(tested)) else "differ"
        counted = Strong(f"{n} of {plural(len(tested), 'probe')} {verb} significantly")
        sentence_parts = [subject, counted, " after correction"]
        if untested := len(rows) - len(tested):
            sentence_parts.append(f"; {untested} could not be tested")
        yield Sentence([*sentence_parts, "."], Weight.LEAD, cut=cut)


def _disparity_tables(results: RunResults, scorers: Sequence[str]) -> Iterator[Table]:
    labels, level = reading.probe_labels(results), reading.confidence_level(results["analysis"].get("alpha", 0.05))
    higher = {scorer_row["name"]: scorer_row.get("higher_is_better", True) for scorer_row in results["scorers"]}
    columns = (
        Column("Probe"),
        Column("Disparity", Kind.NUMBER),
        Column("Null mean", Kind.NUMBER),
        Column("Verdict", Kind.VERDICT),
        Column(level, Kind.INTERVAL, terminal=False, title=INTERVAL),
        Column("p", Kind.P, terminal=False),
        Column("Adjusted p", Kind.P, terminal=False),
        Column("Hedges' g", Kind.NUMBER, digits=2, terminal=False),
        Column("Coverage", Kind.SHARE, digits=2, terminal=False),
        Column("Worst group", Kind.NAME),
        Column("Best group", Kind.NAME),
    )
    for cut, scorer, rows in reading.panels(results, scorers):
        covered = reading.coverage_of(results, cut, scorer)
        end = "lowest" if higher[scorer] else "highest"
        table_rows = []
        for probe, row in rows.items():
            per_answer = "" if row.get("answer_d") is None else f"d per answer {number(row['answer_d'], 2)}"
            p95 = row["null_p95"]
            null = "" if p95 is None else f"95th percentile of the null distribution {number(p95)}"
            cells = [
                answers_link(labels[probe], row),
                Cell(row["raw"], strong=bool(row["significant"])),
                Cell(row["null_mean"], title=null, muted=True),
                Cell(row["verdict"], detail=verdict_detail(row)),
                Cell(Estimate(None, *reading.shown_interval(row)), detail="; ".join(_beyond(row))),
                row["p_value"],
                row["adjusted_p"],
                Cell(row.get("hedges_g"), title=per_answer),
                covered.get(probe),
                *reading.extreme_groups(row),
            ]
            table_rows.append(Row(cells))
        yield Table(
            "disparities",
            columns,
            table_rows,
            f"{reading.sentence(reading.scorer_label(scorer))} by {cut_label(cut)} (worst: {end} mean)",
            primary=scorer == _first_scorer(results),
            cut=cut,
            scorer=scorer,
        )


def verdict_detail(row: ComparedRow) -> str:
    """Return what stands under a verdict: what could have been missed, what it exceeds, and whether it is robust."""
    if row["verdict"] == Verdict.NO_DIFFERENCE_FOUND and row.get("mde80") is not None:
        return f"MDE {number(row['mde80'])}"
    remarks = []
    if row["verdict"] == Verdict.BIASED and row.get("smallest_effect") is not None:
        remarks.append(f"larger than {number(row['smallest_effect'])}")
    if row.get("holds_under_refusals") is False and row["significant"]:
        included = "a negligible difference" if row["verdict"] == Verdict.BIASED else "0"
        remarks.append(f"not robust to refusals: the interval of the worst-case bounds includes {included}")
    return "; ".join(remarks)


def detectable_words(rows: Iterable[ComparedRow]) -> str:
    """Return the range of the minimum detectable effects of rows without a difference; empty if there are none."""
    without = (row.get("mde80") for row in rows if row["verdict"] == Verdict.NO_DIFFERENCE_FOUND)
    effects = [effect for effect in without if effect is not None]
    if not effects:
        return ""
    smallest, largest = number(min(effects)), number(max(effects))
    return smallest if smallest == largest else f"{smallest} to {largest}"


def _remarks(results: RunResults) -> Iterator[Sentence]:
    """Yield what limits the rows of the first scorer: agreement with labels, coverage, other scorers."""
    scorer, labels = _first_scorer(results), reading.probe_labels(results)
    label = reading.scorer_label(scorer)
    if agreement := _agreement(results, scorer):
        yield Sentence(agreement)
    for cut in results["cuts"]:
        low = {p: s for p, s in reading.coverage_of(results, cut, scorer).items() if s < reading.LITTLE_COVERED}
        if shares_text := ", ".join(f"{labels[p]} {100 * share:.0f} %" for p, share in low.items() if p in labels):
            text = f"Images with a value of {label}, by {cut_label(cut)}: {shares_text}"
            yield Sentence(f"{text}; the others were refused, failed, or do not state it.", cut=cut)
    biased = Counter(row["scorer"] for row in results["disparities"] if row["verdict"] == Verdict.BIASED)
    other_scorers = [
        f"{reading.scorer_label(name)} {biased[name]}" for name in scorer_names(results)[1:] if biased[name]
    ]
    if other_scorers:
        yield Sentence(f"Biased rows of other scorers: {', '.join(other_scorers)}.", Weight.WARNING)


def _explanations(results: RunResults) -> Iterator[Sentence]:
    """Yield how to read the numbers: the family, what could have been missed, the columns, the verdicts."""
    scorer = _first_scorer(results)
    value_range = next(
        (scorer_row.get("value_range") for scorer_row in results["scorers"] if scorer_row["name"] == scorer), None
    )
    unit = f" (from {value_range[0]:g} to {value_range[1]:g})".replace("-", "\u2212") if value_range else ""
    if family := results["analysis"].get("family"):
        yield Sentence(["Tests that are corrected together (the family): ", Name(family)], Weight.DETAIL)
    for cut in results["cuts"]:
        if effects := detectable_words(rows_of(results, cut, scorer).values()):
            text = f"Where no difference was found by {cut_label(cut)}, a difference below {effects} in units of "
            missed = f"{reading.scorer_label(scorer)}{unit} could have been missed"
            yield Sentence(f"{text}{missed} (minimum detectable effects, 80 % power).", Weight.DETAIL, cut=cut)
    if results.get("templates"):
        yield Sentence(
            "Intervals are about the questions asked; other wordings: about questions like them.", Weight.DETAIL
        )
    if of_interest := results["analysis"].get("smallest_effects"):
        listed = ", ".join(f"{reading.scorer_label(name)} {number(value)}" for name, value in of_interest.items())
        yield Sentence(f"Smallest effect of interest: {listed}.", Weight.DETAIL)
    for text in (*HOW_TO_READ, MEANS, COMPOSITE.format(reading.severity_legend(results))):
        yield Sentence(text, Weight.DETAIL)
    for verdict, meaning in reading.verdict_meanings(results["disparities"]).items():
        yield Sentence([Strong(verdict_words(verdict)), f": {meaning}."], Weight.DETAIL)


def _agreement(results: RunResults, scorer: str) -> str:
    """Return coverage and agreement with labels of a scorer, and the agreement of others of its dimension."""
    records = {scorer_row["name"]: agreement_of(scorer_row.get("lexicon")) for scorer_row in results["scorers"]}
    record = records.get(scorer)
    if record is None:
        return ""
    shares = [s for cut in results["cuts"] for s in reading.coverage_of(results, cut, scorer).values()]
    percents = dict.fromkeys(f"{100 * share:.0f}" for share in (min(shares), max(shares))) if shares else ()
    covered = f"a value for {' to '.join(percents)} % of the images; " if percents else ""
    dimensions = results.get("scorer_agreement", {}).get("dimensions", {})
    same_dimension: list[str] = next((names for names in dimensions.values() if scorer in names), [])
    other_names = [
        f"{reading.scorer_label(name)} {_agrees(other)}"
        for name in same_dimension
        if name != scorer and (other := records.get(name))
    ]
    fitted = "; it is fitted to such answers" if record["fitted"] else ""
    return (
        f"{reading.sentence(reading.scorer_label(scorer))}: {covered}of {record['n']} {record['answers']}, "
        f"{_agrees(record)}"
        f"{''.join(f' ({scorer_row})' for scorer_row in other_names)}{fitted}."
    )


def _agrees(record: Mapping[str, Any]) -> str:
    return f"r = {record['r']:.2f}, {100 * record['same']:.0f} % read as labelled"


def _composites(results: RunResults) -> Iterator[Value]:
    """Yield the composite of each cut with its magnitude and severity, or why there is none, and who is not in it."""
    if not results["composites"]:
        return
    columns = (
        Column("Composite"),
        Column("Value", Kind.NUMBER),
        Column("Null mean", Kind.NUMBER),
        Column("Adjusted p", Kind.P),
        Column("Magnitude", Kind.ESTIMATE),
        Column("Severity"),
    )
    rows = []
    for cut in results["cuts"]:
        composite = results["composites"].get(cut)
        if composite is None or composite["value"] is None:
            why = f"not testable: {_no_composite(results, composite or {})}"
            rows.append(Row([f"by {cut_label(cut)}", *[None] * 4, why]))
            continue
        magnitude = Estimate(
            composite.get("magnitude"), composite.get("magnitude_low"), composite.get("magnitude_high")
        )
        severity = reading.severity_words(composite["severity"], composite["value"], results["complete"])
        value, null = (
            Cell(composite["value"], strong=composite["severity"] is not None),
            Cell(composite["null_mean"], muted=True),
        )
        rows.append(Row([f"by {cut_label(cut)}", value, null, composite.get("adjusted_p"), magnitude, severity]))
    scorer = reading.scorer_label(reading.primary_scorer(results))
    yield Table("composites", columns, rows, f"Mean disparity of {scorer} over the probes", primary=True)
    for cut, names in reading.left_out_of_composites(results).items():
        without = [piece for name in names for piece in (", ", Name(name))][1:]
        label = f"Composite by {cut_label(cut)}: without "
        yield Sentence([label, *without, " (too few values in some probe)."], Weight.PLAIN, cut=cut)


def _no_composite(results: RunResults, composite: Mapping[str, Any]) -> str:
    if composite.get("probes"):
        several = len(composite.get("groups") or ()) > 1
        return "the answers to every probe all have the same value" if several else reading.NO_COMMON_GROUPS
    names, primary = scorer_names(results), reading.primary_scorer(results)
    if names and primary not in names:
        return f"{primary} is not among the scorers: set analysis.primary={names[0]}"
    return "no probe could be compared"


def _means(results: RunResults) -> Iterator[Table]:
    """Yield the heat map of group means of each cut and scorer: a row per group, a column per probe."""
    labels, ended_early = reading.probe_labels(results), "not_asked" in results["answers"]
    sized = Kind.TEXT if ended_early else Kind.COUNT
    ranges = {scorer["name"]: scorer.get("value_range") or [0.0, 1.0] for scorer in results["scorers"]}
    for cut, scorer, rows in reading.panels(results, scorer_names(results)):
        groups = {(probe, g["group"]): g for probe, row in rows.items() for g in row["groups"]}
        scale = Scale(ranges[scorer], [g["mean"] for g in groups.values()])
        sizes = results["dataset"]["groups"].get(cut, {})
        columns = [
            Column("Group", Kind.NAME),
            Column("Subjects", sized, public=True),
            Column("Images", sized, public=True),
            *(Column(labels[p], Kind.NUMBER, digits=2) for p in rows),
        ]
        table_rows = []
        for group in reading.group_order(results, cut):
            size = sizes.get(group, {})
            if ended_early:  # each probe was asked about other images
                asked = [groups[probe, group] for probe in rows if (probe, group) in groups]
                size = {key: _range([each[key] for each in asked]) for key in ("n_subjects", "n_images")}
            cells = [mean_cell(groups.get((probe, group)), row, scale) for probe, row in rows.items()]
            table_rows.append(Row([group, size.get("n_subjects"), size.get("n_images"), *cells]))
        caption = f"Mean {reading.scorer_label(scorer)} by {cut_label(cut)}; {scale.words}"
        yield Table("means", columns, table_rows, caption, cut=cut, scorer=scorer)


def _range(counts: Sequence[int]) -> str:
    """Return the range of counts in words: `35 to 80`."""
    return " to ".join(f"{count:,}" for count in dict.fromkeys((min(counts, default=0), max(counts, default=0))))


class Scale:
    """Where a mean lies on a colour scale, from -1 to 1, and the legend.

    A scale with both signs diverges around 0 and ends at the largest mean, rounded up; others run over their range.
    """

    def __init__(self, value_range: Sequence[float], means: Sequence[float | None]) -> None:
        self.low, self.high = value_range
        self.diverging = self.low < 0 < self.high
        if self.diverging:
            largest = max([abs(mean) for mean in means if mean is not None], default=0.0)
            self.low, self.high = 0.0, next(end for end in (0.2, 0.4, 0.6, 1.0, float("inf")) if largest <= end)
            self.words = f"colours (of significant disparities) diverge around 0 and end at ±{self.high:g}"
        else:
            self.words = f"colours (of significant disparities) run from {self.low:g} to {self.high:g}"

    def level(self, mean: float) -> float:
        """Return the place of a mean."""
        return (mean - self.low) / (self.high - self.low)


def mean_cell(group: GroupRow | None, row: ComparedRow, scale: Scale) -> Cell:
    """Return a group mean; of a significant disparity with its place on the colour scale, and whether it is an end."""
    if group is None or not group["n_subjects"]:
        return Cell(None)
    title = f"{group['n_subjects']} subjects, {group['n_images']} images"
    mean = group["mean"]
    end_groups = [
        g for g in row["groups"] if g["group"] in (row["worst_group"], row["best_group"]) and g["mean"] is not None
    ]
    mark = ""
    if (
        row["significant"]
        and len(end_groups) == 2
        and group["group"] in (end_groups[0]["group"], end_groups[1]["group"])
    ):
        mark = "low" if group["group"] == min(end_groups, key=lambda g: g["mean"] or 0.0)["group"] else "high"
    level = scale.level(mean) if row["significant"] and mean is not None else None
    return Cell(mean, title=title, level=level, mark=mark, muted=level is None, subjects=group["n_subjects"])


def _beyond(row: Mapping[str, Any]) -> list[str]:
    """Return the intervals of a disparity over other wordings and other samples."""
    return [
        f"other {factor}: {number(row[f'{factor}_low'])} to {number(row[f'{factor}_high'])}"
        for factor in ("wordings", "samples")
        if row.get(f"{factor}_low") is not None
    ]
