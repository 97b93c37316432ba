"""A passport as a page to read: what it states, who signed it, and how to verify it; as HTML or PDF."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fp2.report.page import environment
from fp2.report.reading import (
    DASH,
    calibration_of,
    calibration_words,
    confidence_level,
    cut_label,
    magnitude_words,
    number,
    plain,
    primary_scorer,
    probability,
    rows_of,
    scorer_label,
    severity_words,
    verdict_words,
)
from fp2.report.verify import Verification

MOST_ROWS = 12
"""Disparities on the page: the smallest p-values; the others are counted."""
_LEADING_LIMITATIONS = 6


@dataclass(frozen=True)
class ReadableTable:
    """A table of texts with a caption."""

    caption: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True)
class Document:
    """The page: `notices` stand first, then facts by name, tables, and lines under headings."""

    title: str
    notices: Sequence[str]
    facts: Mapping[str, str]
    tables: Sequence[ReadableTable]
    sections: Mapping[str, Sequence[str]]


def document(outcome: Verification, n_keys: int, payload: str) -> Document:
    """Return the page of a verified passport.

    Parameters
    ----------
    outcome : Verification
        Of `fp2.report.verify`, with its statement.
    n_keys : int
        How many public keys it was verified with; 0 if none was given, and then nothing is claimed of its signatures.
    payload : str
        The SHA-256 of the payload (`fp2.report.verify.payload_digest`).
    """
    assert outcome.statement is not None
    stated = outcome.statement["predicate"]
    results = {**stated, "analysis": stated["statistics"], **{k: stated["protocol"][k] for k in ("probes", "cuts")}}
    model, dataset, answers = stated["model"], stated["dataset"], stated["validity"]["answers"]
    notices = [said] if (said := calibration_words([calibration_of(stated)])) else []
    if stated.get("complete") is not True:
        notices.append("PARTIAL: planned answers are missing; the severity is withheld.")
    facts = {
        "Model": _joined(model.get("name"), model.get("id"), model.get("revision"), model.get("dtype")),
        "Data set": _joined(dataset["name"], dataset.get("release")),
        "Subjects, images": f"{dataset['n_subjects']:,}, {dataset['n_images']:,}",
        "Answers": f"{answers.get('answered', 0):,} of {answers.get('planned', 0):,} planned, "
        f"{answers.get('refused', 0):,} of them refusals; {answers.get('failed', 0):,} failed",
        "Issued": plain(stated["issued"]),
        "Run, config": f"{plain(stated['run']['run_id'])}, {plain(stated['run']['config_hash'])[:16]}",
        "Payload (SHA-256)": payload,
        "Made by": f"fp2 {plain(stated['generator']['version'])}, commit {_commit(stated['generator'])}",
    }
    tables = [table for table in (_composites(results), _disparities(results)) if table.rows]
    sections = {
        "Findings of other analyses": [
            f"{plain(name).replace('_', ' ')}: {_headline(found)}" for name, found in stated.get("findings", {}).items()
        ],
        "Limitations": [plain(line) for line in stated["limitations"][:_LEADING_LIMITATIONS]],
        "Signature and files": _signatures(outcome, n_keys),
    }
    return Document("Bias Passport", notices, facts, tables, {key: lines for key, lines in sections.items() if lines})


def _joined(*parts: object) -> str:
    return ", ".join(dict.fromkeys(plain(part) for part in parts if part)) or DASH


def _commit(generator: Mapping[str, Any]) -> str:
    commit = str(generator.get("git_commit") or "not recorded")[:12]
    return f"{commit} with uncommitted changes" if generator.get("dirty") else commit


def _composites(results: Mapping[str, Any]) -> ReadableTable:
    scorer = scorer_label(primary_scorer(results))
    rows = [
        (
            cut_label(cut), number(row["value"]), number(row["null_mean"]), magnitude_words(row),
            probability(row["p_value"]),
            severity_words(row["severity"], row["value"], results["complete"] is True),
        )
        for cut, row in (results.get("composites") or {}).items()
    ]  # fmt: skip
    caption = f"Mean disparity of {scorer} over the probes, by grouping attribute"
    magnitude = f"Magnitude ({confidence_level(2 * results['analysis'].get('alpha', 0.05))})"
    return ReadableTable(caption, ("Groups by", "Mean disparity", "Null mean", magnitude, "p", "Severity"), rows)


def _disparities(results: Mapping[str, Any]) -> ReadableTable:
    labels = {probe["id"]: plain(probe.get("label", probe["id"])) for probe in results["probes"]}
    found = [(cut, probe, row) for cut in results["cuts"] for probe, row in rows_of(results, cut).items()]
    found = [one for one in found if one[2].get("adjusted_p") is not None]
    found.sort(key=lambda one: (one[2]["adjusted_p"], -(one[2]["raw"] or 0.0)))
    rows = [
        (
            cut_label(cut), labels[probe], number(row["raw"]), number(row["null_mean"]),
            probability(row["adjusted_p"]), verdict_words(row["verdict"]),
        )
        for cut, probe, row in found[:MOST_ROWS]
    ]  # fmt: skip
    left = len(found) - len(rows)
    caption = f"Disparities of {scorer_label(primary_scorer(results))}: largest minus smallest group mean"
    caption += f" (the {len(rows)} with the smallest p-values; {left} more are in the passport)" if left > 0 else ""
    return ReadableTable(caption, ("Groups by", "Probe", "Disparity", "Null mean", "p, corrected", "Verdict"), rows)


def _headline(found: Mapping[str, Any]) -> str:
    words = [
        f"{plain(key).replace('_', ' ')} {number(value) if isinstance(value, float) else plain(value)}"
        for key, value in found.items()
        if isinstance(value, str | int | float) and not isinstance(value, bool)
    ]
    return ", ".join(words) or DASH


def _signatures(outcome: Verification, n_keys: int) -> list[str]:
    if not n_keys:
        lines = [
            "NOT VERIFIED: no public key was given. This page shows what the file states; no signature was checked."
        ]
    else:
        lines = ["Valid: signatures and files were verified." if outcome.ok else "NOT VALID:"]
        lines += [plain(line) for line in (*outcome.failures, *outcome.notes)]
    lines.append("Verify it yourself: fp2 verify passport.json --key PUBLIC_KEY.pem")
    lines.append("A signature proves who stated these numbers, and that they are unchanged; not that they are right.")
    return lines


def to_html(page: Document) -> str:
    """Return the page as one self-contained HTML file, to be read or printed on A4."""
    return environment().get_template("passport.html.j2").render(page=page)


def to_pdf(page: Document) -> bytes:
    """Return the page as a PDF (A4), with text that can be selected."""
    import matplotlib
    from fpdf import FPDF
    from fpdf.fonts import FontFace

    pdf = FPDF(format="A4")
    fonts = Path(matplotlib.get_data_path()) / "fonts" / "ttf"
    pdf.add_font("DejaVu", "", fonts / "DejaVuSans.ttf")
    pdf.add_font("DejaVu", "B", fonts / "DejaVuSans-Bold.ttf")
    pdf.set_title(page.title)
    pdf.set_lang("en")
    pdf.set_margin(16)
    pdf.set_auto_page_break(True, 14)
    pdf.add_page()

    def line(text: str, size: float, style: str = "", gap: float = 0.0) -> None:
        pdf.set_font("DejaVu", style, size)
        pdf.multi_cell(0, size * 0.5, text, new_x="LMARGIN", new_y="NEXT", align="L")
        pdf.ln(gap)

    line(page.title, 18, "B", 2)
    for notice in page.notices:
        line(notice, 9, "B", 1)
    for name, value in page.facts.items():
        line(f"{name}: {value}", 8)
    for table in page.tables:
        pdf.ln(3)
        line(table.caption, 9, "B", 1)
        pdf.set_font("DejaVu", "", 7.5)
        grid = (table.head, *table.rows)
        widths = [2 + min(40, max(map(len, cells))) for cells in zip(*grid, strict=True)]
        with pdf.table(
            grid, line_height=4, text_align="LEFT", borders_layout="HORIZONTAL_LINES",
            headings_style=FontFace(emphasis="BOLD"), col_widths=widths,
        ):  # fmt: skip
            pass
    for name, lines in page.sections.items():
        pdf.ln(3)
        line(name, 9, "B", 1)
        for text in lines:
            line(f"• {text}", 7.5)
    data = io.BytesIO()
    pdf.output(data)
    return data.getvalue()
