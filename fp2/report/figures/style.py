"""What the figures share: a palette safe for colour blindness and print, type sizes, and saving."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fp2.report.reading import calibration_of, calibration_words, model_name, model_was_used, plain

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Okabe and Ito's palette (https://jfly.uni-koeln.de/color/), in the order in which lines are coloured.
LINES = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00")
INK, FAINT, GRID, CHANCE = "#1a1a1a", "#5f6368", "#d9dce0", "#b8bec6"

# The ends of a disparity axis: fixed steps, so that most figures share one scale.
_AXIS_ENDS = (0.6, 1.0, 2.0)

_RC: Any = {
    "font.family": "DejaVu Sans",
    "font.size": 9,
    "axes.titlesize": 10.5,
    "axes.titleweight": "bold",
    "axes.edgecolor": GRID,
    "axes.labelcolor": INK,
    "text.color": INK,
    "xtick.color": FAINT,
    "ytick.color": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "text.usetex": False,
    "hatch.linewidth": 0.6,
    "svg.hashsalt": "fp2",
}


def axis_end(values: Iterable[float | None]) -> float:
    """Return the end of a disparity axis that holds all `values`: 0.6 in most cases, so that figures are comparable."""
    largest = max((value for value in values if value is not None), default=0.0)
    return next((end for end in _AXIS_ENDS if largest <= end), 10.0 * (largest // 10 + 1))


def axis_rings(end: float) -> list[float]:
    """Return the rings of a radar, in steps with short exact labels."""
    n = 3 if end == _AXIS_ENDS[0] else 4
    return [round(end * i / n, 10) for i in range(1, n + 1)]


def shorten(text: str, limit: int) -> str:
    """Cut `text` to `limit` characters, and escape dollar signs, which matplotlib would read as mathematics."""
    short = text if len(text) <= limit else text[: limit - 1].rstrip() + "…"
    return short.replace("$", r"\$")


def figure(width: float, height: float) -> Figure:
    """Return an empty figure of `width` x `height` inches that needs no window system."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    new = Figure(figsize=(width, height), facecolor="white")
    FigureCanvasAgg(new)
    return new


def style() -> Any:
    """Return the context with the style of the figures."""
    import matplotlib

    return matplotlib.rc_context(_RC)


def save(drawn: Figure, path: Path) -> Path:
    """Write the figure as PNG (200 dpi) or SVG, without date or software name: equal data give equal bytes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing")  # a letter the font lacks is drawn as a box
        if path.suffix == ".svg":
            drawn.savefig(path, format="svg", metadata={"Date": None, "Creator": None})
        else:
            drawn.savefig(path, format="png", dpi=200, metadata={"Software": None})
    return path


def head(drawn: Figure, title: str, runs: Sequence[Mapping[str, Any]]) -> None:
    """Write title and subtitle: model, data set, subjects, and a note where effects were planted."""
    width, height = drawn.get_figwidth(), drawn.get_figheight()
    drawn.text(0.15 / width, 1 - 0.32 / height, title, fontsize=12.5, fontweight="bold")
    run = runs[0]
    who = f"{shorten(model_name(run), 40) if len(runs) == 1 else f'{len(runs)} runs'} · " if model_was_used(run) else ""
    data = shorten(plain(run["dataset"]["name"]), 30)
    line = f"{who}{data} · {run['n_subjects']:,} subjects, {run['n_images']:,} images"
    partial = "" if all(r["complete"] for r in runs) else " · partial run" if len(runs) == 1 else " · some partial"
    drawn.text(0.15 / width, 1 - 0.55 / height, line + partial, fontsize=8.5, color=FAINT)
    said = calibration_words(map(calibration_of, runs))
    drawn.text(0.15 / width, 1 - 0.74 / height, said, fontsize=8, color=FAINT, style="italic")
