"""A passport as a page to read: what it states, who signed it, and how to verify it; as HTML or PDF."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from fp2.extension import (
    FACTS,
    Column,
    Estimate,
    Kind,
    Name,
    PageSection,
    Part,
    Row,
    Sentence,
    Strong,
    Table,
    Value,
    Verification,
    Weight,
    as_cell,
    cell_text,
    cut_label,
    number,
    plain,
    reading,
    render_document,
    rows_of,
    scorer_label,
    summary,
)

TITLE = "Bias Passport"
MOST_ROWS = 12
"""Disparities on the page: the smallest p-values; the others are counted."""
_LEADING_LIMITATIONS = 6


def document(outcome: Verification, n_keys: int, payload: str) -> list[Value]:
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
    results = {
        **stated,
        "analysis": stated["statistics"],
        "answers": stated["validity"]["answers"],
        **{key: stated["protocol"][key] for key in ("probes", "cuts")},
    }
    status, *checks = _signatures(outcome, n_keys)
    model, data = stated["model"], stated["dataset"]
    size = f": {data['n_subjects']:,} subjects, {data['n_images']:,} images. Issued {plain(stated['issued'])[:10]}."
    who = Strong(_joined(model.get("name") or model.get("id")))
    values: list[Value] = [Sentence([who, " on ", Name(_joined(data["name"], data.get("release"))), size])]
    if control := reading.calibration_words([reading.calibration_of(stated)]):
        values.append(Sentence([Strong(control)], Weight.WARNING))
    if stated.get("complete") is not True:
        partial = "PARTIAL: planned answers are missing; the severity is withheld."
        values.append(Sentence([Strong(partial)], Weight.WARNING))
    values.append(Sentence(status, Weight.PLAIN if outcome.ok and n_keys else Weight.WARNING))
    values += summary(results, [])
    other = [
        f"{plain(name).replace('_', ' ')}: {_headline(block)}" for name, block in stated.get("findings", {}).items()
    ]
    if other:
        values.append(_said("Findings of other analyses", other, folded=bool(stated["disparities"])))
    facts = [Row([name, value]) for name, value in _facts(stated, payload).items()]
    level = reading.confidence_level(2 * results["analysis"].get("alpha", 0.05))
    columns = (
        Column("Groups by"),
        Column("Mean disparity", Kind.NUMBER),
        Column("Null mean", Kind.NUMBER),
        Column(f"Magnitude ({level})", Kind.ESTIMATE),
        Column("p", Kind.P),
        Column("Severity"),
    )
    rows = []
    composites = results.get("composites") or {}
    for cut, row in ((cut, composites[cut]) for cut in results["cuts"] if cut in composites):
        magnitude = Estimate(row.get("magnitude"), row.get("magnitude_low"), row.get("magnitude_high"))
        severity = reading.severity_words(row["severity"], row["value"], results["complete"] is True)
        rows.append(Row([cut_label(cut), row["value"], row["null_mean"], magnitude, row["p_value"], severity]))
    scorer = scorer_label(reading.primary_scorer(results))
    values += [
        Table("composites", columns, rows, f"Mean disparity of {scorer} over the probes, by grouping attribute"),
        _disparities(results),
        Table("facts", FACTS, facts, fold="Model, data and digests"),
        _said("Limitations", stated["limitations"][:_LEADING_LIMITATIONS]),
        _said("Signature and files", checks),
    ]
    return values


def _said(title: str, rows: Sequence[str], folded: bool = True) -> Part:
    return Part(title, [Sentence([Name(text)]) for text in rows], folded=folded)


def _facts(stated: Mapping[str, Any], payload: str) -> dict[str, str]:
    model, dataset, answers = stated["model"], stated["dataset"], stated["validity"]["answers"]
    generator = stated["generator"]
    commit = str(generator.get("git_commit") or "not recorded")[:12]
    dirty = " with uncommitted changes" if generator.get("git_commit") and generator.get("dirty") else ""
    return {
        "Model": _joined(model.get("name"), model.get("id"), model.get("revision"), model.get("dtype")),
        "Data set": _joined(dataset["name"], dataset.get("release")),
        "Subjects, images": f"{dataset['n_subjects']:,}, {dataset['n_images']:,}",
        "Answers": f"{answers.get('answered', 0):,} of {answers.get('planned', 0):,} planned, "
        f"{answers.get('refused', 0):,} of them refusals; {answers.get('failed', 0):,} failed",
        "Issued": plain(stated["issued"]),
        "Run, config": f"{plain(stated['run']['run_id'])}, {plain(stated['run']['config_hash'])[:16]}",
        "Payload (SHA-256)": payload,
        "Made by": f"fp2 {plain(generator['version'])}, commit {commit}{dirty}",
    }


def _joined(*values: object) -> str:
    return ", ".join(dict.fromkeys(plain(value) for value in values if value)) or reading.DASH


def _disparities(results: Mapping[str, Any]) -> Table:
    """Return the rows of the primary scorer with the smallest p-values."""
    labels = {probe["id"]: plain(probe.get("label", probe["id"])) for probe in results["probes"]}
    tested = [
        (cut, probe, row)
        for cut in results["cuts"]
        for probe, row in rows_of(results, cut).items()
        if row.get("adjusted_p") is not None
    ]
    tested.sort(key=lambda item: (item[2]["adjusted_p"], -(item[2]["raw"] or 0.0)))
    columns = (
        Column("Groups by"),
        Column("Probe"),
        Column("Disparity", Kind.NUMBER),
        Column("Null mean", Kind.NUMBER),
        Column("Adjusted p", Kind.P),
        Column("Verdict", Kind.VERDICT),
    )
    rows = [
        Row([cut_label(cut), labels[probe], *(row[key] for key in ("raw", "null_mean", "adjusted_p", "verdict"))])
        for cut, probe, row in tested[:MOST_ROWS]
    ]
    caption = f"Disparities of {scorer_label(reading.primary_scorer(results))}: largest minus smallest group mean"
    if more := len(tested) - len(rows):
        caption += f" (the {len(rows)} with the smallest p-values; {more} more are in the passport)"
    return Table("disparities", columns, rows, caption, fold="Disparities")


def _headline(block: Mapping[str, Any]) -> str:
    sentences = [
        f"{plain(key).replace('_', ' ')} {number(value) if isinstance(value, float) else plain(value)}"
        for key, value in block.items()
        if isinstance(value, str | int | float) and not isinstance(value, bool)
    ]
    return ", ".join(sentences) or reading.DASH


def _signatures(outcome: Verification, n_keys: int) -> list[str]:
    if not n_keys:
        facts = [
            "NOT VERIFIED: no public key was given. This page shows what the file states; no signature was checked."
        ]
    else:
        facts = ["Valid: signatures and files were verified." if outcome.ok else "NOT VALID:"]
        facts += [plain(text) for text in (*outcome.failures, *outcome.notes)]
    facts.append("Verify it yourself: fp2 verify passport.json --key PUBLIC_KEY.pem")
    facts.append("A signature proves who stated these numbers, and that they are unchanged; not that they are right.")
    return facts


def to_html(values: Sequence[Value]) -> str:
    """Return the page as one self-contained HTML file, to be read or printed."""
    return render_document(TITLE, [], [PageSection("stated", "What is stated", values)])


def to_pdf(values: Sequence[Value]) -> bytes:
    """Return the page as a PDF (A4), with text that can be selected."""
    import matplotlib
    from fpdf import FPDF

    pdf = FPDF(format="A4")
    fonts = Path(matplotlib.get_data_path()) / "fonts" / "ttf"
    pdf.add_font("DejaVu", "", fonts / "DejaVuSans.ttf")
    pdf.add_font("DejaVu", "B", fonts / "DejaVuSans-Bold.ttf")
    pdf.set_title(TITLE)
    pdf.set_lang("en")
    pdf.set_margin(16)
    pdf.set_auto_page_break(True, 14)
    pdf.add_page()
    _write_line(pdf, TITLE, 18, "B", 2)
    from fpdf.fonts import FontFace

    for value in values:
        if isinstance(value, Table) and value.rows:
            pdf.ln(3)
            if value.label:
                _write_line(pdf, value.label, 9, "B", 1)
            pdf.set_font("DejaVu", "", 7.5)
            rows = [[as_cell(cell) for cell in row.cells] for row in value.rows]
            texts = [[cell_text(cell, column) for cell, column in zip(row, value.columns, strict=True)] for row in rows]
            grid = [[column.label for column in value.columns], *texts]
            widths = [2 + min(40, max(map(len, cells))) for cells in zip(*grid, strict=True)]
            with pdf.table(
                grid,
                line_height=4,
                text_align="LEFT",
                borders_layout="HORIZONTAL_LINES",
                headings_style=FontFace(emphasis="BOLD"),
                col_widths=widths,
            ):
                pass
        elif isinstance(value, Part) and any(_texts(value.values)):
            pdf.ln(3)
            _write_line(pdf, str(value.title), 9, "B", 1)
            for text in _texts(value.values):
                _write_line(pdf, f"• {text}", 7.5)
        else:
            for text in _texts([value]):
                _write_line(pdf, text, 9, "B", 1)
    data = io.BytesIO()
    pdf.output(data)
    return data.getvalue()


def _texts(values: Sequence[Value]) -> Iterator[str]:
    """Yield the sentences, without those that say how charts are read: a PDF has none."""
    sentences = [value for value in values if isinstance(value, Sentence) and value.weight is not Weight.DETAIL]
    yield from ("".join(sentence.parts) for sentence in sentences)


def _write_line(pdf: Any, text: str, size: float, style: str = "", gap: float = 0.0) -> None:
    pdf.set_font("DejaVu", style, size)
    pdf.multi_cell(0, size * 0.5, text, new_x="LMARGIN", new_y="NEXT", align="L")
    pdf.ln(gap)
