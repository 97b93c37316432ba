"""Opened leaves: what the holder of a run shows of the answers that an audit has drawn, and how it is checked.

A challenge names the leaves; the holder's file has each of them with its proof of inclusion and, where this machine
knows it, the pixels' digest with the blind that opens the commitment to it. It shows no other answer, no id and no
image: only who has the images can tell which one it is.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from fp2.extension import (
    Config,
    Fp2Error,
    image_commitment,
    local_salt,
    logged_config,
    open_commitment,
    payload_digest,
    plural,
    read_results,
    read_tables,
)
from fp2.methods.audit.leaves import Leaf, leaf_hashes, leaves_of, run_cuts
from fp2.methods.audit.sample import draw
from fp2.methods.audit.tree import included, inclusion_proofs, leaf_hash


@dataclass(frozen=True)
class Challenge:
    """Which answers of which passport an auditor wants to see.

    Attributes
    ----------
    passport : str
        SHA-256 of the passport's payload.
    nonce : str
    k, leaves : int
        How many answers are drawn, of how many.
    """

    passport: str
    nonce: str
    k: int
    leaves: int

    @property
    def indices(self) -> list[int]:
        """The leaves that are drawn."""
        return draw(self.passport, self.nonce, self.leaves, self.k)


@dataclass(frozen=True)
class Opened:
    """One leaf with its proof; `pixels` and `blind` open the commitment to the image, where they are known."""

    index: int
    leaf: Leaf
    proof: tuple[str, ...]
    pixels: str = ""
    blind: str = ""


def read_challenge(path: Path) -> Challenge:
    """Return the challenge in a file.

    Raises
    ------
    Fp2Error
        If the file is none.
    """
    try:
        stated = json.loads(path.read_bytes())
        challenge = Challenge(**{name: kind(stated[name]) for name, kind in _CHALLENGE.items()})
        bytes.fromhex(challenge.passport)
    except (OSError, ValueError, KeyError, TypeError) as error:
        fix = "fp2 audit PASSPORT --sample K --challenge FILE writes one"
        raise Fp2Error(f"not a challenge: {error}", where=str(path), fix=fix) from None
    return challenge


_CHALLENGE: Mapping[str, type[Any]] = {"passport": str, "nonce": str, "k": int, "leaves": int}


def open_leaves(folder: Path, here: Config, challenge: Challenge) -> list[Opened]:
    """Return the leaves of a run that a challenge names.

    Raises
    ------
    Fp2Error
        If the run's passport is another than that of the challenge.
    """
    if payload_digest(folder / "passport.json") != challenge.passport:
        raise Fp2Error("the challenge is of another passport than this run's", where=str(folder))
    results, tables = read_results(folder), read_tables(folder, scored=False)
    config = logged_config(folder, here, str(results["run_id"]))
    leaves = list(leaves_of(tables, run_cuts(config, tables)))
    if len(leaves) != challenge.leaves:
        problem = f"the tables have {plural(len(leaves), 'answer')}, the passport states {challenge.leaves}"
        raise Fp2Error(problem, where=str(folder))
    proofs = inclusion_proofs(leaf_hashes(iter(leaves), results["probes"]), challenge.indices)
    pixels = _pixels_here(here)
    return [
        Opened(index, leaves[index], tuple(node.hex() for node in proof), *pixels.get(leaves[index].image, ("", "")))
        for index, proof in zip(challenge.indices, proofs, strict=True)
    ]


def _pixels_here(here: Config) -> dict[str, tuple[str, str]]:
    """Return commitment -> (digest of the pixels, blind) of every image that this machine's store has digested."""
    path, salt = Path(here.paths.store), local_salt(Path(here.paths.state))
    if not path.is_file():
        return {}
    try:
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as connection:
            digests = [row[0] for row in connection.execute("SELECT DISTINCT sha256 FROM pixel_digests")]
    except sqlite3.Error as error:
        raise Fp2Error(f"the digests of images cannot be read: {error}", where=str(path)) from error
    commitments = ((sha256, *image_commitment(sha256, salt)) for sha256 in digests)
    return {commitment: (sha256, blind) for sha256, blind, commitment in commitments}


def write_opened(challenge: Challenge, opened: Sequence[Opened]) -> str:
    """Return opened leaves as JSON."""
    return json.dumps({"challenge": asdict(challenge), "answers": [asdict(leaf) for leaf in opened]}, indent=1) + "\n"


def read_opened(path: Path, challenge: Challenge) -> list[Opened]:
    """Return the opened leaves in a file.

    Raises
    ------
    Fp2Error
        If the file is none, or answers another challenge.
    """
    try:
        stated = json.loads(path.read_bytes())
        answered = stated["challenge"]
        opened = [
            Opened(
                int(row["index"]),
                Leaf(**{**row["leaf"], "groups": tuple((cut, tuple(of_cut)) for cut, of_cut in row["leaf"]["groups"])}),
                tuple(map(str, row["proof"])),
                str(row["pixels"]),
                str(row["blind"]),
            )
            for row in stated["answers"]
        ]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise Fp2Error(f"not a file of answers: {error}", where=str(path), fix="fp2 audit answer CHALLENGE") from None
    if answered != asdict(challenge):
        fix = "Give the nonce and the sample of the challenge"
        raise Fp2Error("the answers are to another challenge", where=str(path), fix=fix)
    return opened


def unproven(
    opened: Sequence[Opened], challenge: Challenge, root: str, probes: Sequence[Mapping[str, Any]]
) -> dict[int, str]:
    """Return leaf -> why it is not shown to be an answer that the passport commits to.

    Parameters
    ----------
    root : str
        The root that the passport states (hex).
    probes : sequence of mapping
        The probes that it states.
    """
    by_id = {probe["id"]: probe for probe in probes}
    shown = {leaf.index: leaf for leaf in opened}
    reasons = {index: "is not shown" for index in challenge.indices if index not in shown}
    for index in challenge.indices:
        if index not in shown:
            continue
        answer = shown[index]
        try:
            path = [bytes.fromhex(node) for node in answer.proof]
            hashed = leaf_hash(answer.leaf.data(by_id))
        except (ValueError, TypeError):
            reasons[index] = "cannot be read"
            continue
        if not included(hashed, index, challenge.leaves, path, bytes.fromhex(root)):
            reasons[index] = "is not in the tree of the passport"
        elif answer.pixels and open_commitment(answer.pixels, answer.blind) != answer.leaf.image:
            reasons[index] = "names another image than the passport commits to"
    return reasons
