"""Verification of a Bias Passport: the signatures over the exact bytes, then the statement, then every file.

A signature proves who stated the numbers and that they are unchanged, not that the measurement is valid. Only the
public keys that the verifier provides are trusted; key ids inside an envelope are unauthenticated hints.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from securesystemslib.dsse import Envelope
from securesystemslib.exceptions import UnverifiedSignatureError
from securesystemslib.signer import Signature, SSlibKey  # type: ignore[attr-defined]

from fp2.artifacts import LOCAL_FILES, PASSPORT
from fp2.errors import Fp2Error
from fp2.hashing import sha256_bytes, sha256_file
from fp2.report.keys import load_public_key
from fp2.report.passport import (
    BUNDLE_SUBJECT,
    CERTIFICATES,
    DATASET_SUBJECT,
    DELETION_TYPE,
    MODEL_SUBJECT,
    PARTIAL_TYPE,
    PAYLOAD_TYPE,
    PREDICATE_TYPE,
    REGISTRATION_TYPE,
    STATEMENT_TYPE,
    Statement,
    bundle_digest,
    is_plain_name,
)
from fp2.text import plural

_SHOWN = 8  # unsigned files, or key ids, that are named
_SHOWN_ID = 16  # characters of a key id


@dataclass
class Verification:
    """The outcome: `failures` and `notes` are one line each; `statement` is None unless its signatures are valid.

    `unchecked` names what the passport states the digest of and is not beside it. `signers`: the ids of the trusted
    keys that signed; `payload_digest`: the SHA-256 of the signed bytes.
    """

    failures: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    unchecked: list[str] = field(default_factory=list)
    statement: Statement | None = None
    signers: list[str] = field(default_factory=list)
    payload_digest: str = ""

    @property
    def ok(self) -> bool:
        """Whether the passport is valid."""
        return not self.failures


def verify_passport(
    path: Path,
    public_keys: Sequence[Path],
    threshold: int = 1,
    *,
    allow_missing: bool = False,
    certificates: bool = False,
) -> Verification:
    """Verify a passport and the files beside it.

    Parameters
    ----------
    path : Path
        The `passport.json`.
    public_keys : sequence of Path
        PEM files that the verifier trusts.
    threshold : int
        How many different trusted keys must have signed.
    allow_missing : bool
        Report a missing artifact as a note instead of a failure (for a passport without its files).
    certificates : bool
        Accept a certificate of a deletion or an audit, and a registration, too.

    Raises
    ------
    Fp2Error
        If a public key cannot be used, or the threshold exceeds their number. Defects of the passport are failures.
    """
    keys = {key.keyid: key for key in map(load_public_key, public_keys)}
    if not 1 <= threshold <= len(keys):
        fix = "Give one --key per signer" if threshold >= 1 else "It must be at least 1"
        raise Fp2Error(
            f"the threshold of {threshold} does not fit {plural(len(keys), 'different public key')}", fix=fix
        )
    outcome = signed_statement(path, list(keys.values()), threshold)
    statement = outcome.statement
    if statement is None:
        return outcome
    if (kind := statement["predicateType"]) in CERTIFICATES:
        if certificates and path.name != PASSPORT:
            outcome.notes += _certificate_notes(statement)
        else:  # it states no files: beside a run it would hide that they changed
            outcome.statement = None
            outcome.failures.append(f"{path.name}: is a {CERTIFICATES[kind]}, not a passport")
        return outcome
    _check_files(statement, path.parent, allow_missing, outcome)
    _note_unsigned(statement, path, outcome)
    _check_inputs(statement, path.parent, outcome)
    _describe(statement, path, list(keys.values()), outcome)
    return outcome


def signed_statement(path: Path, keys: Sequence[SSlibKey], threshold: int = 1) -> Verification:
    """Verify the signatures of a passport or certificate by trusted keys, and read what it states; no file beside it.

    `statement` is None, with the reason among the failures, unless `threshold` of the keys signed it.
    """
    outcome = Verification()
    envelope = _read_envelope(path, outcome)
    if envelope is not None and _check_signatures(envelope, keys, threshold, outcome):
        outcome.payload_digest = sha256_bytes(envelope.payload)
        outcome.statement = _read_statement(envelope.payload, outcome)
    return outcome


def _certificate_notes(statement: Statement) -> list[str]:
    """Return what a certificate or registration states, in lines."""
    kind, stated = statement["predicateType"], statement["predicate"]
    if kind == REGISTRATION_TYPE:
        return [f"{name}: {stated.get(name)}" for name in ("registered", "config_hash", "response_set", "answers")]
    if kind != DELETION_TYPE:
        passport = statement["subject"][0]["digest"].get("sha256")
        lines = [f"{name}: {value}" for name, value in stated.items()]
        return [f"an audit of the passport with payload sha256 {passport}", *lines]
    removed = stated.get("removed") or {}
    rows = ", ".join(f"{n} {table}" for table, n in (removed.get("store") or {}).items())
    runs = [
        f"run {run.get('run')} ({run.get('where')}): {run.get('people')} people and {run.get('answers')} answers: "
        f"{run.get('outcome')}"
        for run in removed.get("runs") or ()
    ]
    return [
        f"a certificate of deletion, issued {stated.get('issued')}: {removed.get('people')} people; "
        f"in the response store {rows or 'nothing'}",
        *runs,
        *(f"not reached: {text}" for text in stated.get("not_reached") or ()),
        *(f"STILL THERE: {text}" for text in stated.get("remaining") or ()),
    ]


def read_unverified(path: Path) -> Statement:
    """Return the statement of a passport without verifying who signed it.

    Raises
    ------
    Fp2Error
        If the file is not a passport.
    """
    outcome = Verification()
    envelope = _read_envelope(path, outcome)
    statement = None if envelope is None else _read_statement(envelope.payload, outcome)
    if statement is not None and (noun := CERTIFICATES.get(statement["predicateType"])):
        outcome.failures.append(f"this is a {noun}: fp2 verify prints what it states")
    if statement is None or outcome.failures:
        raise Fp2Error(outcome.failures[0], where=str(path))
    return statement


def payload_digest(path: Path) -> str:
    """Return the SHA-256 of a passport's payload: its name in a later passport's `supersedes`.

    Raises
    ------
    Fp2Error
        If the file is not a passport.
    """
    outcome = Verification()
    envelope = _read_envelope(path, outcome)
    if envelope is None:
        raise Fp2Error(outcome.failures[0])
    return sha256_bytes(envelope.payload)


def _read_envelope(path: Path, outcome: Verification) -> Envelope | None:
    """Parse the DSSE envelope, without trusting it."""
    try:
        raw = _strict_json(path.read_bytes())
        base64.b64decode(raw["payload"], validate=True)
        # named by position: key ids are unauthenticated, and several signatures may claim one
        signatures = {
            str(index): Signature(str(entry.get("keyid", "")), base64.b64decode(entry["sig"], validate=True).hex())
            for index, entry in enumerate(raw["signatures"])
        }
        return Envelope(base64.b64decode(raw["payload"]), str(raw["payloadType"]), signatures)
    except OSError as error:
        outcome.failures.append(f"{path.name}: cannot be read: {error.strerror or error}")
    except _AmbiguousError as error:
        outcome.failures.append(f"{path.name}: {error}")
    except (ValueError, KeyError, TypeError, AttributeError, binascii.Error, RecursionError):
        outcome.failures.append(f"{path.name}: not a passport: no DSSE envelope (payload, payloadType, signatures)")
    return None


def _verifies(key: SSlibKey, signature: Signature, envelope: Envelope) -> bool:
    """Return whether `signature` is a valid one of this key over the envelope."""
    try:
        # the library rejects a signature that claims another key id; the claim is only a hint, so it is replaced
        key.verify_signature(Signature(key.keyid, signature.signature), envelope.pae())
    except UnverifiedSignatureError:
        return False
    return True


def _check_signatures(envelope: Envelope, keys: Sequence[SSlibKey], threshold: int, outcome: Verification) -> bool:
    """Check that there are `threshold` trusted signatures and the payload type of a passport."""
    outcome.signers = [
        key.keyid for key in keys if any(_verifies(key, sig, envelope) for sig in envelope.signatures.values())
    ]
    if len(outcome.signers) < threshold:
        outcome.failures.append(
            f"signature: {len(outcome.signers)} of {plural(threshold, 'required trusted signature')} valid for the "
            f"payload: {_why_not(envelope, [key.keyid for key in keys if key.keyid not in outcome.signers])}"
        )
    if envelope.payload_type != PAYLOAD_TYPE:
        outcome.failures.append(f"payloadType: is {envelope.payload_type[:80]!r}, not {PAYLOAD_TYPE!r}")
    outcome.notes += [f"signed by key {keyid}" for keyid in outcome.signers]
    return outcome.ok


def _why_not(envelope: Envelope, missing: Sequence[str]) -> str:
    """Return the likely reason that these trusted keys have no valid signature: by key ids, which decide nothing."""
    if not envelope.signatures:
        return "the file has no signatures"
    claimed = list(dict.fromkeys(signature.keyid for signature in envelope.signatures.values()))
    if named := [keyid for keyid in missing if keyid in claimed]:
        key_name = "this key" if len(missing) == 1 else f"key {named[0][:_SHOWN_ID]}"
        return f"the file names {key_name}: the payload, its type or the signature was changed"
    other_keys = [keyid[:_SHOWN_ID] for keyid in claimed if keyid]
    return f"the file names other keys ({', '.join(other_keys[:_SHOWN])})" if other_keys else "the file names no key"


def _read_statement(payload: bytes, outcome: Verification) -> Statement | None:
    """Parse the payload and check that it is the statement of a passport."""
    try:
        statement: Statement = _strict_json(payload)
        kinds = (statement["_type"], statement["predicateType"])
        shaped = isinstance(statement["predicate"], dict) and all(
            isinstance(subject["name"], str) and isinstance(subject["digest"], dict) for subject in statement["subject"]
        )
    except _AmbiguousError as error:
        outcome.failures.append(f"payload: {error}")
        return None
    except (ValueError, KeyError, TypeError, RecursionError):
        outcome.failures.append("payload: is not an in-toto statement")
        return None
    types = (PREDICATE_TYPE, PARTIAL_TYPE, *CERTIFICATES)
    if kinds[0] != STATEMENT_TYPE or kinds[1] not in types or not shaped:
        outcome.failures.append(f"payload: is not a Bias Passport ({PREDICATE_TYPE})")
        return None
    if kinds[1] == PARTIAL_TYPE and statement["predicate"].get("complete") is not False:
        outcome.failures.append("payload: the type says PARTIAL, and the run is complete")
        return None
    return statement


def _check_files(statement: Statement, folder: Path, allow_missing: bool, outcome: Verification) -> None:
    """Compare the SHA-256 of every file with the statement."""
    for subject in statement["subject"]:
        if "uri" in subject:
            continue
        name, stated = subject["name"], subject["digest"].get("sha256")
        if not isinstance(stated, str):
            listed = ", ".join(sorted(subject["digest"])) or "nothing"
            outcome.failures.append(f"{name}: is stated by {listed}, not by sha256: it cannot be verified")
            continue
        if not is_plain_name(name) or not (folder / name).resolve().is_relative_to(folder.resolve()):
            outcome.failures.append(f"{name}: is not below the passport's folder")
            continue
        try:
            sha256 = sha256_file(folder / name)
        except FileNotFoundError:
            (outcome.notes if allow_missing else outcome.failures).append(f"{name}: is missing")
        except OSError as error:
            outcome.failures.append(f"{name}: cannot be read: {error.strerror or error}")
        else:
            if sha256 != stated:
                outcome.failures.append(f"{name}: was changed (sha256 is {sha256[:12]}…, stated {str(stated)[:12]}…)")


def _note_unsigned(statement: Statement, path: Path, outcome: Verification) -> None:
    """Name the files beside the passport that it says nothing about: nobody has signed what they show.

    Looked at are its folder and those of the files that it states.
    """
    signed = {subject["name"] for subject in statement["subject"]}
    superseded = path.parent.glob("passport.superseded-*.json")
    expected = {path.name, *LOCAL_FILES, *(old.name for old in superseded)}
    folders = {path.parent, *((path.parent / name).parent for name in signed if is_plain_name(name))}
    other_files = {
        one.relative_to(path.parent).as_posix()
        for folder in folders
        if folder.is_dir()
        for one in folder.iterdir()
        if one.is_file() and not one.name.startswith(".")
    }
    extra = sorted(other_files - signed - expected)
    if extra:
        more = f" and {len(extra) - _SHOWN} more" if len(extra) > _SHOWN else ""
        outcome.notes.append(f"not signed, and not verified: {', '.join(extra[:_SHOWN])}{more}")


class _AmbiguousError(ValueError):
    """Two readers could read the same bytes differently."""


def _strict_json(data: bytes) -> Any:
    """Parse JSON that every reader reads alike.

    Raises
    ------
    ValueError
        If it is not JSON; `_AmbiguousError` if a key comes twice or a text has an unpaired surrogate.
    """

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        value = dict(pairs)
        if len(value) < len(pairs):
            names = [name for name, _ in pairs]
            twice = next(name for name in names if names.count(name) > 1)
            raise _AmbiguousError(f"has the key {twice[:80]!r} twice")
        return value

    value = json.loads(data, object_pairs_hook=unique)
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise _AmbiguousError("has an unpaired surrogate") from None
    return value


def _check_inputs(statement: Statement, folder: Path, outcome: Verification) -> None:
    """Compare the digests of the run's inputs with the results beside the passport."""
    stated = {s["name"]: s["digest"] for s in statement["subject"] if "uri" in s}
    names_of: dict[str, str] = {}
    try:
        results = json.loads((folder / "results.json").read_bytes())
        names_of = {DATASET_SUBJECT: results["dataset_digest"], BUNDLE_SUBJECT: bundle_digest(results)}
    except FileNotFoundError:
        pass
    except (OSError, ValueError, KeyError, TypeError) as error:
        if not any(failure.startswith("results.json:") for failure in outcome.failures):
            outcome.failures.append(f"results.json: cannot be read: {error}")
    for name, digests in stated.items():
        if name not in names_of:
            listed = ", ".join(f"{kind} {value}" for kind, value in sorted(digests.items()))
            name_shown = f"{name} weights" if name == MODEL_SUBJECT else name
            outcome.unchecked.append(name_shown)
            outcome.notes.append(f"{name_shown}: stated as {listed}")
        elif str(names_of[name]).removeprefix("sha256:") != digests.get("sha256"):
            outcome.failures.append(f"{name}: differs from results.json")


def _describe(statement: Statement, path: Path, keys: Sequence[SSlibKey], outcome: Verification) -> None:
    """Add notes: a partial run, uncommitted code, earlier and later passports."""
    predicate = statement["predicate"]
    if predicate.get("complete") is not True:
        outcome.notes.append("PARTIAL: the run is not complete, and its severity is withheld")
    if (predicate.get("generator") or {}).get("dirty"):
        outcome.notes.append("written by code with uncommitted changes (generator.dirty)")
    if earlier := (predicate.get("supersedes") or {}).get("sha256"):
        outcome.notes.append(f"supersedes the passport with payload sha256 {earlier}")
    for other in sorted(path.parent.glob("*.json")):
        if other.resolve() != path.resolve() and _supersedes(other, outcome.payload_digest, keys):
            outcome.notes.append(f"superseded by {other.name}: use that one")


def _supersedes(other: Path, own_digest: str, keys: Sequence[SSlibKey]) -> bool:
    """Return whether `other` is a passport, signed by a trusted key, that supersedes the digest `own_digest`."""
    statement = signed_statement(other, keys).statement
    return statement is not None and (statement["predicate"].get("supersedes") or {}).get("sha256") == own_digest
