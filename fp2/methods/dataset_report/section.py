"""The data set report: totals, group sizes, Vendi scores, and positions of people in the images."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Any

from rich.text import Text

from fp2.extension import Beside, Block, Results, Section, cut_label, number, plain, scorer_label

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_SHAPES, _VENDI = "diversity_report_shapes.png", "diversity_report_vendi.png"


class DiversitySection(Section):
    """Vendi scores, intersections, and the groups of every attribute."""

    name = "diversity_report"
    title = "Data set report"

    def context(self, block: Block, results: Results, min_cell: int) -> dict[str, Any]:
        """Return the block, with groups of fewer than `min_cell` subjects left out of the lists."""
        groups = [
            {"attribute": one["attribute"], "rows": _large(one["rows"], min_cell)}
            for one in block["groups"]
            if _large(one["rows"], min_cell)
        ]
        alts = {}
        if block["shapes"]:
            alts[_SHAPES] = "Boxes, masks and keypoints: 5 to 95 % quantiles, thick from 25 to 75 %, with the median"
        if _compared(block, min_cell):
            alts[_VENDI] = "Vendi scores of equal samples of subjects: mean and 95 % range over samples"
        return {
            "block": block,
            "groups": groups,
            "places": _large(block["places"], min_cell),
            "vendi": [row for row in block["vendi"] if row["n_subjects"] >= min_cell],
            "alts": alts,
        }

    def figures(self, block: Block, results: Results, folder: Path, min_cell: int) -> Iterator[Path]:
        """Draw the shapes with their heat maps, and the Vendi scores of equal samples."""
        if block["shapes"]:
            yield _shapes(block, results, folder / _SHAPES)
        if rows := _compared(block, min_cell):
            yield _vendi(rows, results, folder / _VENDI)

    def lines(self, block: Block, results: Results, min_cell: int) -> list[Text]:
        """Return totals, and the Vendi score of all images."""
        totals = block["totals"]
        counted = f"{totals['attributes']:,} attributes with {totals['attribute_values']:,} values"
        scores = [row for row in block["vendi"] if row["by"] is None]
        vendi = [Text(f"Vendi score ({scorer_label(row['variant'])}): {number(row['score'], 2)}") for row in scores]
        return [Text(counted), *vendi]

    def beside(self, blocks: Sequence[Block], min_cell: int) -> list[Beside]:
        """Return totals, Vendi scores, shapes, intersections, and the shares of groups of shared attributes.

        Vendi scores are those of equal samples; of samples of another size than the first run's there is none.
        """
        tables = [
            Beside("totals", {name.replace("_", " "): [b["totals"].get(name) for b in blocks] for name in _TOTALS}),
            Beside("Vendi scores of equal samples of subjects", _vendi_beside(blocks, min_cell)),
            Beside("people in the images: median, 5 and 95 % quantile", _shapes_beside(blocks)),
            Beside("groups with enough subjects to be compared", _intersections_beside(blocks)),
        ]
        shared = [{one["attribute"]: one["rows"] for one in block["groups"]} for block in blocks]
        for name in [name for name in shared[0] if all(name in own for own in shared)]:
            rows = [{row["group"]: 100 * row["share"] for row in _large(own[name], min_cell)} for own in shared]
            groups = dict.fromkeys(group for own in rows for group in own)
            shares = {plain(group): [own.get(group) for own in rows] for group in groups}
            tables.append(Beside(f"{cut_label(name)}: share of the images in %", shares))
        return [table for table in tables if table.rows]


_TOTALS = ("images", "subjects", "attributes", "attribute_values")


def _vendi_beside(blocks: Sequence[Block], min_cell: int) -> dict[str, list[Any]]:
    found = []
    for block in blocks:
        large = (row for row in _compared(block, min_cell))
        found.append({(row["variant"], _name(row)): row for row in large})
    sample = next((row["sample"] for own in found for row in own.values()), None)
    keys = dict.fromkeys(key for own in found for key in own)
    return {
        f"{scorer_label(variant)}, {name} (n = {sample})": [
            (row["equal_n"], row["low"], row["high"])
            if (row := own.get((variant, name))) is not None and row["sample"] == sample
            else None
            for own in found
        ]
        for variant, name in keys
    }


def _shapes_beside(blocks: Sequence[Block]) -> dict[str, list[Any]]:
    found = [{row["name"]: row for row in block["shapes"]} for block in blocks]
    names = dict.fromkeys(name for own in found for name in own)
    return {
        next(own[name]["meaning"] for own in found if name in own): [
            (own[name]["quantiles"][2], own[name]["quantiles"][0], own[name]["quantiles"][4]) if name in own else None
            for own in found
        ]
        for name in names
    }


def _intersections_beside(blocks: Sequence[Block]) -> dict[str, list[Any]]:
    found = [{tuple(row["by"]): row for row in block["intersections"]} for block in blocks]
    keys = dict.fromkeys(key for own in found for key in own)
    return {
        " x ".join(cut_label(name) for name in key): [own[key]["comparable"] if key in own else None for own in found]
        for key in keys
    }


def _large(rows: Sequence[Mapping[str, Any]], min_cell: int) -> list[Mapping[str, Any]]:
    return [row for row in rows if row["n_subjects"] >= min_cell]


def _compared(block: Block, min_cell: int) -> list[Mapping[str, Any]]:
    return [row for row in block["vendi"] if row["equal_n"] is not None and row["n_subjects"] >= min_cell]


def _shapes(block: Block, results: Results, path: Path) -> Path:
    """Draw the quantiles of each number, and heat maps of box centres and keypoints if they are known."""
    from fp2.extension import figure, head, save, style

    rows = [row for row in block["shapes"] if not row["name"].startswith("centre_")]
    maps = [(name, block[key]) for name, key in (("box centres", "centres"), ("keypoints", "keypoints")) if block[key]]
    with style():
        drawn = figure(8.6, 1.9 + 0.4 * len(rows) + (2.7 if maps else 0))
        width, height = drawn.get_figwidth(), drawn.get_figheight()
        head(drawn, "People in the images", [results])
        low = (0.6 + (2.7 if maps else 0)) / height
        axes = drawn.add_axes((3.1 / width, low, 1 - 3.4 / width, 1 - low - 1.0 / height))
        for place, row in enumerate(rows):
            _quantiles(axes, place, row["quantiles"])
        axes.set_yticks(range(len(rows)), ["\n".join(wrap(row["meaning"], 36)) for row in rows], fontsize=7.5)
        axes.set_ylim(len(rows) - 0.5, -0.5)
        axes.set_xlim(left=0)
        for place, (name, cells) in enumerate(maps):
            heat = drawn.add_axes(((3.1 + 2.7 * place) / width, 0.35 / height, 2.1 / width, 2.1 / height))
            heat.imshow(cells, cmap="cividis", extent=(0, 1, 1, 0), interpolation="nearest")
            heat.set_title(name, loc="left", fontsize=9)
            heat.set_xticks([0, 1])
            heat.set_yticks([0, 1])
        return save(drawn, path)


def _quantiles(axes: Axes, place: int, q: Sequence[float]) -> None:
    from fp2.extension import CHANCE, INK, LINES

    axes.plot([q[0], q[4]], [place, place], color=CHANCE, linewidth=2)
    axes.plot([q[1], q[3]], [place, place], color=LINES[0], linewidth=6, solid_capstyle="butt")
    axes.plot(q[2], place, "o", color=INK, markersize=4)


def _vendi(rows: Sequence[Mapping[str, Any]], results: Results, path: Path) -> Path:
    from fp2.extension import FAINT, LINES, figure, head, save, shorten, style

    variants = list(dict.fromkeys(row["variant"] for row in rows))
    names = list(dict.fromkeys(_name(row) for row in rows))
    with style():
        drawn = figure(8.2, 1.9 + 0.3 * len(names) * max(1, 0.6 * len(variants)))
        width, height = drawn.get_figwidth(), drawn.get_figheight()
        axes = drawn.add_axes((2.6 / width, 0.6 / height, 1 - 2.9 / width, 1 - 1.6 / height))
        head(drawn, f"Vendi scores of samples of {rows[0]['sample']} subjects", [results])
        for turn, (colour, variant) in enumerate(zip(LINES, variants, strict=False)):
            own = [row for row in rows if row["variant"] == variant]
            places = [names.index(_name(row)) + 0.22 * (turn - (len(variants) - 1) / 2) for row in own]
            for place, row in zip(places, own, strict=True):
                axes.plot([row["low"], row["high"]], [place, place], color=colour, linewidth=1.6)
            axes.plot(
                [row["equal_n"] for row in own], places, "o", color=colour, markersize=4, label=scorer_label(variant)
            )
        axes.set_yticks(range(len(names)), [shorten(name, 38) for name in names])
        axes.set_ylim(len(names) - 0.4, -0.6)
        axes.set_xlim(left=1)
        axes.set_xlabel("Vendi score of one image per subject (1: all equal)", color=FAINT)
        axes.legend(frameon=False, fontsize=8, loc="lower left", bbox_to_anchor=(0, 1.0), ncols=len(variants))
        return save(drawn, path)


def _name(row: Mapping[str, Any]) -> str:
    return "all subjects" if row["by"] is None else f"{cut_label(row['by'])}: {plain(row['group'])}"
