"""The interface of a scoring method: how a server is asked for probabilities.

A scoring method turns a question into requests, and their replies into the numbers of an `Answer`. Each
(`typed_decisions`, `top_logprobs`) has its own name in the response key; a number that a server does not give is null.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from fp2.tables import ChoiceOrders, Question

Body = dict[str, Any]
Reply = Mapping[str, Any]


@dataclass(frozen=True)
class Scored:
    """The result of one question: see `Answer`."""

    text: str
    numbers: dict[str, Any]
    tokens: int = 0


class ScoringMethod(Protocol):
    """A way to get probabilities from a server."""

    @property
    def path(self) -> str:
        """The endpoint, below the base address."""
        ...

    @property
    def lacking(self) -> Mapping[str, str]:
        """Numbers of a yes/no answer (`YES_NO_NUMBERS`) that are given `NEVER` or `SOMETIMES`."""
        ...

    def identity(self) -> dict[str, Any]:
        """Return the name with its version, and whatever else can change a number."""
        ...

    def requests(self, model: str, question: Question, image: str | None, orders: ChoiceOrders) -> list[Body]:
        """Return the requests to send, for an image (base64 of a PNG; None shows none)."""
        ...

    def read(self, replies: Sequence[Reply], question: Question, orders: ChoiceOrders) -> Scored:
        """Return the numbers; `replies` are in the order of `requests`. Raises `RefusedError` for an invalid reply."""
        ...


def mean_over_orders(
    question: Question, rows: Sequence[Sequence[float]], masses: Sequence[float | None], tokens: int
) -> Scored:
    """Average over the orders; `rows` (orders, options) are in the order of `question.choices` and sum to one."""
    p = np.array(rows, dtype=np.float64)
    known = [mass for mass in masses if mass is not None]
    mean = p.mean(axis=0)
    numbers = {
        "p": mean.tolist(),
        "log_likelihood": None,
        "mass": math.fsum(known) / len(known) if len(known) == len(masses) else None,
        "order_range": float((p.max(axis=0) - p.min(axis=0)).max()),
    }
    return Scored(question.choices[int(mean.argmax())], numbers, tokens)
