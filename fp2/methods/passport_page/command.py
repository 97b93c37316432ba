"""`fp2 passport`: writes a passport as a page to read."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path

from fp2.extension import Fp2Error, Output, artifacts, load_config


def readable(
    passport: Path, keys: list[Path], threshold: int, html: Path | None, pdf: Path | None, overrides: Sequence[str],
    as_json: bool = False,
) -> int:  # fmt: skip
    """Write a passport as a page to read; return 0, or 1 if it was verified with keys and is not valid."""
    from fp2.extension import (
        Verification,
        payload_digest,
        read_unverified,
        recorded_folders,
        recording,
        verify_passport,
    )
    from fp2.methods.passport_page.page import document, to_html, to_pdf

    if html is None and pdf is None:
        raise Fp2Error("no file is given", where="fp2 passport", fix="Add --html FILE or --pdf FILE")
    outcome = verify_passport(passport, keys, threshold) if keys else Verification(statement=read_unverified(passport))
    if outcome.statement is None:
        raise Fp2Error(outcome.failures[0], where=str(passport))
    page = document(outcome, len(keys), payload_digest(passport))
    state, run_id = Path(load_config(overrides).paths.state), str(outcome.statement["predicate"]["run"]["run_id"])
    is_local = run_id in recorded_folders(state)  # a purge here finds what was written from it
    with Output(as_json) as out, recording(state, [run_id], (html, pdf)) if is_local else nullcontext():
        for kind, path, data in (("html", html, to_html(page).encode()), ("pdf", pdf, to_pdf(page) if pdf else b"")):
            if path is not None:
                with artifacts.as_user_error(path.parent):
                    path.parent.mkdir(parents=True, exist_ok=True)
                    path.write_bytes(data)
                out.say(str(path), **{kind: str(path)})
    return 0 if outcome.ok else 1
