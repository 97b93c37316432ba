"""Which of several servers of one model gets a request, and which of them rest after a failure.

Requests about one image go to one server, so that its prefix cache computes the image once. A server that fails rests,
longer each time, and its requests go to the others (a circuit breaker: closed, open, half-open); after the rest it gets
one request, and the others once that succeeds.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fp2.engines.server.limits import Slots
from fp2.engines.server.options import Address

FAILURES = 3
"""Failed requests in a row, with replies, after which a server rests; a server without a reply rests at once."""
FIRST_REST, LONGEST_REST = 1.0, 60.0  # seconds


@dataclass(eq=False)
class Server:
    """One server, and what became of its requests.

    Attributes
    ----------
    address : Address
    slots : Slots
        As many requests as it gets at a time.
    http : Any
        Its HTTP client, once it is open.
    admitted : bool
        Whether its report is known to be that of the others.
    excluded : str or None
        Why it gets no requests at all: it reports something else.
    outstanding, replies, failures : int
        Requests without a reply yet, with a usable reply, and failed ones.
    prompt_tokens, cached_tokens : int
        Tokens of the prompts, and how many of them the server says came from its prefix cache.
    reports_cache : bool
        Whether it said so of any prompt.
    """

    address: Address
    slots: Slots
    http: Any = None
    admitted: bool = True
    excluded: str | None = None
    outstanding: int = 0
    replies: int = 0
    failures: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    reports_cache: bool = False
    _in_a_row: int = 0
    _rests: int = 0
    _until: float = 0.0

    def usable(self, now: float) -> bool:
        """Whether it may get a request: it does not rest, and after a rest one at a time until one succeeds."""
        if self.excluded is not None or now < self._until:
            return False
        return not self._rests or not self.outstanding

    def replied(self) -> None:
        """End the rests: the server is there, even if it refuses a request."""
        self._in_a_row = self._rests = 0

    def succeeded(self, reply: Mapping[str, object]) -> None:
        """Count a usable reply, and the tokens of its prompt; some servers leave out the cached ones if none are."""
        self.replied()
        self.replies += 1
        usage = reply.get("usage")
        if not isinstance(usage, dict):
            return
        for name in ("prompt_tokens", "input_tokens"):
            details, total = usage.get(f"{name}_details"), usage.get(name)
            cached = details.get("cached_tokens") if isinstance(details, dict) else None
            if isinstance(total, int) and 0 < total < 2**31:
                self.prompt_tokens += total
                if isinstance(cached, int) and 0 <= cached <= total:
                    self.cached_tokens += cached
                    self.reports_cache = True

    def failed(self, now: float, *, silent: bool, pause: float | None) -> None:
        """Count a failed request, and rest if the server did not reply, asked for a pause, or failed repeatedly."""
        self.failures += 1
        self._in_a_row += 1
        if silent or pause or self._in_a_row >= FAILURES or self._rests:
            if now >= self._until:  # those that were on their way when it failed are one failure
                self._rests += 1
            rest = min(LONGEST_REST, FIRST_REST * 2.0 ** (self._rests - 1))
            self._until = max(self._until, now + max(rest, pause or 0.0))


@dataclass
class Pool:
    """The servers of one model, in the order of the config."""

    servers: Sequence[Server]
    clock: Callable[[], float] = field(default=time.monotonic)

    def choose(self, home: Server | None, tried: Collection[Server] = ()) -> Server | None:
        """Return the server for a request: `home` if it is usable, else the one with the fewest outstanding requests.

        If all rest, it is `home`, or the first that is not excluded; None if each was `tried` or is excluded.
        """
        now = self.clock()
        untried = [server for server in self.servers if server not in tried and server.excluded is None]
        usable = [server for server in untried if server.usable(now)]
        if home in usable or (home in untried and not usable and not tried):
            return home
        if tried or usable:  # after a failure only a server that is expected to work
            return min(usable, key=lambda server: server.outstanding, default=None)
        return untried[0] if untried else None

    def takes(self, server: Server) -> bool:
        """Whether a server should get the next image: it is usable, or no other is."""
        now = self.clock()
        return server.usable(now) or not any(other.usable(now) for other in self.servers)
