"""How the specification curves are shown: a table of the claims, a figure per cut, and what each choice does."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich import box
from rich.table import Table
from rich.text import Text

from fp2.protocols.fingerprint.multiverse.words import CHOICES, STATUSES, claim_label, level_words, verdict_label
from fp2.report.reading import cut_label, number, plain, probability, probe_labels
from fp2.report.section import Block, Results, Section

if TYPE_CHECKING:
    from rich.console import RenderableType


def picture(cut: str, place: int | None = None) -> str:
    """Return the file name of a curve's figure: of a cut's composite, or of its claim number `place`."""
    safe = "".join(letter if letter.isalnum() or letter in "-_" else "-" for letter in cut)
    return f"multiverse_{safe}.png" if place is None else f"multiverse_{safe}_{place}.png"


class MultiverseSection(Section):
    """The claims of the primary scorer under every specification."""

    name = "multiverse"
    title = "Specification curves"
    detail = True

    def context(self, block: Block, results: Results, min_cell: int) -> dict[str, Any]:
        """Return the claims by cut in words; they hold no number of a single group."""
        labels = probe_labels(results)
        cuts = []
        for about in block["cuts"]:
            rows = [_in_words(row, labels) for row in block["rows"] if row["cut"] == about["cut"]]
            choices = {
                CHOICES[name]: [level_words(name, level) for level in levels]
                for name, levels in about["choices"].items()
            }
            cuts.append({**about, "rows": rows, "choices": choices, "figure": picture(about["cut"])})
        return {
            "block": block,
            "cuts": cuts,
            "alts": {
                one["figure"]: f"Specification curve of {_first(block, one['cut'], labels)} by {cut_label(one['cut'])}"
                for one in cuts
            },
        }

    def figures(self, block: Block, results: Results, folder: Path, min_cell: int) -> Iterator[Path]:
        """Draw the curve of every cut's composite, or of its one probe."""
        from fp2.protocols.fingerprint.multiverse.figure import draw_curve

        for about in block["cuts"]:
            row = _shown(block, about["cut"])
            if row["n_computed"]:
                yield draw_curve(row, about, block, results, folder / picture(about["cut"]))

    def further_figures(self, block: Block, results: Results, folder: Path, min_cell: int) -> Iterator[Path]:
        """Draw the curve of every claim as PNG and SVG."""
        from fp2.protocols.fingerprint.multiverse.figure import draw_curve

        for about in block["cuts"]:
            rows = [row for row in block["rows"] if row["cut"] == about["cut"]]
            for place, row in enumerate(rows, start=1):
                if row["n_computed"]:
                    name = folder / picture(about["cut"], place)
                    for path in (name, name.with_suffix(".svg")):
                        yield draw_curve(row, about, block, results, path)

    def lines(self, block: Block, results: Results, min_cell: int) -> list[RenderableType]:
        """Return a table of the claims: the verdict, how many specifications share it, and the joint tests."""
        labels = probe_labels(results)
        table = Table(title="specification curves", box=box.SIMPLE, title_justify="left", pad_edge=False)
        for name in ("claim", "verdict of the run"):
            table.add_column(name, overflow="fold")
        for name in ("same", "p ≤ α", "median", "joint p"):
            table.add_column(name, justify="right", no_wrap=True)
        for about in block["cuts"]:
            table.add_row(Text(f"by {cut_label(about['cut'])}", style="bold"))
            for row in (row for row in block["rows"] if row["cut"] == about["cut"]):
                said = _in_words(row, labels)
                joint = f"{probability(row['adjusted_share_p'])}, {probability(row['adjusted_median_p'])}"
                table.add_row(
                    Text(said["label"]), Text(said["verdict_label"]), said["same"], said["significant"],
                    number(row["median_estimate"], 2), joint,
                )  # fmt: skip
        text = (
            "same: specifications with the run's verdict; p ≤ α: significant one by one; median: of the estimates, in "
            "multiples of the smallest effect of interest; joint p: of that share, and of the median p, corrected"
        )
        warnings = [Text(plain(note), style="yellow") for note in block["warnings"]]
        return [table, Text(text, style="dim"), *warnings]


def _first(block: Block, cut: str, labels: Mapping[str, str]) -> str:
    return claim_label(_shown(block, cut), labels)


def _shown(block: Block, cut: str) -> Mapping[str, Any]:
    """Return the row whose curve is drawn: the composite's, which is the last one where there are several probes."""
    row: Mapping[str, Any] = [row for row in block["rows"] if row["cut"] == cut][-1]
    return row


def _in_words(row: Mapping[str, Any], labels: Mapping[str, str]) -> dict[str, Any]:
    """Return a row with its parts in words."""
    n = row["n_computed"]
    share = row["share_significant"]
    return {
        **row,
        "label": plain(claim_label(row, labels)),
        "verdict_label": verdict_label(row["verdict"]),
        "same": f"{row['n_same_verdict']} of {n}" if n else "–",
        "direction": f"{row['n_same_direction']} of {row['n_compared_direction']}" if row["probe"] and n else "–",
        "significant": f"{share:.0%}" if share is not None else "–",
        "significant_null": f"{row['share_significant_null']:.0%}" if share is not None else "–",
        "found": [f"{verdict_label(name)} {count}" for name, count in row["verdicts"].items()],
        "left_out": [f"{count} {STATUSES[status]}" for status, count in row["not_computed"].items()],
        "levels": [
            {"choice": CHOICES[name], **level, "level": level_words(name, level["level"])}
            for name, levels in row["by_choice"].items()
            for level in levels
        ],
    }
