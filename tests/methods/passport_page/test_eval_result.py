"""A passport as in-toto's eval-result: the fields of the proposal, signed; what cannot be stated is one line."""

from __future__ import annotations

import base64
import json
import sys

import pytest
from bench import Bench, results_of

from fp2.cli import main
from fp2.hashing import sha256_file
from fp2.methods.passport_page.eval_result import EVAL_RESULT_TYPE

REQUIRED = {
    "evaluator", "evaluatedAt", "suite", "claims", "sampleSize", "model", "dataset", "assuranceLevel", "subjectProfile"
}  # fmt: skip
"""Of in-toto/attestation#575, for a public model and data set."""


def call(monkeypatch: pytest.MonkeyPatch, bench: Bench, *words: str) -> int:
    passport = bench.outputs / "one" / "passport.json"
    monkeypatch.setattr(sys, "argv", ["fp2", "passport", str(passport), *words, *bench.paths])
    with pytest.raises(SystemExit) as raised:
        main()
    return int(raised.value.code or 0)


def test_claims_follow_from_the_disparities(finished: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, key = finished.outputs / "one", finished.root / "state" / "keys" / "passport_key.pub.pem"
    target = finished.root / "eval_result.json"
    assert call(monkeypatch, finished, "--key", str(key), "--eval-result", str(target)) == 0
    envelope = json.loads(target.read_text())
    assert envelope["payloadType"] == "application/vnd.in-toto+json"
    statement = json.loads(base64.b64decode(envelope["payload"]))
    assert statement["predicateType"] == EVAL_RESULT_TYPE
    assert statement["subject"][0]["digest"]["sha256"] == sha256_file(folder / "passport.json")
    stated, results = statement["predicate"], results_of(folder)
    assert set(stated) >= REQUIRED
    rows = [row for row in results["disparities"] if row["scorer"] == results["analysis"]["primary"]]
    assert [claim["passed"] for claim in stated["claims"]] == [row["ci_high"] <= row["smallest_effect"] for row in rows]
    assert [float(claim["threshold"]) for claim in stated["claims"]] == [row["smallest_effect"] for row in rows]
    assert stated["sampleSize"] == results["answers"]["answered"]
    assert stated["model"]["digest"]["sha256"]
    assert "preRegistration" not in stated


def test_what_was_not_verified_is_not_attested(
    finished: Bench, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    target = finished.root / "eval_result.json"
    assert call(monkeypatch, finished, "--eval-result", str(target)) == 2
    assert "nothing was verified" in capsys.readouterr().err
    assert not target.exists()
