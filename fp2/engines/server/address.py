"""Addresses of servers: what `model.base_url` may be."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from fp2.errors import Fp2Error


@dataclass(frozen=True)
class Address:
    """The address of a server; `origin` is `base` without its path."""

    base: str
    origin: str
    host: str
    encrypted: bool

    @property
    def loopback(self) -> bool:
        """Whether the server is on this machine."""
        if self.host == "localhost" or self.host.endswith(".localhost"):
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False


def parse_addresses(base_url: str | Sequence[str]) -> tuple[Address, ...]:
    """Return the parts of an address, or of several.

    Raises
    ------
    Fp2Error
        As `parse_address`, or if an address is there twice.
    """
    given = [base_url] if isinstance(base_url, str) else base_url
    found = tuple(parse_address(str(one)) for one in given)
    if len({address.base for address in found}) < len(found):
        raise Fp2Error("an address is there twice", where="model.base_url", fix="Name every server once")
    return found


def parse_address(base_url: str) -> Address:
    """Return the parts of an address.

    Raises
    ------
    Fp2Error
        If it is not `http(s)://host[:port][/path]`, or contains a password or a query.
    """
    where = "model.base_url"
    fix = "Give http(s)://host:port/v1; the key belongs into the variable that model.api_key_env names"
    try:
        parts = urlsplit(base_url.strip())
        host, _ = parts.hostname, parts.port
    except ValueError as error:
        raise Fp2Error(f"not an address: {error}", where=where, fix=fix) from error
    if parts.scheme not in ("http", "https") or not host:
        raise Fp2Error("not an address of a server", where=where, fix=fix)
    if parts.username or parts.password or parts.query or parts.fragment:
        raise Fp2Error("the address contains a password or a query", where=where, fix=fix)
    origin = f"{parts.scheme}://{parts.netloc}"
    return Address(origin + parts.path.rstrip("/"), origin, host, parts.scheme == "https")
