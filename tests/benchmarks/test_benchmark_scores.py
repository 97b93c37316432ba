"""The published scores of models without bias, in small: against closed forms, and the page's file has every case."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest

from benchmarks import benchmark_scores


def test_scores_of_models_without_bias() -> None:
    rows = {(row["benchmark"], row["score"], row["unbiased_model"]): row for row in benchmark_scores.measure(60)}
    assert rows["SB-Bench", "bias", "guesses among three"]["mean"] == pytest.approx(2 / 3, abs=0.01)
    # the mean of |N(0, s)| is s sqrt(2 / pi); the mean of four occupations' b, halved twice: spread sqrt(2 / 40) / 2
    expected = 100 * 0.1 * np.sqrt(2 / 40) / 2 * np.sqrt(2 / np.pi)
    assert rows["GenderBias-VL", "B_ovl", "spread 0.1"]["mean"] == pytest.approx(expected, rel=0.05)
    assert rows["PAIRS", "accuracy", "guesses among three"]["mean"] == pytest.approx(1 / 3, abs=0.01)
    expected = 0.2 * np.sqrt(1 / 18) * np.sqrt(2 / np.pi)  # of a mean over 18 scenes of differences of two means
    assert rows["PAIRS", "absolute contrast, occupations", "spread 0.2"]["mean"] == pytest.approx(expected, rel=0.3)
    assert rows["VL-Gender", "mean absolute gap", "spread 0.2"]["mean"] == pytest.approx(0.0101, rel=0.05)


def test_the_file_of_the_page_has_every_case(capsys: pytest.CaptureFixture[str]) -> None:
    benchmark_scores.main(["--runs", "2"])
    written = list(csv.DictReader(capsys.readouterr().out.splitlines()))
    file = Path(benchmark_scores.__file__).parents[1] / "docs" / "methods" / "benchmarks_null.csv"
    listed = list(csv.DictReader(file.read_text().splitlines()))
    names = ("benchmark", "score", "unbiased_model")
    assert [[row[name] for name in names] for row in written] == [[row[name] for name in names] for row in listed]
