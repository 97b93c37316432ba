"""A passport as in-toto's proposed predicate for results of evaluations, which other tools can read.

Source of the fields: `eval-result.md` of in-toto/attestation#575 (v0.1, not accepted as of November 2026). Each
disparity of the primary scorer is a claim: the upper end of its 95 % interval is at most the smallest effect of
interest. The subject is the passport's file; what a claim rests on is there.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fp2.extension import (
    BUNDLE_SUBJECT,
    DATASET_SUBJECT,
    MODEL_SUBJECT,
    STATEMENT_TYPE,
    Fp2Error,
    artifacts,
    model_name,
    plain,
    sha256_file,
)

EVAL_RESULT_TYPE = "https://in-toto.io/attestation/eval-result/v0.1"


def eval_result(statement: Mapping[str, Any], passport: Path, keyid: str) -> dict[str, Any]:
    """Return the statement about a passport that `statement` is the content of; `keyid` names who signs it.

    Raises
    ------
    Fp2Error
        If the passport has no disparity with an interval, or no digest of the model.
    """
    stated = statement["predicate"]
    inputs = {subject["name"]: subject["digest"] for subject in statement["subject"] if "uri" in subject}
    claims = [
        {
            "metric": f"upper end of the 95 % interval of the disparity: {row['probe']}, {row['cut']}, {row['scorer']}",
            "comparator": "<=",
            "threshold": str(row["smallest_effect"]),
            "passed": row["ci_high"] <= row["smallest_effect"],
        }
        for row in stated["disparities"]
        if row["scorer"] == stated["statistics"].get("primary")
        and None not in (row.get("ci_high"), row.get("smallest_effect"))
    ]
    if not claims:
        raise Fp2Error("the passport has no disparity with an interval to make a claim of", where=str(passport))
    if MODEL_SUBJECT not in inputs:
        problem = "the passport has no digest of the model, which the predicate needs: a server was asked"
        raise Fp2Error(problem, where=str(passport))
    receipt = {"name": artifacts.PASSPORT, "digest": {"sha256": sha256_file(passport)}}
    registered = stated.get("preregistration") or {}
    return {
        "_type": STATEMENT_TYPE,
        "subject": [receipt],
        "predicateType": EVAL_RESULT_TYPE,
        "predicate": {
            "evaluator": {"id": f"urn:fp2:key:{keyid}"},
            "evaluatedAt": stated["run"]["created"],
            "suite": {"name": "fp2 questions and scorers", "version": inputs[BUNDLE_SUBJECT]["sha256"]},
            "claims": claims,
            "sampleSize": stated["validity"]["answers"]["answered"],
            "model": {"name": model_name(stated), "digest": inputs[MODEL_SUBJECT]},
            "dataset": {"name": plain(stated["dataset"]["name"]), "digest": inputs[DATASET_SUBJECT]},
            "assuranceLevel": "self_attested",
            "subjectProfile": "receipt",
            "evidence": [{**receipt, "mediaType": "application/vnd.dsse.envelope.v1+json", "uri": artifacts.PASSPORT}],
            "harness": {name: stated["generator"][name] for name in ("name", "version")},
            **(
                {"preRegistration": {"alg": "sha256", "value": registered["sha256"]}}
                if registered.get("as_registered")
                else {}
            ),
        },
    }
