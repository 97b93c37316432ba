"""`fp2 verify` and `fp2 keygen`."""

from __future__ import annotations

import sys
from pathlib import Path

from fp2.text import printable


def verify(passport: Path, keys: list[Path], threshold: int) -> int:
    """Print what was verified and what failed; return 0 if everything is valid, else 1."""
    from fp2.report.verify import verify_passport

    outcome = verify_passport(passport, keys, threshold)
    for note in outcome.notes:
        print(printable(note))
    for failure in outcome.failures:
        print(f"failed: {printable(failure)}", file=sys.stderr)
    print("passport valid" if outcome.ok else "passport NOT valid")
    return 0 if outcome.ok else 1


def keygen(path: Path, passphrase: str | None, overwrite: bool) -> None:
    """Create a key pair and print its paths."""
    from fp2.report.keys import generate_key

    key = generate_key(path, passphrase, overwrite)
    print(f"private key (keep it secret): {key.private_path}\npublic key (publish it): {key.public_path}")
