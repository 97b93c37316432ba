"""What the answers that are left to ask will cost on a server with a price per token, and the cap on it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fp2.errors import Fp2Error

if TYPE_CHECKING:
    from fp2.ask.loop import Forecast
    from fp2.engines.base import Price
    from fp2.tables import Decoding, Question

TOKENS_A_WORD = 4 / 3
TEMPLATE_TOKENS = 20
"""Of a chat template around a question."""
IMAGE_TOKENS = 1000
"""Of an image, which every server counts in its own way: an assumption, stated wherever a cost is."""


@dataclass(frozen=True)
class Cost:
    """An estimate: `amount` in the currency of the prices, for `requests` of so many tokens in and out each.

    `measured`: whether the tokens out are the mean of stored answers; otherwise they are the most that is generated.
    """

    amount: float
    requests: int
    tokens_in: float
    tokens_out: float
    measured: bool

    def __str__(self) -> str:
        """Return the estimate and what it is based on."""
        basis = "as stored answers have" if self.measured else "the most that is generated"
        return (
            f"about {self.amount:,.2f} for {self.requests:,} requests: {self.tokens_in:,.0f} tokens in "
            f"({IMAGE_TOKENS:,} of them assumed for the image), {self.tokens_out:,.0f} out ({basis})"
        )


def expected_cost(forecast: Forecast, questions: Sequence[Question], decoding: Decoding, price: Price) -> Cost:
    """Return what the answers that the store lacks will cost, each asked once."""
    words = sum(len(question.text.split()) for question in questions) / max(1, len(questions))
    tokens_in = IMAGE_TOKENS + TEMPLATE_TOKENS + words * TOKENS_A_WORD
    tokens_out = float(decoding.max_new_tokens) if forecast.tokens is None else forecast.tokens
    each = (tokens_in * price.input + tokens_out * price.output) / 1e6
    return Cost(forecast.left * each, forecast.left, tokens_in, tokens_out, forecast.tokens is not None)


def check_cost(cost: Cost, cap: float) -> None:
    """Raise if an estimate is above the cap.

    Raises
    ------
    Fp2Error
        With the estimate.
    """
    if cost.amount > cap:
        fix = "Raise answers.max_cost, or ask less: data.limit=N"
        raise Fp2Error(f"the run would cost {cost}", where=f"answers.max_cost={cap:g}", fix=fix)
