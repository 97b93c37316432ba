"""`fp2 verify` and `fp2 keygen`."""

from __future__ import annotations

import sys
from pathlib import Path


def verify(passport: Path, keys: list[Path], threshold: int) -> int:
    """Print what holds and what fails; return 0 if everything holds, else 1."""
    from fp2.report.verify import verify_passport

    outcome = verify_passport(passport, keys, threshold)
    for note in outcome.notes:
        print(note)
    for failure in outcome.failures:
        print(f"failed: {failure}", file=sys.stderr)
    print("the passport holds" if outcome.ok else "the passport does NOT hold")
    return 0 if outcome.ok else 1


def keygen(path: Path, passphrase: str | None, overwrite: bool) -> None:
    """Make a key and say where its two halves are."""
    from fp2.report.keys import generate_key

    key = generate_key(path, passphrase, overwrite)
    print(f"private key (keep it): {key.private_path}\npublic key (give it out): {key.public_path}")
