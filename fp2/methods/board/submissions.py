"""Passports of a folder: who signed them, which can be compared, and why others are refused.

A folder holds passports (`*.json` in any folder below it) and, in `keys/`, the public keys of the parties that are
trusted: `keys/PARTY.pem`. Nothing else of a party is read.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from fp2.extension import (
    AUDIT_TYPE,
    Fp2Error,
    Verification,
    digest,
    load_public_key,
    printable,
    reading,
    signed_statement,
)
from fp2.methods.board.pooling import SiteMeans

KEYS = "keys"
NOT_COMPARABLE = (
    "no comparison of groups with the covariances of their means: it was issued by fp2 0.3 or by a run that compares "
    "none"
)


class Audit(NamedTuple):
    """What a party that audited a passport has signed."""

    party: str
    facts: Mapping[str, Any]


@dataclass(frozen=True)
class Submission:
    """A passport that counts: its file, the parties that signed it, its payload's digest, its predicate, and audits."""

    path: str
    parties: tuple[str, ...]
    payload: str
    stated: Mapping[str, Any]
    audits: tuple[Audit, ...] = ()

    @property
    def marks(self) -> tuple[str, ...]:
        """What is known of it: audits of the parties that did not sign it count."""
        by_others = [audit for audit in self.audits if audit.party not in self.parties]
        registered = (self.stated.get("preregistration") or {}).get("as_registered")
        found = {
            "signed": True,
            "recomputed": any(audit.facts.get("recomputed") for audit in by_others),
            "audited": any(audit.facts.get("bound") for audit in by_others),
            "pre-registered": registered is True,
        }
        return tuple(mark for mark, holds in found.items() if holds)

    @property
    def model(self) -> str:
        """What identifies the model: its weights or revision, and how they were quantised."""
        model = self.stated["model"]
        weights = model.get("weights_digest") or (model.get("id"), model.get("revision"))
        return digest([weights, model.get("quantisation")])

    @property
    def model_name(self) -> str:
        """The name of the model, as stated."""
        return reading.plain(reading.model_name(self.stated))

    @property
    def issued(self) -> str:
        """When it was issued, ISO 8601."""
        return str(self.stated["issued"])


class Refused(NamedTuple):
    """A passport that does not count, and why."""

    path: str
    reason: str


class Question(NamedTuple):
    """What makes measurements comparable: they answer one question about one release."""

    probes: str
    scorer: str
    lexicon: str
    release: str
    variant: str
    cut: str
    groups: tuple[str, ...]
    n_probes: int


class Measurement(NamedTuple):
    """A passport's answer to one question."""

    submission: Submission
    means: SiteMeans


@dataclass
class Board:
    """The measurements of each question, and what was refused; `submissions` are the passports that count."""

    submissions: list[Submission] = field(default_factory=list)
    refused: list[Refused] = field(default_factory=list)
    questions: dict[Question, list[Measurement]] = field(default_factory=dict)


def read_board(folder: Path, keys: Sequence[Path], tick: Callable[[], None] = lambda: None) -> Board:
    """Return the passports below a folder by what they can be compared in.

    Parameters
    ----------
    folder : Path
    keys : sequence of Path
        Public keys beside those in `folder/keys`; the name of a file names its party.
    tick : callable
        Called after each passport.

    Raises
    ------
    Fp2Error
        If the folder has no passport, or there is no public key.
    """
    paths = passports_below(folder)
    if not paths:
        raise Fp2Error("no passport", where=str(folder), fix="Put passport.json of runs into folders of it")
    parties: dict[str, str] = {}
    trusted = []
    for path in [*sorted((folder / KEYS).glob("*.pem")), *keys]:
        key = load_public_key(path)
        parties.setdefault(key.keyid, path.name.removesuffix(".pem").removesuffix(".pub"))
        trusted.append(key)
    if not trusted:
        fix = f"Put the public keys of the parties you trust into {folder / KEYS} (PARTY.pem), or add --key FILE"
        raise Fp2Error("no public key to verify passports with", where=str(folder), fix=fix)
    board = Board()
    verified: list[Submission] = []
    audits: dict[str, list[Audit]] = {}
    for path in paths:
        name = path.relative_to(folder).as_posix()
        outcome = signed_statement(path, trusted)
        signers = tuple(sorted({parties[keyid] for keyid in outcome.signers}))
        statement = outcome.statement
        if statement is not None and statement["predicateType"] == AUDIT_TYPE:
            audits.setdefault(_audited(statement), []).extend(Audit(party, statement["predicate"]) for party in signers)
        elif (reason := _invalid(outcome)) is not None:
            board.refused.append(Refused(name, reason))
        elif statement is not None:
            verified.append(Submission(name, signers, outcome.payload_digest, statement["predicate"]))
        tick()
    verified = [replace(each, audits=tuple(audits.get(each.payload, ()))) for each in verified]
    for submission, reason in _counted(verified):
        measured = {} if reason else measurements(submission.stated)
        if reason or not measured:
            board.refused.append(Refused(submission.path, reason or NOT_COMPARABLE))
            continue
        board.submissions.append(submission)
        for question, means in measured.items():
            board.questions.setdefault(question, []).append(Measurement(submission, means))
    return board


def _audited(statement: Mapping[str, Any]) -> str:
    """Return the payload digest of the passport that an audit is about."""
    return next((str(subject["digest"].get("sha256")) for subject in statement["subject"]), "")


def passports_below(folder: Path) -> list[Path]:
    """Return the files below a folder that are signed statements, in the order of their paths.

    Raises
    ------
    Fp2Error
        If there is no such folder.
    """
    if not folder.is_dir():
        raise Fp2Error("no such folder", where=str(folder))
    paths = []
    for path in sorted(folder.rglob("*.json")):
        try:
            content = json.loads(path.read_bytes())
        except (OSError, ValueError, RecursionError):
            content = {"payload": ""} if path.stem.startswith("passport") else None
        if isinstance(content, dict) and "payload" in content:
            paths.append(path)
    return paths


def _invalid(outcome: Verification) -> str | None:
    """Return why a passport cannot count by itself: its signature, its completeness, its form."""
    if outcome.statement is None:
        return printable(outcome.failures[0])
    stated = outcome.statement["predicate"]
    if stated.get("complete") is not True:
        return "planned answers are missing (PARTIAL)"
    needed = ("model", "dataset", "protocol", "scorers", "statistics", "disparities", "run", "issued")
    if missing := [key for key in needed if key not in stated]:
        return f"it states no {missing[0]}"
    return None


def _counted(submissions: Iterable[Submission]) -> Iterator[tuple[Submission, str]]:
    """Yield each passport, the earliest first, with the reason why it does not count, or an empty text."""
    ordered = sorted(submissions, key=lambda each: (each.issued, each.path))
    replaced = {
        stated["sha256"]: each.path for each in ordered if isinstance(stated := each.stated.get("supersedes"), Mapping)
    }
    seen: dict[str, str] = {}
    for submission in ordered:
        stated = submission.stated
        answers = digest([stated["run"].get("response_set"), stated["scorers"], stated["protocol"].get("cuts")])
        keys = {
            submission.payload: "it is the same passport as",
            answers: "it states the same answers as",
            digest(stated["disparities"]): "it states the same numbers as",
        }
        earlier = next((f"{words} {seen[key]}" for key, words in keys.items() if key in seen), "")
        if accusing := [audit.party for audit in submission.audits if audit.facts.get("differences")]:
            yield submission, f"an audit by {accusing[0]} found differences"
            continue
        if submission.payload in replaced:
            yield submission, f"it was replaced by {replaced[submission.payload]}"
            continue
        yield submission, f"{earlier}, and counts once" if earlier else ""
        if not earlier:
            seen |= dict.fromkeys(keys, submission.path)


def measurements(stated: Mapping[str, Any]) -> dict[Question, SiteMeans]:
    """Return the group means of the primary scorer that a passport states with their covariances, by question."""
    primary = stated["statistics"].get("primary")
    scorer = next((entry for entry in stated["scorers"] if entry["name"] == primary), None)
    if scorer is None:
        return {}
    data = stated["dataset"]
    questions = {}
    for cut, composite in (stated.get("composites") or {}).items():
        probes = composite.get("probes", [])
        matrices = composite.get("covariances", {})
        groups = tuple(group for group in composite.get("groups", []) if group in matrices)
        rows = {r["probe"]: r for r in stated["disparities"] if r["cut"] == cut and r["scorer"] == primary}
        if len(groups) < 2 or any(rows.get(probe, {}).get("dependent_groups", True) for probe in probes):
            continue
        cells = [{cell["group"]: cell for cell in rows[probe]["groups"]} for probe in probes]
        means = [[by_group[group]["mean"] for by_group in cells] for group in groups]
        if any(mean is None for row in means for mean in row):
            continue
        sizes = [min(by_group[group]["n_subjects"] for by_group in cells) for group in groups]
        question = Question(
            str(stated["protocol"].get("probes_digest")),
            f"{primary} {scorer['version']}",
            str((scorer.get("lexicon") or {}).get("sha256", "")),
            " ".join(str(data[key]) for key in ("name", "release") if data.get(key)),
            str((stated["protocol"].get("variant") or {}).get("name", "")),
            cut,
            groups,
            len(probes),
        )
        covariances = np.array([matrices[group] for group in groups], dtype=np.float64)
        questions[question] = SiteMeans(np.array(means), covariances, np.array(sizes, dtype=np.float64))
    return questions
