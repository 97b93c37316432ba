"""`fp2 preregister`: the passport says whether a run is as registered, and where not."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from bench import Bench
from test_audit import stated_by

from fp2.cli import main
from fp2.errors import Fp2Error
from fp2.methods.audit.preregistration import preregister, read_registration


@pytest.fixture
def registered(bench: Bench, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    preregister(bench.words(), bench.root / "registration.json", as_json=True)
    facts: dict[str, Any] = json.loads(capsys.readouterr().out)
    return facts


def test_a_run_as_registered_and_one_that_deviates(bench: Bench, registered: dict[str, Any]) -> None:
    assert registered["stored"] == 0
    assert registered["planned"] > 0
    as_registered = stated_by(bench.run().folder)["preregistration"]
    assert (as_registered["as_registered"], as_registered["deviations"]) == (True, [])
    key = bench.root / "state" / "keys" / "passport_key.pub.pem"
    predicate, payload = read_registration(bench.root / "registration.json", [key])
    assert (payload, predicate["answers"]["planned"]) == (as_registered["sha256"], registered["planned"])
    deviating = stated_by(bench.run("cut.by=[region]", "analysis.alpha=0.01").folder)["preregistration"]
    assert not deviating["as_registered"]
    assert deviating["sha256"] == payload
    places = {place.split(".")[1] for place in deviating["deviations"]}
    assert places == {"analysis", "cut"}


def test_a_registration_is_verified_as_what_it_is(
    bench: Bench, registered: dict[str, Any], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path, key = bench.root / "registration.json", bench.root / "state" / "keys" / "passport_key.pub.pem"
    monkeypatch.setattr(sys, "argv", ["fp2", "verify", str(path), "--key", str(key)])
    with pytest.raises(SystemExit) as ended:
        main()
    assert not ended.value.code
    assert "registration valid: signature" in capsys.readouterr().out


def test_a_registration_that_was_changed_is_refused(bench: Bench, registered: dict[str, Any]) -> None:
    path, key = bench.root / "registration.json", bench.root / "state" / "keys" / "passport_key.pub.pem"
    envelope = json.loads(path.read_bytes())
    envelope["payload"] = envelope["payload"][:-8] + "AAAAAAA="
    path.write_text(json.dumps(envelope))
    with pytest.raises(Fp2Error, match="not a registration that can be verified"):
        read_registration(path, [key])


def test_a_run_without_registration_states_none(finished: Bench) -> None:
    assert "preregistration" not in stated_by(Path(finished.outputs / "one"))
