"""`fp2 verify`, `fp2 sign` and `fp2 keygen`."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from fp2.artifacts import as_user_error
from fp2.commands.output import Output
from fp2.errors import Fp2Error
from fp2.text import printable


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


def keygen(path: Path, passphrase: str | None, overwrite: bool, as_json: bool = False) -> None:
    """Create a key pair and print its paths."""
    from fp2.report.keys import generate_key

    key = generate_key(path, passphrase, overwrite)
    with Output(as_json) as out:
        out.say(f"private key (keep it secret): {key.private_path}", private=str(key.private_path))
        out.say(f"public key (publish it): {key.public_path}", public=str(key.public_path))
