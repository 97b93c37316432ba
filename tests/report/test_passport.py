"""The passport: what it states, that its bytes are reproducible, and that every kind of tampering is caught by name."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from bench import fp2
from hypothesis import given
from hypothesis import strategies as st

from fp2.errors import Fp2Error
from fp2.report.keys import SigningKey, generate_key
from fp2.report.passport import PARTIAL_TYPE, build_statement, canonical_bytes, countersign, sign, write_passport
from fp2.report.verify import payload_digest, verify_passport

EXTRA = {"decoding": {"temperature": 0.0}, "seeds": {"analysis": 20261}, "issued": "2026-11-21T10:00:00+00:00"}


@pytest.fixture
def key(tmp_path: Path) -> SigningKey:
    return generate_key(tmp_path / "keys" / "lab.pem")


@pytest.fixture
def artifacts(tmp_path: Path, results: dict[str, Any]) -> dict[str, Path]:
    """A run's folder with three files, one of them in a subfolder."""
    run = tmp_path / "run"
    (run / "figures").mkdir(parents=True)
    (run / "results.json").write_text(json.dumps(results))
    (run / "scores.parquet").write_bytes(bytes(range(256)))
    (run / "figures" / "radar.png").write_bytes(b"\x89PNG")
    return {p.relative_to(run).as_posix(): p for p in sorted(run.rglob("*")) if p.is_file()}


@pytest.fixture
def passport(tmp_path: Path, results: dict[str, Any], artifacts: dict[str, Path], key: SigningKey) -> Path:
    return write_passport(tmp_path / "run", results, artifacts, EXTRA, key)


def rewrite(path: Path, change: Callable[[dict[str, Any]], object]) -> None:
    envelope = json.loads(path.read_text())
    change(envelope)
    path.write_text(json.dumps(envelope))


def resign(path: Path, key: SigningKey, change: Callable[[dict[str, Any]], object]) -> None:
    """Change the statement and sign it with the trusted key: what remains to be caught lies beyond the signature."""
    statement = json.loads(base64.b64decode(json.loads(path.read_text())["payload"]))
    change(statement)
    path.write_text(json.dumps(sign(statement, key)))


def test_an_untouched_passport_verifies(passport: Path, key: SigningKey) -> None:
    outcome = verify_passport(passport, [key.public_path])
    assert outcome.ok
    assert outcome.failures == []
    assert any(key.keyid in note for note in outcome.notes)
    assert outcome.statement is not None


def test_what_is_stated(passport: Path, key: SigningKey, artifacts: dict[str, Path], results: dict[str, Any]) -> None:
    statement = verify_passport(passport, [key.public_path]).statement
    assert statement is not None
    assert statement["_type"] == "https://in-toto.io/Statement/v1"
    assert statement["predicateType"].endswith("/bias-passport/v1")
    subjects = {s["name"]: s["digest"] for s in statement["subject"]}
    for name, path in artifacts.items():
        assert subjects[name] == {"sha256": hashlib.sha256(path.read_bytes()).hexdigest()}
    assert subjects["dataset-manifest"] == {"sha256": results["dataset_digest"]}
    assert subjects["model"] == {"sha256": "e" * 64, "gitCommit": results["model"]["revision"]}
    assert len(subjects["prompts-and-lexicons"]["sha256"]) == 64
    predicate = statement["predicate"]
    assert predicate["complete"] is True
    assert predicate["issued"] == EXTRA["issued"]
    assert set(predicate["generator"]) == {"name", "version", "git_commit", "dirty"}
    assert predicate["statistics"]["unit"] == "subject"
    assert predicate["protocol"]["decoding"] == {"temperature": 0.0}
    assert len(predicate["disparities"]) == len(results["disparities"])
    assert predicate["disparities"][0]["raw"] == results["disparities"][0]["raw"]


def test_small_groups_are_not_in_the_passport(passport: Path, key: SigningKey) -> None:
    statement = verify_passport(passport, [key.public_path]).statement
    assert statement is not None
    groups = [g for row in statement["predicate"]["disparities"] for g in row["groups"]]
    small = [g for g in groups if g["n_subjects"] < 10]
    assert small
    assert all(g["mean"] is None and g["sd"] is None for g in small)
    assert any(g["mean"] is not None for g in groups)


def test_the_reporting_minimum_of_the_run_holds_for_its_passport(results: dict[str, Any]) -> None:
    """A larger one withholds more; a smaller one, for pages of one's own, does not publish more."""

    def shown(least: int) -> set[int]:
        rows = build_statement(results, {}, {}, least)["predicate"]["disparities"]
        return {group["n_subjects"] for row in rows for group in row["groups"] if not group["suppressed"]}

    usual = shown(10)
    assert usual
    assert min(usual) >= 10
    assert shown(1) == usual
    assert shown(max(usual)) == {max(usual)}


def test_same_key_and_payload_give_the_same_envelope(
    results: dict[str, Any], artifacts: dict[str, Path], key: SigningKey
) -> None:
    one = sign(build_statement(results, artifacts, EXTRA), key)
    shuffled = dict(reversed(list(results.items())))
    two = sign(build_statement(shuffled, dict(reversed(list(artifacts.items()))), EXTRA), key)
    assert json.dumps(one) == json.dumps(two)


def flip_signature(envelope: dict[str, Any]) -> None:
    raw = bytearray(base64.b64decode(envelope["signatures"][0]["sig"]))
    raw[7] ^= 1
    envelope["signatures"][0]["sig"] = base64.b64encode(raw).decode()


def flip_field(envelope: dict[str, Any]) -> None:
    statement = json.loads(base64.b64decode(envelope["payload"]))
    statement["predicate"]["composite"] = 0.0
    envelope["payload"] = base64.b64encode(canonical_bytes(statement)).decode()


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (flip_field, "the file names this key: the payload, its type or the signature was changed"),
        (flip_signature, "the file names this key: the payload, its type or the signature was changed"),
        (lambda e: e.update(payloadType="application/json"), "payloadType"),
        (
            lambda e: e.update(signatures=[]),
            "signature: 0 of 1 required trusted signature valid for the payload: the file has no signatures",
        ),
        (lambda e: e["signatures"][0].pop("keyid") and flip_signature(e), "the file names no key"),
        (lambda e: e.update(signatures=["x"]), "DSSE envelope"),
        (lambda e: e.update(payload=e["payload"] + "!"), "DSSE envelope"),
        (lambda e: e.pop("payloadType"), "DSSE envelope"),
        (lambda e: e.update(signatures=None), "DSSE envelope"),
    ],
)
def test_a_changed_envelope_fails(
    passport: Path, key: SigningKey, change: Callable[[dict[str, Any]], object], named: str
) -> None:
    rewrite(passport, change)
    outcome = verify_passport(passport, [key.public_path])
    assert not outcome.ok
    assert any(named in line for line in outcome.failures)
    assert outcome.statement is None
    assert all("\n" not in line for line in outcome.failures)


def test_another_key_fails(passport: Path, key: SigningKey, tmp_path: Path) -> None:
    stranger = generate_key(tmp_path / "keys" / "stranger.pem")
    (line,) = verify_passport(passport, [stranger.public_path]).failures
    assert line.endswith(f"the file names other keys ({key.keyid[:16]})")
    (line,) = verify_passport(passport, [key.public_path, stranger.public_path], threshold=2).failures
    assert line.startswith("signature: 1 of 2 required")
    assert "names other keys" in line


def test_key_names_in_the_envelope_decide_nothing(passport: Path, key: SigningKey, tmp_path: Path) -> None:
    stranger = generate_key(tmp_path / "keys" / "stranger.pem")
    rewrite(passport, lambda e: e["signatures"][0].update(keyid=stranger.keyid))
    assert verify_passport(passport, [key.public_path]).ok
    assert not verify_passport(passport, [stranger.public_path]).ok


def test_a_changed_artifact_is_named(passport: Path, key: SigningKey) -> None:
    (passport.parent / "figures" / "radar.png").write_bytes(b"\x89PNG!")
    assert [f.split(":")[0] for f in verify_passport(passport, [key.public_path]).failures] == ["figures/radar.png"]


def test_a_missing_artifact_is_named(passport: Path, key: SigningKey) -> None:
    (passport.parent / "scores.parquet").unlink()
    assert verify_passport(passport, [key.public_path]).failures == ["scores.parquet: is missing"]
    alone = verify_passport(passport, [key.public_path], allow_missing=True)
    assert alone.ok
    assert "scores.parquet: is missing" in alone.notes


def test_results_that_do_not_match_the_stated_inputs_are_named(passport: Path, key: SigningKey) -> None:
    def change(statement: dict[str, Any]) -> None:
        for subject in statement["subject"]:
            if subject["name"] in ("dataset-manifest", "prompts-and-lexicons"):
                subject["digest"]["sha256"] = "0" * 64

    resign(passport, key, change)
    failures = verify_passport(passport, [key.public_path]).failures
    assert failures == [
        "dataset-manifest: differs from results.json",
        "prompts-and-lexicons: differs from results.json",
    ]


@pytest.mark.parametrize("name", ["../outside.txt", "/etc/hostname", "figures/../../outside.txt"])
def test_a_subject_never_leads_out_of_the_folder(passport: Path, key: SigningKey, name: str) -> None:
    resign(passport, key, lambda s: s["subject"].append({"name": name, "digest": {"sha256": "0" * 64}}))
    assert verify_passport(passport, [key.public_path]).failures == [f"{name}: is not below the passport's folder"]


def test_a_signed_payload_that_is_something_else_fails(passport: Path, key: SigningKey) -> None:
    resign(passport, key, lambda s: s.update(predicateType="https://example.org/other/v1"))
    assert "not a Bias Passport" in verify_passport(passport, [key.public_path]).failures[0]
    resign(passport, key, lambda s: s.pop("subject"))
    assert "not an in-toto statement" in verify_passport(passport, [key.public_path]).failures[0]


def test_two_signers_and_a_threshold(passport: Path, key: SigningKey, tmp_path: Path) -> None:
    auditor = generate_key(tmp_path / "keys" / "auditor.pem")
    both = [key.public_path, auditor.public_path]
    assert not verify_passport(passport, both, threshold=2).ok
    passport.write_text(json.dumps(countersign(json.loads(passport.read_text()), auditor)))
    assert verify_passport(passport, both, threshold=2).ok
    assert verify_passport(passport, [auditor.public_path]).ok
    twin = tmp_path / "keys" / "copy.pub.pem"
    twin.write_bytes(key.public_path.read_bytes())
    with pytest.raises(Fp2Error, match="threshold"):
        verify_passport(passport, [key.public_path, twin], threshold=2)
    with pytest.raises(Fp2Error, match="at least 1"):
        verify_passport(passport, both, threshold=0)


def test_one_key_that_signed_twice_is_one_signer(passport: Path, key: SigningKey, tmp_path: Path) -> None:
    auditor = generate_key(tmp_path / "keys" / "auditor.pem")
    rewrite(passport, lambda e: e["signatures"].append({**e["signatures"][0], "keyid": auditor.keyid}))
    assert not verify_passport(passport, [key.public_path, auditor.public_path], threshold=2).ok


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
def test_numbers_that_are_not_finite_are_refused_before_signing(
    results: dict[str, Any], artifacts: dict[str, Path], key: SigningKey, tmp_path: Path, bad: float
) -> None:
    results["disparities"][3]["raw"] = bad
    with pytest.raises(Fp2Error, match=r"not finite.*disparities\[3\]\.raw"):
        write_passport(tmp_path / "run", results, artifacts, EXTRA, key)
    assert not (tmp_path / "run" / "passport.json").exists()


def test_integers_that_json_cannot_hold_are_refused() -> None:
    with pytest.raises(Fp2Error, match="canonical"):
        canonical_bytes({"seed": 2**53})


def test_a_partial_run_says_so(
    other_results: dict[str, Any], artifacts: dict[str, Path], key: SigningKey, tmp_path: Path
) -> None:
    (tmp_path / "run" / "results.json").write_text(json.dumps(other_results))
    path = write_passport(tmp_path / "run", other_results, artifacts, EXTRA, key)
    outcome = verify_passport(path, [key.public_path])
    assert outcome.ok
    assert "PARTIAL: the run is not complete, and its severity is withheld" in outcome.notes
    assert outcome.statement is not None
    assert outcome.statement["predicateType"].endswith("/bias-passport/v1/PARTIAL")
    statement = build_statement({**other_results, "complete": True}, artifacts, EXTRA)
    path.write_text(json.dumps(sign({**statement, "predicateType": PARTIAL_TYPE}, key)), encoding="utf-8")
    assert "PARTIAL, and the run is complete" in verify_passport(path, [key.public_path]).failures[0]


def test_a_passport_knows_which_one_it_replaces(
    passport: Path, results: dict[str, Any], artifacts: dict[str, Path], key: SigningKey, tmp_path: Path
) -> None:
    old = payload_digest(passport)
    kept = passport.rename(passport.with_name("passport.old.json"))
    new = write_passport(tmp_path / "run", results, artifacts, {**EXTRA, "supersedes": old}, key)
    assert any(old in note for note in verify_passport(new, [key.public_path]).notes)
    assert "superseded by passport.json: use that one" in verify_passport(kept, [key.public_path]).notes
    stranger = generate_key(tmp_path / "keys" / "stranger.pem")
    resigned = json.loads(base64.b64decode(json.loads(new.read_text())["payload"]))
    new.write_text(json.dumps(sign(resigned, stranger)))
    assert not any("superseded" in note for note in verify_passport(kept, [key.public_path]).notes)


@pytest.mark.parametrize("name", ["../x", "/x", "a/../x", "passport.json", "a//b", "."])
def test_artifact_names_stay_below_the_folder(results: dict[str, Any], tmp_path: Path, name: str) -> None:
    (tmp_path / "x").write_text("")
    with pytest.raises(Fp2Error, match="below the passport's folder"):
        build_statement(results, {name: tmp_path / "x"}, EXTRA)


def test_mistakes_of_the_caller_are_refused(results: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="decodng"):
        build_statement(results, {}, {"decodng": {}})
    with pytest.raises(Fp2Error, match="cannot be read"):
        build_statement(results, {"gone.txt": tmp_path / "gone.txt"}, {})


@given(st.binary(max_size=300))
def test_no_file_crashes_the_verifier(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    folder = tmp_path_factory.mktemp("v")
    path, key = folder / "passport.json", generate_key(folder / "k.pem")
    path.write_bytes(data)
    assert not verify_passport(path, [key.public_path]).ok


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53) + 1, 2**53 - 1)
    | st.text()
    | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=12,
)


@given(st.dictionaries(st.text(max_size=6), JSON, max_size=4))
def test_canonical_bytes_do_not_depend_on_key_order_and_read_back(value: dict[str, Any]) -> None:
    data = canonical_bytes(value)
    assert data == canonical_bytes(dict(reversed(list(value.items()))))
    assert json.loads(data, parse_int=float) == value


@pytest.mark.parametrize("name", ["payload", "payloadType", "signatures"])
def test_a_key_that_comes_twice_in_the_envelope_fails(passport: Path, key: SigningKey, name: str) -> None:
    """One reader takes the first value, another the last: what was signed must not depend on the reader."""
    text = passport.read_text()
    first = json.dumps("Zm9yZ2Vk" if name != "signatures" else [])
    passport.write_text(text.replace("{", f'{{"{name}": {first}, ', 1))
    failed = verify_passport(passport, [key.public_path])
    assert failed.failures == [f"passport.json: has the key {name!r} twice"]


def test_a_key_that_comes_twice_in_the_payload_fails(passport: Path, key: SigningKey) -> None:
    envelope = json.loads(passport.read_text())
    payload = base64.b64decode(envelope["payload"]).replace(b"{", b'{"_type": "x", ', 1)
    passport.write_text(json.dumps(signed(payload, key)))
    assert verify_passport(passport, [key.public_path]).failures == ["payload: has the key '_type' twice"]


def test_an_unpaired_surrogate_is_one_line(passport: Path, key: SigningKey) -> None:
    payload = base64.b64decode(json.loads(passport.read_text())["payload"])
    broken = payload.replace(b'"name":"results.json"', b'"name":"\\ud800"')
    assert broken != payload
    passport.write_text(json.dumps(signed(broken, key)))
    assert verify_passport(passport, [key.public_path]).failures == ["payload: has an unpaired surrogate"]
    passport.write_text(json.dumps(json.loads(passport.read_text()) | {"payloadType": "\ud800"}))
    assert verify_passport(passport, [key.public_path]).failures == ["passport.json: has an unpaired surrogate"]


@pytest.mark.parametrize(
    "digest", [{"sha512": "00"}, {"md5": "00", "blake3": "1"}, {}, {"sha256": None}, {"sha256": 7}]
)
def test_a_file_that_is_not_stated_by_sha256_fails_in_one_line(
    passport: Path, key: SigningKey, digest: dict[str, Any]
) -> None:
    resign(passport, key, lambda statement: statement["subject"][0].update(digest=digest))
    (line,) = verify_passport(passport, [key.public_path]).failures
    assert "not by sha256: it cannot be verified" in line


def test_files_that_nobody_signed_are_named(
    passport: Path, key: SigningKey, capsys: pytest.CaptureFixture[str]
) -> None:
    (passport.parent / "status.json").write_text("{}")
    assert not any("not signed" in note for note in verify_passport(passport, [key.public_path]).notes)
    (passport.parent / "better\x1b[2J.html").write_text("<b>no bias</b>")
    (passport.parent / "figures" / "other.png").write_bytes(b"")
    outcome = verify_passport(passport, [key.public_path])
    assert outcome.ok
    (line,) = [note for note in outcome.notes if "not signed" in note]
    assert line.endswith("better\x1b[2J.html, figures/other.png")
    assert fp2("verify", str(passport), "--key", str(key.public_path)) == 0
    out = capsys.readouterr().out
    assert "better\\x1b[2J.html" in out
    assert "\x1b" not in out


def signed(payload: bytes, key: SigningKey) -> dict[str, Any]:
    """Return an envelope with a valid signature over any payload."""
    from securesystemslib.dsse import Envelope

    from fp2.report.passport import PAYLOAD_TYPE

    envelope = Envelope(payload, PAYLOAD_TYPE, {})
    envelope.sign(key.signer)
    return dict(envelope.to_dict())
