"""`fp2 verify`, `fp2 sign`, `fp2 passport` and `fp2 keygen`."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from fp2.artifacts import as_user_error
from fp2.commands.output import Output
from fp2.compose import load_config
from fp2.errors import Fp2Error
from fp2.text import printable

if TYPE_CHECKING:
    from fp2.report.verify import Verification


def verify(passport: Path, keys: list[Path], threshold: int, as_json: bool = False) -> int:
    """Print what was verified and what failed; return 0 if everything is valid, else 1."""
    from fp2.report.passport import CERTIFICATES
    from fp2.report.verify import payload_digest, verify_passport

    outcome = verify_passport(passport, keys, threshold, certificates=True)
    payload_digest(passport)  # raises for a file that is none
    with Output(as_json) as out:
        for note in outcome.notes:
            out.say(note)
        for failure in outcome.failures:
            print(f"failed: {printable(failure)}", file=sys.stderr)
        not_checked = f"; {', '.join(outcome.unchecked)}: not checked" if outcome.unchecked else ""
        certificate = CERTIFICATES.get(outcome.statement["predicateType"]) if outcome.statement else None
        noun = certificate or "passport"
        valid = f"{noun} valid: signature{'' if certificate else ' and files'}{not_checked}"
        out.say(valid if outcome.ok else f"{noun} NOT valid", valid=outcome.ok)
        out.say(failures=list(outcome.failures), notes=list(outcome.notes), unchecked=list(outcome.unchecked))
    return 0 if outcome.ok else 1


def sign(passport: Path, key: Path, passphrase: str | None, as_json: bool = False) -> None:
    """Add a signature over the same statement to a passport; a second one by the same key is refused."""
    from fp2.report.keys import load_key
    from fp2.report.passport import countersign, write_atomically
    from fp2.report.verify import verify_passport

    signer = load_key(key, passphrase)
    try:
        signed = countersign(json.loads(passport.read_bytes()), signer)
    except (OSError, ValueError) as error:
        raise Fp2Error(f"the passport cannot be read: {error}", where=str(passport)) from error
    if verify_passport(passport, [signer.public_path], certificates=True).statement is not None:
        raise Fp2Error("the passport is signed by this key already", where=str(passport))
    draft = passport.with_name(f".{passport.name}.to-sign")
    with as_user_error(passport.parent):
        try:
            write_atomically(draft, json.dumps(signed, indent=2) + "\n")
            checked = verify_passport(draft, [signer.public_path], certificates=True)  # nobody signs what was changed
            if not checked.ok:
                raise Fp2Error(f"not signed: {checked.failures[0]}", where=str(passport))
            write_atomically(passport, draft.read_text(encoding="utf-8"))
        finally:
            draft.unlink(missing_ok=True)
    with Output(as_json) as out:
        n = len(signed["signatures"])
        out.say(f"signed by {signer.keyid}: {n} signatures", keyid=signer.keyid, signatures=n)


def readable(
    passport: Path, keys: list[Path], threshold: int, html: Path | None, pdf: Path | None, eval_result: Path | None,
    overrides: Sequence[str], as_json: bool = False,
) -> int:  # fmt: skip
    """Write a passport as a page to read or as in-toto's eval-result; return 1 if it was verified and is not valid."""
    from fp2.report.readable import document, to_html, to_pdf
    from fp2.report.verify import Verification, payload_digest, read_unverified, verify_passport
    from fp2.runs.folders import recorded_folders, recording

    if html is pdf is eval_result is None:
        fix = "Add --html FILE, --pdf FILE or --eval-result FILE"
        raise Fp2Error("no file is given", where="fp2 passport", fix=fix)
    outcome = verify_passport(passport, keys, threshold) if keys else Verification(statement=read_unverified(passport))
    if outcome.statement is None:
        raise Fp2Error(outcome.failures[0], where=str(passport))
    page = document(outcome, len(keys), payload_digest(passport))
    config, run_id = load_config(overrides), str(outcome.statement["predicate"]["run"]["run_id"])
    state, attested = Path(config.paths.state), b""
    if eval_result is not None:
        attested = _attested(outcome, passport, Path(config.paths.keys))
    is_local = run_id in recorded_folders(state)  # a purge here finds what was written from it
    with Output(as_json) as out, recording(state, [run_id], (html, pdf, eval_result)) if is_local else nullcontext():
        for kind, path, data in (
            ("html", html, to_html(page).encode()), ("pdf", pdf, to_pdf(page) if pdf else b""),
            ("eval_result", eval_result, attested),
        ):  # fmt: skip
            if path is not None:
                with as_user_error(path.parent):
                    path.parent.mkdir(parents=True, exist_ok=True)
                    path.write_bytes(data)
                out.say(str(path), **{kind: str(path)})
    return 0 if outcome.ok else 1


def _attested(outcome: Verification, passport: Path, keys: Path) -> bytes:
    """Return the passport as in-toto's eval-result, signed with this machine's key."""
    from fp2.report.eval_result import eval_result
    from fp2.report.keys import load_or_create_key
    from fp2.report.passport import sign as signed

    if not outcome.signers or not outcome.ok or outcome.statement is None:
        problem = f"the passport is not valid: {outcome.failures[0]}" if outcome.failures else "nothing was verified"
        raise Fp2Error(problem, where=str(passport), fix="--eval-result needs --key, and the files of the run")
    key, _ = load_or_create_key(keys)
    return (json.dumps(signed(eval_result(outcome.statement, passport, key.keyid), key), indent=2) + "\n").encode()


def keygen(path: Path, passphrase: str | None, overwrite: bool, as_json: bool = False) -> None:
    """Create a key pair and print its paths."""
    from fp2.report.keys import generate_key

    key = generate_key(path, passphrase, overwrite)
    with Output(as_json) as out:
        out.say(f"private key (keep it secret): {key.private_path}", private=str(key.private_path))
        out.say(f"public key (publish it): {key.public_path}", public=str(key.public_path))
