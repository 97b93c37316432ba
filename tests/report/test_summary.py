"""The first screen of a run's page: what differs in words, and nothing that was not found."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from fp2.report.answers import answers_side_by_side, striking_first
from fp2.report.section import Section
from fp2.report.summary import description, summary
from fp2.report.values import Chart, Link, Part, Sentence, Table, Value, Weight, as_cell, charts, tables
from fp2.results import Block, Results


def sentences(values: list[Value]) -> list[str]:
    return ["".join(str(part) for part in one.parts) for one in values if isinstance(one, Sentence)]


def primary_rows(results: Results) -> list[dict[str, Any]]:
    return [row for row in results["disparities"] if row["scorer"] == "valence"]


def answer(row: dict[str, Any], end: str, value: float, text: str, refused: bool = False) -> dict[str, Any]:
    groups = {row["cut"]: row[f"{end}_group"]}
    return {"probe": row["probe"], "question": "q", "text": text, "refused": refused, "value": value, "groups": groups}


def test_the_largest_differences_are_said_with_their_interval_and_direction(results: Results) -> None:
    significant = [row for row in primary_rows(results) if row["significant"]]
    largest = max(significant, key=lambda row: row["raw"])
    said = sentences(list(summary(results, [])))
    assert f"{largest['worst_group']} ({largest['cut'].replace('_', ' ')}) score lower in valence" in said[0]
    assert f"answers about {largest['best_group']}" in said[0]
    assert f"by {largest['pair_gap'] if largest.get('pair_gap') is not None else largest['raw']:.3f}" in said[0]
    counts = [line for line in said if "more difference" in line]
    assert counts == (
        [f"{len(significant) - 2} more differences are significant in valence."] if len(significant) > 3 else counts
    )


def test_of_a_score_where_higher_is_worse_the_worst_group_scores_higher(results: Results) -> None:
    for scorer in results["scorers"]:
        scorer["higher_is_better"] = False
    largest = max((row for row in primary_rows(results) if row["significant"]), key=lambda row: row["raw"])
    said = sentences(list(summary(results, [])))[0]
    assert f"Answers about the group {largest['worst_group']} " in said
    assert "score higher in valence" in said


def test_without_a_significant_difference_none_is_named_and_what_could_be_missed_is(results: Results) -> None:
    for row in results["disparities"]:
        row.update(significant=False, verdict="no_difference_found", status="ok", mde80=0.2)
    values = list(summary(results, []))
    said = " ".join(sentences(values))
    assert "No difference between groups was found" in said
    assert "Differences below 0.200 could have been missed" in said
    assert not any(str(row["worst_group"]) in said for row in results["disparities"])
    assert not [chart for chart in charts(values) if chart.name == "differing"]


def test_where_nothing_could_be_tested_it_says_so_and_claims_no_equality(results: Results) -> None:
    for row in results["disparities"]:
        row.update(significant=None, verdict="uninformative", status="uninformative", mde80=None)
    values = list(summary(results, []))
    said = " ".join(sentences(values))
    assert "Nothing could be tested: the answers all have the same value, or too few have one." in said
    assert "No difference" not in said
    (counts,) = [table for table in tables(values) if table.name == "counts"]
    assert {as_cell(cell).value for row in counts.rows for cell in row.cells[1:]} == {"not testable"}


def test_the_quoted_answers_have_the_median_value_of_their_group_and_are_no_refusals(results: Results) -> None:
    largest = max((row for row in primary_rows(results) if row["significant"]), key=lambda row: row["raw"])
    means = {group["group"]: group["mean"] for group in largest["groups"]}
    sample = []
    for end in ("worst", "best"):
        mean = means[largest[f"{end}_group"]]
        sample += [answer(largest, end, mean + 0.3, "far"), answer(largest, end, mean + 0.1, f"near {end}")]
        sample.append(answer(largest, end, mean - 0.4, "low"))
        sample.append(answer(largest, end, mean, "I cannot say.", refused=True))
    for n, row in enumerate(sample):
        row["image"] = f"key{n}"
    copies = {"key1": "data:image/jpeg;base64,AA=="}
    (quotes,) = [
        table
        for table in tables(summary(results, sample, picture=lambda key: copies.get(key, "")))
        if table.name == "quotes"
    ]
    assert [as_cell(row.cells[0]).picture for row in quotes.rows] == [copies["key1"], ""]
    assert [as_cell(row.cells[1]).value for row in quotes.rows] == ["“near worst”", "“near best”"]
    one_group = [one for one in sample if largest["worst_group"] in one["groups"].values()]
    assert not [table for table in tables(summary(results, one_group)) if table.name == "quotes"]


def test_every_cut_has_a_small_radar_with_the_rows_of_its_section(results: Results) -> None:
    drawn = [chart for chart in charts(summary(results, [])) if chart.name.startswith("radar")]
    assert [chart.cut for chart in drawn] == [""] * len(results["cuts"])
    for cut, chart in zip(results["cuts"], drawn, strict=True):
        rows = {row["probe"]: row["raw"] for row in primary_rows(results) if row["cut"] == cut}
        assert [point.value for point in chart.series[0].points] == pytest.approx(list(rows.values()))


def test_a_run_that_compared_nothing_has_no_first_screen_of_differences(results: Results) -> None:
    assert list(summary({**results, "disparities": []}, [])) == []


def test_counts_are_of_rows_that_were_tested(results: Results) -> None:
    (counts,) = [value for value in summary(results, []) if isinstance(value, Table) and value.name == "counts"]
    by_cut = {row.cells[0]: row for row in counts.rows}
    for cut in results["cuts"]:
        rows = [row for row in primary_rows(results) if row["cut"] == cut and row["status"] == "ok"]
        n = sum(bool(row["significant"]) for row in rows)
        assert as_cell(by_cut[f"by {cut.replace('_', ' ')}"].cells[1]).value == f"{n}/{len(rows)}"
    assert not [value for value in summary(results, []) if isinstance(value, Chart) and value.in_files]


def test_a_run_is_described_in_three_sentences(results: Results) -> None:
    largest = max((row for row in primary_rows(results) if row["significant"]), key=lambda row: row["raw"])
    said = description(results)
    assert said.startswith("peeps-vlm on peeps: 400 subjects, 1,200 images. Answers about the group ")
    assert str(largest["worst_group"]) in said
    n = sum(bool(row["significant"]) for row in primary_rows(results))
    assert f"{n} of {sum(row['status'] == 'ok' for row in primary_rows(results))} comparisons of valence differ" in said
    for row in results["disparities"]:
        row.update(significant=False, verdict="no_difference_found", status="ok", mde80=0.2)
    assert "No difference between groups was found" in description(results)


def test_a_run_without_disparities_is_described_by_the_leading_sentences_of_its_sections(results: Results) -> None:
    class Two(Section):
        name = title = "gras"

        def values(self, block: Block, results: Results) -> Iterator[Value]:
            yield Sentence("A remark.")
            yield Sentence(["No trait", " differs."], Weight.LEAD)
            yield Part("", [Sentence("The score is 3.", Weight.LEAD)])

    bare = {**results, "disparities": [], "gras": {"any": 1}}
    assert description(bare, [Two()]).endswith(" images. No trait differs. The score is 3.")


def test_answers_side_by_side_name_no_group_before_they_are_unfolded(results: Results) -> None:
    row = striking_first(results)[0]
    sample = [answer(row, end, 0.1, f"answer {end}") for end in ("worst", "best")]
    (part,) = (one for one in answers_side_by_side(results, sample) if one.anchor.endswith(row["scorer"]))
    quotes, key, command = part.values
    assert isinstance(quotes, Table)
    assert sorted(str(as_cell(cell).value) for cell in quotes.rows[0].cells[1:]) == ["“answer best”", "“answer worst”"]
    shown = " ".join([str(part.title), quotes.label, *(column.label for column in quotes.columns)])
    for end in ("worst_group", "best_group"):
        assert str(row[end]) not in shown
        assert isinstance(key, Part)
        assert key.folded
        assert str(row[end]) in sentences(list(key.values))[0]
    assert "fp2 view" in sentences([command])[0]
    assert not list(answers_side_by_side(results, sample[:1]))


def test_only_significant_differences_lead_to_answers(results: Results) -> None:
    for row in results["disparities"]:
        row["significant"] = False
    values = list(summary(results, []))
    assert not [part for one in values if isinstance(one, Sentence) for part in one.parts if isinstance(part, Link)]
    assert list(answers_side_by_side(results, [])) == []
