"""Time stamps of a local authority: what is verified, what is refused, and what a registration has beside it."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from bench import Bench
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from fp2.cli import main
from fp2.errors import Fp2Error
from fp2.methods.audit.preregistration import preregister
from fp2.methods.audit.timestamps import SUFFIX, time_stamp

DATA = b"what is stamped"
NOW = datetime.now(UTC).replace(microsecond=0)


def der(tag: int, *parts: bytes) -> bytes:
    """A DER value: tag, length, content."""
    content = b"".join(parts)
    size = len(content)
    length = (
        bytes([size])
        if size < 128
        else (b := size.to_bytes((size.bit_length() + 7) // 8, "big")) and bytes([0x80 | len(b)]) + b
    )
    return bytes([tag]) + length + content


def number(value: int) -> bytes:
    return der(2, value.to_bytes(value.bit_length() // 8 + 1, "big"))


def oid(dotted: str) -> bytes:
    first, second, *rest = map(int, dotted.split("."))
    content = bytes([40 * first + second])
    for arc in rest:
        digits = [arc & 0x7F]
        while arc := arc >> 7:
            digits.append(arc & 0x7F | 0x80)
        content += bytes(reversed(digits))
    return der(6, content)


SHA256 = der(0x30, oid("2.16.840.1.101.3.4.2.1"), der(5))
TST_INFO = oid("1.2.840.113549.1.9.16.1.4")


class Authority:
    """A time-stamping authority: its own certificate is its root."""

    def __init__(self) -> None:
        self.key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "authority")])
        usage = x509.ExtendedKeyUsage([x509.ExtendedKeyUsageOID.TIME_STAMPING])
        self.certificate = (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(name)
            .public_key(self.key.public_key())
            .serial_number(7)
            .not_valid_before(NOW - timedelta(days=1))
            .not_valid_after(NOW + timedelta(days=1))
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .add_extension(usage, critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(self.key.public_key()), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self.key.public_key()), critical=False)
            .sign(self.key, hashes.SHA256())
        )

    def reply(self, query: bytes) -> bytes:
        """The response to a query (RFC 3161, section 2.4), whose digest and nonce are found by their tags."""
        digest = query[query.index(b"\x04\x20") + 2 :][:32]
        nonce = query[query.index(digest) + 32 :]
        nonce = nonce[: nonce[1] + 2]
        info = der(
            0x30,
            number(1),
            oid("1.2.3.4"),
            der(0x30, SHA256, der(4, digest)),
            number(1),
            der(0x18, NOW.strftime("%Y%m%d%H%M%SZ").encode()),
            nonce,
        )
        attributes = der(0x30, oid("1.2.840.113549.1.9.3"), der(0x31, TST_INFO)) + der(
            0x30, oid("1.2.840.113549.1.9.4"), der(0x31, der(4, hashlib.sha256(info).digest()))
        )
        signature = self.key.sign(der(0x31, attributes), ec.ECDSA(hashes.SHA256()))
        signer = der(
            0x30,
            number(1),
            der(0x30, self.certificate.issuer.public_bytes(), number(7)),
            SHA256,
            der(0xA0, attributes),
            der(0x30, oid("1.2.840.10045.4.3.2")),
            der(4, signature),
        )
        certificate = self.certificate.public_bytes(serialization.Encoding.DER)
        signed = der(
            0x30,
            number(3),
            der(0x31, SHA256),
            der(0x30, TST_INFO, der(0xA0, der(4, info))),
            der(0xA0, certificate),
            der(0x31, signer),
        )
        token = der(0x30, oid("1.2.840.113549.1.7.2"), der(0xA0, signed))
        return der(0x30, der(0x30, number(0)), token)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """The address of a local authority, and its certificate; it stamps another digest at /other, and breaks at /bad."""
    served = Authority()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            query = self.rfile.read(int(self.headers["Content-Length"]))
            body = served.reply(query)
            if self.path == "/other":
                body = body.replace(hashlib.sha256(DATA).digest(), bytes(32))
            self.send_response(500 if self.path == "/bad" else 200)
            self.end_headers()
            self.wfile.write(b"nothing" if self.path == "/nonsense" else body)

        def log_message(self, *args: Any) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=server.serve_forever, daemon=True).start()
    root = tmp_path_factory.mktemp("authority") / "root.pem"
    root.write_bytes(served.certificate.public_bytes(serialization.Encoding.PEM))
    yield f"http://127.0.0.1:{server.server_port}", root
    server.shutdown()


def test_the_time_is_the_authoritys(authority: tuple[str, Path]) -> None:
    url, root = authority
    stamp, when = time_stamp(DATA, url, root)
    assert when == NOW
    assert hashlib.sha256(DATA).digest() in stamp


@pytest.mark.parametrize("path", ["/other", "/bad", "/nonsense"])
def test_what_does_not_verify_is_refused(authority: tuple[str, Path], path: str) -> None:
    url, root = authority
    with pytest.raises(Fp2Error, match="no time stamp") as caught:
        time_stamp(DATA, url + path, root)
    assert "\n" not in str(caught.value)


def test_another_authority_is_refused(authority: tuple[str, Path], tmp_path: Path) -> None:
    other = tmp_path / "other.pem"
    other.write_bytes(Authority().certificate.public_bytes(serialization.Encoding.PEM))
    with pytest.raises(Fp2Error, match="no time stamp"):
        time_stamp(DATA, authority[0], other)
    with pytest.raises(Fp2Error, match="certificate cannot be read"):
        time_stamp(DATA, authority[0], tmp_path / "gone.pem")
    with pytest.raises(Fp2Error, match="not the address"):
        time_stamp(DATA, "file:///etc/hosts", authority[1])


def test_a_registration_is_stamped_named_and_compared_with(
    bench: Bench, authority: tuple[str, Path], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from test_audit import stated_by

    from fp2.hashing import sha256_file

    target = bench.root / "registration.json"
    preregister(bench.words(), target, authority, as_json=True)
    assert json.loads(capsys.readouterr().out)["time_stamp"] == NOW.isoformat()
    stated = stated_by(bench.run("cut.by=[region]", f"preregistration={target}").folder)["preregistration"]
    assert stated["time_stamp"] == sha256_file(target.with_name(target.name + SUFFIX))
    assert not stated["as_registered"]
    assert {place.split(".")[1] for place in stated["deviations"]} == {"cut"}
    broken = bench.root / "broken.json"
    broken.write_text("{}")
    for word in (f"preregistration={broken}", "preregistration=gone.json"):
        monkeypatch.setattr(sys, "argv", ["fp2", "run", *bench.words(word)])
        with pytest.raises(SystemExit) as raised:
            main()
        assert raised.value.code == 2
        assert "no registration of this machine" in capsys.readouterr().err.strip().splitlines()[-1]
