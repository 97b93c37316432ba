"""The report of a sweep as Markdown: the leaderboard and the counts of the primary scorer, and the largest effects."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from fp2.report.reading import (
    DASH,
    calibration_words,
    cut_label,
    number,
    plain,
    probability,
    scorer_label,
    severity_legend,
    severity_words,
    verdict_words,
)
from fp2.report.section import cell_words
from fp2.report.sweep import chance_words, effect_legend, limitations_of, rank_words, title_of
from fp2.report.text import escape_markdown

Block = Mapping[str, Any]
MOST_EFFECTS = 10


def sweep_markdown(block: Block, figure: str | None = None) -> str:
    """Return the report as Markdown; `figure` is the name of the drawing beside it, if there is one.

    Of each cut the first scorer that has disparities is shown, which is the primary one, and the others are named.
    """
    lines = [f"# {escape_markdown(title_of(block))}", ""]
    if said := calibration_words(block["runs"]):
        lines += [said, ""]
    for caution in dict.fromkeys(run["caution"] for run in block["runs"] if run["caution"]):
        lines += [_text(caution), ""]
    if block["missing"]:
        lines += ["Runs of this sweep that did not finish:", ""]
        lines += [f"- {_text(one['run'])}: {_text(one['reason'])}" for one in block["missing"]]
        lines.append("")
    if figure is not None:
        lines += [f"![Disparity by probe, a line per run]({figure})", ""]
    for cut in block["cuts"]:
        first, *others = [panel for panel in block["panels"] if panel["cut"] == cut]
        lines += [*_panel(first, block), ""]
        if others:
            names = ", ".join(_text(scorer_label(panel["scorer"])) for panel in others)
            lines += [f"Not shown here, but in the page and in `results.json`: {names} by {_text(cut_label(cut))}.", ""]
    for table in block["beside"]:
        lines += [f"## {_text(table['title']).capitalize()}", ""]
        head = ("", *(run["label"] for run in block["runs"]))
        lines += [*_table(head, ([label, *map(cell_words, cells)] for label, cells in table["rows"].items())), ""]
    if block["headlines"]:
        lines += [*_headlines(block), ""]
    lines += ["## Runs", ""]
    columns = ("run", "model", "family", "parameters", "data", "subjects", "refused", "run id", "config hash")
    lines += _table(columns, (_about(run) for run in block["runs"]))
    notes = [*block["notes"], f"Severity: {severity_legend(block['runs'][0])}."] if block["panels"] else block["notes"]
    lines += ["", *(f"- {_text(line)}" for line in notes)]
    for one in limitations_of(block["runs"]):
        about = f" ({', '.join(map(_text, one['runs']))})" if one["runs"] else ""
        lines.append(f"- {_text(one['value'])}{about}")
    return "\n".join(lines) + "\n"


def _panel(panel: Block, block: Block) -> Iterator[str]:
    """Yield the lines of one cut and scorer."""
    runs, probes = block["runs"], {probe: block["probes"][probe] for probe in panel["probes"]}
    yield f"## {_text(scorer_label(panel['scorer'])).capitalize()} by {_text(cut_label(panel['cut']))}"
    yield ""
    by_run = {line["run"]: line["rows"] for line in panel["lines"]}
    board = {
        row["run"]: row
        for row in block["leaderboard"]
        if (row["cut"], row["scorer"]) == (panel["cut"], panel["scorer"]) and row["run"] in by_run
    }
    head = ("#", "ranks", "ties", "run", *probes.values(), "composite", "null mean", "p", "severity")
    order = [*board, *(run for run in by_run if run not in board)]
    yield from _table(head, (_board_row(runs[run], board.get(run), by_run[run], probes) for run in order))
    yield ""
    for one in panel["significant"]:
        yield f"- {_text(runs[one['run']]['label'])}: {one['n_significant']} of {one['n_probes']} probes significant"
    for tally in panel["tallies"]:
        if tally["groups"]:
            for end in ("worst", "best"):
                most = max(tally["groups"], key=lambda group: group[f"{end}_count"])
                count = f"{most[f'{end}_count']} of {tally['n']} comparisons"
                where = f" ({_text(tally['variant'])})" if tally["variant"] else ""
                yield f"- most often {end}{where}: {_text(most['group'])}, {count}; {chance_words(most, end)}"
    yield ""
    head = ("probe", "significant in", "smallest disparity", "largest disparity", "worst group there", "verdict there")
    yield from _table(head, (_probe_row(one, probes, runs) for one in panel["by_probe"]))
    yield ""
    yield f"Largest effect sizes ({_text(effect_legend())}):"
    yield ""
    head = (
        "run",
        "probe",
        "d per answer",
        "size",
        "Cohen's d",
        "Kruskal-Wallis H",
        "p",
        "Jensen-Shannon",
        "verdict",
    )
    yield from _table(head, (_effect_row(one, by_run, probes, runs) for one in panel["effects"][:MOST_EFFECTS]))


def _board_row(run: Block, row: Block | None, rows: Block, probes: Mapping[str, str]) -> list[str]:
    found = row or {}
    return [
        str(found.get("rank") or DASH),
        rank_words(row),
        found.get("ties") or DASH,
        run["label"],
        *(_disparity(rows.get(probe)) for probe in probes),
        number(found.get("composite")),
        number(found.get("chance")),
        probability(found.get("p_value")),
        severity_words(found.get("severity"), found.get("composite"), run["complete"]),
    ]


def _disparity(row: Block | None) -> str:
    if row is None:
        return DASH
    return f"{number(row['raw'])}{' *' if row['significant'] else ''}"


def _probe_row(one: Block, probes: Mapping[str, str], runs: Sequence[Block]) -> list[str]:
    known = [
        f"{number(end['raw'])} ({runs[end['run']]['label']})" if (end := one[name]) else DASH
        for name in ("smallest", "largest")
    ]
    largest = one["largest"] or {"worst_group": None, "verdict": None}
    return [
        probes[one["probe"]],
        f"{one['n_significant']} of {one['n_compared']}",
        *known,
        largest["worst_group"] or DASH,
        verdict_words(largest["verdict"]),
    ]


def _effect_row(one: Block, by_run: Mapping[int, Block], probes: Mapping[str, str], runs: Sequence[Block]) -> list[str]:
    row = by_run[one["run"]][one["probe"]]
    return [
        runs[one["run"]]["label"],
        probes[one["probe"]],
        number(one["d"], 2),
        row["effect"],
        number(row["cohens_d"], 2),
        number(row.get("kruskal_h"), 1),
        probability(row.get("kruskal_p")),
        number(row.get("js_divergence")),
        verdict_words(row["verdict"]),
    ]


def _headlines(block: Block) -> Iterator[str]:
    yield "## Results of the protocols"
    yield ""
    head = ("protocol", "number", *(run["label"] for run in block["runs"]))
    rows = (
        [scorer_label(one["block"]), scorer_label(one["name"]), *map(_value, one["values"])]
        for one in block["headlines"]
    )
    yield from _table(head, rows)


def _value(value: Any) -> str:
    return DASH if value is None else number(value) if isinstance(value, float) else str(value)


def _about(run: Block) -> list[str]:
    parameters = run["parameters"]
    return [
        run["label"] + (" (answers supplied, not asked here)" if run["supplied"] else ""),
        run["id"] or DASH,
        run["family"] or DASH,
        DASH if parameters is None else f"{parameters:,}",
        run["dataset"],
        f"{run['n_subjects']:,}",
        DASH if run["refused"] is None else f"{run['refused']:.1%}",
        run["run_id"],
        run["config_hash"][:12],
    ]


def _table(head: Sequence[str], rows: Any) -> Iterator[str]:
    yield f"| {' | '.join(map(_text, head))} |"
    yield f"|{'---|' * len(head)}"
    for row in rows:
        yield f"| {' | '.join(map(_text, row))} |"


def _text(value: Any) -> str:
    return escape_markdown(plain(value))
