"""The passport as a page to read."""

from __future__ import annotations

import re
import zlib
from pathlib import Path
from typing import Any

import pytest
from bench import fp2

from fp2.methods.passport_page.page import MOST_ROWS, document, to_html, to_pdf
from fp2.report.keys import SigningKey
from fp2.report.reading import HOW_TO_READ
from fp2.report.values import Part, Sentence, Weight, tables
from fp2.report.verify import payload_digest, verify_passport


def test_the_page_has_the_numbers_and_what_was_verified(
    passport: Path, key: SigningKey, results: dict[str, Any]
) -> None:
    page = document(verify_passport(passport, [key.public_path]), 1, payload_digest(passport))
    html = to_html(page)
    for cut, row in results["composites"].items():
        if row["value"] is not None:
            assert f">{row['value']:.3f}</td>" in html, cut
    assert "Valid: signatures and files were verified." in html
    assert key.keyid in html
    (disparities,) = [table for table in tables(page) if table.name == "disparities"]
    assert len(disparities.rows) == MOST_ROWS
    smallest = min(row["adjusted_p"] for row in results["disparities"] if row["adjusted_p"] is not None)
    assert disparities.rows[0].cells[4] == smallest


def test_without_a_key_nothing_is_claimed_of_the_signature(
    passport: Path, key: SigningKey, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    html = tmp_path / "deep" / "page.html"
    assert fp2("passport", str(passport), "--html", str(html)) == 0
    assert "NOT VERIFIED" in html.read_text()
    (passport.parent / "results.json").write_text("{}")
    assert fp2("passport", str(passport), "--html", str(html), "--key", str(key.public_path)) == 1
    assert "NOT VALID" in html.read_text()
    assert "results.json: was changed" in html.read_text()
    capsys.readouterr()
    assert fp2("passport", str(passport)) == 2
    assert "Add --html FILE, --pdf FILE or --eval-result FILE" in capsys.readouterr().err


def test_the_pdf_is_one_page_of_text(passport: Path, key: SigningKey) -> None:
    data = to_pdf(document(verify_passport(passport, [key.public_path]), 1, payload_digest(passport)))
    assert data.startswith(b"%PDF-")
    assert len(re.findall(rb"/Type /Page\b", data)) == 1
    streams = [
        zlib.decompress(part) for part in re.findall(rb"stream\n(.*?)\nendstream", data, re.DOTALL) if part[:1] == b"x"
    ]
    assert any(b"BT" in stream and b"Tj" in stream for stream in streams)


def test_the_page_says_the_largest_difference_first_and_folds_long_tables(
    passport: Path, key: SigningKey, results: dict[str, Any]
) -> None:
    page = document(verify_passport(passport, [key.public_path]), 1, payload_digest(passport))
    rows = [row for row in results["disparities"] if row["scorer"] == "valence" and row["significant"]]
    largest = max(rows, key=lambda row: row["raw"])
    lead = next(value for value in page if isinstance(value, Sentence) and value.weight is Weight.LEAD)
    assert f"the group {largest['worst_group']} " in "".join(lead.parts)
    assert [table.name for table in tables(page) if table.fold] == ["disparities", "facts"]
    folded = [str(value.title) for value in page if isinstance(value, Part) and value.folded]
    assert folded == [HOW_TO_READ, "Limitations", "Signature and files"]
