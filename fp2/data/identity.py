"""What may be known about a data set outside its folder: a digest of it, and keys in place of its ids."""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal

import pandas as pd

from fp2.errors import Fp2Error
from fp2.hashing import canonical_json
from fp2.tables import ATTRIBUTE_PREFIX, FINE_PLACE_AND_TIME, attribute_columns

_SALT_NAME = "salt"
_SALT_BYTES = 32


def dataset_digest(people: pd.DataFrame, pixel_sha256: Mapping[str, str | None]) -> str:
    """Return the hex SHA-256 of who is in which picture: ids, pixels and attributes, in no particular order.

    `pixel_sha256` maps image_id to the digest of the decoded pixels (None where a picture cannot be read). File paths
    and row order do not enter, so a copy elsewhere has the same digest.

    Raises
    ------
    KeyError
        If an image of `people` has no entry.
    """
    names = sorted(attribute_columns(people))
    attributes = zip(*(people[ATTRIBUTE_PREFIX + name] for name in names), strict=True) if names else iter(())
    lines = []
    for image_id, subject_id in zip(people["image_id"], people["subject_id"], strict=True):
        values = {name: sorted(cell) for name, cell in zip(names, next(attributes, ()), strict=True)}
        lines.append(canonical_json([image_id, subject_id, pixel_sha256[image_id], values]))
    return hashlib.sha256(b"\n".join(sorted(lines))).hexdigest()


def salted(
    ids: Iterable[str], salt: bytes, kind: Literal["subject", "image", "set", "response"] = "subject"
) -> list[str]:
    """Return a key of 32 hex digits for each id: HMAC-SHA256 under `salt` (RFC 2104), cut to 128 bits.

    Without the salt a key cannot be matched to an id. `kind` keeps a subject's key apart from an image's.
    """
    return [hmac.new(salt, f"{kind}:{name}".encode(), hashlib.sha256).hexdigest()[:32] for name in ids]


def local_salt(state_dir: Path) -> bytes:
    """Return the 32 random bytes kept in `state_dir/salt`, made on first use; only the owner can read the file.

    Processes that start at once agree on one salt: the file appears whole or not at all.

    Raises
    ------
    Fp2Error
        If the folder cannot be written or the file is not a salt.
    """
    path = state_dir / _SALT_NAME
    try:
        state_dir.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            _create_salt(path)
        os.chmod(path, 0o600)
        salt = path.read_bytes()
    except OSError as error:
        raise Fp2Error(f"the salt file cannot be used: {error.strerror}", where=str(path)) from None
    if len(salt) != _SALT_BYTES:
        raise Fp2Error(
            "the salt file is damaged", where=str(path), fix="Move it away; new keys will not match old ones"
        )
    return salt


def _create_salt(path: Path) -> None:
    """Write a new salt beside `path` and link it into place, unless another process was first."""
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


def shareable(people: pd.DataFrame, salt: bytes) -> pd.DataFrame:
    """Return `people` as it may leave the data folder: keys for ids, no file paths, no time, no place but UN regions.

    Callers leave out the attributes that nothing in the run uses.
    """
    hidden = ["image_path", "mask_path", *(ATTRIBUTE_PREFIX + name for name in FINE_PLACE_AND_TIME)]
    frame = people.drop(columns=[name for name in hidden if name in people.columns])
    frame["image_id"] = salted(people["image_id"], salt, "image")
    frame["subject_id"] = salted(people["subject_id"], salt)
    known = people["set_id"].notna()
    frame.loc[known, "set_id"] = salted(people.loc[known, "set_id"], salt, "set")
    return frame


def keyed_frame(table: pd.DataFrame, salt: bytes) -> pd.DataFrame:
    """Return a table with salted keys in its columns `image_id`, `subject_id` and `response_key`."""
    # A response key is a plain digest of pixels and public settings: whoever has the images could compute it.
    kinds: dict[str, Any] = {"response_key": "response", "image_id": "image", "subject_id": "subject"}
    changed = {name: salted(table[name], salt, kind) for name, kind in kinds.items() if name in table}
    return table.assign(**changed)
