"""Open-ended questions in reports: prompts with response rates, and outcomes by group (Fig. 4 of Xiang et al. 2025)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.text import Text

from fp2.extension import Block, Results, Section, cut_label, plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes

GENDER, WORK, TOXIC = "fhibe_vqa_gender.png", "fhibe_vqa_occupations.png", "fhibe_vqa_toxic.png"
OUTCOMES = {
    "gendered": "gendered pronoun",
    "gender_reason": "gender as the reason",
    "pronoun_error": "wrong pronoun",
    "toxic": "toxic keyword",
}
_ALTS = {
    GENDER: "Share of answers with a gendered pronoun, with gender as the reason, and with a wrong pronoun, by group",
    WORK: "Share of answers that state each occupation, by group; filled where it is over-represented",
    TOXIC: "Share of answers to negative prompts with a keyword of the toxicity list, by group",
}
_MAX_CUTS = 4

Panel = tuple[str, str, Sequence[Mapping[str, Any]]]
"""Heading, cut, and the rows that become bars."""
_GAP = 0.28  # inches


class VqaSection(Section):
    """The prompts, the rates of each outcome by group, and the over-represented occupations."""

    name = "fhibe_vqa"
    title = "Open-ended questions"
    report_title = "Open-ended answers"

    def context(self, block: Block, results: Results, min_cell: int) -> dict[str, Any]:
        """Return the prompts, the rates by group, and the occupations that are over-represented."""
        tables = [{"cut": cut, "rows": table} for cut in results["cuts"] if (table := _table(block, cut, min_cell))]
        over = [row for row in block["occupations"]["rows"] if row["over"] and row["n_subjects"] >= min_cell]
        drawn = {
            GENDER: bool(_bars(block, "gendered", min_cell) or _bars(block, "pronoun_error", min_cell)),
            WORK: bool(_worked(block, min_cell)),
            TOXIC: bool(_bars(block, "toxic", min_cell)),
        }
        return {
            "vqa": block,
            "tables": tables,
            "outcomes": [(name, words) for name, words in OUTCOMES.items() if name in block["outcomes"]],
            "over": sorted(over, key=lambda row: row["adjusted_p"]),
            "reasons": [row for row in block["reasons"] if row["n_subjects"] >= min_cell],
            "alts": {name: text for name, text in _ALTS.items() if drawn[name]},
        }

    def figures(self, block: Block, results: Results, folder: Path, min_cell: int) -> Iterator[Path]:
        """Draw gender, occupations and toxicity, each if there is a large enough group."""
        panels = [(name, _bars(block, name, min_cell)) for name in ("gendered", "gender_reason", "pronoun_error")]
        gender = [(OUTCOMES[name], cut, rows) for name, found in panels for cut, rows in found if cut == "pronoun"]
        if gender:
            title = "Gender in answers to questions that do not ask for it"
            yield _bar_figure(gender, title, "Share of answers on topic", results, folder / GENDER)
        if worked := _worked(block, min_cell):
            yield _occupations(block, worked, results, folder / WORK, min_cell)
        if toxic := _bars(block, "toxic", min_cell):
            drawn = [(f"by {cut_label(cut)}", cut, rows) for cut, rows in toxic]
            title = "Toxic keywords in answers to negative prompts"
            yield _bar_figure(drawn, title, "Share of answers without refusals", results, folder / TOXIC)

    def lines(self, block: Block, results: Results, min_cell: int) -> list[Text]:
        """Return the overall rates, and the number of over-represented occupations."""
        out = []
        rates = [
            f"{words} in {100 * block['outcomes'][name]['overall']['rate']:.0f} %"
            for name, words in OUTCOMES.items()
            if name in block["outcomes"] and block["outcomes"][name]["overall"]
        ]
        if rates:
            out.append(Text(f"open-ended questions: {'; '.join(rates)} of the answers"))
        count = sum(row["over"] for row in block["occupations"]["rows"])
        if block["occupations"]["rows"]:
            out.append(Text(f"over-represented occupations (group against all other subjects): {count}"))
        return out


def _bars(block: Block, name: str, min_cell: int) -> list[tuple[str, list[Mapping[str, Any]]]]:
    """Return (cut, rows of groups that are large enough) of one outcome."""
    by = block["outcomes"].get(name, {}).get("by", {})
    large = [(cut, [row for row in rows if row["n_subjects"] >= min_cell]) for cut, rows in by.items()]
    return [(cut, rows) for cut, rows in large if rows][:_MAX_CUTS]


def _worked(block: Block, min_cell: int) -> list[str]:
    """Return the cuts with a comparison of occupations."""
    rows = block["occupations"]["rows"]
    return list(dict.fromkeys(row["cut"] for row in rows if row["n_subjects"] >= min_cell))[:_MAX_CUTS]


def _table(block: Block, cut: str, min_cell: int) -> list[dict[str, Any]]:
    """Return a row per group with the outcomes' rates; a group below `min_cell` is left out."""
    groups: dict[str, dict[str, Any]] = {}
    for name in OUTCOMES:
        for row in block["outcomes"].get(name, {}).get("by", {}).get(cut, []):
            if row["n_subjects"] >= min_cell:
                groups.setdefault(row["group"], {"group": row["group"], "rates": {}})["rates"][name] = row
    return list(groups.values())


def _bar_figure(panels: Sequence[Panel], title: str, share: str, results: Results, path: Path) -> Path:
    """Draw one panel of bars per (heading, cut, rows): rates with intervals, and group sizes below."""
    from fp2.extension import FAINT, figure, head, save, style

    lines = _in_lines(panels)
    widest = max(sum(_room(rows) for _, _, rows in line) + _GAP * (len(line) - 1) for line in lines)
    width, height = max(6.4, 0.95 + widest), 1.35 + 2.55 * len(lines)
    end = min(1.0, 1.2 * max(row["ci_high"] for _, _, rows in panels for row in rows) + 0.02)
    with style():
        drawn = figure(width, height)
        for number, line in enumerate(lines):
            left, foot = 0.7, height - 1.15 - 2.55 * (number + 1) + 0.68
            for place, (heading, _, rows) in enumerate(line):
                axes = drawn.add_axes((left / width, foot / height, _room(rows) / width, 1.6 / height))
                _panel(axes, heading, rows, end, first=place == 0)
                left += _room(rows) + _GAP
        head(drawn, title, [results])
        note = f"{share}, mean over subjects, with 95 % intervals. Numbers below: subjects."
        drawn.text(0.15 / width, 0.12 / height, note, fontsize=7.5, color=FAINT)
        return save(drawn, path)


def _room(rows: Sequence[Any]) -> float:
    """Return the width of a panel in inches."""
    return 0.45 + 0.62 * len(rows)


def _in_lines(panels: Sequence[Panel]) -> list[list[Panel]]:
    """Return the panels in lines of at most about nine inches."""
    lines: list[list[Panel]] = [[]]
    for panel in panels:
        used = sum(_room(rows) + _GAP for _, _, rows in lines[-1])
        if lines[-1] and used + _room(panel[2]) > 8.2:
            lines.append([])
        lines[-1].append(panel)
    return lines


def _panel(axes: Axes, heading: str, rows: Sequence[Mapping[str, Any]], end: float, *, first: bool) -> None:
    from fp2.extension import FAINT, INK, LINES, shorten

    for x, row in enumerate(rows):
        axes.bar(x, row["rate"], width=0.72, color=LINES[0], alpha=0.75, zorder=2)
        axes.plot([x, x], [row["ci_low"], row["ci_high"]], color=INK, linewidth=1.0, zorder=3)
        axes.text(x, min(row["ci_high"], end) + 0.015 * end, f"{row['rate']:.2f}", ha="center", va="bottom", fontsize=8)
    ticks = [
        f"{shorten(plain(row['group']).split('/')[0], 12 if len(rows) < 6 else 10)}\n{row['n_subjects']}"
        for row in rows
    ]
    axes.set_xticks(range(len(rows)), ticks, fontsize=8, color=INK)
    axes.tick_params(axis="x", length=0)
    axes.set(xlim=(-0.6, len(rows) - 0.4), ylim=(0, 1.1 * end))
    axes.set_title(shorten(heading, 14 + 9 * len(rows)), fontsize=8.5, fontweight="normal", color=FAINT, loc="left")
    if not first:
        axes.set_yticks([])
        axes.spines["left"].set_visible(False)


def _occupations(block: Block, cuts: Sequence[str], results: Results, path: Path, min_cell: int) -> Path:
    """Draw a panel per cut: a row per occupation, a point per group, filled if the occupation is over-represented."""
    from fp2.extension import FAINT, figure, head, save, style

    names = [row["occupation"] for row in block["occupations"]["stated"]][:12]
    height = 2.5 + 0.3 * len(names)
    width = 1.6 + 2.2 * len(cuts) + 0.3
    rows = block["occupations"]["rows"]
    end = 1.12 * max([row["share"] for row in rows] + [0.05])
    with style():
        drawn = figure(width, height)
        for place, cut in enumerate(cuts):
            low = 1.45 + 2.2 * place
            axes = drawn.add_axes((low / width, 1.05 / height, 1.95 / width, (height - 2.2) / height))
            mine = [row for row in rows if row["cut"] == cut and row["n_subjects"] >= min_cell]
            _points(axes, cut, mine, names, end, first=place == 0)
        head(drawn, "Stated occupations", [results])
        note = "Filled: more often than for all other subjects (Mann-Whitney test, Holm's correction)."
        drawn.text(0.15 / width, 0.1 / height, note, fontsize=7.5, color=FAINT)
        return save(drawn, path)


def _points(
    axes: Axes, cut: str, rows: Sequence[Mapping[str, Any]], names: Sequence[str], end: float, *, first: bool
) -> None:
    from fp2.extension import FAINT, GRID, INK, LINES, shorten

    groups = list(dict.fromkeys(row["group"] for row in rows))
    at = {name: place for place, name in enumerate(names)}
    for y in range(len(names)):
        axes.axhline(y, color=GRID, linewidth=0.6, zorder=1)
    for place, group in enumerate(groups):
        colour = LINES[place % len(LINES)]
        mine = [row for row in rows if row["group"] == group and row["occupation"] in at]
        axes.scatter(
            [row["share"] for row in mine], [at[row["occupation"]] for row in mine], s=30, zorder=3,
            facecolor=[colour if row["over"] else "white" for row in mine], edgecolor=colour, linewidth=1.2,
        )  # fmt: skip
        axes.scatter([], [], s=30, color=colour, label=shorten(plain(group).split("/")[0], 14))
    axes.set(xlim=(-0.02 * end, end), ylim=(len(names) - 0.5, -0.5))
    axes.set_yticks(range(len(names)), [shorten(plain(name), 18) if first else "" for name in names], color=INK)
    axes.tick_params(axis="y", length=0)
    axes.set_title(f"by {cut_label(cut)}", fontsize=8.5, fontweight="normal", color=FAINT, loc="left")
    drop = 0.28 * axes.figure.dpi / axes.bbox.height  # inches below the axis, in heights of the panel
    axes.legend(
        loc="upper left", bbox_to_anchor=(-0.02, -drop), fontsize=7, frameon=False, ncol=2,
        handletextpad=0.1, columnspacing=0.6, borderpad=0,
    )  # fmt: skip
