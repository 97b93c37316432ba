"""Salted keys in place of subject and image ids, and the people table as it may leave the data folder."""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from fp2.errors import Fp2Error
from fp2.tables import ATTRIBUTE_PREFIX, IMAGE_B, IMAGE_DIGEST, MUST_NOT_LEAVE, ORDER, PRIVATE_PREFIX, SUBJECT_B

if TYPE_CHECKING:
    import pandas as pd

IdKind = Literal["subject", "image", "set", "response", "config"]
_SALT_NAME = "salt"
_SALT_BYTES = 32


def salted(ids: Iterable[str], salt: bytes, kind: IdKind = "subject") -> list[str]:
    """Return a key of 32 hex digits for each id: HMAC-SHA256 under `salt` (RFC 2104), cut to 128 bits.

    Ids are normal (`fp2.text.normal_id`): one spelling, one key. Without the salt, a key cannot be matched to an
    id. A subject and an image with one id have different keys (`kind`).
    """
    return [hmac.new(salt, f"{kind}:{name}".encode(), hashlib.sha256).hexdigest()[:32] for name in ids]


def local_salt(state_dir: Path) -> bytes:
    """Return the 32 random bytes of `state_dir/salt`, created on first use; only the owner can read the file.

    The file is created in one step, so that processes that start at the same time use the same salt.
    """
    path = state_dir / _SALT_NAME
    try:
        state_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not path.exists():
            # Write a new salt to a temporary file and link it to `path`, unless another process was first.
            temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
            descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            try:
                with os.fdopen(descriptor, "wb") as handle:
                    handle.write(secrets.token_bytes(_SALT_BYTES))
                os.link(temporary, path)
            except FileExistsError:
                pass
            finally:
                temporary.unlink()
        os.chmod(path, 0o600)
        salt = path.read_bytes()
    except OSError as error:
        raise Fp2Error(f"the salt file cannot be used: {error.strerror}", where=str(path)) from None
    if len(salt) != _SALT_BYTES:
        fix = "Move it away: new keys will not match old ones"
        raise Fp2Error("the salt file is damaged", where=str(path), fix=fix)
    return salt


def image_commitment(pixel_sha256: str, salt: bytes) -> tuple[str, str]:
    """Return (blind, commitment) of an image: SHA-256 of both, of which neither can be found without the other.

    Who holds the salt can open the commitment of one image with its blind, and of no other.
    """
    blind = hmac.new(salt, f"pixels:{pixel_sha256}".encode(), hashlib.sha256).hexdigest()
    return blind, open_commitment(pixel_sha256, blind)


def open_commitment(pixel_sha256: str, blind: str) -> str:
    """Return the commitment that `blind` opens to the digest of an image's pixels."""
    return hashlib.sha256(f"{blind}:{pixel_sha256}".encode()).hexdigest()


_SIGNATURE = "# signed by the project that wrote it: "


def signed(text: str, state_dir: Path) -> str:
    """Return a config as YAML with a last line, a comment, by which this project knows it again (`is_signed`)."""
    return f"{text}{_SIGNATURE}{salted([text], local_salt(state_dir), 'config')[0]}\n"


def is_signed(text: str, state_dir: Path) -> bool:
    """Return whether this project has `signed` the text, unchanged since; False without its salt."""
    body, separator, stated = text.rpartition(_SIGNATURE)
    try:
        salt = (state_dir / _SALT_NAME).read_bytes() if separator else b""
    except OSError:
        return False
    return len(salt) == _SALT_BYTES and hmac.compare_digest(stated, f"{salted([body], salt, 'config')[0]}\n")


def shareable(people: pd.DataFrame, salt: bytes) -> pd.DataFrame:
    """Return `people` as it may leave the data folder: salted keys, no file paths, no months, no places but UN regions.

    Beside each column of keys are the ranks of the ids (`ORDER`).
    A digest of pixels, which whoever has the images could compute, becomes a commitment (`image_commitment`).

    Columns that a data set marks as private (`PRIVATE_PREFIX`) are dropped. Attributes that the run does not use have
    to be dropped by the caller.
    """
    hidden = {"image_path", "mask_path", IMAGE_B, *(ATTRIBUTE_PREFIX + name for name in MUST_NOT_LEAVE)}
    names = people.columns.astype(str)
    frame = people.drop(columns=[name for name in names if name in hidden or name.startswith(PRIVATE_PREFIX)])
    if IMAGE_DIGEST in names:
        committed = {sha: image_commitment(sha, salt)[1] if sha else "" for sha in people[IMAGE_DIGEST].unique()}
        frame[IMAGE_DIGEST] = people[IMAGE_DIGEST].map(committed)
    kinds: dict[str, IdKind] = {"image_id": "image", "subject_id": "subject", "set_id": "set", SUBJECT_B: "subject"}
    present = {name: people[name].dropna() for name in kinds if name in frame}
    for name, ids in present.items():
        alike = {value for other in present if kinds[other] == kinds[name] for value in present[other]}
        ranks = {value: rank for rank, value in enumerate(sorted(alike))}
        frame[name + ORDER] = ids.map(ranks).reindex(people.index).astype("Int64")
        frame.loc[ids.index, name] = salted(ids, salt, kinds[name])
    return frame


def keyed_frame(table: pd.DataFrame, salt: bytes) -> pd.DataFrame:
    """Return a table with salted keys in its columns `image_id`, `subject_id` and `response_key`."""
    # A response key is a plain digest of pixels and public settings: whoever has the images could compute it.
    kinds: dict[str, IdKind] = {"response_key": "response", "image_id": "image", "subject_id": "subject"}
    changed = {name: salted(table[name], salt, kind) for name, kind in kinds.items() if name in table}
    return table.assign(**changed)
