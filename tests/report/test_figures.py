"""Figures: nothing overlaps or leaves the page, small groups leave no trace, the same data draw the same bytes."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from matplotlib.figure import Figure
from matplotlib.text import Text
from PIL import Image
from thorough import thorough_but

from fp2.report.disparity_charts import disparity_charts, heat, interval_charts, radars
from fp2.report.drawing import draw_panels, run_heading, shorten, write_charts
from fp2.report.plots import axis_end
from fp2.report.section import write_figures
from fp2.report.values import Chart, charts, suppressed


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[Figure]:
    """Catch the figures instead of writing them."""
    caught: list[Figure] = []

    def keep(figure: Figure, path: Path) -> Path:
        caught.append(figure)
        return path

    monkeypatch.setattr("fp2.report.drawing.save", keep)
    return caught


def words_of(figure: Figure) -> list[tuple[str, Any]]:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing")
        figure.canvas.draw()
    every = [axis for axes in figure.axes for axis in (axes.xaxis, axes.yaxis)]
    unseen = {
        tick.label1
        for axis in every
        for tick in axis.get_major_ticks()
        if not min(axis.get_view_interval()) <= tick.get_loc() <= max(axis.get_view_interval())
    }
    found = (t for t in figure.findobj(Text) if t.get_visible() and t.get_text().strip() and t not in unseen)
    boxes = [(t.get_text(), t.get_window_extent()) for t in found]
    return [(text, box) for text, box in boxes if box.width > 0]


def assert_tidy(figure: Figure) -> None:
    words = words_of(figure)
    assert len(words) > 5
    for text, box in words:
        assert box.x0 >= 0, text
        assert box.y0 >= 0, text
        assert box.x1 <= figure.bbox.width, text
        assert box.y1 <= figure.bbox.height, text
    for (one, a), (two, b) in itertools.combinations(words, 2):
        across, along = min(a.x1, b.x1) - max(a.x0, b.x0), min(a.y1, b.y1) - max(a.y0, b.y0)
        assert across <= 1 or along <= 1, f"{one!r} overlaps {two!r}"


def shown(*drawn: Chart) -> list[Chart]:
    return charts(suppressed(drawn, 10))


def heatmap(results: dict[str, Any], cut: str, folder: Path) -> Path:
    return next(write_charts(shown(heat(results, cut)), results, folder))


def interval_file(results: dict[str, Any], scorer: str) -> list[Chart]:
    return [chart for chart in interval_charts(results) if chart.scorer == scorer]


Choose = Callable[[dict[str, Any], dict[str, Any]], list[Chart]]
DRAWINGS: dict[str, Choose] = {
    "radar of all cuts": lambda a, b: radars([a], a["cuts"]),
    "radar of one cut": lambda a, b: radars([b], ["region"]),
    "radar of two models": lambda a, b: radars([a, b], a["cuts"]),
    "heatmap by region": lambda a, b: [heat(a, "region")],
    "heatmap by pronoun": lambda a, b: [heat(b, "pronoun")],
    "intervals": lambda a, b: interval_file(a, "valence"),
    "intervals of one probe": lambda a, b: interval_file(b, "trust_rating"),
    "intervals of one cut": lambda a, b: interval_file({**b, "cuts": ["age"]}, "valence"),
}


@pytest.mark.parametrize("name", thorough_but(DRAWINGS, "radar of all cuts", "heatmap by region", "intervals"))
def test_nothing_overlaps(
    name: str, results: dict[str, Any], other_results: dict[str, Any], drawn: list[Figure], tmp_path: Path
) -> None:
    panels = shown(*DRAWINGS[name](results, other_results))
    draw_panels(panels, tmp_path / "x.png", run_heading(panels[0].title, [results]))
    assert_tidy(drawn[0])


@pytest.mark.parametrize("name", ["radar of all cuts", "heatmap by region", "intervals"])
def test_long_and_hostile_names_stay_tidy(
    name: str, hostile_results: dict[str, Any], drawn: list[Figure], tmp_path: Path
) -> None:
    hostile_results["model"]["name"] = "a model with a very long name indeed $x^2$ " * 4
    hostile_results["probes"][1]["label"] = "P2 An uncommonly long label of a probe"
    panels = shown(*DRAWINGS[name](hostile_results, hostile_results))
    draw_panels(panels, tmp_path / "x.png", run_heading(panels[0].title, [hostile_results]))
    assert_tidy(drawn[0])


def test_the_numbers_drawn_are_the_rows_numbers(results: dict[str, Any], drawn: list[Figure], tmp_path: Path) -> None:
    list(write_charts(radars([results], ["region"]), results, tmp_path))
    rows = [r for r in results["disparities"] if (r["cut"], r["scorer"]) == ("region", "valence")]
    lines = [list(line.get_ydata()) for line in drawn[0].axes[0].lines]
    raws = [row["raw"] for row in rows]
    assert [*raws, raws[0]] in lines
    assert [*[row["null_mean"] for row in rows], rows[0]["null_mean"]] in lines
    assert drawn[0].axes[0].get_ylim() == (0, 0.6)


def test_verdicts_are_written_beside_the_intervals(
    other_results: dict[str, Any], drawn: list[Figure], tmp_path: Path
) -> None:
    list(write_charts(interval_file(other_results, "valence"), other_results, tmp_path))
    written = [text for text, _ in words_of(drawn[0])]
    assert written.count("not testable") == 4
    assert "biased" in written


def test_small_groups_leave_no_trace(results: dict[str, Any], tmp_path: Path) -> None:
    one = heatmap(results, "region", tmp_path / "one").read_bytes()
    for row in results["disparities"]:
        for group in row["groups"]:
            if group["n_subjects"] < 10:
                group["mean"] = -0.9
    assert heatmap(results, "region", tmp_path / "two").read_bytes() == one


def test_the_heatmap_says_how_many_people(results: dict[str, Any], drawn: list[Figure], tmp_path: Path) -> None:
    heatmap(results, "region", tmp_path)
    written = [text for text, _ in words_of(drawn[0])]
    assert "Africa (n=78)" in written
    assert not any("Not stated" in text for text in written)
    assert any("Not drawn: 1 group of fewer than 10 subjects" in text for text in written)
    assert sum("▼" in text for text in written) == 1 + 3  # three significant probes and the note


def test_files_are_png_and_reproducible(results: dict[str, Any], tmp_path: Path) -> None:
    one, two = (next(write_charts(disparity_charts(results), results, tmp_path / name)) for name in "ab")
    assert one.read_bytes() == two.read_bytes()
    with Image.open(one) as image:
        assert image.format == "PNG"
        assert min(image.size) > 700


def test_all_figures_of_a_run(results: dict[str, Any], tmp_path: Path) -> None:
    written = write_figures(results, tmp_path / "figures", ())
    cuts = [f"heatmap_{cut}.png" for cut in results["cuts"]]
    assert list(written) == ["fingerprint.png", *cuts, "intervals.png"]
    assert sorted(written) == sorted(p.name for p in (tmp_path / "figures").iterdir())


def test_figures_name_the_scorer_and_a_radar_needs_three_probes(
    results: dict[str, Any], tmp_path: Path, drawn: list[Any]
) -> None:
    results["analysis"]["primary"] = "refusal"
    results["probes"] = results["probes"][:2]
    assert "fingerprint.png" not in write_figures(results, tmp_path / "two", ())
    heatmap(results, "region", tmp_path)
    written = [text for text, _ in words_of(drawn[-1])]
    assert "Mean refusal by region and probe" in written
    assert {"0.0", "0.5", "1.0"} <= set(written)  # the scorer's own range


def test_a_run_without_valence_draws_what_it_has(results: dict[str, Any], tmp_path: Path) -> None:
    results["disparities"] = [row for row in results["disparities"] if row["scorer"] == "refusal"]
    assert list(write_figures(results, tmp_path, ())) == ["intervals.png"]
    results["disparities"] = []
    assert write_figures(results, tmp_path, ()) == {}


def test_letters_that_the_font_lacks_end_nothing(hostile_results: dict[str, Any], tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert heatmap(hostile_results, "region", tmp_path).stat().st_size > 10_000


def test_axis_and_names() -> None:
    assert [axis_end(v) for v in ([], [None], [0.1], [0.6], [0.61], [1.7], [8.5])] == [
        0.6,
        0.6,
        0.6,
        0.6,
        1.0,
        2.0,
        10.0,
    ]
    assert shorten("abcdef", 4) == "abc…"
    assert shorten("$x$", 9) == r"\$x\$"
