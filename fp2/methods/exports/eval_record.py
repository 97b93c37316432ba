"""The results of a run as a record of Every Eval Ever, a public collection of evaluations (evaleval/every_eval_ever).

Source of the format: `eval.schema.json` of the package `every-eval-ever` 0.3.0. Records of single answers are a form of
answers (`fp2.methods.recorded.forms.every_eval_ever`), with the same `evaluation_id`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from fp2.extension import MIN_CELL, Section, model_name, plain, scorer_label
from fp2.methods.exports.formats import of_a_model, required, sized_rows
from fp2.methods.recorded.form import evaluation_id

SCHEMA = "0.3.0"


def to_every_eval_ever(
    results: Mapping[str, Any], sections: Sequence[Section] = (), min_cell: int = MIN_CELL, answers: Path | None = None
) -> str:
    """Return the record: each disparity of the primary scorer, and each row of another finding, with its interval.

    `answers` is the file of its records of single answers, named where it is in a collection
    (`data/COLLECTION/DEVELOPER/MODEL/UUID_samples.jsonl`).

    Raises
    ------
    Fp2Error
        If the run has no number, or is about no model.
    """
    of_a_model(results)
    created, model = int(datetime.fromisoformat(results["created"]).timestamp()), model_name(results)
    found = required([_result(results, name, row) for name, row in sized_rows(results, sections)], results, "numbers")
    unknown = {"deployment_type": "unknown", "model_availability": "unknown"}
    beside = {}
    if answers is not None and answers.parts[-5:-4] == ("data",):
        beside = {"detailed_evaluation_results": {"format": "jsonl", "file_path": "/".join(answers.parts[-5:])}}
    record = {
        "schema_version": SCHEMA,
        "evaluation_id": evaluation_id(model, created),
        "evaluation_timestamp": str(created),
        "retrieved_timestamp": str(created),
        "source_metadata": {
            "source_name": "fp2",
            "source_type": "evaluation_run",
            "source_organization_name": "unknown",
            "evaluator_relationship": "other",
        },
        "eval_library": {
            "name": "fp2",
            "version": plain(results["fp2_version"]),
            "additional_details": {name: plain(results[name]) for name in ("run_id", "config_hash")},
        },
        "model_info": {"name": model, "id": plain(results["model"].get("id") or model), "additional_details": unknown},
        "evaluation_results": found,
        **beside,
    }
    return json.dumps(record, indent=1, ensure_ascii=False) + "\n"


def _result(results: Mapping[str, Any], name: str, row: Mapping[str, Any]) -> dict[str, Any]:
    """Return one score with its interval, null mean, corrected p-value and verdict."""
    scorer = scorer_label(row.get("scorer", ""))
    limits = {"lower": row.get("ci_low"), "upper": row.get("ci_high")}
    interval = {} if None in limits.values() else {"uncertainty": {"confidence_interval": limits}}
    details = {key: str(row[key]) for key in ("null_mean", "adjusted_p", "verdict") if row.get(key) is not None}
    data = {"dataset_name": plain(results["dataset"]["name"]), "source_type": "other"}
    return {
        "evaluation_result_id": f"{results['run_id']}/{name}",
        "evaluation_name": name,
        "source_data": data | {"additional_details": {"digest": plain(results["dataset_digest"])}},
        "metric_config": {
            "metric_name": f"disparity of {scorer}" if scorer else "disparity",
            "evaluation_description": "Difference between groups; above 0 without one, see null_mean and verdict.",
            "lower_is_better": True,
            "score_type": "continuous",
            "min_score": "-Infinity",
            "max_score": "Infinity",
        },
        "score_details": {"score": row["raw"], "details": details, **interval},
    }
