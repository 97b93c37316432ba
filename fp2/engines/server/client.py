"""An HTTP client for a server: concurrent requests, retried with growing pauses, cancelled at once on interruption.

Requests run in an event loop in their own thread, so that answers are stored while others are on their way, and so that
Ctrl-C does not wait for a slow server. An error message names neither the server nor the key, and repeats no image: it
is stored with the answers.
"""

from __future__ import annotations

import asyncio
import ipaddress
import json
import logging
import re
import ssl
import threading
import zlib
from collections.abc import Coroutine, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from types import TracebackType
from typing import Any, TypeVar
from urllib.parse import urlsplit

from fp2.engines.server.keys import MASK, masked, spellings
from fp2.errors import Fp2Error
from fp2.text import printable

FIRST_PAUSE, LONGEST_PAUSE, JITTER = 0.5, 30.0, 0.5  # seconds
MAX_REPLY = 16_000_000  # bytes, decompressed
LONGEST_WAIT = 300.0  # seconds that a server may ask us to wait
_TRANSIENT = frozenset({408, 425, 429})  # and 500 or above except 501
_DATA = re.compile(r"(data:[\w/+.-]*;base64,)?[A-Za-z0-9+/=_-]{80,}")
_FOLDERS = re.compile(r"(?<![\w/.])(?!/v\d)/(?:[^\s/'\":,;]+/)+")  # all of a path but its last name
IS_PATH = re.compile(r"[/~]|[A-Za-z]:[\\/]")
T = TypeVar("T")


class RefusedError(Exception):
    """The server refuses a request, or its reply cannot be read; another attempt would not help."""

    def __init__(self, message: str, status: int = 0) -> None:
        self.status = status
        super().__init__(message)


class UnreachableError(Exception):
    """There was no usable reply after all attempts; `silent` if there was none at all."""

    def __init__(self, message: str, *, silent: bool = False) -> None:
        self.silent = silent
        super().__init__(message)


class _TransientError(Exception):
    """An error that another attempt may not have; `retry_after` is the pause that the server asks for, in seconds."""

    def __init__(self, message: str, retry_after: float | None = None, *, silent: bool = False) -> None:
        self.retry_after, self.silent = retry_after, silent
        super().__init__(message)


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


def base_name(path: str) -> str:
    """Return the last name of a path."""
    return re.split(r"[\\/]", path.rstrip("\\/"))[-1]


def without_folder(value: Any) -> Any:
    """Return a value that a server reported, a path by its last name only."""
    return base_name(value) if isinstance(value, str) and IS_PATH.match(value) else value


def retry_after(value: str | None, now: datetime) -> float | None:
    """Return the seconds of a Retry-After header: a number or a date (RFC 9110, section 10.2.3)."""
    if value is None:
        return None
    try:
        return max(0.0, float(value))
    except ValueError:
        pass
    try:
        when = parsedate_to_datetime(value)
    except ValueError:
        return None
    return max(0.0, ((when if when.tzinfo else when.replace(tzinfo=UTC)) - now).total_seconds())


class ServerClient:
    """Requests to one server, at most `concurrency` at a time; a context manager.

    Parameters
    ----------
    address : Address
    key : str or None
        Sent as a bearer token.
    hide : Mapping
        Strings that must not appear in messages, and their replacements (the key and the address are added).
    concurrency : int
        Most concurrent requests.
    timeout : float
        Seconds without a sign of the server after which an attempt fails; the whole reply has twice as long.
    attempts : int
        Attempts of a request.
    """

    def __init__(
        self,
        address: Address,
        key: str | None = None,
        *,
        hide: Mapping[str, str] | None = None,
        concurrency: int = 8,
        timeout: float = 120.0,
        attempts: int = 5,
    ) -> None:
        self.address, self.token_limit = address, "max_tokens"
        self._key, self._concurrency, self._timeout, self._attempts = key, concurrency, timeout, attempts
        names = {address.base, address.origin, address.origin.split("//")[1], address.host} - {"localhost"}
        self._secrets = spellings(key) if key else ()
        known = dict.fromkeys((*self._secrets, *([key] if key else [])), MASK)
        self._hide = {**(hide or {}), **known, **dict.fromkeys(names, "the server")}
        self._replies, self._given_up = 0, False
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="server requests", daemon=True)

    def __enter__(self) -> ServerClient:
        self._thread.start()
        self.run(self._open())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Cancel all requests and end the thread."""
        asyncio.run_coroutine_threadsafe(self._close(), self._loop).result(timeout=10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(timeout=10)
        self._loop.close()

    def submit(self, job: Coroutine[Any, Any, T]) -> Future[T]:
        """Start a job in the thread of the requests."""
        return asyncio.run_coroutine_threadsafe(job, self._loop)

    def run(self, job: Coroutine[Any, Any, T]) -> T:
        """Run a job in the thread of the requests and return its result."""
        return self.submit(job).result()

    async def post(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Send `body` as JSON to `base + path`; return the JSON object of the reply.

        Raises
        ------
        RefusedError, UnreachableError
        """
        return await self._request("POST", self.address.base + path, body)

    async def get(self, path: str, *, from_origin: bool = False) -> dict[str, Any]:
        """Return the JSON object at `base + path` (or at `origin + path`); raises as `post` does."""
        return await self._request("GET", (self.address.origin if from_origin else self.address.base) + path, None)

    async def _open(self) -> None:
        import httpx2

        for name in ("httpx2", "httpcore2", "stamina"):
            logging.getLogger(name).setLevel(logging.ERROR)  # they log every request or retry, httpx2 with the address
        no_trust = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # no certificates: loading the usual ones takes long
        self._http = httpx2.AsyncClient(
            headers={
                "Accept-Encoding": "gzip",
                **({"Authorization": f"Bearer {self._key}"} if self._key else {}),
            },
            timeout=httpx2.Timeout(self._timeout, connect=min(10.0, self._timeout), pool=None),
            limits=httpx2.Limits(max_connections=self._concurrency),
            verify=True if self.address.encrypted or not self.address.loopback else no_trust,
            trust_env=not self.address.loopback,  # no proxy for this machine
        )

    async def _close(self) -> None:
        others = [task for task in asyncio.all_tasks(self._loop) if task is not asyncio.current_task()]
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        await self._http.aclose()

    async def _request(self, method: str, url: str, body: Mapping[str, Any] | None) -> dict[str, Any]:
        """Return the reply, after retries of transient errors."""
        import stamina

        number, replies = 0, self._replies
        try:
            async for attempt in stamina.retry_context(
                _pause_after,
                attempts=self._attempts,
                timeout=None,
                wait_initial=FIRST_PAUSE,
                wait_max=LONGEST_PAUSE,
                wait_jitter=JITTER,
            ):
                number = attempt.num
                with attempt:
                    return await self._send(method, url, body)
        except _TransientError as error:
            if error.retry_after is not None and error.retry_after > LONGEST_WAIT:
                raise UnreachableError(f"{error}; it asks to wait {error.retry_after:.0f} s") from error
            # No reply to anyone while this request was tried in vain: the others would wait as long for nothing.
            self._given_up = self._given_up or (error.silent and self._replies == replies)
            tried = f" (tried {number} times)" if number > 1 else ""
            raise UnreachableError(f"{error}{tried}", silent=error.silent) from error
        raise AssertionError("the last attempt returns or raises")

    async def _send(self, method: str, url: str, body: Mapping[str, Any] | None) -> dict[str, Any]:
        """Send a request once."""
        import httpx2

        if self._given_up:
            raise UnreachableError("the server stopped answering", silent=True)
        try:
            async with asyncio.timeout(2 * self._timeout), self._http.stream(method, url, json=body) as reply:
                self._replies += 1
                content = await _read(reply)
        except TimeoutError as error:
            what = f"the server did not end its reply within {2 * self._timeout:g} s"
            raise _TransientError(what, silent=True) from error
        except zlib.error as error:
            raise _TransientError("the server's reply is not compressed as it says") from error
        except httpx2.TimeoutException as error:
            raise _TransientError(f"the server did not answer within {self._timeout:g} s", silent=True) from error
        except (httpx2.TransportError, httpx2.DecodingError) as error:
            raise _TransientError(f"no connection to the server ({type(error).__name__})", silent=True) from error
        status = reply.status_code
        if status in _TRANSIENT or (status >= 500 and status != 501):
            pause = retry_after(reply.headers.get("retry-after"), datetime.now(UTC))
            raise _TransientError(f"the server failed ({status}): {self._message(content)}", pause)
        if status >= 400:
            raise RefusedError(f"the server refused ({status}): {self._message(content)}", status)
        if status >= 300:
            raise RefusedError(f"the server redirects ({status}); give its final address", status)
        try:
            found = masked(json.loads(content), self._secrets)
        except (ValueError, RecursionError) as error:
            raise _TransientError("the server's reply is not JSON") from error
        if not isinstance(found, dict):
            raise RefusedError("the server's reply is not a JSON object")
        return found

    def _message(self, content: bytes) -> str:
        """Return a server's error message in one short line without addresses, keys, folders and images."""
        text = masked(_error_message(content.decode("utf-8", "replace")), ())
        for secret in sorted(self._hide, key=len, reverse=True):
            text = text.replace(secret, self._hide[secret])
        line = " ".join(_DATA.sub("DATA", text).split())
        line = _FOLDERS.sub("", line)
        return printable(line, 200) or "no reason given"


def _pause_after(error: Exception) -> bool | float:
    """Return whether to try again after an error, or the pause before that where the server asks for one."""
    if not isinstance(error, _TransientError):
        return False
    if error.retry_after is None:
        return True
    return error.retry_after if error.retry_after <= LONGEST_WAIT else False


async def _read(reply: Any) -> bytes:
    """Return the body of a reply, decompressed; no more than `MAX_REPLY` bytes are ever held.

    Raises
    ------
    RefusedError
        If it is larger, or in an encoding that was not asked for.
    """
    encoding = str(reply.headers.get("content-encoding", "identity")).strip().lower()
    if encoding not in ("identity", "", "gzip", "deflate"):
        raise RefusedError("the server's reply is in an encoding that was not asked for")
    unpack = zlib.decompressobj(zlib.MAX_WBITS | 32) if encoding in ("gzip", "deflate") else None
    content = bytearray()
    async for chunk in reply.aiter_raw():
        content += unpack.decompress(chunk, MAX_REPLY + 1 - len(content)) if unpack else chunk
        if len(content) > MAX_REPLY:
            raise RefusedError(f"the server's reply is longer than {MAX_REPLY / 1e6:.0f} MB")
    return bytes(content)


def _error_message(text: str) -> str:
    """Return the message of an error body: `error.message`, `message` or `detail`; else the body itself."""
    try:
        found: Any = json.loads(text)
    except (ValueError, RecursionError):
        return text
    for name in ("error", "message", "detail"):
        while isinstance(found, dict) and name in found:
            found = found[name]
    if isinstance(found, list):  # FastAPI lists the errors, with the input beside each
        found = "; ".join(str(item.get("msg", "")) if isinstance(item, dict) else str(item) for item in found)
    return found if isinstance(found, str) else text
