"""The Bias Passport: a statement about a run as canonical JSON, signed with Ed25519.

The statement is an in-toto Statement v1 (https://github.com/in-toto/attestation/blob/main/spec/v1/statement.md) from
`results.json` and the artifacts. A `subject` of a statement is a thing with a digest: the files (by their name relative
to the passport) and, as URNs, the inputs of the run (the data set's manifest, the prompts with the lexicons, the model,
and answers that were supplied). It names the code that made it: the version of the package, and the git commit of a
checkout.

DSSE envelope: https://github.com/secure-systems-lab/dsse. The signature is over `DSSEv1 <len type> <type> <len payload>
<payload>`; the payload is RFC 8785 canonical JSON, so equal statements are equal bytes.
"""

from __future__ import annotations

import copy
import functools
import json
import math
import os
import re
import subprocess
import tempfile
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import Any, NotRequired, TypedDict

import rfc8785
from securesystemslib.dsse import Envelope

import fp2
from fp2.artifacts import PASSPORT
from fp2.errors import Fp2Error
from fp2.hashing import digest, sha256_file
from fp2.report.keys import SigningKey
from fp2.report.reading import MIN_CELL, suppress_small_cells
from fp2.results import RunResults

PAYLOAD_TYPE = "application/vnd.in-toto+json"
STATEMENT_TYPE = "https://in-toto.io/Statement/v1"
PREDICATE_TYPE = "urn:fp2:fingerprint2-bench/bias-passport/v1"
PARTIAL_TYPE = f"{PREDICATE_TYPE}/PARTIAL"
"""Of a run with planned answers that are missing."""
DELETION_TYPE = "urn:fp2:fingerprint2-bench/certificate-of-deletion/v1"
"""Of what a purge removed (`fp2.methods.withdrawal.journal`)."""
AUDIT_TYPE = "urn:fp2:fingerprint2-bench/certificate-of-audit/v1"
"""Of what an audit of a passport found; its subject is the payload of the passport."""
REGISTRATION_TYPE = "urn:fp2:fingerprint2-bench/preregistration/v1"
"""Of what a run will ask and test."""
CERTIFICATES = {
    DELETION_TYPE: "certificate of deletion", AUDIT_TYPE: "certificate of an audit", REGISTRATION_TYPE: "registration",
}  # fmt: skip
"""The types of signed statements that are no passport, in words."""
SCHEMA_VERSION = 1
DATASET_SUBJECT, BUNDLE_SUBJECT, MODEL_SUBJECT = "dataset-manifest", "prompts-and-lexicons", "model"
ANSWERS_SUBJECT = "supplied-answers"
EXTRA_KEYS = ("decoding", "preprocessing", "seeds", "issued", "supersedes", "parts")

_PACKAGE = Path(fp2.__file__).resolve().parent
_SHA256 = re.compile(r"(?:sha256:)?([0-9a-f]{64})")
_COMMIT = re.compile(r"[0-9a-f]{40}")


class Subject(TypedDict):
    """A thing with a digest: a file, by its name relative to the passport, or an input of the run, by a URN."""

    name: str
    digest: dict[str, str]
    uri: NotRequired[str]


class Statement(TypedDict):
    """An in-toto statement."""

    _type: str
    subject: list[Subject]
    predicateType: str
    predicate: dict[str, Any]


class Generator(TypedDict):
    """The code that made a passport (`generator`)."""

    name: str
    version: str
    git_commit: str | None
    dirty: bool | None


def bundle_digest(results: RunResults) -> str:
    """Return the SHA-256 over the canonical JSON of the run's probes (exact texts) and scorers (lexicon digests)."""
    return digest({"probes": results["probes"], "scorers": results["scorers"]})


def build_statement(
    results: Mapping[str, Any], artifacts: Mapping[str, Path], extra: Mapping[str, Any], min_cell: int = MIN_CELL
) -> Statement:
    """Return the statement about a run.

    Parameters
    ----------
    results : mapping
        The content of `results.json`.
    artifacts : mapping of str to Path
        Every file of the run, by its name relative to the passport's folder (forward slashes).
    extra : mapping
        `decoding`, `preprocessing`, `seeds` (JSON values; null if not given), `issued` (ISO 8601; now if not given),
        `supersedes` (SHA-256 of the payload of the passport that this one replaces; see `verify.payload_digest`) and
        `parts` (further keys, by method packages).
    min_cell : int
        Groups of fewer subjects are blank, and those of fewer than `MIN_CELL` whatever it is: a passport is published.

    Raises
    ------
    Fp2Error
        If an artifact is missing, or its name is not a path below the passport's folder.
    ValueError
        If `extra` has a key that is not listed above.
    """
    if unknown := set(extra) - set(EXTRA_KEYS):
        raise ValueError(f"unknown in extra: {', '.join(sorted(unknown))}")
    # The inputs of the run are no files beside the passport: each has a URN
    model = results["model"]
    digests: dict[str, dict[str, str]] = {
        DATASET_SUBJECT: _sha256(results["dataset_digest"]),
        BUNDLE_SUBJECT: _sha256(bundle_digest(results)),
        MODEL_SUBJECT: _sha256(model.get("weights_digest")),
        ANSWERS_SUBJECT: _sha256((model.get("supplied") or {}).get("digest")),
    }
    revision = str(model.get("revision") or "")
    if _COMMIT.fullmatch(revision):
        digests[MODEL_SUBJECT]["gitCommit"] = revision
    inputs: list[Subject] = [
        {"name": name, "uri": f"urn:fp2:{name}", "digest": sha256} for name, sha256 in digests.items() if sha256
    ]
    subjects: list[Subject] = []
    for name in sorted(artifacts):
        if not is_plain_name(name) or name == PASSPORT:
            raise Fp2Error("an artifact's name must be a path below the passport's folder", where=name)
        try:
            sha256 = sha256_file(artifacts[name])
        except OSError as error:
            raise Fp2Error(f"an artifact cannot be read: {error.strerror or error}", where=name) from error
        subjects.append({"name": name, "digest": {"sha256": sha256}})
    return {
        "_type": STATEMENT_TYPE,
        "subject": [*subjects, *inputs],
        "predicateType": PREDICATE_TYPE if results["complete"] else PARTIAL_TYPE,
        "predicate": _predicate(suppress_small_cells(results, max(min_cell, MIN_CELL)), extra),
    }


def is_plain_name(name: str) -> bool:
    """Return whether `name` is a relative path below its folder in normal form."""
    pure = PurePosixPath(name)
    return not pure.is_absolute() and ".." not in pure.parts and str(pure) == name and name != "." and "\\" not in name


def _sha256(value: object) -> dict[str, str]:
    """Return a digest set for a hex SHA-256 (with or without its prefix), empty for anything else."""
    match = _SHA256.fullmatch(str(value or ""))
    return {"sha256": match[1]} if match else {}


def _predicate(results: Mapping[str, Any], extra: Mapping[str, Any]) -> dict[str, object]:
    """Return the predicate; in `results`, numbers of groups below the reporting minimum are blank."""
    dataset, analysis = results["dataset"], results["analysis"]
    predicate = {
        "schema_version": SCHEMA_VERSION,
        "issued": extra.get("issued") or datetime.now(UTC).isoformat(timespec="seconds"),
        "complete": bool(results["complete"]),
        "generator": generator(),
        "run": {key: results.get(key) for key in ("run_id", "created", "config_hash", "response_set")},
        "model": dict(results["model"]),
        "dataset": {
            **{key: dataset.get(key) for key in ("name", "release", "settings", "groups")},
            "manifest_digest": results["dataset_digest"],
            "n_images": results["n_images"],
            "n_subjects": results["n_subjects"],
        },
        "protocol": {
            "variant": results.get("variant"),
            "probes": results["probes"],
            "probes_digest": digest(results["probes"]),
            "cuts": results["cuts"],
            "config_hash": results["config_hash"],
            **{key: extra.get(key) for key in ("decoding", "preprocessing", "seeds")},
        },
        "scorers": results["scorers"],
        "statistics": {"unit": "subject", "tests": {}, **analysis},
        "disparities": results["disparities"],
        **{key: results.get(key) for key in ("composite", "composites", "severity", "severity_bounds")},
        "validity": {key: results.get(key) for key in ("answers", "answers_by_group", "diversity")},
        "limitations": results["limitations"],
    }
    if "earlier_looks" in results:
        predicate["earlier_looks"] = results["earlier_looks"]
    if spent := results.get("serving", {}).get("spent"):
        predicate["spent"] = spent
    if "rescored_from" in results:
        predicate["rescored_from"] = results["rescored_from"]
    headlines = {
        name: block["headline"]
        for name, block in results.items()
        if isinstance(block, Mapping) and isinstance(block.get("headline"), Mapping)
    }
    if headlines:
        predicate["findings"] = headlines
    predicate |= extra.get("parts") or {}
    return predicate | ({"supersedes": {"sha256": extra["supersedes"]}} if extra.get("supersedes") else {})


def canonical_bytes(statement: Mapping[str, Any]) -> bytes:
    """Return the RFC 8785 bytes of `statement`.

    Raises
    ------
    Fp2Error
        Naming the first NaN, infinity, integer beyond 2^53 - 1, or value that is not JSON.
    """
    try:
        return rfc8785.dumps(dict(statement))
    except (rfc8785.CanonicalizationError, TypeError, RecursionError) as error:
        position = _first_not_finite(statement, "statement")
        problem = "a number is not finite" if position else f"a value cannot be written as canonical JSON: {error}"
        raise Fp2Error(f"the passport cannot be signed: {problem}", where=position or "statement") from error


def sign(statement: Mapping[str, object], key: SigningKey) -> dict[str, object]:
    """Return the signed DSSE envelope; equal statements and keys give equal envelopes, byte for byte.

    Raises
    ------
    Fp2Error
        If the statement cannot be written canonically (`canonical_bytes`).
    """
    envelope = Envelope(canonical_bytes(statement), PAYLOAD_TYPE, {})
    envelope.sign(key.signer)
    return dict(envelope.to_dict())


def countersign(envelope: Mapping[str, object], key: SigningKey) -> dict[str, Any]:
    """Return the envelope with a further signature (an auditor's, for instance) over the same payload bytes.

    Raises
    ------
    Fp2Error
        If `envelope` is not a DSSE envelope.
    """
    try:
        read = Envelope.from_dict(copy.deepcopy(dict(envelope)))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise Fp2Error("not a signed passport: it has no DSSE envelope") from error
    read.sign(key.signer)
    return dict(read.to_dict())


def write_passport(
    folder: Path,
    results: Mapping[str, Any],
    artifacts: Mapping[str, Path],
    extra: Mapping[str, Any],
    key: SigningKey,
    min_cell: int = MIN_CELL,
) -> Path:
    """Build, sign and write `passport.json` in `folder` (atomically); return its path.

    Raises
    ------
    Fp2Error
        As `build_statement` and `sign` do, or if the file cannot be written.
    """
    envelope = sign(build_statement(results, artifacts, extra, min_cell), key)
    path = folder / PASSPORT
    try:
        write_atomically(path, json.dumps(envelope, indent=2) + "\n")
    except OSError as error:
        raise Fp2Error(f"the passport cannot be written: {error.strerror or error}", where=str(path)) from error
    return path


def write_atomically(path: Path, text: str) -> None:
    """Write `text` as UTF-8 to a temporary file and rename it to `path`."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
    draft = Path(name)
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as stream:
            stream.write(text)
        draft.chmod(0o644)
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


def _first_not_finite(value: object, position: str) -> str | None:
    """Return the place of the first NaN or infinity, as `statement.predicate.disparities[3].raw`, or None."""
    if isinstance(value, float):
        return None if math.isfinite(value) else position
    items: list[tuple[str, object]] = []
    if isinstance(value, Mapping):
        items = [(f"{position}.{key}", item) for key, item in value.items()]
    elif isinstance(value, (list, tuple)):
        items = [(f"{position}[{index}]", item) for index, item in enumerate(value)]
    return next((path for name, item in items if (path := _first_not_finite(item, name))), None)


@functools.cache
def generator() -> Generator:
    """Return `{name, version, git_commit, dirty}`; the last two are None where the package is not a git checkout.

    `dirty` is True when a tracked file differs from the commit, or an untracked one is in the package or the
    configuration: then the commit alone does not identify the code.
    """
    commit = dirty = None
    # an installed copy may be inside an unrelated repository: only one that tracks this file counts
    if _git("ls-files", "--error-unmatch", "__init__.py") is not None:
        commit = _git("rev-parse", "HEAD")
        tracked = _git("status", "--porcelain", "--untracked-files=no", "--", ":/")
        untracked = _git("ls-files", "--others", "--exclude-standard", "--", ".", ":/conf")
        dirty = None if tracked is None or untracked is None else bool(tracked or untracked)
    return {"name": "fp2", "version": fp2.__version__, "git_commit": commit, "dirty": dirty}


def _git(*arguments: str) -> str | None:
    """Return the output of git in the package's folder, or None if it fails or is not installed."""
    command = ["git", "--no-optional-locks", "-C", str(_PACKAGE), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()
