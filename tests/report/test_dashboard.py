"""The dashboard: self-contained, closed to the network, deaf to hostile words, and silent about small groups."""

from __future__ import annotations

import base64
import copy
import hashlib
import json
import re
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from report.hostile_words import HOSTILE_TEXTS

from fp2 import report
from fp2.errors import Fp2Error
from fp2.report.dashboard import render_dashboard, write_dashboard
from fp2.report.disparities import DisparitiesSection
from fp2.report.leaderboard import summarise
from fp2.report.reading import plain
from fp2.report.run_sections import answers_by_group
from fp2.report.values import Estimate, Sentence, Table, Value, Weight, as_cell, charts, suppressed, tables

VOID = {"meta", "input", "br", "hr", "img", "link"}


class Page(HTMLParser):
    """A parsed page: its tags with attributes in order, the text under each kind of tag, and whether it is balanced."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text: dict[str, list[str]] = {}
        self.open: list[str] = []
        self.rows: list[list[str]] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th") and self.rows:
            self.rows[-1].append("")
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.setdefault(self.open[-1] if self.open else "", []).append(data)
        if ("td" in self.open or "th" in self.open) and self.rows and self.rows[-1]:
            self.rows[-1][-1] += data

    @property
    def shape(self) -> list[tuple[str, tuple[str, ...]]]:
        """Return the tags and names of attributes, but for the lines of labels, of which a long one has more."""
        return [(tag, tuple(attrs)) for tag, attrs in self.tags if tag != "tspan"]


def page_of(results: dict[str, Any], examples: list[dict[str, Any]]) -> tuple[str, Page]:
    html = render_dashboard(results, examples, summarise(results))
    return html, Page(html)


def assert_closed_to_the_network(page: Page) -> None:
    counts = Counter(tag for tag, _ in page.tags)
    charts = any("data-chart" in attrs for _, attrs in page.tags)
    assert (counts["script"], counts["style"]) == (1 + charts, 1)
    assert not counts.keys() & {"iframe", "object", "embed", "img", "link", "base", "form", "image", "use", "a:href"}
    for tag, attrs in page.tags:
        assert not [name for name in attrs if name.startswith("on") or name in ("src", "style", "srcdoc", "xlink:href")]
        assert attrs.get("href") in (None, "#main"), tag
    css = "".join(page.text["style"])
    assert not re.search(r"url\(|@import|expression|https?:|//", css)
    *library, own = page.text["script"]
    assert not re.search(r"fetch|XMLHttp|WebSocket|import\(|eval|https?:|innerHTML|document\.write", own)
    assert library == [(Path(report.__file__).parent / "vendor" / "plot.js").read_text(encoding="utf-8")] * charts


def test_it_is_one_file_that_needs_no_network(
    results: dict[str, Any], examples: list[dict[str, Any]], tmp_path: Path
) -> None:
    path = write_dashboard(results, examples, summarise(results), tmp_path / "deep" / "dashboard.html")
    page = Page(path.read_text(encoding="utf-8"))
    assert page.open == []
    assert_closed_to_the_network(page)
    assert [p.name for p in path.parent.iterdir()] == ["dashboard.html"]


def test_the_policy_admits_exactly_this_style_and_these_scripts(results: dict[str, Any]) -> None:
    _, page = page_of(results, [])
    policy = next(a["content"] for t, a in page.tags if a.get("http-equiv") == "Content-Security-Policy")
    assert policy is not None
    assert policy.startswith("default-src 'none'")
    assert "unsafe" not in policy
    for kind in ("script", "style"):
        digests = {base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in page.text[kind]}
        said = policy.split(f"{kind}-src ")[1].split(";")[0]
        assert set(said.split()) == {f"'sha256-{digest}'" for digest in digests}


def test_hostile_words_change_no_tag(hostile_results: dict[str, Any], examples: list[dict[str, Any]]) -> None:
    harmless = copy.deepcopy(hostile_results)
    letters = iter(f"word{i}" for i in range(10_000))
    known: dict[str, str] = {}

    def swap(value: Any) -> Any:
        if isinstance(value, str) and value in HOSTILE_TEXTS:
            return known.setdefault(value, next(letters))
        if isinstance(value, dict):
            return {swap(key): swap(item) for key, item in value.items()}
        return [swap(item) for item in value] if isinstance(value, list) else value

    html, page = page_of(hostile_results, examples)
    _, tame = page_of(swap(harmless), swap(examples))
    assert page.shape == tame.shape
    assert_closed_to_the_network(page)
    for raw in ("</script><script>", "<img", "onerror='", "<style>@import", "\x1b", "\u202e", "{{ 7 * 7 }} {% raw %}<"):
        assert raw not in html
    assert not re.search(r"&amp;(lt|gt|amp|quot|#\d+);", html)  # escaped once, not twice
    shown = "".join(piece for pieces in page.text.values() for piece in pieces)
    for text in HOSTILE_TEXTS:
        assert plain(text) in shown


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=st.text(min_size=1, max_size=40).filter(lambda t: plain(t) != ""))
def test_no_text_at_all_changes_a_tag(results: dict[str, Any], text: str) -> None:
    small = {
        **results,
        "cuts": ["region"],
        "disparities": [r for r in results["disparities"] if r["scorer"] == "valence"],
    }
    small["model"] = {**results["model"], "name": text, "id": text}
    small["limitations"] = [text]
    _, page = page_of(small, [{"probe": "trust", "text": text, "count": 3}])
    small["model"] = {**results["model"], "name": "a", "id": "a"}
    small["limitations"] = ["a"]
    _, tame = page_of(small, [{"probe": "trust", "text": "a", "count": 3}])
    assert page.shape == tame.shape


def test_small_groups_show_their_size_and_nothing_else(results: dict[str, Any]) -> None:
    for row in results["disparities"]:
        for group in row["groups"]:
            if group["group"] == "Not stated":
                group["mean"] = 0.7698989
    for row in results["answers_by_group"]:
        if row["group"] == "Not stated":
            row["refused"] = 53
    html, page = page_of(results, [])
    lines = [row for row in page.rows if row and row[0] == "Not stated"]
    assert len(lines) >= 2
    for line in lines:
        assert line[1] == "7"
        assert not re.search(r"0[.]77|53", " ".join(line))
    hidden = [line for line in lines if any("too few subjects" in cell for cell in line)]
    assert hidden
    assert "0.76989" not in html


def test_refusal_rates_are_drawn_for_each_cut_with_refusals(results: dict[str, Any]) -> None:
    shown = charts(suppressed(answers_by_group(results), 10))
    assert [chart.cut for chart in shown] == results["cuts"]
    rates = {(row["cut"], row["group"]): row["refused"] / row["answered"] for row in results["answers_by_group"]}
    drawn = {(chart.cut, point.label): point.value for chart in shown for point in chart.series[0].points}
    assert {group for _, group in rates.keys() - drawn.keys()} == {"Not stated"}  # too few subjects
    assert drawn.items() <= rates.items()
    for row in results["answers_by_group"]:
        row["refused"] = 0
    assert charts(answers_by_group(results)) == []


def disparities_of(results: dict[str, Any]) -> list[Value]:
    return list(DisparitiesSection().values(results["disparities"], results))


def table_of(values: list[Value], name: str, cut: str, scorer: str) -> Table:
    return next(one for one in tables(values) if (one.name, one.cut, one.scorer) == (name, cut, scorer))


def test_a_row_has_the_numbers_of_its_disparity(results: dict[str, Any]) -> None:
    values = disparities_of(results)
    row = next(
        r
        for r in results["disparities"]
        if (r["probe"], r["scorer"], r["cut"]) == ("neighbourhood", "valence", "region")
    )
    table = table_of(values, "disparities", "region", "valence")
    cells = next([as_cell(cell) for cell in line.cells] for line in table.rows if line.cells[0] == "P6 Neighbourhood")
    by_label = dict(zip((column.label for column in table.columns), cells, strict=True))
    assert (by_label["Disparity"].value, by_label["Disparity"].strong) == (row["raw"], True)
    assert (by_label["Verdict"].value, by_label["Verdict"].detail) == ("biased", "larger than 0.050")
    assert by_label["Null mean"].value == row["null_mean"]
    assert by_label["95 % CI"].value == Estimate(None, row["ci_low"], row["ci_high"])
    assert by_label["Hedges' g"].value == row["hedges_g"]
    assert (by_label["Worst group"].value, by_label["Best group"].value) == ("Africa", "Oceania")
    every = {(one.cut, one.scorer) for one in tables(values) if one.name == "disparities"}
    assert every == {(r["cut"], r["scorer"]) for r in results["disparities"]}


def test_a_sentence_counts_what_differs_and_leaves_the_names_to_the_table(results: dict[str, Any]) -> None:
    leads = [one for one in disparities_of(results) if isinstance(one, Sentence) and one.weight is Weight.LEAD]
    for lead in leads:
        rows = [r for r in results["disparities"] if (r["scorer"], r["cut"]) == ("valence", lead.cut)]
        tested = [r for r in rows if r["raw"] is not None]
        n = sum(r["significant"] for r in tested)
        text = "".join(lead.parts)
        assert re.search(rf"{n} of {len(tested)} probes differs? significantly", text)
        assert not any(name in text for name in ("Occupation", "Education", "Trust", "Neighbourhood"))
    assert [lead.cut for lead in leads] == results["cuts"]


def test_only_means_of_significant_disparities_have_a_colour_and_no_answer_is_not_too_few_subjects(
    results: dict[str, Any],
) -> None:
    rows = [row for row in results["disparities"] if row["cut"] == "region" and row["scorer"] == "valence"]
    for row in rows:
        row.update(significant=row["probe"] == "trust")
    rows[0]["groups"][0].update(n_subjects=0, n_images=0, mean=None)
    values = list(suppressed(DisparitiesSection().values({}, results), 10))
    means = table_of(values, "means", "region", "valence")
    cells = {as_cell(row.cells[0]).value: [as_cell(cell) for cell in row.cells[3:]] for row in means.rows}
    probes = [row["probe"] for row in rows]
    coloured = {
        probe for of_group in cells.values() for probe, cell in zip(probes, of_group, strict=True) if cell.level
    }
    assert coloured == {"trust"}
    assert cells[rows[0]["groups"][0]["group"]][0].value is None


def test_a_disparity_that_is_not_significant_names_no_group_in_bold(results: dict[str, Any]) -> None:
    for table in tables(disparities_of(results)):
        if table.name == "disparities":
            for row in table.rows:
                cells = [as_cell(cell) for cell in row.cells]
                assert [cell.value is not None for cell in cells[-2:]] == [cells[1].strong] * 2


def test_the_page_says_on_whom_under_which_terms_and_by_whom(results: dict[str, Any]) -> None:
    results["dataset"] |= {
        "terms": "CC0 1.0",
        "caution": "The people are drawings.",
        "scales": {"skin_tone": "Fitzpatrick"},
        "without_value": {"region": 3, "pronoun": 0},
    }
    html = render_dashboard(results, [], [], key_id="ab12" * 16)
    head = html.split("<header>")[1].split("</header>")[0]
    assert "The people are drawings." in head
    assert "3 subjects have no value of region and are in no group" in html
    assert "no value of pronoun" not in head
    facts = {row[0]: row[1] for row in Page(html).rows if len(row) == 2}
    assert facts["terms of use of the data"] == "CC0 1.0"
    assert facts["signing key"] == "ab12" * 16
    assert "lexicon stereotype version – (sha256 ffffffffffff…)" in facts["scorer stereotype"]
    assert "skin tone (Fitzpatrick)" in html
    (none,) = [row for row in Page(html).rows if row[0] == "no value"]
    assert none[1].startswith("3")


def test_the_higher_group_of_a_significant_pair_has_the_upward_mark_whatever_the_direction(
    results: dict[str, Any],
) -> None:
    values = disparities_of(results)
    for scorer, worse in (("valence", "low"), ("stereotype", "high")):
        row = next(r for r in results["disparities"] if r["significant"] and r["scorer"] == scorer)
        table = table_of(values, "means", row["cut"], scorer)
        column = [probe["id"] for probe in results["probes"]].index(row["probe"]) + 3
        marks = {line.cells[0]: as_cell(line.cells[column]).mark for line in table.rows}
        other = "high" if worse == "low" else "low"
        ends = {row["worst_group"]: worse, row["best_group"]: other}
        assert {group: mark for group, mark in marks.items() if mark} == ends


def test_answers_that_occur_once_are_counted_but_not_shown(results: dict[str, Any]) -> None:
    examples = [{"probe": "trust", "text": f"answer {n}", "count": n} for n in range(1, 13)]
    html, page = page_of(results, examples)
    quoted = [row[0] for row in page.rows if row[0].startswith("answer")]
    assert quoted == [f"answer {n}" for n in range(12, 4, -1)]
    assert "Further frequent answers: 3." in html
    assert "Answers that occur fewer than 2 times (1) are not shown" in html


def test_positive_controls_and_partial_runs_are_marked(results: dict[str, Any], other_results: dict[str, Any]) -> None:
    first, _ = page_of(results, [])
    second, _ = page_of(other_results, [])
    assert "say nothing about people" in first
    assert "Partial run." not in first
    assert "say nothing about people" not in second
    assert "Partial run." in second
    other_results["model"]["embedded"] = True
    assert "say nothing about people" in page_of(other_results, [])[0]


def test_uninformative_probes_leave_a_gap_in_the_radar(other_results: dict[str, Any]) -> None:
    html, page = page_of(other_results, [])
    first = next(json.loads(a["data-chart"] or "") for _, a in page.tags if "data-chart" in a)
    rows = [r for r in other_results["disparities"] if (r["cut"], r["scorer"]) == ("region", "valence")]
    assert first["kind"] == "radar"
    points = first["series"][0]["points"]
    values = [point.get("value") for point in points]
    assert values == pytest.approx([r["raw"] for r in rows], abs=1e-4)
    assert ["open" not in point for point in points if "value" in point] == [
        bool(r["significant"]) for r in rows if r["raw"]
    ]
    assert values.count(None) == 1
    assert "not testable" in html


def test_a_folder_that_cannot_be_written_is_one_line(results: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(Fp2Error, match="cannot be written"):
        write_dashboard(results, [], [], tmp_path / "file" / "dashboard.html")


def test_a_sample_of_answers_is_text_by_probe_group_and_refusal(results: dict[str, Any]) -> None:
    probe, cut = results["probes"][0]["id"], results["cuts"][0]
    shared = {"probe": probe, "question": "q", "groups": {cut: "A group"}}
    sample = [
        {**shared, "text": "<script>alert(1)</script>", "refused": False, "value": 0.25},
        {**shared, "text": "I cannot say", "refused": True, "value": None},
    ]
    page = render_dashboard(results, [], [], sample=sample)
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert page.count('data-refused="yes"') == 1
    assert f'<td data-cut="{cut}"><bdi>A group</bdi></td>' in page
    assert "Aggregates and a sample of answers" in page
    assert "Answers to read" not in render_dashboard(results, [], [])


def test_the_chart_library_is_the_version_that_its_licences_and_its_build_name() -> None:
    vendor = Path(report.__file__).parent / "vendor"
    pinned = json.loads((vendor / "package.json").read_text(encoding="utf-8"))["devDependencies"]["@observablehq/plot"]
    script = (vendor / "plot.js").read_text(encoding="utf-8")
    assert script.startswith(f"/*! Observable Plot {pinned} ")
    assert f"@observablehq/plot {pinned}\n" in (vendor / "LICENSES.txt").read_text(encoding="utf-8")
    assert "</script" not in script.lower()  # it would end the script of the page
