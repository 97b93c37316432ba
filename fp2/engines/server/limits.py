"""What a run may ask of servers: how many requests at a time, how many requests and tokens a minute, for what cost."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field

from fp2.engines.base import IMAGE_TOKENS, TEMPLATE_TOKENS, OverspentError, Price
from fp2.engines.server.replies import reasoning_count, token_count


class Slots:
    """Requests to a server at a time: `most`, halved when it is overloaded, and one more after every full round since.

    Additive increase, multiplicative decrease (Chiu and Jain 1989). Requests that were on their way together when a
    server was overloaded halve it once. An asynchronous context manager, which waits for a free slot.
    """

    def __init__(self, most: int) -> None:
        self.most, self.limit, self.used = most, float(most), 0
        self._halved = -float("inf")
        self._changed = asyncio.Condition()

    async def __aenter__(self) -> float:
        """Return when the request begins."""
        async with self._changed:
            await self._changed.wait_for(lambda: self.used < int(self.limit))
            self.used += 1
        return time.monotonic()

    async def __aexit__(self, *error: object) -> None:
        async with self._changed:
            self.used -= 1
            self._changed.notify_all()

    def overloaded(self, began: float) -> None:
        """Halve the limit, after a request that began at this time."""
        if began >= self._halved:
            self.limit, self._halved = max(1.0, self.limit / 2), time.monotonic()

    def replied(self) -> None:
        """Raise the limit by its share of one request."""
        self.limit = min(float(self.most), self.limit + 1 / self.limit)


class Pace:
    """Spreads amounts evenly over time, so that a minute has no more than `per_minute` (None: no limit)."""

    def __init__(self, per_minute: float | None) -> None:
        self._seconds = 60 / per_minute if per_minute else 0.0
        self._free = 0.0

    async def take(self, amount: float) -> None:
        """Wait until what was taken before is spread, and take an amount."""
        if self._seconds:
            now = time.monotonic()
            begins = max(now, self._free)
            self._free = begins + self._seconds * amount
            await asyncio.sleep(begins - now)

    def correct(self, amount: float) -> None:
        """Add to what was taken, which was an estimate."""
        self._free += self._seconds * amount


@dataclass
class Usage:
    """What the replies of a run report.

    Attributes
    ----------
    requests : int
        Replies.
    tokens_in, tokens_out : int
        Their tokens; of a reply that reports none, those that were expected.
    reasoning_tokens : int
        Those out that were reasoning.
    unreported : int
        Replies that report none.
    """

    requests: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    reasoning_tokens: int = 0
    unreported: int = 0


@dataclass
class Spending:
    """What a run has spent, at full price for tokens from a cache, and the most that it may.

    Attributes
    ----------
    price : Price, optional
    most : float, optional
        In the currency of the price.
    """

    price: Price | None = None
    most: float | None = None
    usage: Usage = field(default_factory=Usage)
    _longest: int = IMAGE_TOKENS + TEMPLATE_TOKENS
    _reserved: float = 0.0

    @property
    def cost(self) -> float | None:
        """What the replies cost; None without a price."""
        return self._cost(self.usage.tokens_in, self.usage.tokens_out)

    def _cost(self, tokens_in: float, tokens_out: float) -> float | None:
        if self.price is None:
            return None
        return (tokens_in * self.price.input + tokens_out * self.price.output) / 1e6

    def expected(self, body: Mapping[str, object]) -> tuple[int, int]:
        """Return the most tokens that a request takes, as far as known: in as the longest so far, and out."""
        longest = body.get("max_tokens") or body.get("max_completion_tokens")
        return self._longest, longest if isinstance(longest, int) else 0

    def reserve(self, requests: Callable[[], Sequence[Mapping[str, object]]]) -> float | None:
        """Hold back what requests cost at most, and return it; None where not so much is left."""
        if self.most is None:
            return 0.0
        cost = sum(self._cost(*self.expected(body)) or 0.0 for body in requests())
        if (self.cost or 0.0) + self._reserved + cost > self.most:
            return None
        self._reserved += cost
        return cost

    def release(self, cost: float) -> None:
        """Give back what was held back: the replies are there."""
        self._reserved -= cost

    def overspent(self) -> OverspentError:
        """Return the error that ends a run."""
        return OverspentError(
            f"{self.cost or 0.0:,.4g} of {self.most or 0.0:,.4g} is spent, and the next may cost more"
        )

    def add(self, reply: Mapping[str, object], expected: tuple[int, int]) -> int:
        """Count a reply; return its tokens."""
        told = [next((n for name in names if (n := token_count(reply, name)) is not None), None) for names in _NAMES]
        tokens_in, tokens_out = (guess if n is None else n for n, guess in zip(told, expected, strict=True))
        self._longest = max(self._longest, tokens_in)
        self.usage.requests += 1
        self.usage.tokens_in += tokens_in
        self.usage.tokens_out += tokens_out
        self.usage.reasoning_tokens += reasoning_count(reply)
        self.usage.unreported += told[0] is None
        return tokens_in + tokens_out

    def stated(self) -> dict[str, float | None]:
        """Return what was spent, by name."""
        return {**asdict(self.usage), "cost": self.cost}


_NAMES = (("prompt_tokens", "input_tokens"), ("completion_tokens", "output_tokens"))


class Limits:
    """The limits of one run, on all its servers together."""

    def __init__(
        self,
        requests_per_minute: float | None = None,
        tokens_per_minute: float | None = None,
        spending: Spending | None = None,
    ) -> None:
        self.spending = spending or Spending()
        self._requests, self._tokens = Pace(requests_per_minute), Pace(tokens_per_minute)

    async def take(self, body: Mapping[str, object]) -> tuple[int, int]:
        """Wait until a request may be sent; return the tokens that it is expected to take."""
        expected = self.spending.expected(body)
        await self._requests.take(1)
        await self._tokens.take(sum(expected))
        return expected

    def replied(self, reply: Mapping[str, object], expected: tuple[int, int]) -> None:
        """Count a reply."""
        self._tokens.correct(self.spending.add(reply, expected) - sum(expected))
