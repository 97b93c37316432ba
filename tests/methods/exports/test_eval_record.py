"""Records of Every Eval Ever: the numbers of the run, in the form that the project's own types take."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from bench import REPOSITORY, results_of
from jsonschema import Draft7Validator, ValidationError

from fp2.methods.exports.eval_record import to_every_eval_ever
from fp2.report.reading import primary_scorer

RUN = REPOSITORY / "tests" / "releases" / "0.3.0" / "runs" / "default"


def test_the_record_has_each_disparity_with_its_interval_and_verdict() -> None:
    results = results_of(RUN)
    record = json.loads(to_every_eval_ever(results))
    rows = [row for row in results["disparities"] if row["scorer"] == primary_scorer(results)]
    scores = [one["score_details"] for one in record["evaluation_results"]]
    limits = [score["uncertainty"]["confidence_interval"] for score in scores]
    stated = [
        (score["score"], score["details"]["verdict"], limit["lower"], limit["upper"])
        for score, limit in zip(scores, limits, strict=True)
    ]
    assert sorted(stated) == sorted((row["raw"], row["verdict"], row["ci_low"], row["ci_high"]) for row in rows)
    assert record["eval_library"]["additional_details"]["run_id"] == results["run_id"]


def thing(*required: str, closed: bool = False, **properties: Any) -> dict[str, Any]:
    """Return the schema of an object."""
    return {"type": "object", "required": list(required), "properties": properties, "additionalProperties": not closed}


TEXT, NUMBER, TEXTS = {"type": "string"}, {"type": "number"}, {"type": "array", "items": {"type": "string"}}
NAMED = {"type": "object", "additionalProperties": TEXT}
FOR_EACH = dict.fromkeys(("schema_version", "evaluation_id"), TEXT)
RECORD = thing(
    "schema_version", "evaluation_id", "retrieved_timestamp", "source_metadata", "model_info", "eval_library",
    "evaluation_results", closed=True, **FOR_EACH, evaluation_timestamp=TEXT, retrieved_timestamp=TEXT,
    source_metadata=thing(
        "source_type", "source_organization_name", "evaluator_relationship",
        source_type={"enum": ["documentation", "evaluation_run"]}, source_organization_name=TEXT,
        evaluator_relationship={"enum": ["first_party", "third_party", "collaborative", "other"]},
    ),
    model_info=thing("name", "id", "additional_details", name=TEXT, id=TEXT, additional_details={**NAMED, **thing(
        "deployment_type", "model_availability",
        deployment_type={"enum": ["self_deployed", "externally_managed", "unknown"]},
        model_availability={"enum": ["open_weights", "closed_weights", "unknown"]},
    ), "additionalProperties": TEXT}),
    eval_library=thing("name", "version", name=TEXT, version=TEXT, additional_details=NAMED),
    evaluation_results={"type": "array", "items": thing(
        "evaluation_name", "source_data", "metric_config", "score_details", evaluation_name=TEXT,
        source_data=thing("dataset_name", "source_type", source_type={"const": "other"}, additional_details=NAMED),
        metric_config=thing("lower_is_better", "min_score", "max_score", lower_is_better={"type": "boolean"},
                            score_type={"const": "continuous"},
                            min_score={"const": "-Infinity"}, max_score={"const": "Infinity"}),
        score_details=thing("score", score=NUMBER, details=NAMED, uncertainty=thing(
            confidence_interval=thing("lower", "upper", lower=NUMBER, upper=NUMBER))),
    )},
)  # fmt: skip
"""What the published `eval.schema.json` 0.3.0 asks of the fields that we write; others at the top are refused."""
ANSWER = thing(
    "schema_version", "evaluation_id", "model_id", "evaluation_name", "sample_id", "interaction_type", "input",
    "output", "answer_attribution", "evaluation", closed=True, **FOR_EACH, model_id=TEXT, evaluation_name=TEXT,
    sample_id=TEXT, interaction_type={"const": "single_turn"},
    input=thing("raw", "reference", raw=TEXT, reference=TEXTS),
    output=thing("raw", raw=TEXTS), answer_attribution={"type": "array"},
    evaluation=thing("score", "is_correct", score=NUMBER, is_correct={"type": "boolean"}),
    error={"type": ["string", "null"]}, metadata=NAMED,
)  # fmt: skip
"""The same of `instance_level_eval.schema.json`."""


CREATED = 1_700_000_000
EVALUATION = f"fp2/m/{CREATED}"


def answer_lines(file: Path) -> list[str]:
    from fp2.methods.recorded.forms.every_eval_ever import EVERY_EVAL_EVER

    rows = pd.DataFrame(
        {
            "image": ["a.jpg", "b.jpg"],
            "subject": ["a", "b"],
            "variant": ["original"] * 2,
            "probe": ["trust"] * 2,
            "question": ["trust"] * 2,
            "question_text": ["Kind?"] * 2,
            "text": ["Yes.", None],
            "status": ["answered", "error"],
            "error": [None, "timeout"],
            "p_yes": [0.25, None],
        }
    )
    EVERY_EVAL_EVER.write(file, rows, {"model": "m", "model_id": "org/m", "run_id": "r", "created": CREATED})
    return file.read_text().splitlines()


def test_record_and_answers_have_the_published_fields(tmp_path: Path) -> None:
    record, lines = json.loads(to_every_eval_ever(results_of(RUN))), answer_lines(tmp_path / "answers.jsonl")
    Draft7Validator(RECORD).validate(record)
    for line in lines:
        Draft7Validator(ANSWER).validate(json.loads(line))
    assert len(lines) == 2
    assert json.loads(lines[0])["evaluation_id"] == EVALUATION
    for wrong in ({**record, "more": 1}, {**record, "model_info": {"name": "m", "id": "m"}}):
        with pytest.raises(ValidationError):
            Draft7Validator(RECORD).validate(wrong)


def test_the_projects_own_validator_takes_the_record_with_its_answers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    reason = "every-eval-ever has no release for Python 3.11, and is no dependency: pip install every-eval-ever"
    pytest.importorskip("every_eval_ever", reason=reason)
    from every_eval_ever.validate import main

    folder = tmp_path / "data" / "fairness" / "org" / "m"
    folder.mkdir(parents=True)
    answers = folder / "8f14e45f-ceea-467f-a0e6-5f2d1e0f0a11_samples.jsonl"
    lines = answer_lines(answers)
    record = {**json.loads(to_every_eval_ever(results_of(RUN), answers=answers)), "evaluation_id": EVALUATION}
    record["model_info"] |= {"id": "org/m", "developer": "org"}
    (folder / answers.name.replace("_samples.jsonl", ".json")).write_text(json.dumps(record))
    assert main([str(path) for path in folder.iterdir()]) == 0, capsys.readouterr().out
    answers.write_text(lines[0].replace('"sample_id"', '"id"'))
    assert main([str(answers)]) == 1
