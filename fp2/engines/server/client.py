"""Speaking to a server over HTTP: many requests at once, tried again with growing pauses, stopped at once when asked.

Requests run in an event loop in a thread of their own, so that answers can be stored while others are on their way, and
so that Ctrl-C does not wait for a slow server. What is told about a failure names neither the server nor the key, and
repeats no picture: it is kept with the answers.
"""

from __future__ import annotations

import asyncio
import ipaddress
import random
import re
import ssl
import threading
from collections.abc import Coroutine, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from types import TracebackType
from typing import Any, TypeVar
from urllib.parse import urlsplit

from fp2.errors import Fp2Error

FIRST_PAUSE, LONGEST_PAUSE = 0.5, 30.0  # seconds
LONGEST_WISH = 300.0  # the longest Retry-After that is waited for, in seconds
_TRY_AGAIN = frozenset({408, 425, 429})  # and whatever is 500 or above but 501
_DATA = re.compile(r"(data:[\w/+.-]*;base64,)?[A-Za-z0-9+/=_-]{80,}")
_FOLDERS = re.compile(r"(?<![\w/.])(?!/v\d)/(?:[^\s/'\":,;]+/)+")  # of a path, all but its last name
IS_PATH = re.compile(r"[/~]|[A-Za-z]:[\\/]")
T = TypeVar("T")


class RefusedError(Exception):
    """The server says no (or says nothing that can be understood), and would say so again."""

    def __init__(self, message: str, status: int = 0) -> None:
        self.status = status
        super().__init__(message)


class UnreachableError(Exception):
    """There was no answer (`silent`), or only excuses, however often it was tried."""

    def __init__(self, message: str, *, silent: bool = False) -> None:
        self.silent = silent
        super().__init__(message)


@dataclass(frozen=True)
class Address:
    """Where a server is; `origin` is `base` without its path."""

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
    """Check an address and take it apart.

    Raises
    ------
    Fp2Error
        If it is no `http(s)://host[:port][/path]`, or carries a password or a query.
    """
    where, fix = (
        "model.base_url",
        "Give http(s)://host:port/v1; the key goes into the variable that model.api_key_env names",
    )
    try:
        parts = urlsplit(base_url.strip())
        host, _ = parts.hostname, parts.port
    except ValueError as error:
        raise Fp2Error(f"this is no address: {error}", where=where, fix=fix) from error
    if parts.scheme not in ("http", "https") or not host:
        raise Fp2Error("this is no address of a server", where=where, fix=fix)
    if parts.username or parts.password or parts.query or parts.fragment:
        raise Fp2Error("an address must not carry a password or a query", where=where, fix=fix)
    origin = f"{parts.scheme}://{parts.netloc}"
    return Address(origin + parts.path.rstrip("/"), origin, host, parts.scheme == "https")


def base_name(path: str) -> str:
    """Return the last name of a path."""
    return re.split(r"[\\/]", path.rstrip("\\/"))[-1]


def place_free(value: Any) -> Any:
    """Return a value that a server told, a folder by its last name only."""
    return base_name(value) if isinstance(value, str) and IS_PATH.match(value) else value


def pause(attempt: int, wish: float | None, draw: float) -> float:
    """Return how long to wait (seconds) after failure number `attempt` (from 0).

    Doubles from `FIRST_PAUSE` up to `LONGEST_PAUSE`, half of it drawn by chance (`draw` in [0, 1)) so that requests
    that failed together do not come back together; never shorter than what the server wishes.
    """
    longest = min(LONGEST_PAUSE, FIRST_PAUSE * 2.0**attempt)
    return max(longest * (1 + draw) / 2, wish or 0.0)


def retry_after(value: str | None, now: datetime) -> float | None:
    """Return the seconds that a Retry-After header asks for: a number or a date (RFC 9110, section 10.2.3)."""
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
        What must not appear in messages, and what is said in its place (the key and the address are added).
    concurrency : int
        Requests on their way at once.
    timeout : float
        Seconds without a sign of the server after which a try has failed.
    attempts : int
        How often a request is tried.
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
        self._hide = {**(hide or {}), **({key: "KEY"} if key else {}), **dict.fromkeys(names, "the server")}
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="server requests", daemon=True)

    def __enter__(self) -> ServerClient:
        self._thread.start()
        self.run(self._open())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Break off what is on its way and end the thread."""
        asyncio.run_coroutine_threadsafe(self._close(), self._loop).result(timeout=10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(timeout=10)
        self._loop.close()

    def submit(self, job: Coroutine[Any, Any, T]) -> Future[T]:
        """Start a job in the thread of the requests."""
        return asyncio.run_coroutine_threadsafe(job, self._loop)

    def run(self, job: Coroutine[Any, Any, T]) -> T:
        """Do a job and wait for what comes of it."""
        return self.submit(job).result()

    async def post(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Send `body` as JSON to `base + path`; return the JSON object that comes back.

        Raises
        ------
        RefusedError, UnreachableError
        """
        return await self._request("POST", self.address.base + path, body)

    async def get(self, path: str, *, from_origin: bool = False) -> dict[str, Any]:
        """Return the JSON object at `base + path` (or below the server's root); raises as `post` does."""
        return await self._request("GET", (self.address.origin if from_origin else self.address.base) + path, None)

    async def _open(self) -> None:
        import logging

        import httpx2

        for name in ("httpx2", "httpcore2"):
            logging.getLogger(name).setLevel(logging.WARNING)  # at INFO every request is told, with its address
        nobody = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # trusts no certificate; the usual one takes long to make
        self._http = httpx2.AsyncClient(
            headers={"Authorization": f"Bearer {self._key}"} if self._key else None,
            timeout=httpx2.Timeout(self._timeout, connect=min(10.0, self._timeout), pool=None),
            limits=httpx2.Limits(max_connections=self._concurrency),
            verify=True if self.address.encrypted or not self.address.loopback else nobody,
            trust_env=not self.address.loopback,  # a proxy must not be asked for this machine
        )

    async def _close(self) -> None:
        others = [task for task in asyncio.all_tasks(self._loop) if task is not asyncio.current_task()]
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        await self._http.aclose()

    async def _request(self, method: str, url: str, body: Mapping[str, Any] | None) -> dict[str, Any]:
        """Try until there is an answer, a refusal, or no attempt left."""
        attempt = 0
        while True:
            try:
                return await self._once(method, url, body)
            except _HiccupError as hiccup:
                last = hiccup
            attempt += 1
            if last.wish is not None and last.wish > LONGEST_WISH:
                raise UnreachableError(f"{last}; it asks to wait {last.wish:.0f} s") from last
            if attempt >= self._attempts:
                told = f"{last}" if attempt == 1 else f"{last} (tried {attempt} times)"
                raise UnreachableError(told, silent=last.silent) from last
            await asyncio.sleep(pause(attempt - 1, last.wish, random.random()))

    async def _once(self, method: str, url: str, body: Mapping[str, Any] | None) -> dict[str, Any]:
        import httpx2

        try:
            reply = await self._http.request(method, url, json=body)
        except httpx2.TimeoutException as error:
            raise _HiccupError(f"the server did not answer within {self._timeout:g} s", silent=True) from error
        except (httpx2.TransportError, httpx2.DecodingError) as error:
            raise _HiccupError(f"no connection to the server ({type(error).__name__})", silent=True) from error
        status = reply.status_code
        if status in _TRY_AGAIN or (status >= 500 and status != 501):
            wish = retry_after(reply.headers.get("retry-after"), datetime.now(UTC))
            raise _HiccupError(f"the server failed ({reply.status_code}): {self._told(reply.text)}", wish)
        if reply.status_code >= 400:
            raise RefusedError(f"the server refused ({reply.status_code}): {self._told(reply.text)}", reply.status_code)
        if reply.status_code >= 300:
            raise RefusedError(
                f"the server sends us elsewhere ({reply.status_code}); give its final address", reply.status_code
            )
        try:
            found = _whole(reply.json())
        except (ValueError, RecursionError) as error:
            raise _HiccupError("what the server answered is no JSON") from error
        if not isinstance(found, dict):
            raise RefusedError("what the server answered is no JSON object")
        return found

    def _told(self, text: str) -> str:
        """Return what the server says is wrong, in one short line without addresses, keys, folders and pictures."""
        line = " ".join(_DATA.sub("DATA", _whole(_message(text))).split())
        for secret in sorted(self._hide, key=len, reverse=True):
            line = line.replace(secret, self._hide[secret])
        line = _FOLDERS.sub("", line)
        return line[:200] or "no reason given"


class _HiccupError(Exception):
    """Something that may go better the next time; `wish` is how long the server asks us to wait, in seconds."""

    def __init__(self, message: str, wish: float | None = None, *, silent: bool = False) -> None:
        self.wish, self.silent = wish, silent
        super().__init__(message)


def _whole(value: Any) -> Any:
    """Return a JSON value without halves of characters (`\\ud800`), which no file and no database takes."""
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, list):
        return [_whole(item) for item in value]
    return {_whole(name): _whole(item) for name, item in value.items()} if isinstance(value, dict) else value


def _message(text: str) -> str:
    """Return the message inside an error body: `error.message`, `message` or `detail`; else the body itself."""
    import json

    try:
        found: Any = json.loads(text)
    except (ValueError, RecursionError):
        return text
    for name in ("error", "message", "detail"):
        while isinstance(found, dict) and name in found:
            found = found[name]
    if isinstance(found, list):  # FastAPI lists what is wrong, and repeats the input beside it
        found = "; ".join(str(item.get("msg", "")) if isinstance(item, dict) else str(item) for item in found)
    return found if isinstance(found, str) else text
