"""The report of several runs, of a sweep or a comparison, as values: fingerprints, leaderboard, disparities, groups.

It shows what `sweep.sweep_results` computed, as a page and as Markdown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from fp2.extension import (
    BIAS_FINGERPRINT,
    DASH,
    EFFECTS,
    FACTS,
    FEWEST_SPOKES,
    MOST_RUNS,
    NOTHING_ABOUT_PEOPLE,
    PLANTED,
    WITHOUT_ATTEMPT,
    Cell,
    Code,
    Column,
    Estimate,
    Kind,
    Name,
    PageSection,
    Part,
    Row,
    Scale,
    Sentence,
    Strong,
    Table,
    Value,
    Weight,
    axis_end,
    correction_label,
    cut_label,
    extreme_groups,
    in_number,
    limitation_values,
    markdown,
    mean_cell,
    number,
    plain,
    question_values,
    radar,
    rank_cell,
    rank_interval,
    render_page,
    repeat_rows,
    run_style,
    scorer_identity,
    scorer_label,
    scorer_version,
    sentence,
    severity_legend,
    severity_words,
    shorten,
    significant_of,
    verdict_detail,
    verdict_words,
)
from fp2.methods.several_runs.across import across_table, beside_tables
from fp2.methods.several_runs.charts import effect_bars
from fp2.methods.several_runs.comparison import comparison_values

Block = Mapping[str, Any]
MOST_EFFECTS = 10
"""Effect sizes that are listed for each cut and scorer; `results.json` has all."""
_RUN = Column("Run", Kind.NAME)


def render_sweep(block: Block, sample: Block | None = None, compared: tuple[Block, float] | None = None) -> str:
    """Return the HTML of the page.

    Parameters
    ----------
    block : mapping
        What `sweep.sweep_results` returned.
    sample : mapping, optional
        Answers side by side (`samples.sample_side_by_side`).
    compared : (mapping, float), optional
        The distances between the runs (`compare_many.compare_all`), which then stand first, and alpha.
    """
    sample = sample or {"runs": [], "rows": []}
    runs = block["runs"]
    labels = [run["label"] for run in runs]
    title, first = title_of(block), []
    if compared is not None:
        title = " against ".join(labels) if len(labels) == 2 else f"{len(labels)} runs compared"
        values = comparison_values(*compared, {run["run_id"]: run["label"] for run in runs})
        first = [PageSection("differ", "Do the fingerprints differ?", values)]
    context = {
        "title": title,
        "cuts": {cut: cut_label(cut) for cut in block["cuts"]},
        "scorers": block["scorers"],
        "runs": [{"label": run["label"], "style": run_style(index)} for index, run in enumerate(runs)],
        "sample": [
            {**row, "answers": [{**answer, "text": shorten(answer["text"])} for answer in row["answers"]]}
            for row in sample["rows"]
        ],
        "sample_runs": [labels[index] for index in sample["runs"]],
        "labels": block["probes"],
        "primary": block["scorers"][0] if block["scorers"] else "",
        "version": block["fp2_version"],
        "has_answers": bool(sample["rows"]),
    }
    folded = {*FOLDED, *(("beside", "other") if block["panels"] else ())}
    sections = [
        *first,
        *(PageSection(name, title, values, folded=name in folded) for name, title, values in sweep_sections(block)),
    ]
    sections.insert(-5, PageSection("sample", "Answers side by side", template="samples.html.j2"))
    return render_page(context, _notices(block), sections, block["min_cell"])


FOLDED = (
    "composites",
    "disparities",
    "means",
    "groups",
    "effects",
    "answers",
    "data",
    "asked",
    "runs",
    "limits",
    "again",
)
"""Sections of which a page shows only the heading at first; beside disparities, those of protocols too."""


def sweep_markdown(block: Block, figure: str | None = None) -> str:
    """Return the report as Markdown; `figure` is the name of the drawing beside it, if there is one.

    Of each cut the first scorer that has disparities is shown, which is the primary one; the page has the others.
    """
    text_lines = [f"# {plain(title_of(block))}", ""]
    values: list[Value] = list(_notices(block))
    first = {cut: next(p["scorer"] for p in block["panels"] if p["cut"] == cut) for cut in block["cuts"]}
    for name, title, inside in sweep_sections(block):
        if name in (
            "short",
            "fingerprints",
            "leaderboard",
            "probes",
            "groups",
            "effects",
            "across",
            "beside",
            "other",
            "runs",
            "limits",
        ):
            shown_values = [
                value for value in inside if getattr(value, "scorer", "") in ("", first.get(getattr(value, "cut", "")))
            ]
            values.append(Part(title, shown_values))
    text_lines += markdown(values, block["min_cell"], figures=[figure] if figure else ())
    return "\n".join(text_lines).rstrip() + "\n"


def sweep_sections(block: Block) -> list[tuple[str, str, list[Value]]]:
    """Return the sections of the report: name, heading and values."""
    runs = block["runs"]
    asked_model = any(run["answers"]["planned"] for run in runs)
    sections: list[tuple[str, str, Iterator[Value]]] = [
        ("short", "In short", _matrix(block)),
        ("leaderboard", "Leaderboard", _leaderboard(block)),
        ("fingerprints", "Fingerprints", _fingerprints(block)),
        ("composites", "Composites of all cuts", _composites(block)),
        ("probes", "By probe", _by_probe(block)),
        ("disparities", "Disparities", _disparities(block)),
        ("means", "Group means", _means(block)),
        ("groups", "Which groups are worst and best", _tallies(block)),
        ("effects", "Effect sizes", _effects(block)),
        ("answers", "Answers, refusals and failures by group", _answers_by_group(runs)),
        ("across", "By the rules of published studies", map(across_table, block["across"])),
        ("beside", "Side by side", beside_tables(block["beside"], [run["label"] for run in runs])),
        ("other", "Results of the protocols", _headlines(block)),
        ("data", "Data", _data(runs)),
        (
            "asked",
            "Questions asked" if asked_model else "What was measured",
            question_values([(run["label"], run["questions"]) for run in runs], asked_model),
        ),
        ("runs", "Runs", _runs(runs)),
        ("limits", "Limitations", limitation_values(_limitations(block))),
        ("again", "Reproduce and verify", _reproduce(block)),
    ]
    return [(name, title, list(values)) for name, title, values in sections]


def title_of(block: Block) -> str:
    """Return what the report is called."""
    runs = block["runs"]
    reports = {run["report"] for run in runs}
    subject = reports.pop() if len(reports) == 1 else "Results"
    if subject == BIAS_FINGERPRINT and not block["panels"]:
        subject = "Results"
    if len(runs) == 1:
        return f"{subject} of {runs[0]['label']}"
    subject += "s" if subject == BIAS_FINGERPRINT else ""
    names = {run["model"] for run in runs}
    models = {(run["model"], run["id"], run["revision"], run["weights_digest"]) for run in runs}
    if len(names) == 1 and None not in names:
        return f"{subject} of {names.pop()}: {len(runs)} runs"
    return f"{subject} of {len(runs)} {'models' if len(models) == len(runs) else 'runs'}"


def effect_legend() -> str:
    """Return the least difference of each magnitude: `negligible < 0.2 ≤ small < ...`."""
    return " ".join(["negligible", *(f"< {threshold:g} ≤ {label}" for threshold, label in EFFECTS)])


def by_value(runs: Sequence[Block], value: Callable[[Block], Any], *, each: bool = False) -> list[tuple[Any, str]]:
    """Return the different values of runs, each with the labels of the runs that have it (empty where all do).

    `each`: `value` returns a list, whose items are the values.
    """
    labels: list[tuple[Any, list[str]]] = []
    for run in runs:
        for item in value(run) if each else [value(run)]:
            if item is None:
                continue
            same = next((names for label_value, names in labels if label_value == item), None)
            if same is None:
                labels.append((item, same := []))
            same.append(run["label"])
    return [(item, "" if len(names) == len(runs) else "; ".join(names)) for item, names in labels]


def _of(names: str) -> list[str]:
    """Return which runs a sentence is about; nothing where it is about all."""
    return [" (", Name(names), ")"] if names else []


def _notices(block: Block) -> Iterator[Sentence]:
    """Yield what a reader has to know before the numbers."""
    runs = block["runs"]
    simulated = "; ".join(run["label"] for run in runs if run["without_effects"])
    planted = "; ".join(run["label"] for run in runs if run["calibration"] and not run["without_effects"])
    segments: list[str] = []
    if simulated:
        segments += [Strong("Simulated without planted effects: "), Name(simulated)]
        segments.append(". Every difference between groups is chance. ")
    if planted:
        segments += [Strong("Positive control: "), Name(planted), f". {PLANTED} "]
    if segments:
        yield Sentence([*segments, NOTHING_ABOUT_PEOPLE], Weight.WARNING)
    for caution, names in by_value(runs, lambda run: run["caution"]):
        yield Sentence([Strong("Data."), " ", Name(caution), *_of(names)], Weight.WARNING)
    if partial := "; ".join(run["label"] for run in runs if not run["complete"]):
        warning = ". Some planned answers are missing; the numbers may change when they are there."
        yield Sentence([Strong("Partial runs: "), Name(partial), warning], Weight.WARNING)
    if missing := block["missing"]:
        n = f"{len(missing)} of the {len(missing) + len(runs)} runs did not finish and are not in this report: "
        segments = [
            segment
            for run_missing in missing
            for segment in ("; ", Name(run_missing["run"]), ": ", Name(run_missing["reason"]))
        ][1:]
        yield Sentence([Strong("Runs that are missing. "), n, *segments, "."], Weight.WARNING)


def _largest(block: Block, panels: Iterable[Block]) -> Sentence:
    """Return the largest significant difference of all runs and cuts in words."""
    significant = [
        (row, panel, line["run"], probe)
        for panel in panels
        for line in panel["lines"]
        for probe, row in line["rows"].items()
        if row["significant"]
    ]
    if not significant:
        return Sentence([Strong("No difference between groups is significant"), " in any run."], Weight.LEAD)
    row, panel, run, probe = max(significant, key=lambda entry: float(entry[0]["raw"]))
    worst, best = map(str, extreme_groups(row))
    gap = row["raw"] if row.get("pair_gap") is None else row["pair_gap"]
    where = f" on {block['probes'][probe]} by {cut_label(panel['cut'])}: "
    segments = [
        "The largest significant difference is that of ",
        Name(block["runs"][run]["label"]),
        where,
        Strong(worst),
        " (worst) against ",
        Strong(best),
        f", {number(gap)} in {scorer_label(panel['scorer'])}.",
    ]
    return Sentence(segments, Weight.LEAD)


def _matrix(block: Block) -> Iterator[Value]:
    """Yield for each run and cut how many disparities of the cut's first scorer are significant, of those tested."""
    first: dict[str, Block] = {}
    for panel in block["panels"]:
        first.setdefault(panel["cut"], panel)
    if len(block["runs"]) < 2 or not first:
        return
    yield _largest(block, first.values())
    counts = {cut: {entry["run"]: entry for entry in panel["significant"]} for cut, panel in first.items()}
    rows = []
    for index, run in enumerate(block["runs"]):
        cells: list[Any] = [_run_cell(run, index)]
        for by_run in counts.values():
            n, of = (by_run[index]["n_significant"], by_run[index]["n_compared"]) if index in by_run else (0, 0)
            cells.append(replace(significant_of(n, of), level=n / of if of else None))
        rows.append(Row(cells))
    columns = (_RUN, *(Column(f"by {cut_label(cut)}") for cut in first))
    scorers = ", ".join(dict.fromkeys(scorer_label(panel["scorer"]) for panel in first.values()))
    yield Table("significant", columns, rows, f"Significant disparities of {scorers}, of those that could be tested")
    yield Sentence(
        "Significant: after correction within the run. A darker cell has a larger share of significant disparities.",
        Weight.DETAIL,
    )


def _fingerprints(block: Block) -> Iterator[Value]:
    """Yield a radar for each panel with enough probes, a line per run; a reader can hide runs."""
    panels = [panel for panel in block["panels"] if len(panel["probes"]) >= FEWEST_SPOKES]
    for panel in panels:
        labels = {probe: block["probes"][probe] for probe in panel["probes"]}
        run_rows = [
            (block["runs"][run_row["run"]]["label"], run_row["run"], run_row["rows"]) for run_row in panel["lines"]
        ]
        end = axis_end(row[key] for _, _, rows in run_rows for row in rows.values() for key in ("raw", "null_p95"))
        title = (
            f"{sentence(scorer_label(panel['scorer']))} disparity by {cut_label(panel['cut'])}, {len(run_rows)} runs"
        )
        yield radar(title, panel["cut"], labels, run_rows, end, scorer=panel["scorer"])
    if panels:
        yield Sentence(
            "Disparity: the largest group mean minus the smallest. Grey reaches to the 95th percentile of what chance "
            "gives, the dashed line is its mean; at each probe they are the largest of the runs'. Filled points are "
            "significant after correction within the run.",
            Weight.DETAIL,
        )


def _run_cell(run: Block, index: int) -> Cell:
    """Return the name of a run with the colour of its line and what sets it apart."""
    kind = "simulated without effects" if run["without_effects"] else "positive control"
    marks = [run["variant"] or "", kind if run["calibration"] else "", "" if run["complete"] else "partial"]
    marks.append("answers supplied, not asked here" if run["supplied"] else "")
    return Cell(run["label"], detail=", ".join(mark for mark in marks if mark), series=index)


def _table(
    name: str,
    columns: Sequence[Column],
    rows: Sequence[Row],
    panel: Block,
    runs: Sequence[Block],
    caption: Sequence[str] = (),
    empty: str = "",
) -> Table:
    """Return a table of a panel, whose caption names the scorer and the cut and ends with `caption`."""
    title = [f"{sentence(scorer_label(panel['scorer']))} by {cut_label(panel['cut'])}"]
    scorer_rows = [
        scorer
        for run_row in panel["lines"]
        for scorer in runs[run_row["run"]]["scorers"]
        if scorer["name"] == panel["scorer"]
    ]
    if len({scorer_identity(scorer) for scorer in scorer_rows}) > 1:
        title.append(Strong(" (scored by different versions: not comparable between runs)"))
    facets = {"cut": panel["cut"], "scorer": panel["scorer"]}
    return replace(Table(name, columns, rows, [*title, *caption], empty=empty), **facets)


def _leaderboard(block: Block) -> Iterator[Value]:
    """Yield the runs of each panel in order: composite, ranks, the disparity of each probe."""
    runs = block["runs"]
    for panel in block["panels"]:
        key = (panel["cut"], panel["scorer"])
        n, of = (sum(counts[name] for counts in panel["significant"]) for name in ("n_significant", "n_compared"))
        subject = f"{sentence(scorer_label(panel['scorer']))} by {cut_label(panel['cut'])}: "
        tested = Strong(f"{n} of {of} {in_number(of, '[disparity is|disparities are]')} significant")
        segments = [subject, tested, in_number(n_runs := len(panel["lines"]), f" in {n_runs} [run|runs].")]
        yield Sentence(segments, Weight.LEAD, cut=panel["cut"], scorer=panel["scorer"])
        board, rows_of_run = (
            {row["run"]: row for row in block["leaderboard"] if (row["cut"], row["scorer"]) == key},
            {run_row["run"]: run_row["rows"] for run_row in panel["lines"]},
        )
        ranked = any(row["rank_low"] is not None for row in board.values())
        composed = any(board[run]["composite"] is not None for run in board if run in rows_of_run)
        significant = {entry["run"]: entry for entry in panel["significant"]}
        columns = [
            _RUN,
            Column("#", Kind.COUNT),
            Column("Ranks"),
            Column("Ties"),
            Column("Composite", Kind.NUMBER),
            Column("Severity"),
            *(Column(block["probes"][probe], Kind.NUMBER) for probe in panel["probes"]),
            Column("Significant"),
            Column("Refused", Kind.SHARE),
            Column("Difference", Kind.NUMBER),
            Column("Magnitude", Kind.NUMBER),
            Column("Subjects", Kind.COUNT),
            Column("Family", Kind.NAME),
            Column("Parameters", Kind.COUNT),
        ]
        hidden = set() if composed else {"#", "Composite", "Severity", "Magnitude"}
        hidden |= set() if ranked else {"Ranks", "Ties", "Difference"}
        if not any(run["family"] or run["parameters"] for run in runs):
            hidden |= {"Family", "Parameters"}
        rows = []
        for index in [*(run for run in board if run in rows_of_run), *(run for run in rows_of_run if run not in board)]:
            run, row, count = runs[index], board.get(index), significant[index]
            has: Block = row or {}
            severity = severity_words(has.get("severity"), has.get("composite"), run["complete"])
            cells: list[Any] = [
                _run_cell(run, index),
                rank_cell(*(has.get(key) for key in ("rank", "rank_low", "rank_high", "severity"))),
                rank_interval(has.get("rank_low"), has.get("rank_high")),
                has.get("ties"),
                has.get("composite"),
                severity,
                *(_disparity_cell(rows_of_run[index].get(probe)) for probe in panel["probes"]),
                f"{count['n_significant']} of {count['n_compared']}",
                run["refused"],
                has.get("difference"),
                has.get("magnitude"),
                run["n_subjects"],
                run["family"],
                run["parameters"],
            ]
            rows.append([cell for cell, column in zip(cells, columns, strict=True) if column.label not in hidden])
        shown_columns = [column for column in columns if column.label not in hidden]
        yield _table("leaderboard", shown_columns, [Row(cells) for cells in rows], panel, block["runs"])
    if block["panels"]:
        for text in (
            "A column per probe has its disparity, bold where it is significant after correction within the run; the "
            "composite is their mean. A model that refuses is not thereby fair: see the refusals.",
            "Ranks, ties, difference: runs on the same subjects are ranked by their difference, smallest first: the "
            "root mean square difference of two groups over probes, corrected for noise. Ranks are simultaneous "
            "confidence intervals; runs that share a letter do not differ significantly. Without ranks the order is "
            "that of the magnitude, and neighbours may not differ significantly.",
            f"Magnitude, severity: the composite corrected for noise, and where its interval lies in words: "
            f"{severity_legend(runs[0])}. A composite that is not significant has no severity, unless its whole "
            "interval is below the lowest bound.",
        ):
            yield Sentence(text, Weight.DETAIL)
    for note in block["notes"]:
        yield Sentence([Name(note)])


def _disparity_cell(row: Block | None) -> Cell:
    if row is None:
        return Cell(None)
    return Cell(row["raw"], strong=bool(row["significant"]), title=verdict_words(row["verdict"]))


def _composites(block: Block) -> Iterator[Value]:
    columns = (
        _RUN,
        Column("Cut"),
        Column("Scorer"),
        Column("Composite", Kind.NUMBER),
        Column("Null mean", Kind.NUMBER),
        Column("Excess", Kind.NUMBER, signed=True),
        Column("Magnitude", Kind.NUMBER),
        Column("p", Kind.P),
        Column("Severity"),
        Column("Probes", Kind.COUNT),
    )
    rows = []
    for row in block["leaderboard"]:
        run = block["runs"][row["run"]]
        severity = severity_words(row["severity"], row["composite"], run["complete"])
        numbers = [row[key] for key in ("composite", "chance", "excess", "magnitude", "p_value")]
        labels = [cut_label(row["cut"]), scorer_label(row["scorer"])]
        rows.append(Row([_run_cell(run, row["run"]), *labels, *numbers, severity, row["n_probes"]]))
    yield Table("composites", columns, rows)


def _by_probe(block: Block) -> Iterator[Value]:
    """Yield the runs with the smallest and the largest disparity of each probe."""
    columns = (
        Column("Probe"),
        Column("Significant in"),
        Column("Smallest disparity", Kind.NUMBER),
        Column("of", Kind.NAME),
        Column("Largest disparity", Kind.NUMBER),
        Column("of", Kind.NAME),
        Column("Worst group there", Kind.NAME),
        Column("Best group there", Kind.NAME),
        Column("Verdict there", Kind.VERDICT),
    )
    several = [panel for panel in block["panels"] if len(panel["lines"]) > 1]
    for panel in several:
        rows = []
        for entry in panel["by_probe"]:
            label, count = block["probes"][entry["probe"]], f"{entry['n_significant']} of {entry['n_compared']}"
            cells: list[Any] = [None] * 7
            if largest := entry["largest"]:
                smallest = entry["smallest"]
                names = [
                    Cell(block["runs"][end["run"]]["label"], detail=f"and {end['tied']} more" if end["tied"] else "")
                    for end in (smallest, largest)
                ]
                groups = extreme_groups(largest)
                cells = [smallest["raw"], names[0], largest["raw"], names[1], *groups, largest["verdict"]]
            rows.append(Row([label, count, *cells]))
        yield _table("by_probe", columns, rows, panel, block["runs"])
    if several:
        yield Sentence("The smallest disparity of several runs may be smallest by chance.", Weight.DETAIL)


def _disparities(block: Block) -> Iterator[Value]:
    """Yield the disparities of all runs by probe; of more than `MOST_RUNS` runs none."""
    columns = (
        Column("Probe"),
        _RUN,
        Column("Disparity", Kind.NUMBER),
        Column("Interval", Kind.INTERVAL),
        Column("Null mean", Kind.NUMBER),
        Column("Adjusted p", Kind.P),
        Column("Verdict", Kind.VERDICT),
        Column("Worst group", Kind.NAME),
        Column("Best group", Kind.NAME),
    )
    if block["panels"] and len(block["runs"]) > MOST_RUNS:
        yield Sentence(
            "Disparities with their intervals and group means are not listed for so many runs: each run's "
            "dashboard and results.json have them."
        )
        return
    for panel in block["panels"]:
        rows = []
        for probe in panel["probes"]:
            for run_row in panel["lines"]:
                if probe in run_row["rows"]:
                    row = run_row["rows"][probe]
                    groups = extreme_groups(row)
                    rows.append(
                        Row(
                            [
                                block["probes"][probe],
                                block["runs"][run_row["run"]]["label"],
                                Cell(row["raw"], strong=bool(row["significant"])),
                                Estimate(None, row["ci_low"], row["ci_high"]),
                                row["null_mean"],
                                row["adjusted_p"],
                                Cell(row["verdict"], detail=verdict_detail(row)),
                                *groups,
                            ]
                        )
                    )
        yield _table("disparities", columns, rows, panel, block["runs"])


def _means(block: Block) -> Iterator[Value]:
    """Yield the group means of all runs, a row for each group and run; of more than `MOST_RUNS` runs none."""
    runs = block["runs"]
    for panel in block["panels"] if len(runs) <= MOST_RUNS else ():
        cut, rows_of_run = panel["cut"], {run_row["run"]: run_row["rows"] for run_row in panel["lines"]}
        groups = {
            (index, probe): {group["group"]: group for group in row["groups"]}
            for index, rows in rows_of_run.items()
            for probe, row in rows.items()
        }
        scorers = (
            scorer for index in rows_of_run for scorer in runs[index]["scorers"] if scorer["name"] == panel["scorer"]
        )
        value_range = next((scorer.get("value_range") for scorer in scorers), None) or [0.0, 1.0]
        scale = Scale(value_range, [group["mean"] for cells in groups.values() for group in cells.values()])
        names = [name for index in rows_of_run for name in runs[index]["groups"].get(cut, {})]
        columns = [Column("Group", Kind.NAME), _RUN, Column("Subjects", Kind.COUNT, public=True)]
        columns += [Column(block["probes"][probe], Kind.NUMBER, digits=2) for probe in panel["probes"]]
        rows = []
        for name in dict.fromkeys([*names, *(name for cells in groups.values() for name in cells)]):
            for index, by_probe in rows_of_run.items():
                size = runs[index]["groups"].get(cut, {}).get(name, {}).get("n_subjects")
                cells = [
                    mean_cell(groups[index, probe].get(name), by_probe[probe], scale) if probe in by_probe else None
                    for probe in panel["probes"]
                ]
                if size is not None or any(name in groups[index, probe] for probe in by_probe):
                    rows.append(Row([name, runs[index]["label"], size, *cells]))
        caption = [f", means; {scale.words}"]
        yield _table("means", columns, rows, panel, block["runs"], caption)


def _tallies(block: Block) -> Iterator[Value]:
    """Yield how often each group is worst and best, over runs and probes, beside what chance gives."""
    end_columns = [(end, label) for end in ("worst", "best") for label in ("", "expected (95th pct.)", "p")]
    columns = [Column("Group", Kind.NAME)]
    columns += [
        Column(end.capitalize(), Kind.COUNT)
        if not label
        else Column(f"{end}, {label}", Kind.P if label == "p" else Kind.TEXT)
        for end, label in end_columns
    ]
    for panel in block["panels"]:
        for tally in panel["tallies"]:
            caption = [", ", Name(tally["variant"])] if tally["variant"] else []
            caption.append(f": {tally['n']} comparisons of {len(tally['runs'])} runs")
            caption += ["; no expected numbers: ", Name(tally["reason"])] if tally["reason"] else []
            rows = []
            for group in tally["groups"]:
                cells: list[Any] = [group["group"]]
                for end in ("worst", "best"):
                    count, expected, p95, p = (group[f"{end}_{key}"] for key in ("count", "expected", "p95", "p_value"))
                    text = DASH if expected is None else f"{number(expected, 1)} ({number(p95, 0)})"
                    unusual = p is not None and p <= 0.05
                    cells += [Cell(count, strong=unusual, muted=not unusual), text, p]
                rows.append(Row(cells))
            yield _table("groups", columns, rows, panel, block["runs"], caption, empty=tally["reason"] or "")
    if block["panels"]:
        yield Sentence(
            "How often each group is the worse and the better one of the clearest pair, over runs and probes, "
            "significant or not. Expected: the number by chance, its 95th percentile and a p-value, from permuting the "
            "group labels across the subjects that the runs share, with the same relabelling for all runs and probes: "
            "runs on the same subjects share their sampling error. p: the probability that some group exceeds its "
            "expected number by as many standard deviations.",
            Weight.DETAIL,
        )


def _effects(block: Block) -> Iterator[Value]:
    """Yield the effect sizes of the clearest pairs, the largest first."""
    numbers = {
        "cohens_d": Column("Cohen's d", Kind.NUMBER, digits=2),
        "kruskal_h": Column("Kruskal-Wallis H", Kind.NUMBER, digits=1),
        "kruskal_p": Column("its p", Kind.P),
        "epsilon_squared": Column("ε²", Kind.NUMBER),
        "js_divergence": Column("Jensen-Shannon", Kind.NUMBER),
        "js_null_mean": Column("its null mean", Kind.NUMBER),
        "js_p": Column("its p", Kind.P),
    }
    columns = (
        _RUN,
        Column("Probe"),
        Column("d per answer", Kind.NUMBER, digits=2),
        Column("Size"),
        *numbers.values(),
        Column("Worse group", Kind.NAME),
        Column("Better group", Kind.NAME),
        Column("Verdict", Kind.VERDICT),
    )
    for panel in block["panels"]:
        rows_of_run, rows = {run_row["run"]: run_row["rows"] for run_row in panel["lines"]}, []
        for effect in panel["effects"][:MOST_EFFECTS]:
            row, run = rows_of_run[effect["run"]][effect["probe"]], block["runs"][effect["run"]]
            muted = not row["significant"]
            cells = [
                run["label"],
                block["probes"][effect["probe"]],
                Cell(effect["d"], strong=not muted),
                None if muted else row["effect"],
                *(row.get(key) for key in numbers),
                *extreme_groups(row),
                row["verdict"],
            ]
            rows.append(Row(cells))
        bars = [
            (
                f"{plain(block['runs'][one['run']]['label'])}, {block['probes'][one['probe']]}",
                one["run"],
                one["d"],
                rows_of_run[one["run"]][one["probe"]],
            )
            for one in panel["effects"][:MOST_EFFECTS]
        ]
        title = f"Effect sizes of {scorer_label(panel['scorer'])} by {cut_label(panel['cut'])}"
        if bars:
            yield effect_bars(title, panel["cut"], panel["scorer"], bars)
        more = f": the {MOST_EFFECTS} largest of {len(panel['effects'])}"
        caption = [more] if len(panel["effects"]) > MOST_EFFECTS else []
        yield _table("effects", columns, rows, panel, block["runs"], caption, empty="No effect size exists.")
    if block["panels"]:
        yield Sentence(
            "d per answer: the difference of the clearest pair in standard deviations of one answer, by which rows are "
            f"ranked and named (size: {effect_legend()}). Cohen's d: in standard deviations of subject means, which "
            "grows with the images per subject. Kruskal-Wallis and the Jensen-Shannon divergence (in bits) compare all "
            "groups. The pair and the first rows are selected for being large, so that these effects are too large on "
            "average; the verdict decides.",
            Weight.DETAIL,
        )


def _answers_by_group(runs: Sequence[Block]) -> Iterator[Value]:
    """Yield the counts of answers of the groups of each cut, a row for each group and run."""
    absent = [key for key in WITHOUT_ATTEMPT if any(key in run["answers"] for run in runs)]
    keys = ("answered", "refused", "failed", *absent)
    labels = ("Answered", "of these refused", "Failed", *(sentence(scorer_label(key)) for key in absent))
    columns = [
        Column("Group", Kind.NAME),
        _RUN,
        Column("Subjects", Kind.COUNT, public=True),
        Column("Planned", Kind.COUNT, public=True),
        *(Column(label, Kind.COUNT) for label in labels),
        Column("Share refused", Kind.SHARE),
    ]
    for cut in dict.fromkeys(row["cut"] for run in runs for row in run["answers_by_group"]):
        rows: dict[str, list[Row]] = {}
        for run in runs:
            label = run["label"]
            for row in run["answers_by_group"]:
                if row["cut"] == cut:
                    n = run["groups"].get(cut, {}).get(row["group"], {}).get("n_subjects")
                    share = row["refused"] / row["answered"] if row.get("answered") and not row["suppressed"] else None
                    cells = [row["group"], label, n, row["planned"], *(row.get(key, 0) for key in keys), share]
                    rows.setdefault(row["group"], []).append(Row(cells, n or 0))
            if n := run["without_value"].get(cut):
                none = Row(["no value", label, Cell(n, detail="in no group"), *[None] * (len(columns) - 3)])
                rows.setdefault("", []).append(none)
        without = rows.pop("", [])
        all_rows = [row for group in rows.values() for row in group] + without
        yield Table("answers", columns, all_rows, f"By {cut_label(cut)}", cut=cut)


def _headlines(block: Block) -> Iterator[Value]:
    """Yield the headline numbers of other protocols, a column for each run."""
    columns = [Column("Protocol"), Column("Number"), *(Column(run["label"], Kind.NUMBER) for run in block["runs"])]
    rows = [
        Row([scorer_label(headline["block"]), plain(headline["label"]), *map(_headline_cell, headline["values"])])
        for headline in block["headlines"]
    ]
    yield Table("headlines", columns, rows)


def _headline_cell(value: Any) -> Any:
    return str(value) if isinstance(value, bool) else value


def _data(runs: Sequence[Block]) -> Iterator[Value]:
    keys = ("dataset", "release", "dataset_digest", "n_subjects", "n_images", "without_value", "terms", "caution")
    for about, names in by_value(runs, lambda run: {key: run[key] for key in keys}):
        release = f", release {about['release']}" if about["release"] else ""
        facts = {"Subjects, images": f"{about['n_subjects']:,}, {about['n_images']:,}"}
        without = [f"{cut_label(cut)}: {n:,}" for cut, n in about["without_value"].items() if n]
        facts |= {"Subjects without a value, in no group": ", ".join(without)} if without else {}
        facts["Terms of use"] = about["terms"] or "not recorded: those of the data set's owner apply"
        facts |= {"Caution": about["caution"]} if about["caution"] else {}
        facts["Digest"] = about["dataset_digest"]
        caption = [Name(f"{about['dataset']}{release}"), *_of(names)]
        yield Table("data", FACTS, [Row([key, value]) for key, value in facts.items()], caption)


def _runs(runs: Sequence[Block]) -> Iterator[Value]:
    """Yield who was asked, with which scorers, and how groups were compared."""
    labels = ("Model", "Revision or digest", "Precision", "Data")
    counts = ("Subjects", "Images", "Answered", "Refused", "Failed")
    columns = [
        _RUN,
        *(Column(label, Kind.NAME) for label in labels),
        *(Column(label, Kind.COUNT) for label in counts),
        Column("Run id", Kind.CODE),
        Column("Config hash", Kind.CODE),
    ]
    rows = []
    for index, run in enumerate(runs):
        data = " ".join(item for item in (run["dataset"], run["release"]) if item)
        about = [
            run["id"],
            (run["revision"] or run["weights_digest"] or DASH)[:12],
            run["quantisation"] or run["dtype"],
        ]
        numbers = [
            run["n_subjects"],
            run["n_images"],
            *(run["answers"][key] for key in ("answered", "refused", "failed")),
        ]
        rows.append(Row([_run_cell(run, index), *about, data, *numbers, run["run_id"], run["config_hash"][:12]]))
    yield Table("runs", columns, rows)
    scorers = by_value(runs, lambda run: [(s["name"], scorer_version(s)) for s in run["scorers"]], each=True)
    facts = [Row([scorer_label(name), Cell(version, detail=names)]) for (name, version), names in scorers]
    yield Table("scorers", (Column("Scorer"), Column("Version", Kind.NAME)), facts)
    for method, names in by_value(
        runs, lambda run: {**run["analysis"], "seed": None} if run["analysis"]["correction"] else None
    ):
        sentences = [f"Significance level {method['alpha']}; correction: {correction_label(method['correction'])}"]
        sentences += [f"tests that are corrected together: {method['family']}"] if method["family"] else []
        if method["n_permutations"]:
            sentences.append(f"{method['n_permutations']:,} permutations of the group labels across subjects")
        sentences += [f"groups of at least {method['min_subjects']} subjects"] if method["min_subjects"] else []
        yield Sentence([Name("; ".join(sentences)), *_of(names), "."])


def _limitations(block: Block) -> Iterator[Sequence[str]]:
    for limitation, names in by_value(block["runs"], lambda run: run["limitations"], each=True):
        yield [Name(limitation), *_of(names)]


def _reproduce(block: Block) -> Iterator[Value]:
    """Yield how each run is repeated, and how this page is made."""
    runs = block["runs"]
    for run in runs:
        if not (how := run["repeat"]):
            continue
        rows = repeat_rows(how)
        if passport := how["passport"]:
            signed = f"signed with {', '.join(passport['keys'])}{'; PARTIAL' if passport['partial'] else ''}"
            rows.append(Row(["Passport, payload (SHA-256)", Cell(passport["payload_sha256"], detail=signed)]))
        table = Table("reproduce", FACTS, rows)
        yield Part([Name(run["label"])], [table], folded=len(runs) > 4)
    rerun, verify = Code("fp2 rerun RUN_ID"), Code("fp2 verify passport.json --key PUBLIC_KEY.pem")
    yield Sentence(
        [
            rerun,
            " repeats a run and compares every number; ",
            verify,
            ", in the folder of a run, checks the "
            "signature and the digest of every file. This page states what the passports say; it has not "
            "verified them.",
        ]
    )
    ids = " ".join(run["run_id"] for run in runs)
    yield Sentence(
        [
            "This page: ",
            Code(f"fp2 report {block['sweep_id'] or ids}"),
            ". Whether fingerprints differ: ",
            Code(f"fp2 compare {ids}"),
            ".",
        ]
    )
