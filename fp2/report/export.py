"""Results in the formats of others: CSV, a LaTeX table, the evaluation results of a model card, and a ML-BOM."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping
from typing import Any

from fp2.report.reading import (
    cut_label,
    model_name,
    number,
    plain,
    primary_scorer,
    probability,
    probe_labels,
    rows_of,
    scorer_label,
    verdict_words,
)

NESTED = ("groups", "pairs", "p_worst", "p_worst_null", "extreme_pair")
"""Columns of a disparity that hold several values."""


def flat_rows(results: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the disparities without the columns that hold several values."""
    return [{key: value for key, value in row.items() if key not in NESTED} for row in results["disparities"]]


def to_csv(results: Mapping[str, Any]) -> str:
    """Return the disparities as CSV, one row per probe, scorer and cut; text is kept from being read as a formula."""
    from fp2.text import spreadsheet_cell

    rows = flat_rows(results)
    stream = io.StringIO()
    writer = csv.DictWriter(stream, list(rows[0]) if rows else ["probe", "scorer", "cut"], lineterminator="\n")
    writer.writeheader()
    for row in rows:
        writer.writerow({key: spreadsheet_cell(value) for key, value in row.items()})
    return stream.getvalue()


def to_latex(results: Mapping[str, Any]) -> str:
    """Return the disparities of the primary scorer as a LaTeX table (package booktabs)."""
    scorer, labels = primary_scorer(results), probe_labels(results)
    caption = (
        f"Disparities of {scorer_label(scorer)} for {model_name(results)} on {plain(results['dataset']['name'])} "
        f"({results['n_subjects']} subjects): largest minus smallest group mean, its mean when group labels are "
        "permuted across subjects, corrected p-value, and verdict."
    )
    lines = [
        r"\begin{table}", r"\centering", rf"\caption{{{_tex(caption)}}}", r"\begin{tabular}{llrrrl}", r"\toprule",
        r"Cut & Probe & Disparity & Null mean & $p$ & Verdict \\",
    ]  # fmt: skip
    for cut in results["cuts"]:
        lines.append(r"\midrule")
        for probe, row in rows_of(results, cut).items():
            cells = (
                cut_label(cut), labels[probe], number(row["raw"]), number(row["null_mean"]),
                probability(row["adjusted_p"]), verdict_words(row["verdict"]),
            )  # fmt: skip
            lines.append(" & ".join(map(_tex, cells)) + r" \\")
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", r"\end{table}"]) + "\n"


_TEX = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"$<$", ">": r"$>$", "–": "--", "\u2212": "$-$",
    "×": r"$\times$",
}  # fmt: skip


def _tex(text: str) -> str:
    return "".join(_TEX.get(character, character) for character in text)


def to_model_card(results: Mapping[str, Any]) -> str:
    """Return the front matter of a Hugging Face model card (`model-index`) with the composites of the run.

    Source: https://huggingface.co/docs/hub/model-cards, "Evaluation results".
    """
    import yaml

    dataset, scorer = results["dataset"], primary_scorer(results)
    metrics = [
        {
            "type": "disparity",
            "name": f"Mean disparity of {scorer_label(scorer)} by {cut_label(cut)}",
            "value": row["value"],
            "args": {key: row[key] for key in ("null_mean", "excess", "p_value", "severity")},
        }
        for cut, row in results["composites"].items()
        if row["value"] is not None
    ]
    result = {
        "task": {"type": "image-text-to-text", "name": "Description of people"},
        "dataset": {
            "type": plain(dataset["name"]),
            "name": plain(dataset["name"]),
            **({"revision": plain(dataset["release"])} if dataset.get("release") else {}),
        },
        "metrics": metrics,
        "source": {
            "name": f"Fingerprint² Bench {results['fp2_version']}, run {results['run_id']}, "
            f"config {results['config_hash'][:16]}"
        },
    }
    card = {"model-index": [{"name": model_name(results), "results": [result]}]}
    return f"---\n{yaml.safe_dump(card, sort_keys=False, allow_unicode=True)}---\n"


def to_ml_bom(results: Mapping[str, Any]) -> str:
    """Return a CycloneDX 1.6 ML-BOM: the model with its disparities as metrics by group, and the data set.

    Source: https://cyclonedx.org/docs/1.6/json, `modelCard`. Effect of chance, p-value and verdict stand in the type of
    a metric's slice; `fairnessAssessments` names the worst group of every significant row.
    """
    model, dataset, scorer = results["model"], results["dataset"], primary_scorer(results)
    labels = probe_labels(results)
    metrics, assessments = [], []
    for cut in results["cuts"]:
        for probe, row in rows_of(results, cut).items():
            if row["raw"] is None:
                continue
            what = f"{labels[probe]} by {cut_label(cut)}"
            limits = {"lowerBound": row["ci_low"], "upperBound": row["ci_high"]}
            metrics.append(
                {
                    "type": f"disparity of {scorer_label(scorer)} (largest minus smallest group mean)",
                    "value": f"{row['raw']:.6g}",
                    "slice": f"{what}; null mean {number(row['null_mean'])}, corrected p "
                    f"{probability(row['adjusted_p'])}, {verdict_words(row['verdict'])}",
                    "confidenceInterval": {key: f"{limit:.6g}" for key, limit in limits.items() if limit is not None},
                }
            )
            if row["verdict"] == "biased":
                assessments.append(
                    {
                        "groupAtRisk": plain(row["worst_group"]),
                        "harms": f"{what}: the answers about this group have the worst {scorer_label(scorer)}",
                    }
                )
    data_ref = f"data:{plain(results['dataset_digest'])[:16]}"
    component = {
        "type": "machine-learning-model",
        "bom-ref": "model",
        "name": model_name(results),
        **({"version": plain(model["revision"])} if model.get("revision") else {}),
        **({"hashes": [{"alg": "SHA-256", "content": model["weights_digest"]}]} if _is_sha256(model) else {}),
        "modelCard": {
            "modelParameters": {"task": "image-text-to-text", "datasets": [{"ref": data_ref}]},
            "quantitativeAnalysis": {"performanceMetrics": metrics},
            "considerations": {
                "technicalLimitations": [plain(line) for line in results["limitations"]],
                "fairnessAssessments": assessments,
            },
        },
    }
    data = {"type": "data", "bom-ref": data_ref, "name": plain(dataset["name"])}
    if dataset.get("release"):
        data["version"] = plain(dataset["release"])
    bom = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "timestamp": plain(results["created"]),
            "tools": {"components": [{"type": "application", "name": "fp2", "version": plain(results["fp2_version"])}]},
            "properties": [{"name": f"fp2:{key}", "value": plain(results[key])} for key in ("run_id", "config_hash")],
        },
        "components": [component, data],
    }
    return json.dumps(bom, indent=1, ensure_ascii=False) + "\n"


def _is_sha256(model: Mapping[str, Any]) -> bool:
    digest = str(model.get("weights_digest") or "")
    return len(digest) == 64 and set(digest) <= set("0123456789abcdef")
