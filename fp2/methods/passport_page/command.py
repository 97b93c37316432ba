"""`fp2 passport`: writes a passport as a page to read, or as in-toto's eval-result."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from fp2.extension import Fp2Error, Output, artifacts, load_config

if TYPE_CHECKING:
    pass


def readable(
    passport: Path,
    keys: list[Path],
    threshold: int,
    html: Path | None,
    pdf: Path | None,
    eval_result: Path | None,
    overrides: Sequence[str],
    as_json: bool = False,
) -> int:
    """Write a passport as a page to read or as in-toto's eval-result; return 1 if it was verified and is not valid."""
    from fp2.extension import (
        Verification,
        load_or_create_key,
        payload_digest,
        read_unverified,
        recorded_folders,
        recording,
        sign,
        verify_passport,
    )
    from fp2.methods.passport_page.eval_result import eval_result as to_eval_result
    from fp2.methods.passport_page.page import document, to_html, to_pdf

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
        if not outcome.signers or not outcome.ok:
            problem = (
                f"the passport is not valid: {outcome.failures[0]}" if outcome.failures else "nothing was verified"
            )
            raise Fp2Error(problem, where=str(passport), fix="--eval-result needs --key, and the files of the run")
        key, _ = load_or_create_key(Path(config.paths.keys))
        envelope = sign(to_eval_result(outcome.statement, passport, key.keyid), key)
        attested = (json.dumps(envelope, indent=2) + "\n").encode()
    is_local = run_id in recorded_folders(state)  # a purge here finds what was written from it
    with Output(as_json) as out, recording(state, [run_id], (html, pdf, eval_result)) if is_local else nullcontext():
        for kind, path, data in (
            ("html", html, to_html(page).encode()),
            ("pdf", pdf, to_pdf(page) if pdf else b""),
            ("eval_result", eval_result, attested),
        ):
            if path is not None:
                with artifacts.as_user_error(path.parent):
                    path.parent.mkdir(parents=True, exist_ok=True)
                    path.write_bytes(data)
                out.say(str(path), **{kind: str(path)})
    return 0 if outcome.ok else 1
