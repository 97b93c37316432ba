"""Time stamps (RFC 3161): an authority signs the digest of a file and the time, so that it existed by then."""

from __future__ import annotations

import http.client
import urllib.request
from datetime import datetime
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from fp2.extension import Fp2Error

if TYPE_CHECKING:
    from cryptography.x509 import Certificate

SUFFIX = ".tsr"
"""Of the file with the authority's response, after the name of the file that is stamped."""
TIMEOUT, LARGEST = 30, 1_000_000


def check_authority(url: str, root: Path) -> list[Certificate]:
    """Return the certificates in a file (PEM) by which an authority's own is verified; nothing is asked.

    Raises
    ------
    Fp2Error
        If `rfc3161-client` is not installed, the address is none, or the file cannot be read.
    """
    from cryptography.x509 import load_pem_x509_certificates

    if find_spec("rfc3161_client") is None:
        fix = "pip install 'fp2[timestamps]'"
        raise Fp2Error("time stamps need the package rfc3161-client", where="--time-stamp", fix=fix)
    if not url.startswith(("http://", "https://")):
        raise Fp2Error("not the address of an authority", where=f"--time-stamp {url}", fix="https://HOST/PATH")
    try:
        return load_pem_x509_certificates(root.read_bytes())
    except OSError as error:
        raise Fp2Error(f"the certificate cannot be read: {error.strerror}", where=str(root)) from None
    except ValueError:
        raise Fp2Error("the certificate cannot be read: it is no certificate in PEM", where=str(root)) from None


def time_stamp(data: bytes, url: str, root: Path) -> tuple[bytes, datetime]:
    """Return the response of an authority, a DER-encoded `TimeStampResp`, and its time, once it is verified.

    Parameters
    ----------
    url : str
        The authority's address (`http://` or `https://`).
    root : Path
        The certificate (PEM) that its own is verified by.

    Raises
    ------
    Fp2Error
        As `check_authority`; or if the authority does not answer, or another thing than was asked for.
    """
    certificates = check_authority(url, root)
    from rfc3161_client import TimestampRequestBuilder, VerifierBuilder, decode_timestamp_response
    from rfc3161_client.base import HashAlgorithm
    from rfc3161_client.errors import VerificationError

    query = TimestampRequestBuilder(data).hash_algorithm(HashAlgorithm.SHA256).build()
    try:
        request = urllib.request.Request(url, query.as_bytes(), {"Content-Type": "application/timestamp-query"})
        with urllib.request.urlopen(request, timeout=TIMEOUT) as reply:
            stamp = bytes(reply.read(LARGEST))
        response = decode_timestamp_response(stamp)
        verifier = VerifierBuilder.from_request(query)
        for certificate in certificates:
            verifier = verifier.add_root_certificate(certificate)
        verifier.build().verify_message(response, data)
    except (OSError, http.client.HTTPException, ValueError, VerificationError) as error:
        raise Fp2Error(f"no time stamp: {error}", where=url, fix="Nothing was registered") from None
    return stamp, response.tst_info.gen_time
