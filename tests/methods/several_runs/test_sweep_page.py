"""The report of several runs: what it counts, what it hides of small groups, hostile words, and that it is closed."""

from __future__ import annotations

import copy
import json
import re
from typing import Any

import pytest
from report.hostile_words import HOSTILE_TEXTS
from report.test_dashboard import Page, assert_closed_to_the_network

from fp2.methods.several_runs.panels import run_labels
from fp2.methods.several_runs.sweep import SweepRun, sweep_results
from fp2.methods.several_runs.sweep_page import render_sweep, sweep_markdown, sweep_sections
from fp2.report.reading import effect_words
from fp2.report.samples import MOST_RUNS
from fp2.report.values import as_cell, tables

NO_TABLES = "the run has no scores per subject and image"


def block_of(*runs: dict[str, Any], missing: Any = ()) -> dict[str, Any]:
    found = sweep_results([SweepRun(run, None, NO_TABLES) for run in runs], missing, 10)
    return dict(json.loads(json.dumps(found, allow_nan=False)))


def panel_of(block: dict[str, Any], cut: str, scorer: str = "valence") -> dict[str, Any]:
    return next(panel for panel in block["panels"] if (panel["cut"], panel["scorer"]) == (cut, scorer))


def test_probes_runs_and_groups_are_counted(results: dict[str, Any], other_results: dict[str, Any]) -> None:
    block = block_of(results, other_results)
    panel = panel_of(block, "region")
    rows = [
        {r["probe"]: r for r in run["disparities"] if (r["cut"], r["scorer"]) == ("region", "valence")}
        for run in (results, other_results)
    ]
    for one in panel["by_probe"]:
        raws = {
            place: own[one["probe"]]["raw"] for place, own in enumerate(rows) if own[one["probe"]]["raw"] is not None
        }
        assert one["n_compared"] == len(raws)
        assert (one["largest"]["run"], one["largest"]["raw"]) == max(raws.items(), key=lambda item: item[1])
        assert (one["smallest"]["run"], one["smallest"]["raw"]) == min(raws.items(), key=lambda item: item[1])
        assert one["n_significant"] == sum(bool(own[one["probe"]]["significant"]) for own in rows)
    assert next(one for one in panel["by_probe"] if one["probe"] == "trust")["n_compared"] == 1  # one is uninformative
    assert [(one["n_significant"], one["n_compared"], one["n_probes"]) for one in panel["significant"]] == [
        (sum(bool(row["significant"]) for row in own.values()), compared, 6)
        for own, compared in zip(rows, (6, 5), strict=True)
    ]
    (tally,) = panel["tallies"]
    named = [row["worst_group"] for own in rows for row in own.values() if row["worst_group"]]
    assert {group["group"]: group["worst_count"] for group in tally["groups"]} == {
        name: named.count(name) for name in ("Africa", "Americas", "Asia", "Europe", "Oceania")
    }
    assert (tally["n"], tally["reason"]) == (11, NO_TABLES)
    assert all(group["worst_expected"] is None for group in tally["groups"])


def test_effects_are_ranked_and_named(results: dict[str, Any], other_results: dict[str, Any]) -> None:
    panel = panel_of(block_of(results, other_results), "region")
    sizes = [effect["d"] for effect in panel["effects"]]
    assert sizes == sorted(sizes, reverse=True)
    assert len(sizes) == 11
    first = panel["lines"][panel["effects"][0]["run"]]["rows"][panel["effects"][0]["probe"]]
    n = sum(
        group["n_subjects"]
        for group in first["groups"]
        if group["group"] in (first["worst_group"], first["best_group"])
    )
    assert first["cohens_d"] == pytest.approx(first["hedges_g"] / (1 - 3 / (4 * (n - 2) - 1)))  # Hedges (1981)
    assert first["effect"] == effect_words(first["cohens_d"])
    words = [effect_words(d) for d in (None, 0.19, 0.2, -0.5, 0.82, 1.44, 2.0)]
    assert words == [None, "negligible", "small", "medium", "large", "very large", "huge"]


def test_runs_are_named_by_what_they_differ_in(results: dict[str, Any], other_results: dict[str, Any]) -> None:
    assert run_labels([results, other_results]) == ["peeps-vlm", "other-vlm-2b"]
    cuts = [copy.deepcopy(results) | {"cuts": [cut]} for cut in ("region", "skin_tone")]
    assert run_labels(cuts) == ["by region", "by skin tone"]
    blind = results | {"variant": {"name": "blind", "kind": "blind"}}
    assert run_labels([results, blind]) == ["original", "blind"]
    assert run_labels([blind, other_results]) == ["peeps-vlm · blind", "other-vlm-2b · original"]
    alike = [results, results | {"run_id": "feedbeef" * 4}]
    assert run_labels(alike) == [f"peeps-vlm {results['run_id'][:8]}", "peeps-vlm feedbeef"]
    texts = [
        "seed: 1\nreport: {figures: true}\nmodel: {truth: {seed: 3}}",
        "seed: 2\nreport: {figures: false}\nmodel: {truth: {seed: 3, effects: {trust: 1}}}",
    ]
    assert run_labels(alike, texts) == ["seed 1", "seed 2 · effects"]
    assert run_labels([*alike, other_results], [*texts, ""]) == [
        "peeps-vlm · seed 1",
        "peeps-vlm · seed 2 · effects",
        "other-vlm-2b",
    ]
    assert run_labels(alike, texts[:1] * 2) == run_labels(alike)


def test_the_page_is_whole_and_closed(results: dict[str, Any], other_results: dict[str, Any]) -> None:
    missing = [{"run": "model=third", "reason": "the model is not in the local cache"}]
    block = block_of(results, other_results, missing=missing)
    html = render_sweep(block)
    page = Page(html)
    assert page.open == []
    assert_closed_to_the_network(page)
    titles = "".join(page.text["h2"])
    for title in ("Fingerprints", "Leaderboard", "By probe", "Which groups", "Effect sizes", "Composites", "Runs"):
        assert title in titles
    boxes = [attrs for tag, attrs in page.tags if tag == "input" and attrs.get("type") == "checkbox"]
    assert [box["value"] for box in boxes] == ["0", "1"]
    charts = [json.loads(attrs["data-chart"] or "") for _, attrs in page.tags if "data-chart" in attrs]
    drawn = [one["run"] for chart in charts if chart["kind"] == "radar" for one in chart["series"]]
    assert drawn == [0, 1] * (4 * 5)  # four cuts, five scorers with at least three probes
    assert "model=third" in html
    assert "1 of the 3 runs" in html
    assert "positive control" in html  # of one run only: its rows are marked
    assert "Partial runs: " in html
    heads = next(row for row in page.rows if "P6 Neighbourhood" in row)
    assert [f"P{n}" for n in range(1, 7)] == [
        head.split()[0] for head in heads if head.startswith("P") and head[1].isdigit()
    ]


def test_one_run_and_one_probe_make_a_report_too(results: dict[str, Any]) -> None:
    few = copy.deepcopy(results)
    few["disparities"] = [row for row in few["disparities"] if row["probe"] == "trust" and row["cut"] == "region"]
    few["cuts"] = ["region"]
    html = render_sweep(block_of(few))
    assert "<h1>Bias fingerprint of peeps-vlm</h1>" in html
    assert "By probe" not in html
    assert 'id="runs"' not in html  # no radar of one probe


def test_small_groups_show_no_mean(results: dict[str, Any], other_results: dict[str, Any]) -> None:
    block = block_of(results, other_results)
    groups = [
        group
        for panel in block["panels"]
        for line in panel["lines"]
        for row in line["rows"].values()
        for group in row["groups"]
    ]
    small = [group for group in groups if group["n_subjects"] < 10]
    assert small
    assert all(group["mean"] is None and group["sd"] is None for group in small)


def test_the_page_has_data_scorers_and_counts_of_every_run(results: dict[str, Any]) -> None:
    """A caution, terms and versions of scorers once where runs share them, and with the runs where they do not."""
    second = copy.deepcopy(results) | {"run_id": "f" * 32}
    second["model"] |= {"name": "other"}
    second["dataset"] |= {"caution": "Drawn people.", "terms": "CC0 1.0", "without_value": {"region": 9}}
    second["scorers"][1] |= {"lexicon": {"name": "stereotype", "version": "2", "sha256": "a" * 64}}
    block = block_of(results, second)
    (line,) = (line for line in block["notes"] if "different versions" in line)
    assert line.startswith("stereotype was scored by different versions")
    assert "version 2 (sha256 aaaaaaaaaaaa…) (other)" in line
    assert "The runs asked with different texts" not in " ".join(block["notes"])
    html = render_sweep(block)
    assert "<bdi>Drawn people.</bdi> (<bdi>other</bdi>)" in html
    assert html.count("CC0 1.0") == 1
    assert html.count("What do you think this person does for work?") == 1
    captions = re.findall(r"<caption>(.*?)</caption>", html)
    marked = sum("scored by different versions: not comparable" in caption for caption in captions)
    panels = [panel for panel in block["panels"] if panel["scorer"] == "stereotype"]
    assert marked == len(panels) * sum(caption.startswith("Stereotype by region") for caption in captions)
    values = {name: list(inside) for name, _, inside in sweep_sections(block)}
    answers = {one.cut: one for one in tables(values["answers"])}["region"]
    rows = {(row.cells[0], str(as_cell(row.cells[1]).value)): row for row in answers.rows}
    assert rows["Not stated", "peeps-vlm"].subjects == 7  # what renderers leave out, by this number
    assert "too few subjects" in next(row for row in Page(html).rows if row[0] == "Not stated")
    known = next(row for row in results["answers_by_group"] if (row["cut"], row["group"]) == ("region", "Africa"))
    share = known["refused"] / known["answered"]
    counts = [78, known["planned"], known["answered"], known["refused"], 2, share]
    assert list(rows["Africa", "peeps-vlm"].cells[2:]) == counts
    assert as_cell(rows["no value", "other"].cells[2]).value == 9
    second["probes"][0]["text"] = "Another question?"
    block = block_of(results, second)
    assert "The runs asked with different texts: occupation." in block["notes"]
    assert render_sweep(block).count("Another question?") == 1


def test_many_runs_have_no_table_of_every_row(results: dict[str, Any]) -> None:
    results["cuts"] = ["region"]
    results["disparities"] = [r for r in results["disparities"] if (r["cut"], r["scorer"]) == ("region", "valence")]
    html = render_sweep(block_of(*(results | {"run_id": f"{n:032x}"} for n in range(MOST_RUNS + 1))))
    assert "h-means" not in html
    assert "are not listed for so many runs" in html


def test_no_word_from_outside_acts(hostile_results: dict[str, Any], results: dict[str, Any]) -> None:
    plain, attacked = (
        Page(render_sweep(block_of(results, other))) for other in (copy.deepcopy(results), hostile_results)
    )
    assert_closed_to_the_network(attacked)
    assert attacked.open == []
    assert {tag for tag, _ in attacked.tags} == {tag for tag, _ in plain.tags}
    attacks = [{"run": text, "reason": text} for text in HOSTILE_TEXTS]
    block = block_of(hostile_results, missing=attacks)
    words = " ".join(HOSTILE_TEXTS)
    block["runs"][0] |= {
        "caution": words,
        "terms": words,
        "repeat": {
            "command": words,
            "places": [words],
            "objects": [words],
            "source": words,
            "earlier": [words],
            "code": {"version": words, "git_commit": words, "dirty": True},
            "seeds": {"analysis": words, "data": words},
            "decoding": None,
            "probabilities": False,
            "passport": {"payload_sha256": words, "keys": [words], "partial": True},
        },
    }
    told = Page(render_sweep(block))
    assert_closed_to_the_network(told)
    assert {tag for tag, _ in told.tags} <= {tag for tag, _ in plain.tags} | {"code", "h3"}
    text = sweep_markdown(block_of(hostile_results, results, missing=attacks))
    assert not re.search(r"<(script|img|svg|iframe)", text)
    columns = 0
    for line in text.splitlines():
        pipes = line.replace("\\|", "").count("|")
        assert pipes == columns or not columns or not pipes  # a table keeps its columns
        columns = pipes


def test_markdown_has_the_leaderboard(results: dict[str, Any], other_results: dict[str, Any]) -> None:
    whole = sweep_markdown(block_of(results, other_results), "fingerprints.png")
    text = whole.partition("## Leaderboard")[2]
    head = next(line for line in text.splitlines() if line.startswith("| Run |"))
    row = next(line for line in text.splitlines() if line.startswith("| peeps-vlm (positive control) |"))
    assert head.count("|") == row.count("|")
    assert f"| {results['composites']['region']['value']:.3f} |" in row
    assert "Which groups are worst and best" in text
    assert "**Positive control:** " in whole  # not "**Positive control: **" or without the space
