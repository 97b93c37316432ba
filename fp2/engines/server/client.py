"""An HTTP client for a server: concurrent requests, retried with growing pauses, cancelled at once on interruption.

Requests run in an event loop in their own thread, so that answers are stored while others are on their way, and so that
Ctrl-C does not wait for a slow server. An error message names neither the server nor the key, and repeats no image: it
is stored with the answers.
"""

from __future__ import annotations

import asyncio
import json
import logging
import queue
import re
import ssl
import threading
import zlib
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, TypeVar

from fp2.engines.server import anthropic_messages
from fp2.engines.server.limits import Limits, Slots
from fp2.engines.server.options import Address
from fp2.engines.server.pool import Pool, Server
from fp2.engines.server.replies import MASK, RefusedError, error_message, masked, read_body, retry_after, spellings
from fp2.text import printable

FIRST_PAUSE, LONGEST_PAUSE, JITTER = 0.5, 30.0, 0.5  # seconds
LONGEST_CHECK = 10.0  # seconds for a server to say again what it is
LONGEST_WAIT = 300.0  # seconds that a server may ask us to wait
_TRANSIENT = frozenset({408, 425, 429})  # and 500 or above except 501
_OVERLOAD = frozenset({408, 429, 503, 529})  # 529: Anthropic
_DATA = re.compile(r"(data:[\w/+.-]*;base64,)?[A-Za-z0-9+/=_-]{80,}")
_FOLDERS = re.compile(r"(?<![\w/.])(?!/v\d)/(?:[^\s/'\":,;]+/)+")  # all of a path but its last name
IS_PATH = re.compile(r"[/~]|[A-Za-z]:[\\/]")
T = TypeVar("T")


class UnreachableError(Exception):
    """There was no usable reply after all attempts; `silent` if there was none at all."""

    def __init__(self, message: str, *, silent: bool = False) -> None:
        self.silent = silent
        super().__init__(message)


class _TransientError(Exception):
    """An error that another attempt may not have.

    `retry_after` is the pause that the server asks for, in seconds; `overload`: fewer requests at a time may avoid it.
    """

    def __init__(
        self, message: str, retry_after: float | None = None, *, silent: bool = False, overload: bool = False
    ) -> None:
        self.retry_after, self.silent, self.overload = retry_after, silent, overload
        super().__init__(message)


def base_name(path: str) -> str:
    """Return the last name of a path."""
    return re.split(r"[\\/]", path.rstrip("\\/"))[-1]


def without_folder(value: Any) -> Any:
    """Return a value that a server reported, a path by its last name only."""
    return base_name(value) if isinstance(value, str) and IS_PATH.match(value) else value


@dataclass(frozen=True)
class Channel:
    """Requests that belong together: to `home` while it is well, else to another server; with `only`, to no other.

    `attempts` are those of the client, if they are not given.
    """

    client: ServerClient
    home: Server
    only: bool = False
    attempts: int | None = None

    async def post(self, path: str, body: Mapping[str, object]) -> dict[str, object]:
        """Send `body` as JSON to `base + path`; return the JSON object of the reply.

        Raises
        ------
        RefusedError, UnreachableError
        """
        return await self.client.request(self, "POST", path, body)

    async def get(self, path: str, *, from_origin: bool = False) -> dict[str, object]:
        """Return the JSON object at `base + path` (or at `origin + path`); raises as `post` does."""
        return await self.client.request(self, "GET", path, None, from_origin=from_origin)


class ServerClient:
    """Requests to the servers of one model, at most `concurrency` at a time to each; a context manager.

    Parameters
    ----------
    addresses : sequence of Address
    key : str or None
        Sent as a bearer token.
    hide : Mapping
        Strings that must not appear in messages, and their replacements (the key and the addresses are added).
    concurrency : int
        Most concurrent requests to a server.
    timeout : float
        Seconds without a sign of a server after which an attempt fails; the whole reply has twice as long.
    attempts : int
        Attempts of a request. A failed request goes to the other servers at once, which is the same attempt.
    limits : Limits, optional
        On requests and tokens a minute, and what was spent.
    admit : callable, optional
        Called before a server is used that was silent; raises RefusedError if it is to get no requests. The one server
        of a pool is not checked.
    messages : bool
        Whether the servers speak Anthropic's Messages API: chat completions are sent and returned in its form.

    Attributes
    ----------
    pool : Pool
    token_limit : str
        The name under which the servers take the limit of new tokens.
    also : dict
        What every question has beside its own fields.
    fields : Mapping
        What every chat completion has in place of its own fields; it is without those that are None.
    """

    def __init__(
        self,
        addresses: Sequence[Address],
        key: str | None = None,
        *,
        hide: Mapping[str, str] | None = None,
        concurrency: int = 8,
        timeout: float = 120.0,
        attempts: int = 5,
        limits: Limits | None = None,
        admit: Callable[[Channel], Awaitable[None]] | None = None,
        messages: bool = False,
    ) -> None:
        self.messages = messages
        self.pool = Pool([Server(address, Slots(concurrency)) for address in addresses])
        self.token_limit = "max_tokens"
        self.also: dict[str, object] = {}
        self.fields: Mapping[str, object] = {}
        self._key, self._concurrency, self._timeout, self._attempts = key, concurrency, timeout, attempts
        self.limits = limits or Limits()
        self._admit = admit if len(addresses) > 1 else None
        names = {name for one in addresses for name in (one.base, one.origin, one.origin.split("//")[1], one.host)}
        self._secrets = spellings(key) if key else ()
        masks = dict.fromkeys((*self._secrets, *([key] if key else [])), MASK)
        self._hide = {**(hide or {}), **masks, **dict.fromkeys(names - {"localhost"}, "the server")}
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

    def channel(self, home: Server | None = None, *, only: bool = False) -> Channel:
        """Return a channel to a server, or to the first one that is well."""
        return Channel(self, home or self.pool.choose(None) or self.pool.servers[0], only)

    def submit(self, job: Coroutine[object, None, T]) -> Future[T]:
        """Start a job in the thread of the requests."""
        return asyncio.run_coroutine_threadsafe(job, self._loop)

    def run(self, job: Coroutine[object, None, T]) -> T:
        """Run a job in the thread of the requests and return its result."""
        return self.submit(job).result()

    def stream(self, jobs: Iterable[Coroutine[object, None, T]], window: int) -> Iterator[list[T]]:
        """Yield the results of jobs as they arrive; `window` of them are pending, and a job is made as one ends."""
        done: queue.SimpleQueue[Future[T]] = queue.SimpleQueue()
        waiting, pending = iter(jobs), 0
        while True:
            if pending < window and (job := next(waiting, None)) is not None:
                self.submit(job).add_done_callback(done.put)
                pending += 1
                continue
            if not pending:
                return
            batch = [done.get().result()]
            while not done.empty():
                batch.append(done.get().result())
            pending -= len(batch)
            yield batch

    async def _open(self) -> None:
        import httpx2

        for name in ("httpx2", "httpcore2", "stamina"):
            logging.getLogger(name).setLevel(logging.ERROR)  # they log every request or retry, httpx2 with the address
        no_trust = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # no certificates: loading the usual ones takes long
        for server in self.pool.servers:
            address = server.address
            server.http = httpx2.AsyncClient(
                headers={"Accept-Encoding": "gzip", **self._authorization()},
                timeout=httpx2.Timeout(self._timeout, connect=min(10.0, self._timeout), pool=None),
                limits=httpx2.Limits(max_connections=self._concurrency),
                verify=True if address.encrypted or not address.loopback else no_trust,
                trust_env=not address.loopback,  # no proxy for this machine
            )

    def _authorization(self) -> dict[str, str]:
        if self._key is None:
            return {}
        if self.messages:
            return anthropic_messages.headers(self._key)
        return {"Authorization": f"Bearer {self._key}"}

    async def _close(self) -> None:
        other_tasks = [task for task in asyncio.all_tasks(self._loop) if task is not asyncio.current_task()]
        for task in other_tasks:
            task.cancel()
        await asyncio.gather(*other_tasks, return_exceptions=True)
        for server in self.pool.servers:
            await server.http.aclose()

    async def request(
        self, channel: Channel, method: str, path: str, body: Mapping[str, object] | None, *, from_origin: bool = False
    ) -> dict[str, object]:
        """Return the reply, after retries of transient errors; see `Channel`."""
        import stamina

        number, replies = 0, self._replies
        try:
            async for attempt in stamina.retry_context(
                _pause_after,
                attempts=channel.attempts or self._attempts,
                timeout=None,
                wait_initial=FIRST_PAUSE,
                wait_max=LONGEST_PAUSE,
                wait_jitter=JITTER,
            ):
                number = attempt.num
                with attempt:
                    return await self._anywhere(channel, method, path, body, from_origin)
        except _TransientError as error:
            if error.retry_after is not None and error.retry_after > LONGEST_WAIT:
                raise UnreachableError(f"{error}; it asks to wait {error.retry_after:.0f} s") from error
            # No reply to anyone while this request was tried in vain: the others would wait as long for nothing.
            if not channel.only:
                self._given_up = self._given_up or (error.silent and self._replies == replies)
            tried = f" (tried {number} times)" if number > 1 else ""
            raise UnreachableError(f"{error}{tried}", silent=error.silent) from error
        raise AssertionError("the last attempt returns or raises")

    async def _anywhere(
        self, channel: Channel, method: str, path: str, body: Mapping[str, object] | None, from_origin: bool
    ) -> dict[str, object]:
        """Send a request once to each server until one replies; the last error is raised if none does."""
        pool, tried, first = self.pool, set[Server](), None
        while True:
            server = channel.home if channel.only else pool.choose(channel.home, tried)
            if server is None:
                raise first or UnreachableError("no server is left: all report other facts than at the start")
            url = (server.address.origin if from_origin else server.address.base) + path
            server.outstanding += 1
            try:
                if not channel.only:
                    await self._check(server)
                reply = await self._limited(server, method, url, body)
            except _TransientError as error:
                if channel.only:
                    raise
                server.failed(pool.clock(), silent=error.silent, pause=error.retry_after)
                server.admitted = server.admitted and not error.silent
                tried.add(server)
                first = first or error
            except RefusedError:
                server.replied()
                raise
            else:
                if method == "POST" and not channel.only:
                    server.succeeded(reply)
                return reply
            finally:
                server.outstanding -= 1

    async def _check(self, server: Server) -> None:
        """Raise _TransientError if a server that was silent is still, or reports something else than before."""
        if server.admitted or self._admit is None:
            return
        try:
            async with asyncio.timeout(min(LONGEST_CHECK, self._timeout)):
                await self._admit(Channel(self, server, only=True, attempts=1))
        except (UnreachableError, TimeoutError) as error:
            raise _TransientError(str(error), silent=True) from error
        except RefusedError as error:
            server.excluded = str(error)
            raise _TransientError(str(error)) from error
        server.admitted = True

    async def _limited(
        self, server: Server, method: str, url: str, body: Mapping[str, object] | None
    ) -> dict[str, object]:
        """Send a request once to one server, as soon as the limits allow."""
        async with server.slots as began:
            try:
                if body is None:
                    return await self._send(server, method, url, body)
                expected = await self.limits.take(body)
                reply = await self._send(server, method, url, body)
            except _TransientError as error:
                if error.overload:
                    server.slots.overloaded(began)
                raise
        server.slots.replied()
        self.limits.replied(reply, expected)
        return reply

    async def _send(
        self, server: Server, method: str, url: str, body: Mapping[str, object] | None
    ) -> dict[str, object]:
        """Send a request once to one server."""
        import httpx2

        if self._given_up:
            raise UnreachableError("the server stopped answering", silent=True)
        try:
            async with asyncio.timeout(2 * self._timeout), server.http.stream(method, url, json=body) as reply:
                content = await read_body(reply)
                self._replies += 1
        except TimeoutError as error:
            message = f"the server did not end its reply within {2 * self._timeout:g} s"
            raise _TransientError(message, silent=True, overload=True) from error
        except zlib.error as error:
            raise _TransientError("the server's reply is not compressed as it says") from error
        except httpx2.TimeoutException as error:
            message = f"the server did not answer within {self._timeout:g} s"
            raise _TransientError(message, silent=True, overload=True) from error
        except (httpx2.TransportError, httpx2.DecodingError) as error:
            raise _TransientError(f"no connection to the server ({type(error).__name__})", silent=True) from error
        status = reply.status_code
        if status in _TRANSIENT or (status >= 500 and status != 501):
            pause = retry_after(reply.headers.get("retry-after"), datetime.now(UTC))
            message = f"the server failed ({status}): {self._message(content)}"
            raise _TransientError(message, pause, overload=status in _OVERLOAD)
        if status >= 400:
            raise RefusedError(f"the server refused ({status}): {self._message(content)}", status)
        if status >= 300:
            raise RefusedError(f"the server redirects ({status}); give its final address", status)
        try:
            reply_body = masked(json.loads(content), self._secrets)
        except (ValueError, RecursionError) as error:
            raise _TransientError("the server's reply is not JSON") from error
        if not isinstance(reply_body, dict):
            raise RefusedError("the server's reply is not a JSON object")
        return reply_body

    def _message(self, content: bytes) -> str:
        """Return a server's error message in one short line without addresses, keys, folders and images."""
        text = masked(error_message(content.decode("utf-8", "replace")), ())
        for secret in sorted(self._hide, key=len, reverse=True):
            text = text.replace(secret, self._hide[secret])
        text_line = " ".join(_DATA.sub("DATA", text).split())
        text_line = _FOLDERS.sub("", text_line)
        return printable(text_line, 200) or "no reason given"


def _pause_after(error: Exception) -> bool | float:
    """Return whether to try again after an error, or the pause before that where the server asks for one."""
    if not isinstance(error, _TransientError):
        return False
    if error.retry_after is None:
        return True
    return error.retry_after if error.retry_after <= LONGEST_WAIT else False
