"""The terminal's fingerprint: fits its width, says what matters, and passes no control character on."""

from __future__ import annotations

import io
import re
from typing import Any

import pytest
from rich.cells import cell_len
from rich.console import Console

from fp2.report.terminal import print_results, terminal
from fp2.report.values import Column, Kind, Row, Table


def printed(results: dict[str, Any], width: int, **more: Any) -> str:
    console = Console(file=io.StringIO(), width=width, force_terminal=False)
    print_results(results, console, **more)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


@pytest.mark.parametrize("width", [80, 100, 120])
def test_lines_fit_and_nothing_is_lost(results: dict[str, Any], width: int) -> None:
    text = printed(results, width)
    assert max(map(cell_len, text.splitlines())) <= width
    assert "…" not in text
    for row in results["disparities"]:
        if row["scorer"] == "valence":
            assert f"{row['raw']:.3f}" in text
    for word in (
        "by skin tone",
        "Neighbourhood",
        "biased",
        "7,186 answered (213 of them refusals)",
        "Positive control",
    ):
        assert word in " ".join(text.split())


def test_a_table_with_many_numbers_keeps_its_names() -> None:
    columns = [Column("Model", Kind.NAME), *(Column(f"P{n} Neighbourhood", Kind.NUMBER) for n in range(6))]
    console = Console(file=io.StringIO(), width=60, force_terminal=False)
    for table in terminal([Table("board", columns, [Row(["mine", *([0.1234] * 6)])], primary=True)], 0):
        console.print(table)
    assert isinstance(console.file, io.StringIO)
    assert console.file.getvalue().splitlines()[-1].split() == ["mine", *(["0.123"] * 6)]


def test_a_line_says_disparity_chance_verdict_and_groups(results: dict[str, Any]) -> None:
    row = next(
        r for r in results["disparities"] if (r["probe"], r["scorer"], r["cut"]) == ("occupation", "valence", "region")
    )
    line = next(line for line in printed(results, 100).splitlines() if line.startswith("P1 Occupation"))
    assert line.split() == [
        "P1",
        "Occupation",
        f"{row['raw']:.3f}",
        f"{row['null_mean']:.3f}",
        "biased",
        "Africa",
        "Oceania",
    ]


def test_image_variants_are_reported_and_unchanged_images_are_not(results: dict[str, Any]) -> None:
    plain = printed(results, 100)
    assert printed(results | {"variant": {"name": "original", "kind": "original"}}, 100) == plain
    assert "Stimulus" not in plain
    swapped = " ".join(printed(results | {"variant": {"name": "mine", "kind": "swapped", "seed": 7}}, 80).split())
    assert "Stimulus: mine (seed 7). Each subject's image was replaced by another subject's." in swapped
    assert "This is a negative control" in swapped
    crop = printed(results | {"variant": {"name": "face_crop", "kind": "face_crop", "margin": 0.25}}, 200)
    assert "cropped to the face" in crop
    assert "negative control" not in crop


def test_partial_and_uninformative_runs_say_so(other_results: dict[str, Any]) -> None:
    other_results["composites"] = {cut: {**one, "severity": None} for cut, one in other_results["composites"].items()}
    text = printed(other_results, 100)
    assert "Partial run" in text
    assert "not testable" in text
    assert "withheld (partial run)" in " ".join(text.split())
    assert "Positive control" not in text


def test_paths_are_never_wrapped(results: dict[str, Any]) -> None:
    path = "/a/long/path" * 12 + "/dashboard.html"
    text = printed(results, 80, paths={"dashboard": path}, next_command="mlflow ui")
    assert f"dashboard    {path}\n" in text
    assert text.endswith("mlflow ui\n")


def test_hostile_words_are_shown_as_words(hostile_results: dict[str, Any]) -> None:
    hostile_results["model"]["name"] = "[bold red]x[/] \x1b[2J\x07 \u202eabc"
    text = printed(hostile_results, 100)
    assert "[bold red]x[/] \\x1b[2J\\x07 \\u202eabc" in text
    assert not any(ord(c) < 32 and c != "\n" for c in text)
    assert "\u202e" not in text


def test_a_run_without_a_composite(results: dict[str, Any]) -> None:
    results["composites"]["age"].update(value=None, probes=[])
    assert re.search(r"by age\s+(–\s+){4}not testable: no probe could be compared", printed(results, 120))


def test_a_composite_has_its_adjusted_p_value(results: dict[str, Any]) -> None:
    """And severity is a label, or the reason why there is none: "none" is a label."""
    results["composites"]["region"].update(p_value=0.025, adjusted_p=0.3, severity=None)
    results["composites"]["age"].update(adjusted_p=0.2, severity="none")
    lines = {line.split()[1]: line.split() for line in printed(results, 200).splitlines() if line.startswith("by ")}
    assert lines["region"][4:] == ["0.300", "–", "not", "significant"]
    assert lines["age"][4:] == ["0.200", "–", "none"]


def test_a_run_without_its_primary_scorer_shows_the_first_one_it_has(results: dict[str, Any]) -> None:
    results["disparities"] = [row for row in results["disparities"] if row["scorer"] != "valence"]
    first = next(scorer["name"] for scorer in results["scorers"] if scorer["name"] != "valence")
    for composite in results["composites"].values():
        composite.update(value=None, probes=[])
    text = " ".join(printed(results, 200).split())
    assert f": {first}, " in text
    row = next(row for row in results["disparities"] if row["scorer"] == first)
    assert f"{row['raw']:.3f}" in text
    assert f"valence is not among the scorers: set analysis.primary={first}" in text


def test_model_calls_are_explained(results: dict[str, Any]) -> None:
    from fp2.report.reading import calls_words

    for n, words in (
        (27, "27 model calls (a batch is one; repeated attempts and checks count)"),
        (1, "1 model call (a batch is one; repeated attempts and checks count)"),
        (0, "0 model calls"),
    ):
        assert calls_words({"answers": {"model_calls": n}}) == words
