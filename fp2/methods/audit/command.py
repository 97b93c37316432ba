"""What `fp2 audit` does: verify, recompute, draw, compare, and say what follows."""

from __future__ import annotations

import json
import secrets
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from fp2.extension import (
    AUDIT_TYPE,
    KEY_NAME,
    STATEMENT_TYPE,
    Config,
    Fp2Error,
    Output,
    Progress,
    Statement,
    artifacts,
    check_key,
    generator,
    load_config,
    load_or_create_key,
    logged_config,
    payload_digest,
    plural,
    public_path_of,
    sign,
    verify_passport,
    write_text,
)
from fp2.methods.audit.again import ask_again
from fp2.methods.audit.openings import (
    Challenge,
    open_leaves,
    read_challenge,
    read_opened,
    unproven,
    write_opened,
)
from fp2.methods.audit.recompute import recomputed
from fp2.methods.audit.sample import bound

EXIT_DIFFERENT = 1
_HERE = ("paths.", "tracking.")


@dataclass(frozen=True)
class Request:
    """What is audited.

    Attributes
    ----------
    passport : Path
    run : Path, optional
        The folder of the run, with its tables.
    keys : sequence of Path
        Trusted public keys; this machine's if none is given.
    sample : int
        How many answers are drawn; 0: none.
    nonce : str, optional
        The auditor's; random if not given.
    challenge : Path, optional
        Where the challenge is written, to be sent to the holder of the run.
    answers : Path, optional
        The holder's file, in place of the run's folder.
    certificate : Path, optional
        Where the outcome is written, signed by this machine's key.
    """

    passport: Path
    run: Path | None = None
    keys: Sequence[Path] = ()
    sample: int = 0
    nonce: str | None = None
    challenge: Path | None = None
    answers: Path | None = None
    certificate: Path | None = None


def audit(request: Request, overrides: Sequence[str], *, as_json: bool = False) -> int:
    """Print what was audited and what differs; return 0 if nothing does, else 1.

    Raises
    ------
    Fp2Error
        If there is nothing to audit, or a file or setting cannot be used.
    """
    here = load_config([word for word in overrides if word.startswith(_HERE)])
    for path in (request.certificate, request.challenge):
        if path is not None:
            artifacts.check_writable(path)
    if request.certificate is not None:
        check_key(Path(here.paths.keys))
    statement, digest = _verified(request, here)
    stated = statement["predicate"]
    root: Any = stated.get("answers_root")
    folder = request.run or (None if request.answers or request.challenge else _folder_beside(request.passport))
    if folder is None and not request.sample:
        raise Fp2Error("there is nothing to audit", where="fp2 audit", fix="Add --run FOLDER, or --sample 299")
    if request.sample and root is None:
        problem = "the passport commits to no answers: it is of a version before audits, or asked no model"
        raise Fp2Error(problem, where=str(request.passport))
    with Output(as_json) as out:
        differences = _recompute(folder, here, stated, overrides, out) if folder and not request.challenge else []
        if request.sample:
            challenge = Challenge(digest, request.nonce or secrets.token_hex(16), request.sample, root["leaves"])
            out.say(
                f"nonce {challenge.nonce}: {len(challenge.indices)} of {challenge.leaves:,} answers are drawn",
                nonce=challenge.nonce,
                indices=challenge.indices,
            )
            if request.challenge is not None:
                write_text(request.challenge, json.dumps(asdict(challenge)) + "\n")
                out.path("challenge", request.challenge)
                return 0
            differences += _sample(request, challenge, folder, here, stated, overrides, out)
        for line in differences:
            print(f"differs: {line}", file=sys.stderr)
        out.say(
            "nothing differs" if not differences else f"{plural(len(differences), 'difference')}",
            agrees=not differences,
            differences=differences,
        )
        if request.certificate is not None:
            facts = {"recomputed": folder is not None, "bound": out.facts.get("bound"), "differences": len(differences)}
            _certify(request.certificate, digest, facts, here)
            out.path("certificate", request.certificate)
    return EXIT_DIFFERENT if differences else 0


def _verified(request: Request, here: Config) -> tuple[Statement, str]:
    """Return the statement of a passport and the digest of its payload, once its signature and files are verified."""
    own = public_path_of(Path(here.paths.keys) / KEY_NAME)
    keys = list(request.keys) or ([own] if own.is_file() else [])
    if not keys:
        fix = "Give the signer's public key with --key"
        raise Fp2Error("this machine has no signing key", where=str(request.passport), fix=fix)
    path = request.run / artifacts.PASSPORT if request.run and not request.passport.is_file() else request.passport
    digest = payload_digest(path)
    outcome = verify_passport(path, keys, allow_missing=request.run is None or request.run != path.parent)
    if outcome.statement is None or not outcome.ok:
        raise Fp2Error(f"the passport is not valid: {outcome.failures[0]}", where=str(path))
    if request.run is not None and payload_digest(request.run / artifacts.PASSPORT) != digest:
        raise Fp2Error("the run has another passport", where=str(request.run))
    return outcome.statement, digest


def _certify(path: Path, passport: str, facts: Mapping[str, Any], here: Config) -> None:
    """Write what was found as a statement about the passport with this payload digest."""
    predicate = {"issued": datetime.now(UTC).isoformat(timespec="seconds"), "generator": generator(), **facts}
    subject = {"name": "passport", "uri": "urn:fp2:passport", "digest": {"sha256": passport}}
    statement = {"_type": STATEMENT_TYPE, "subject": [subject], "predicateType": AUDIT_TYPE, "predicate": predicate}
    key, _ = load_or_create_key(Path(here.paths.keys))
    write_text(path, json.dumps(sign(statement, key), indent=2) + "\n")


def _folder_beside(passport: Path) -> Path | None:
    return passport.parent if (passport.parent / artifacts.RESULTS).is_file() else None


def _recompute(
    folder: Path, here: Config, stated: Mapping[str, Any], overrides: Sequence[str], out: Output
) -> list[str]:
    differences = list(recomputed(folder, here, stated, overrides))
    n, root = len(stated["disparities"]), stated.get("answers_root")
    committed = f"the root of {root['leaves']:,} answers" if root else "no root, which the passport lacks"
    out.say(f"recomputed from the tables: {plural(n, 'disparity', 'disparities')}, counts, scores, and {committed}")
    return differences


def _sample(
    request: Request,
    challenge: Challenge,
    folder: Path | None,
    here: Config,
    stated: Mapping[str, Any],
    overrides: Sequence[str],
    out: Output,
) -> list[str]:
    """Check the drawn answers, ask the model again for them, and say the bound; return what differs."""
    if request.answers is not None:
        opened = read_opened(request.answers, challenge)
    elif folder is not None:
        opened = open_leaves(folder, here, challenge)
    else:
        raise Fp2Error("the drawn answers are not here", where="--sample", fix="Add --run FOLDER or --answers FILE")
    reasons = unproven(opened, challenge, stated["answers_root"]["sha256"], stated["protocol"]["probes"])
    out.say(f"inclusion proofs: {len(challenge.indices) - len(reasons)} of {len(challenge.indices)} hold")
    proven = [answer for answer in opened if answer.index not in reasons]
    asked = [word for word in overrides if not word.startswith(_HERE)]
    if not asked and folder is None:
        out.say("the model was not asked: give model=NAME data=NAME", asked=False)
        return [f"answer {index} {reason}" for index, reason in reasons.items()]
    if asked and (dtype := stated["model"].get("dtype")) and not any(word.startswith("model.dtype=") for word in asked):
        overrides = [*overrides, f"model.dtype={dtype}"]
    config = load_config(overrides) if asked else logged_config(folder, here, stated["run"]["run_id"])  # type: ignore[arg-type]
    comparison = ask_again(config, proven, stated, Progress(quiet=out.as_json))
    n_compared = len(challenge.indices) - len(comparison.not_asked)
    differ = len(comparison.differ) + len(reasons)
    if n_compared:
        result = bound(differ, n_compared, challenge.leaves, comparison.power)
        out.say(str(result), bound=asdict(result))
    if comparison.odd is not None:
        out.say(str(comparison.odd), odd=asdict(comparison.odd), p=comparison.odd.p_value)
    out.say(asked=True, not_asked=len(comparison.not_asked))
    lines = [f"answer {index} {reason}" for index, reason in reasons.items()] + comparison.differences()
    if comparison.not_asked:
        first = next(iter(comparison.not_asked.values()))
        lines.append(f"{plural(len(comparison.not_asked), 'answer')} could not be asked again: {first}")
    return lines


def answer(challenge: Path, run: Path, to: Path, overrides: Sequence[str], *, as_json: bool = False) -> None:
    """Write the answers of a run that a challenge names, with their proofs, into a file.

    Raises
    ------
    Fp2Error
        If the challenge is of another passport.
    """
    here = load_config(list(overrides))
    read = read_challenge(challenge)
    opened = open_leaves(run, here, read)
    write_text(to, write_opened(read, opened))
    with Output(as_json) as out:
        unknown = sum(not leaf.pixels for leaf in opened)
        out.say(
            f"{plural(len(opened), 'answer')} with proofs; {unknown} of images that this machine does not know",
            answers=len(opened),
            images_unknown=unknown,
        )
        out.path("answers", to)
