"""Records of Every Eval Ever: the numbers of the run, in the form that the project's own types take."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from bench import REPOSITORY, results_of

from fp2.report.eval_record import to_every_eval_ever
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


@pytest.fixture
def types() -> Any:
    """The project's own types, which refuse what does not fit its schema."""
    reason = "every-eval-ever needs Python 3.12 and is no dependency: pip install every-eval-ever"
    pytest.importorskip("every_eval_ever", reason=reason)
    from every_eval_ever import eval_types, instance_level_types

    return eval_types.EvaluationLog, instance_level_types.InstanceLevelEvaluationLog


def test_the_projects_own_types_take_the_record_and_the_answers(types: Any, tmp_path: Path) -> None:
    from fp2.methods.recorded.forms.every_eval_ever import EVERY_EVAL_EVER

    record = to_every_eval_ever(results_of(RUN))
    types[0].model_validate_json(record)
    rows = pd.DataFrame({
        "image": ["a.jpg", "b.jpg"], "subject": ["a", "b"], "variant": ["original"] * 2, "probe": ["trust"] * 2,
        "question": ["trust"] * 2, "question_text": ["Kind?"] * 2, "text": ["Yes.", None],
        "status": ["answered", "error"], "error": [None, "timeout"], "p_yes": [0.25, None],
    })  # fmt: skip
    about = {"model": "m", "run_id": "r", "created": 1_700_000_000}
    EVERY_EVAL_EVER.write(tmp_path / "answers.jsonl", rows, about)
    lines = (tmp_path / "answers.jsonl").read_text().splitlines()
    assert len([types[1].model_validate_json(line) for line in lines]) == 2
