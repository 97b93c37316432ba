"""The leaderboard's figure: the models of each cut with confidence intervals of their ranks."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fp2.report.figures.style import FAINT, GRID, INK, LINES, figure, save, shorten, style
from fp2.report.leaderboard import LeaderboardRow
from fp2.report.reading import CALIBRATION_SHORT, cut_label, number, plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_HEAD, _FOOT, _TITLE, _LINE, _GAP = 0.85, 0.6, 0.4, 0.3, 0.4
_LEFT, _RIGHT, _WIDTH = 2.6, 1.9, 8.6
NOTE = (
    "Bar: simultaneous confidence interval of the rank (95 % by default). Dot: rank by the difference between two "
    "groups,\ngiven at the right with the tie letters: models that share a letter do not differ significantly."
)


def rank_figure(rows: Sequence[LeaderboardRow], path: Path) -> Path:
    """Draw the rank intervals of every cut that has them, a panel each, with rank 1 at the left."""
    boards: dict[tuple[str, str | None], list[LeaderboardRow]] = {}
    for row in rows:
        if row.rank_low is not None:
            boards.setdefault((row.cut, row.variant), []).append(row)
    body = sum(_TITLE + _LINE * len(members) + _GAP for members in boards.values())
    with style():
        drawn = figure(_WIDTH, _HEAD + body + _FOOT)
        height = drawn.get_figheight()
        drawn.text(
            0.15 / _WIDTH, 1 - 0.32 / height, "Leaderboard with rank intervals", fontsize=12.5, fontweight="bold"
        )
        some = next(iter(boards.values()))[0]
        line = f"{shorten(plain(some.dataset), 40)} · {some.n_subjects:,} subjects · rank 1: smallest disparities"
        drawn.text(0.15 / _WIDTH, 1 - 0.55 / height, line, fontsize=8.5, color=FAINT)
        if any(row.calibration for row in rows):
            drawn.text(0.15 / _WIDTH, 1 - 0.74 / height, CALIBRATION_SHORT, fontsize=8, color=FAINT, style="italic")
        top = height - _HEAD
        for (cut, variant), members in boards.items():
            top -= _TITLE
            tall = _LINE * len(members)
            box = (_LEFT / _WIDTH, (top - tall) / height, 1 - (_LEFT + _RIGHT) / _WIDTH, tall / height)
            _panel(drawn.add_axes(box), members, f"by {cut_label(cut)}" + (f" ({variant})" if variant else ""))
            top -= tall + _GAP
        drawn.text(0.15 / _WIDTH, 0.18 / height, NOTE, fontsize=7.5, color=FAINT, linespacing=1.4)
        return save(drawn, path)


def _panel(axes: Axes, rows: Sequence[LeaderboardRow], title: str) -> None:
    """Draw one cut: a line per model, rank 1 at the top."""
    k = len(rows)
    axes.set(xlim=(0.5, k + 0.5), ylim=(k - 0.5, -0.5))
    axes.set_title(shorten(title, 60), loc="left")
    for y, row in enumerate(rows):
        axes.plot((row.rank_low or 0, row.rank_high or 0), (y, y), color=LINES[0], linewidth=5, alpha=0.35,
                  solid_capstyle="round")  # fmt: skip
        axes.plot(row.rank or 0, y, "o", color=LINES[0], markersize=6)
        beside: Any = {"transform": axes.get_yaxis_transform(), "va": "center"}
        axes.text(1.03, y, number(row.difference), color=INK, **beside)
        axes.text(1.17, y, row.ties or "", color=FAINT, style="italic", **beside)
    axes.set_yticks(range(k), _names(rows))
    axes.set_xticks(range(1, k + 1))
    axes.set_xlabel("rank", fontsize=8.5, labelpad=1)
    axes.tick_params(length=0, labelsize=8.5)
    axes.grid(axis="x", color=GRID, linewidth=0.7)
    axes.set_axisbelow(True)


def _names(rows: Sequence[LeaderboardRow]) -> list[str]:
    """Return the models' names, with the start of the run id where a name is repeated."""
    names = [plain(row.model) for row in rows]
    return [
        shorten(name, 30) if names.count(name) == 1 else f"{shorten(name, 20)} {row.run_id[:8]}"
        for name, row in zip(names, rows, strict=True)
    ]
