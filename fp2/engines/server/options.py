"""The settings of a server: `model` says which, by its address, and `engine=openai_compat` how it is asked."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Literal
from urllib.parse import urlsplit

from annotated_types import Ge, Le

from fp2.engines.base import EngineOptions, NotNegative, Positive, Seconds
from fp2.errors import Fp2Error

KEY_VARIABLE = "OPENAI_API_KEY"
OF_THE_RUN = {"logprobs", "max_completion_tokens", "max_tokens", "messages", "model", "n", "stream", "top_logprobs"}
"""Fields of a chat completion that are not the user's to choose."""
SAMPLING = ("temperature", "top_p", "seed")
"""Fields of ours that the user may choose."""


@dataclass(frozen=True)
class ServerSpec:
    """Which server and model: address (or several), the model's name there, and the environment variable with the key.

    `revision` is the user's name for the weights that it serves, `options` are fields of every chat completion in place
    of ours (None leaves one out). `api` is `messages` for Anthropic's Messages API, None for chat completions.
    """

    base_url: str | Sequence[str]
    id: str
    key_variable: str = KEY_VARIABLE
    revision: str | None = None
    options: Mapping[str, object] = field(default_factory=dict)
    api: str | None = None

    def __post_init__(self) -> None:
        """Raise Fp2Error for fields of a request that are not the user's to choose, or that exclude each other."""
        if taken := sorted(OF_THE_RUN & set(self.options)):
            what = "this field of a request is set by the run"
            raise Fp2Error(what, where=f"model.options.{taken[0]}", fix="Remove it; see probe.decoding and engine")
        with_temperature = self.options.get("temperature", 0) is not None
        if self.api == "messages" and with_temperature and self.options.get("top_p") is not None:
            what, fix = "the Messages API takes no top_p with a temperature", "Add +model.options.temperature=null"
            raise Fp2Error(what, where="model.options.top_p", fix=fix)


@dataclass(frozen=True, kw_only=True)
class ServerOptions(EngineOptions):
    """The options of `engine=openai_compat`.

    Attributes
    ----------
    scoring : {"auto", "systemone", "decisions", "logprobs", "sampled"}
        The scoring method; `auto` takes the first that the server offers. `sampled` estimates the probabilities from
        sampled answers, of any server.
    samples : int
        Answers that are sampled for each probability (`sampled`).
    precision : float, optional
        Standard error that each P(Yes) is to have: the first `samples` answers decide how many more are sampled.
    concurrency : int
        Most concurrent requests to a server; fewer after it is overloaded.
    timeout : float
        Seconds without a sign of the server after which an attempt fails; the whole reply has twice as long.
    attempts : int
        Attempts of a request before its answer fails.
    requests_per_minute, tokens_per_minute : float, optional
        Most requests, and most tokens in and out, of all servers together.
    price_input, price_output : float, optional
        Price of a million tokens in and out, for estimates of cost: both or none.
    rate : float, optional
        Answers a second that the servers give, for the estimate of time.
    """

    scoring: Literal["auto", "systemone", "decisions", "logprobs", "sampled"] = "auto"
    samples: Annotated[int, Ge(2), Le(1000)] = 5
    precision: Annotated[float, Ge(0.01), Le(0.25)] | None = None
    concurrency: Positive = 8
    timeout: Seconds = 120.0
    attempts: Positive = 5
    requests_per_minute: Seconds | None = None
    tokens_per_minute: Seconds | None = None
    price_input: NotNegative | None = None
    price_output: NotNegative | None = None
    rate: Seconds | None = None

    def __post_init__(self) -> None:
        """Raise Fp2Error if only one price is given, or a precision of what is not sampled."""
        if self.precision is not None and self.scoring != "sampled":
            raise Fp2Error(
                "only sampled answers have a precision", where="engine.precision", fix="Set engine.scoring=sampled"
            )
        if (self.price_input is None) != (self.price_output is None):
            raise Fp2Error("a cost needs both prices", where="engine.price_input and engine.price_output")

    def summary(self) -> dict[str, str]:
        """Return the number of concurrent requests, and the limits of a minute."""
        limits = {"requests a minute": self.requests_per_minute, "tokens a minute": self.tokens_per_minute}
        stated = {name: f"at most {limit:,g}" for name, limit in limits.items() if limit is not None}
        return {"concurrent requests": str(self.concurrency), **stated}


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
    """Return the parts of an address, or of several."""
    urls = [base_url] if isinstance(base_url, str) else base_url
    addresses = tuple(parse_address(str(url)) for url in urls)
    if len({address.base for address in addresses}) < len(addresses):
        raise Fp2Error("an address is there twice", where="model.base_url", fix="Name every server once")
    return addresses


def parse_address(base_url: str) -> Address:
    """Return the parts of an address."""
    where = "model.base_url"
    fix = "Give http(s)://host:port/v1; the API key belongs in the environment variable that model.api_key_env names"
    try:
        url = urlsplit(base_url.strip())
        host, _ = url.hostname, url.port
    except ValueError as error:
        raise Fp2Error(f"not an address: {error}", where=where, fix=fix) from error
    if url.scheme not in ("http", "https") or not host:
        raise Fp2Error("not an address of a server", where=where, fix=fix)
    if url.username or url.password or url.query or url.fragment:
        raise Fp2Error("the address contains a password or a query", where=where, fix=fix)
    origin = f"{url.scheme}://{url.netloc}"
    return Address(origin + url.path.rstrip("/"), origin, host, url.scheme == "https")
