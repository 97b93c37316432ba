"""Verdicts: one enum says what they are called, mean and look like, and everything shows what it says."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fp2.report.html import render_values
from fp2.report.reading import DASH, verdict_meanings, verdict_words
from fp2.report.values import Column, Kind, Row, Table
from fp2.verdicts import UNTESTED, Verdict, mark_of


@pytest.mark.parametrize("verdict", Verdict)
def test_a_verdict_is_the_text_that_results_hold(verdict: Verdict) -> None:
    logged = json.loads(json.dumps({"verdict": verdict}))["verdict"]
    assert logged == verdict == Verdict.of(logged)
    assert type(logged) is str
    assert (verdict_words(logged), mark_of(logged)) == (verdict.label, verdict.mark)
    assert verdict_meanings([{"verdict": logged}]) == {verdict: verdict.meaning}


def test_labels_and_meanings_differ() -> None:
    assert len({verdict.label for verdict in Verdict}) == len({verdict.meaning for verdict in Verdict}) == len(Verdict)


@given(st.none() | st.text().filter(lambda text: Verdict.of(text) is None))
def test_a_verdict_of_a_later_version_is_shown_as_it_is_written(text: str | None) -> None:
    assert mark_of(text) is UNTESTED
    assert verdict_words(text) == (text.replace("_", " ") if text else DASH)


def test_pages_emphasise_what_the_enum_emphasises() -> None:
    rows = [Row(["x", verdict]) for verdict in ("biased", "equivalent")]
    html = str(render_values([Table("t", (Column("Probe"), Column("Verdict", Kind.VERDICT)), rows)], 10))
    assert html.count('class="verdict v-emphasised">biased<') == 1
    assert html.count('class="verdict">equivalent<') == 1
