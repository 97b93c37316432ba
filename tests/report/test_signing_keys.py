"""Signing keys: made once, owner-only, never overwritten by accident, and every wrong file named."""

from __future__ import annotations

import base64
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
    load_pem_public_key,
)

from fp2.errors import Fp2Error
from fp2.report.keys import generate_key, load_key, load_or_create_key, load_public_key, public_path_of


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_first_use_makes_an_owner_only_key_and_the_next_finds_it(tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "keys"
    key, created = load_or_create_key(folder)
    again, created_again = load_or_create_key(folder)
    assert (created, created_again) == (True, False)
    assert key.keyid == again.keyid
    assert (mode(folder), mode(key.private_path), mode(key.public_path)) == (0o700, 0o600, 0o644)
    assert sorted(p.name for p in folder.iterdir()) == ["passport_key.pem", "passport_key.pub.pem"]
    assert key.note is None


def test_files_are_standard_pem(tmp_path: Path) -> None:
    key = generate_key(tmp_path / "mine.pem")
    assert key.private_path.read_text().startswith("-----BEGIN PRIVATE KEY-----")
    private = load_pem_private_key(key.private_path.read_bytes(), None)
    public = load_pem_public_key(key.public_path.read_bytes())
    assert isinstance(public, Ed25519PublicKey)
    assert private.public_key() == public
    assert load_public_key(key.public_path).keyid == key.keyid


def test_a_passphrase_seals_the_key(tmp_path: Path) -> None:
    path = tmp_path / "sealed.pem"
    key = generate_key(path, passphrase="correct horse")
    assert b"ENCRYPTED" in path.read_bytes()
    assert load_key(path, "correct horse").keyid == key.keyid
    for wrong in (None, "wrong"):
        with pytest.raises(Fp2Error, match="passphrase"):
            load_key(path, wrong)
    with pytest.raises(Fp2Error, match="empty"):
        generate_key(tmp_path / "other.pem", passphrase="")
    with pytest.raises(Fp2Error, match="the key has none"):
        load_key(generate_key(tmp_path / "open.pem").private_path, "needless")


def test_a_key_is_not_overwritten_unless_asked(tmp_path: Path) -> None:
    path = tmp_path / "key.pem"
    before = generate_key(path)
    with pytest.raises(Fp2Error, match="already"):
        generate_key(path)
    assert load_key(path).keyid == before.keyid
    after = generate_key(path, overwrite=True)
    assert load_key(path).keyid == after.keyid != before.keyid
    assert load_public_key(public_path_of(path)).keyid == after.keyid
    assert mode(path) == 0o600


def test_a_loosened_mode_is_tightened_and_a_lost_public_half_comes_back(tmp_path: Path) -> None:
    key, _ = load_or_create_key(tmp_path)
    key.private_path.chmod(0o644)
    key.public_path.unlink()
    again, created = load_or_create_key(tmp_path)
    assert not created
    assert mode(key.private_path) == 0o600
    assert load_public_key(again.public_path).keyid == key.keyid


def test_many_threads_that_start_at_once_share_one_key(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: load_or_create_key(tmp_path / "k"), range(8)))
    assert len({key.keyid for key, _ in found}) == 1
    assert sum(created for _, created in found) == 1
    assert load_public_key(found[0][0].public_path).keyid == found[0][0].keyid


def test_what_is_no_ed25519_key_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.pem"
    with pytest.raises(Fp2Error, match="cannot be read"):
        load_key(path)
    path.write_text("nonsense")
    with pytest.raises(Fp2Error, match="not a private key"):
        load_key(path)
    with pytest.raises(Fp2Error, match="not a public key"):
        load_public_key(path)
    other = X25519PrivateKey.generate()
    path.write_bytes(other.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    with pytest.raises(Fp2Error, match="not an Ed25519"):
        load_key(path)
    with pytest.raises(Fp2Error, match="private key"):
        load_public_key(path)


def test_a_folder_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(Fp2Error, match="cannot be written"):
        generate_key(tmp_path / "file" / "key.pem")


def test_a_public_key_of_small_order_is_refused(tmp_path: Path) -> None:
    """For such a point signatures can be made without any key: S = 0 and R of small order verify for many messages."""
    p = 2**255 - 19
    d = -121665 * pow(121666, -1, p) % p
    root = pow(1 + d, (p + 3) // 8, p)  # of 1 + d, by RFC 8032, section 5.1.3
    if (root * root - 1 - d) % p:
        root = root * pow(2, (p - 1) // 4, p) % p
    squares = [(root - 1) * pow(d, -1, p) % p, (-root - 1) * pow(d, -1, p) % p]  # d y^4 + 2 y^2 - 1 = 0
    roots = []
    for square in squares:
        found = pow(square, (p + 3) // 8, p)
        found = found if found * found % p == square else found * pow(2, (p - 1) // 4, p) % p
        roots += [found, p - found] if found * found % p == square else []
    assert len(roots) == 2
    for y in (0, 1, p - 1, p, p + 1, *roots):
        for sign in (0, 1):
            path = tmp_path / "small.pub.pem"
            raw = (y | sign << 255).to_bytes(32, "little")
            public = Ed25519PublicKey.from_public_bytes(raw)
            path.write_bytes(public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
            with pytest.raises(Fp2Error, match="small order"):
                load_public_key(path)


def test_a_key_of_an_unknown_algorithm_is_one_line(tmp_path: Path) -> None:
    path = tmp_path / "other.pub.pem"
    unknown = bytes.fromhex("302a300506032b6599032100") + bytes(32)  # an object identifier that nothing has
    body = base64.encodebytes(unknown).decode()
    path.write_text(f"-----BEGIN PUBLIC KEY-----\n{body}-----END PUBLIC KEY-----\n")
    with pytest.raises(Fp2Error, match="unknown algorithm"):
        load_public_key(path)
