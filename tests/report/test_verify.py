"""The schema of passports, further signatures, and the verifier that needs no fp2."""

from __future__ import annotations

import base64
import contextlib
import json
import runpy
import sys
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from bench import REPOSITORY, fp2
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from securesystemslib.dsse import Envelope

from fp2.report.keys import SigningKey, generate_key
from fp2.report.passport import build_statement, write_passport
from fp2.report.verify import verify_passport

RELEASED = sorted((REPOSITORY / "tests" / "releases").glob("*/runs/*/passport.json"))


@pytest.fixture
def key(tmp_path: Path) -> SigningKey:
    return generate_key(tmp_path / "keys" / "lab.pem")


@pytest.fixture
def passport(tmp_path: Path, results: dict[str, Any], key: SigningKey) -> Path:
    run = tmp_path / "run"
    run.mkdir()
    (run / "results.json").write_text(json.dumps(results))
    return write_passport(run, results, {"results.json": run / "results.json"}, {}, key)


def schema() -> Any:
    import jsonschema

    text = files("fp2.report").joinpath("schemas/bias-passport-v1.schema.json").read_text(encoding="utf-8")
    jsonschema.Draft202012Validator.check_schema(json.loads(text))
    return jsonschema.Draft202012Validator(json.loads(text))


@pytest.mark.parametrize("path", RELEASED, ids=lambda path: path.parent.name)
def test_every_released_passport_fits_the_schema(path: Path) -> None:
    schema().validate(json.loads(base64.b64decode(json.loads(path.read_text())["payload"])))


def test_what_the_schema_refuses(results: dict[str, Any]) -> None:
    statement = build_statement(results, {}, {})
    schema().validate(statement)
    statement["predicate"]["disparities"][0]["p_value"] = 1.5
    statement["subject"].append({"name": "../x", "digest": {"md5": "0"}})
    del statement["predicate"]["limitations"]
    places = {".".join(map(str, error.path)) for error in schema().iter_errors(statement)}
    last = len(statement["subject"]) - 1
    assert places == {"predicate", "predicate.disparities.0.p_value", f"subject.{last}.name", f"subject.{last}.digest"}


def test_a_further_signature_by_the_command(
    passport: Path, key: SigningKey, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    auditor = generate_key(tmp_path / "auditor.pem")
    assert fp2("sign", str(passport), "--key", str(auditor.private_path)) == 0
    assert verify_passport(passport, [key.public_path, auditor.public_path], 2).ok
    capsys.readouterr()
    assert fp2("sign", str(passport), "--key", str(auditor.private_path)) == 2
    assert "signed by this key already" in capsys.readouterr().err
    assert len(json.loads(passport.read_text())["signatures"]) == 2


def test_nobody_signs_what_was_changed(passport: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    auditor = generate_key(tmp_path / "auditor.pem")
    before = passport.read_bytes()
    (passport.parent / "results.json").write_text("{}")
    assert fp2("sign", str(passport), "--key", str(auditor.private_path)) == 2
    assert "not signed: results.json: was changed" in capsys.readouterr().err
    assert passport.read_bytes() == before
    assert [path.name for path in passport.parent.iterdir() if path.name.startswith(".")] == []


NO_SIGNATURE = "not valid: another key signed it, or its payload was changed"
NO_FORM = "not valid: no Ed25519 key, no signature, or a payload type other than application/vnd.in-toto"


@pytest.mark.parametrize(
    ("tampered", "line"),
    [
        ("", ""),
        ("file", "changed or missing: results.json"),
        ("missing", "changed or missing: results.json"),
        ("payload", NO_SIGNATURE),
        ("signature", NO_SIGNATURE),
        ("type", NO_FORM),
        ("type edited", NO_FORM),
        ("type put back", NO_SIGNATURE),
        ("key", NO_SIGNATURE),
        ("kind of key", NO_FORM),
        ("no signatures", NO_FORM),
    ],
)
def test_the_verifier_without_fp2(
    passport: Path,
    key: SigningKey,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tampered: str,
    line: str,
) -> None:
    public, envelope = key.public_path, json.loads(passport.read_text())
    if tampered == "file":
        (passport.parent / "results.json").write_text("{}")
    elif tampered == "missing":
        (passport.parent / "results.json").unlink()
    elif tampered == "payload":
        payload = base64.b64decode(envelope["payload"]).replace(b'"complete":true', b'"complete":null')
        passport.write_text(json.dumps({**envelope, "payload": base64.b64encode(payload).decode()}))
    elif tampered == "signature":
        passport.write_text(json.dumps({**envelope, "signatures": [{"sig": base64.b64encode(bytes(64)).decode()}]}))
    elif tampered in ("type", "type put back"):  # what is signed for another purpose is no passport
        other = Envelope(base64.b64decode(envelope["payload"]), "text/plain", {})
        other.sign(key.signer)
        back = {"payloadType": envelope["payloadType"]} if tampered == "type put back" else {}
        passport.write_text(json.dumps(other.to_dict() | back))
    elif tampered == "type edited":
        passport.write_text(json.dumps({**envelope, "payloadType": "text/plain"}))
    elif tampered == "no signatures":
        passport.write_text(json.dumps({**envelope, "signatures": []}))
    elif tampered == "kind of key":
        public = tmp_path / "rsa.pem"
        rsa_key = rsa.generate_private_key(public_exponent=65537, key_size=2048).public_key()
        public.write_bytes(rsa_key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    elif tampered == "key":
        public = generate_key(tmp_path / "other.pem").public_path
    script = REPOSITORY / "examples" / "verify_passport.py"
    monkeypatch.setattr(sys, "argv", [str(script), str(passport), str(public)])
    code = contextlib.nullcontext() if not tampered else pytest.raises(SystemExit, match=line)
    with code:
        runpy.run_path(str(script))
    assert capsys.readouterr().out == ("" if tampered else "passport valid\n")
    lines = [one for one in script.read_text().split('"""')[2].splitlines() if one]
    assert len([one for one in lines if "import" not in one]) == 13
    assert "fp2" not in "".join(one for one in lines if "import" in one)
