"""Time stamps (RFC 3161): an authority signs the digest of a file and the time, so that it existed by then."""

from __future__ import annotations

import http.client
import urllib.request
from datetime import datetime
from pathlib import Path

from fp2.extension import Fp2Error

SUFFIX = ".tsr"
"""Of the file with the authority's response, after the name of the file that is stamped."""
TIMEOUT, LARGEST = 30, 1_000_000


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
        If `rfc3161-client` is not installed, the certificate cannot be read, or the authority does not answer, or
        another thing than was asked for.
    """
    try:
        from rfc3161_client import TimestampRequestBuilder, VerifierBuilder, decode_timestamp_response
        from rfc3161_client.base import HashAlgorithm
        from rfc3161_client.errors import VerificationError
    except ImportError:
        fix = "pip install 'fp2[timestamps]'"
        raise Fp2Error("time stamps need the package rfc3161-client", where="--time-stamp", fix=fix) from None
    from cryptography.x509 import load_pem_x509_certificates

    if not url.startswith(("http://", "https://")):
        raise Fp2Error("not the address of an authority", where=f"--time-stamp {url}", fix="https://HOST/PATH")
    try:
        certificates = load_pem_x509_certificates(root.read_bytes())
    except (OSError, ValueError) as error:
        raise Fp2Error(f"the certificate cannot be read: {error}", where=str(root)) from None
    query = TimestampRequestBuilder(data).hash_algorithm(HashAlgorithm.SHA256).build()
    headers = {"Content-Type": "application/timestamp-query"}
    try:
        request = urllib.request.Request(url, query.as_bytes(), headers)
        with urllib.request.urlopen(request, timeout=TIMEOUT) as reply:
            stamp = reply.read(LARGEST)
        response = decode_timestamp_response(stamp)
        verifier = VerifierBuilder.from_request(query)
        for certificate in certificates:
            verifier = verifier.add_root_certificate(certificate)
        verifier.build().verify_message(response, data)
    except (OSError, http.client.HTTPException, ValueError, VerificationError) as error:
        raise Fp2Error(f"no time stamp: {error}", where=url, fix="Nothing was registered") from None
    return stamp, response.tst_info.gen_time
