"""The settings of a server: `model` says which, `engine=openai_compat` how it is asked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from fp2.engines.base import EngineOptions, NotNegative, Positive, Seconds
from fp2.errors import Fp2Error

KEY_VARIABLE = "OPENAI_API_KEY"


@dataclass(frozen=True)
class ServerSpec:
    """Which server and model: address (or several), the model's name there, and the environment variable with the key.

    `revision` is the user's name for the weights that it serves.
    """

    base_url: str | Sequence[str]
    id: str
    key_variable: str = KEY_VARIABLE
    revision: str | None = None


@dataclass(frozen=True, kw_only=True)
class ServerOptions(EngineOptions):
    """The options of `engine=openai_compat`.

    Attributes
    ----------
    scoring : {"auto", "systemone", "decisions", "logprobs"}
        The scoring method; `auto` takes the first that the server offers.
    concurrency : int
        Most concurrent requests to a server.
    timeout : float
        Seconds without a sign of the server after which an attempt fails; the whole reply has twice as long.
    attempts : int
        Attempts of a request before its answer fails.
    price_input, price_output : float, optional
        Price of a million tokens in and out, for estimates of cost: both or none.
    """

    scoring: Literal["auto", "systemone", "decisions", "logprobs"] = "auto"
    concurrency: Positive = 8
    timeout: Seconds = 120.0
    attempts: Positive = 5
    price_input: NotNegative | None = None
    price_output: NotNegative | None = None

    def __post_init__(self) -> None:
        """Raise Fp2Error if only one price is given."""
        if (self.price_input is None) != (self.price_output is None):
            raise Fp2Error("a cost needs both prices", where="engine.price_input and engine.price_output")

    def summary(self) -> dict[str, str]:
        """Return the number of concurrent requests."""
        return {"concurrent requests": str(self.concurrency)}
