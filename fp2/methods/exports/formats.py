"""Results in the formats of others: CSV, LaTeX tables, the evaluation results of a model card, and a ML-BOM.

What is exported is read from three places that every protocol fills: the disparities with the findings of the report
sections (rows that `fp2 gate` checks), the `headline` of each block (the numbers in the passport), and the tables that
a section sets beside those of other runs.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeVar

from fp2.extension import (
    DISPARITIES,
    MIN_CELL,
    NESTED,
    Finding,
    Fp2Error,
    Section,
    Verdict,
    csv_text,
    cut_label,
    findings_of,
    flat_rows,
    heading,
    leaves,
    load_sections,
    model_name,
    model_was_used,
    number,
    plain,
    primary_scorer,
    probability,
    probe_labels,
    rows_of,
    scorer_label,
    tables_of,
    verdict_words,
    were_supplied,
)

LEADING = ("section", "name", "value", "low", "high", "details")
"""The first columns of a run that found more than disparities."""


def result_rows(
    results: Mapping[str, Any], sections: Sequence[Section] = (), min_cell: int = MIN_CELL
) -> list[dict[str, Any]]:
    """Return what the run found, all rows with the same keys.

    Parameters
    ----------
    results : mapping
        The content of `results.json`.
    sections : sequence of Section
        Those of the run's protocol.
    min_cell : int
        Tables leave out groups of fewer subjects.

    Returns
    -------
    list of dict
        The disparities (`flat_rows`). Where the run found more, then also a row for each other finding, number of a
        headline and cell of a table: `section` and `name` say what it is, `value` is the number with its interval
        `low` to `high`, `details` are words, `differs` says whether the groups of a finding differ, and a finding
        with a row of its own has the columns of that row.
    """
    # The findings of the sections besides the disparities, and the numbers.
    more = []
    for section, finding in _findings(results, sections):
        finding_row = finding.row or {"raw": finding.size}
        cell = {
            "value": finding_row["raw"],
            "low": finding_row.get("ci_low"),
            "high": finding_row.get("ci_high"),
            "details": finding.message,
        }
        flat = {
            key: value
            for key, value in finding_row.items()
            if key not in NESTED and not isinstance(value, (list, tuple, Mapping))
        }
        lists = {key: ", ".join(map(plain, finding_row[key])) for key in ("by", "worst_set") if finding_row.get(key)}
        more.append({"section": section, "name": finding.name, "differs": finding.differs, **cell, **flat, **lists})
    rows, more = flat_rows(results), (more + _numbers(results, sections, min_cell))
    if more:
        number_rows = (
            {"section": _disparities(), "value": row["raw"], "low": row["ci_low"], "high": row["ci_high"], **row}
            for row in rows
        )
        rows = [{**dict.fromkeys(LEADING), **row} for row in (*number_rows, *more)]
    columns = dict.fromkeys(key for row in rows for key in row)
    return [{key: row.get(key) for key in columns} for row in rows]


def _disparities() -> str:
    """Return the name of the section of the disparities, whose rows are exported as they are."""
    return load_sections([DISPARITIES])[0].name


def _findings(results: Mapping[str, Any], sections: Sequence[Section]) -> Iterator[tuple[str, Finding]]:
    """Yield (section, finding) of every section but the disparities."""
    disparities = _disparities()
    yield from (pair for pair in findings_of(sections, results) if pair[0] != disparities)


def _numbers(results: Mapping[str, Any], sections: Sequence[Section], min_cell: int) -> list[dict[str, Any]]:
    """Return the headline of every block, then the tables that sections set beside those of other runs."""
    rows = []
    for block, content in results.items():
        if isinstance(content, Mapping) and isinstance(content.get("headline"), Mapping):
            headline = dict(leaves(content["headline"]))
            for name, value in headline.items():
                about, _, kind = name.rpartition(".")
                interval = {end: headline.get(f"{about}.{end}") for end in ("low", "high")}
                if kind in interval and f"{about}.value" in headline:
                    continue  # in the row of its value
                is_estimate = kind == "value" and None not in interval.values()
                row = _cell(value) | (interval if is_estimate else {})
                rows.append({"section": block, "name": about if is_estimate else name, **row})
    for table in tables_of([results], sections, min_cell):
        for label, (cell,) in table["rows"].items():
            rows.append(
                {"section": table["section"], "name": f"{plain(table['title'])}: {plain(label)}", **_cell(cell)}
            )
    return [row for row in rows if row["value"] is not None or row["details"]]


def _cell(value: Any) -> dict[str, Any]:
    """Return a number, an estimate with its interval, or words as `value`, `low`, `high`, `details`."""
    if isinstance(value, (tuple, list)):
        return dict(zip(("value", "low", "high"), map(float, value), strict=True)) | {"details": None}
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    text = None if is_number or value is None else plain(value)
    return {"value": float(value) if is_number else None, "low": None, "high": None, "details": text}


def to_csv(results: Mapping[str, Any], sections: Sequence[Section] = (), min_cell: int = MIN_CELL) -> str:
    """Return the rows of the run (`result_rows`) as CSV; text is kept from being read as a formula.

    Raises
    ------
    Fp2Error
        If the run found nothing.
    """
    rows = required(result_rows(results, sections, min_cell), results, "results")
    return csv_text(list(rows[0]), rows)


_Rows = TypeVar("_Rows", bound=Sequence[Any])


def required(rows: _Rows, results: Mapping[str, Any], what: str) -> _Rows:
    """Return the rows, or whatever is exported.

    Raises
    ------
    Fp2Error
        If there are none.
    """
    if not rows:
        fix = "fp2 show prints what it has; fp2 export --answers FILE writes its answers"
        raise Fp2Error(f"the run has no {what} to export", where=f"run {results['run_id']}", fix=fix)
    return rows


def to_latex(results: Mapping[str, Any], sections: Sequence[Section] = (), min_cell: int = MIN_CELL) -> str:
    """Return LaTeX tables (package booktabs): the disparities of the primary scorer, and what else the run found.

    Raises
    ------
    Fp2Error
        If the run has neither.
    """
    about = (
        f"for {model_name(results)} on {plain(results['dataset']['name'])} ({results['n_subjects']} subjects)"
        if model_was_used(results)
        else f"of {plain(results['dataset']['name'])} ({results['n_subjects']} subjects)"
    )
    tables = []
    labels, tex_rows = probe_labels(results), []
    for cut in results["cuts"]:
        if rows := rows_of(results, cut):
            tex_rows.append(r"\midrule")
        for probe, row in rows.items():
            tex_rows.append(
                _line(
                    cut_label(cut),
                    labels[probe],
                    number(row["raw"]),
                    number(row["null_mean"]),
                    probability(row["adjusted_p"]),
                    verdict_words(row["verdict"]),
                )
            )
    if tex_rows:
        caption = (
            f"Disparities of {scorer_label(primary_scorer(results))} {about}: largest minus smallest group mean, its "
            "mean when group labels are permuted across subjects, corrected p-value, and verdict."
        )
        names = r"Cut & Probe & Disparity & Null mean & $p$ & Verdict"
        tables.append(_tabular(caption, "llrrrl", names, tex_rows))
    if further := _result_lines(results, sections, min_cell):
        caption = f"{heading(sections, results)} {about}: what was found."
        tables.append(
            _tabular(caption, "p{0.5\\textwidth}rrp{0.2\\textwidth}", r"Result & Value & $p$ & Remark", further)
        )
    return "\n".join(required(tables, results, "results"))


def _result_lines(results: Mapping[str, Any], sections: Sequence[Section], min_cell: int) -> list[str]:
    """Return a line for each finding of a section besides the disparities, and for each number."""
    rows = []
    for _, finding in _findings(results, sections):
        if finding.row is None:
            rows.append(_line(finding.name, number(finding.size), number(None), finding.message))
        else:
            p, text = probability(finding.row["adjusted_p"]), verdict_words(finding.row["verdict"])
            rows.append(_line(finding.name, number(finding.row["raw"]), p, text))
    for row in _numbers(results, sections, min_cell):
        value = row["value"]
        text = number(value) if value is None or value % 1 else f"{value:.0f}"
        if row["low"] is not None:
            text += f" ({number(row['low'])} to {number(row['high'])})"
        rows.append(_line(row["name"].replace("_", " "), text, number(None), row["details"] or ""))
    return [r"\midrule", *rows] if rows else []


def _line(*cells: str) -> str:
    return " & ".join(map(_tex, cells)) + r" \\"


def _tabular(caption: str, columns: str, names: str, rows: Sequence[str]) -> str:
    """Return a table with its caption; `rows` begin with a rule."""
    return "\n".join(
        [
            r"\begin{table}",
            r"\centering",
            rf"\caption{{{_tex(caption)}}}",
            rf"\begin{{tabular}}{{{columns}}}",
            r"\toprule",
            rf"{names} \\",
            *rows,
            r"\bottomrule",
            r"\end{tabular}",
            r"\end{table}",
            "",
        ]
    )


_TEX = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"$<$", ">": r"$>$", "–": "--", "\u2212": "$-$",
    "×": r"$\times$",
}  # fmt: skip


def _tex(text: str) -> str:
    return "".join(_TEX.get(character, character) for character in text)


def to_model_card(results: Mapping[str, Any], sections: Sequence[Section] = (), min_cell: int = MIN_CELL) -> str:
    """Return the front matter of a Hugging Face model card (`model-index`).

    Its metrics are the composites, or in a run without any the disparities of the findings, and the numbers of
    `result_rows`. Source: https://huggingface.co/docs/hub/model-cards, "Evaluation results".

    Raises
    ------
    Fp2Error
        If the run has none of them, or is about no model.
    """
    import yaml

    of_a_model(results)
    dataset, asks = results["dataset"], bool(results["answers"]["planned"])
    result = {
        "task": {
            "type": "image-text-to-text" if asks else "other",
            "name": "Description of people" if results["composites"] else heading(sections, results),
        },
        "dataset": {
            "type": plain(dataset["name"]),
            "name": plain(dataset["name"]),
            **({"revision": plain(dataset["release"])} if dataset.get("release") else {}),
        },
        "metrics": required(_card_metrics(results, sections, min_cell), results, "numbers"),
        "source": {
            "name": f"Fingerprint² Bench {results['fp2_version']}, run {results['run_id']}, "
            f"config {results['config_hash'][:16]}{', of supplied answers' if were_supplied(results) else ''}"
        },
    }
    card = {"model-index": [{"name": model_name(results), "results": [result]}]}
    return f"---\n{yaml.safe_dump(card, sort_keys=False, allow_unicode=True)}---\n"


def of_a_model(results: Mapping[str, Any]) -> None:
    """Raise if nobody was asked: a report on a data set alone."""
    if not model_was_used(results):
        fix = "Use --csv, --parquet or --latex"
        raise Fp2Error("the run is about no model", where=f"run {results['run_id']}", fix=fix)


def _card_metrics(results: Mapping[str, Any], sections: Sequence[Section], min_cell: int) -> list[dict[str, Any]]:
    metrics: list[dict[str, Any]] = [
        {
            "type": "disparity",
            "name": f"Mean disparity of {scorer_label(primary_scorer(results))} by {cut_label(cut)}",
            "value": row["value"],
            "args": {key: row[key] for key in ("null_mean", "excess", "p_value", "severity")},
        }
        for cut, row in results["composites"].items()
        if row["value"] is not None
    ]
    if not metrics:
        for name, row in sized_rows(results, sections):
            args = {key: row.get(key) for key in ("null_mean", "excess", "adjusted_p", "verdict")}
            metrics.append({"type": "disparity", "name": name, "value": row["raw"], "args": args})
    for row in _numbers(results, sections, min_cell):
        if row["value"] is not None:
            interval = {key: row[key] for key in ("low", "high") if row[key] is not None}
            metrics.append(
                {
                    "type": row["section"],
                    "name": row["name"],
                    "value": row["value"],
                    **({"args": interval} if interval else {}),
                }
            )
    return metrics


def sized_rows(results: Mapping[str, Any], sections: Sequence[Section]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield (what, row) of every disparity of the primary scorer that has a value, and those of other findings."""
    labels = probe_labels(results)
    for cut in results["cuts"]:
        for probe, row in rows_of(results, cut).items():
            if row["raw"] is not None:
                yield f"{labels[probe]} by {cut_label(cut)}", row
    for _, finding in _findings(results, sections):
        if finding.row is not None and finding.size is not None:
            yield finding.name, finding.row


def to_ml_bom(results: Mapping[str, Any], sections: Sequence[Section] = (), min_cell: int = MIN_CELL) -> str:
    """Return a CycloneDX 1.7 ML-BOM: the model with its disparities and group means as metrics, and the data set.

    A disparity has one metric (null mean, p-value and verdict stand in its slice), and each of its groups that is
    compared and has at least `min_cell` subjects has one with the group's mean. `fairnessAssessments` names the worst
    group of every disparity with the verdict biased. Source: https://cyclonedx.org/docs/1.7/json, `modelCard`. The
    classes of `cyclonedx-python-lib` 11.12 have no model card, so that the document is written as plain values; the
    tests check it against that library's schema.

    Raises
    ------
    Fp2Error
        If the run has no number, or is about no model.
    """
    of_a_model(results)
    model, dataset, asks = results["model"], results["dataset"], bool(results["answers"]["planned"])
    metrics, assessments = _bom_metrics(results, sections, min_cell), _assessments(results, sections)
    required(metrics, results, "numbers")
    data_ref = f"data:{plain(results['dataset_digest'])[:16]}"
    weights = str(model.get("weights_digest") or "")
    is_sha256 = len(weights) == 64 and set(weights) <= set("0123456789abcdef")
    component = {
        "type": "machine-learning-model",
        "bom-ref": "model",
        "name": model_name(results),
        **({"version": plain(model["revision"])} if model.get("revision") else {}),
        **({"hashes": [{"alg": "SHA-256", "content": weights}]} if is_sha256 else {}),
        "modelCard": {
            "modelParameters": {
                **({"task": "image-text-to-text"} if asks else {}),
                "datasets": [{"ref": data_ref}],
            },
            "quantitativeAnalysis": {"performanceMetrics": metrics},
            "considerations": {
                "technicalLimitations": [plain(limitation) for limitation in results["limitations"]],
                "fairnessAssessments": assessments,
            },
        },
    }
    data = {"type": "data", "bom-ref": data_ref, "name": plain(dataset["name"])}
    if dataset.get("release"):
        data["version"] = plain(dataset["release"])
    bom = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.7",
        "version": 1,
        "metadata": {
            "timestamp": plain(results["created"]),
            "tools": {"components": [{"type": "application", "name": "fp2", "version": plain(results["fp2_version"])}]},
            "properties": [{"name": f"fp2:{key}", "value": plain(results[key])} for key in ("run_id", "config_hash")],
        },
        "components": [component, data],
    }
    return json.dumps(bom, indent=1, ensure_ascii=False) + "\n"


def _bom_metrics(results: Mapping[str, Any], sections: Sequence[Section], min_cell: int) -> list[dict[str, Any]]:
    """Return a metric for each disparity, each of its groups that is large enough, and each number."""
    metrics: list[dict[str, Any]] = []
    for name, row in sized_rows(results, sections):
        scorer = scorer_label(row.get("scorer", ""))
        metrics.append(
            _metric(
                f"disparity{f' of {scorer}' if scorer else ''} (largest minus smallest group mean)",
                row["raw"],
                f"{name}; null mean {number(row['null_mean'])}, corrected p {probability(row['adjusted_p'])}, "
                f"{verdict_words(row['verdict'])}",
                row.get("ci_low"),
                row.get("ci_high"),
            )
        )
        about, _, cut = name.rpartition(" by ")
        for group in row.get("groups", ()):
            if group["eligible"] and group["mean"] is not None and group["n_subjects"] >= min_cell:
                where = f"{about}, {cut}: {plain(group['group'])}, {group['n_subjects']} subjects"
                metrics.append(_metric(f"mean {scorer}" if scorer else "group mean", group["mean"], where))
    for metric_row in _numbers(results, sections, min_cell):
        if metric_row["value"] is not None:
            kind, _, label = metric_row["name"].rpartition(": ")  # of a table: its title, and the row
            metrics.append(
                _metric(
                    kind or metric_row["name"],
                    metric_row["value"],
                    label if kind else metric_row["section"],
                    metric_row["low"],
                    metric_row["high"],
                )
            )
    return metrics


def _metric(kind: str, value: float, where: str, low: float | None = None, high: float | None = None) -> dict[str, Any]:
    limits = {"lowerBound": low, "upperBound": high}
    interval = {key: f"{end:.6g}" for key, end in limits.items() if end is not None}
    metric = {"type": kind, "value": f"{value:.6g}", "slice": where}
    return metric | ({"confidenceInterval": interval} if interval else {})


def _assessments(results: Mapping[str, Any], sections: Sequence[Section]) -> list[dict[str, str]]:
    """Return the group at risk of every disparity with the verdict biased, and every other finding that differs."""
    metrics = []
    for name, row in sized_rows(results, sections):
        worst = row.get("worst_group") or row.get("worst_version")
        if row["verdict"] == Verdict.BIASED and worst:
            worse = f"the answers about this group have the worst {scorer_label(row.get('scorer', ''))}"
            other = f"the mean of this group differs from that of {plain(row.get('best_group'))}"
            harm = f"{name}: {worse if 'scorer' in row else other}"
            metrics.append({"groupAtRisk": plain(worst), "harms": harm})
    for _, finding in _findings(results, sections):
        if finding.row is None and finding.differs:
            metrics.append({"groupAtRisk": finding.name, "harms": finding.message})
    return metrics
