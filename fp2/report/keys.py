"""Ed25519 signing keys: created once, readable by their owner only, with the public key beside them for verification.

The files are PEM: PKCS#8 for the private key (optionally with a passphrase), SubjectPublicKeyInfo for the public key.
"""

from __future__ import annotations

import os
import stat
import tempfile
from dataclasses import dataclass
from pathlib import Path

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    KeySerializationEncryption,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
    load_pem_public_key,
)
from securesystemslib.signer import CryptoSigner, SSlibKey  # type: ignore[attr-defined]

from fp2.errors import Fp2Error

KEY_NAME = "passport_key.pem"


@dataclass(frozen=True)
class SigningKey:
    """A loaded private key.

    `keyid` names the key in an envelope (an unauthenticated hint, see DSSE). `note` is a line for the user where the
    file system cannot restrict the key to its owner, otherwise None.
    """

    signer: CryptoSigner
    private_path: Path
    public_path: Path
    note: str | None = None

    @property
    def keyid(self) -> str:
        """SHA-256 over the public key's canonical description, as securesystemslib computes it."""
        return str(self.signer.public_key.keyid)


def public_path_of(private_path: Path) -> Path:
    """Return the path of the public key of `private_path`: `NAME.pem` -> `NAME.pub.pem`."""
    return private_path.with_name(f"{private_path.name.removesuffix('.pem')}.pub.pem")


def generate_key(path: Path, passphrase: str | None = None, overwrite: bool = False) -> SigningKey:
    """Create an Ed25519 key pair at `path` (mode 0600, a new folder 0700) and `NAME.pub.pem` beside it.

    The private key is written atomically, and of several processes that create it at the same moment exactly one
    succeeds.

    Raises
    ------
    Fp2Error
        If the key exists (and `overwrite` is False), the passphrase is empty, or the files cannot be written.
    """
    if passphrase == "":
        raise Fp2Error("the passphrase is empty", fix="Omit it for a key without a passphrase")
    private = Ed25519PrivateKey.generate()
    sealed: KeySerializationEncryption = BestAvailableEncryption(passphrase.encode()) if passphrase else NoEncryption()
    pem = private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, sealed)
    try:
        _make_folder(path.parent)
        _publish(path, pem, 0o600, overwrite)
        _publish(public_path_of(path), _public_pem(private), 0o644, overwrite=True)
    except FileExistsError:
        raise Fp2Error(
            "the signing key exists already",
            where=str(path),
            fix="Choose another file, or overwrite it on purpose",
        ) from None
    except OSError as error:
        raise Fp2Error(f"the signing key cannot be written: {error.strerror or error}", where=str(path)) from error
    return SigningKey(CryptoSigner(private), path, public_path_of(path), _mode_note(path))


def load_key(path: Path, passphrase: str | None = None) -> SigningKey:
    """Read the private key at `path`; its mode is set to 0600, and a missing public key is written again.

    Raises
    ------
    Fp2Error
        If the file is missing or unreadable, is not an Ed25519 key in PEM, or the passphrase is missing or wrong.
    """
    try:
        private = load_pem_private_key(path.read_bytes(), passphrase.encode() if passphrase else None)
    except TypeError:
        fix = "Give its passphrase" if not passphrase else "Omit the passphrase: the key has none"
        raise Fp2Error("the passphrase does not fit the signing key", where=str(path), fix=fix) from None
    except (ValueError, UnsupportedAlgorithm) as error:
        problem = "not a private key in PEM"
        raise Fp2Error(
            f"the passphrase is wrong, or {problem}" if passphrase else problem,
            where=str(path),
            fix="Make a key with: fp2 keygen",
        ) from error
    except OSError as error:
        raise Fp2Error(f"the signing key cannot be read: {error.strerror or error}", where=str(path)) from error
    if not isinstance(private, Ed25519PrivateKey):
        raise Fp2Error("the signing key is not an Ed25519 key", where=str(path), fix="Make a key with: fp2 keygen")
    note = _mode_note(path)
    public_path = public_path_of(path)
    if not public_path.exists():
        _publish(public_path, _public_pem(private), 0o644, overwrite=True)
    return SigningKey(CryptoSigner(private), path, public_path, note)


def load_or_create_key(key_dir: Path) -> tuple[SigningKey, bool]:
    """Return the signing key of `key_dir`, created if there is none, and whether it was created.

    Raises
    ------
    Fp2Error
        As `load_key` and `generate_key` do.
    """
    path = key_dir / KEY_NAME
    if not path.exists():
        try:
            return generate_key(path), True
        except Fp2Error:
            if not path.exists():  # another process created it in the meantime
                raise
    return load_key(path), False


def check_key(key_dir: Path) -> None:
    """Raise if the signing key of `key_dir` cannot be read, or cannot be written where there is none: before asking.

    Raises
    ------
    Fp2Error
        As `load_key` and `generate_key` do.
    """
    path = key_dir / KEY_NAME
    if path.exists():
        load_key(path)
        return
    try:
        _make_folder(key_dir)
    except OSError as error:
        raise Fp2Error(f"the signing key cannot be written: {error.strerror}", where=str(path)) from error
    if not os.access(key_dir, os.W_OK):
        raise Fp2Error("the signing key cannot be written: no permission", where=str(path), fix="Set paths.keys")


def load_public_key(path: Path) -> SSlibKey:
    """Read an Ed25519 public key in PEM.

    Raises
    ------
    Fp2Error
        If the file is missing, or is not a public key (in particular if it is a private one).
    """
    try:
        data = path.read_bytes()
        if b"PRIVATE KEY" in data:
            raise Fp2Error("this is a private key", where=str(path), fix="Verify with the public key, NAME.pub.pem")
        public = load_pem_public_key(data)
    except OSError as error:
        raise Fp2Error(f"the public key cannot be read: {error.strerror or error}", where=str(path)) from error
    except (ValueError, UnsupportedAlgorithm) as error:
        raise Fp2Error("not a public key in PEM, or of an unknown algorithm", where=str(path)) from error
    if not isinstance(public, Ed25519PublicKey):
        raise Fp2Error("the public key is not an Ed25519 key", where=str(path))
    if _has_small_order(public):
        raise Fp2Error("the public key is a point of small order: anybody can sign for it", where=str(path))
    return SSlibKey.from_crypto(public)


def _has_small_order(public: Ed25519PublicKey) -> bool:
    """Whether 8 times the public point is the neutral element, for which signatures can be made without a key.

    On -x^2 + y^2 = 1 + d x^2 y^2 (RFC 8032, section 5.1) that depends on y alone: orders 1 and 2 have y = 1 and -1,
    order 4 has y = 0, and a point of order 8 doubles to y = 0, so that x^2 = -y^2 and d y^4 + 2 y^2 - 1 = 0.
    """
    p = 2**255 - 19
    d = -121665 * pow(121666, -1, p) % p
    y = (int.from_bytes(public.public_bytes_raw(), "little") & (2**255 - 1)) % p
    return y * (y * y - 1) * (d * y**4 + 2 * y * y - 1) % p == 0


def _make_folder(folder: Path) -> None:
    """Create an owner-only folder for the key; an existing one keeps its mode.

    Raises
    ------
    NotADirectoryError
        If a file has its name.
    """
    try:
        folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)  # the state folder, where nothing was in it yet
        folder.mkdir(mode=0o700, exist_ok=True)
    except FileExistsError as error:
        raise NotADirectoryError(error.errno, "its folder is a file", str(folder)) from None


def _public_pem(private: Ed25519PrivateKey) -> bytes:
    return private.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


def _publish(path: Path, data: bytes, mode: int, overwrite: bool) -> None:
    """Write `data` to `path` atomically; the temporary file is readable by its owner only.

    Raises
    ------
    FileExistsError
        If `path` exists and `overwrite` is False.
    """
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=".key-")  # mkstemp creates with mode 0600
    draft = Path(name)
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        draft.chmod(mode)
        if overwrite:
            draft.replace(path)
        else:
            _link(draft, path)
    finally:
        draft.unlink(missing_ok=True)


def _link(draft: Path, path: Path) -> None:
    """Give `draft` its name without replacing an existing file, as a rename would."""
    try:
        os.link(draft, path)
    except FileExistsError:
        raise
    except OSError:  # no hard links on this file system: exclusive creation
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as stream:
            stream.write(draft.read_bytes())


def _mode_note(path: Path) -> str | None:
    """Restrict the private key to its owner; return a line for the user where the file system cannot."""
    if os.name != "posix":
        return None
    shared = stat.S_IRWXG | stat.S_IRWXO
    if path.stat().st_mode & shared:
        try:
            path.chmod(0o600)
        except OSError:
            return f"other users can read the signing key {path}, and its mode cannot be changed"
    return f"this file system cannot restrict {path} to its owner" if path.stat().st_mode & shared else None
