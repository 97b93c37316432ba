"""The ways in which servers give probabilities: what they have in common.

Each way turns a question into requests and their replies into the numbers of an `Answer`. They are different ways of
scoring (`server_typed`, `server_tokens`), so each has a name of its own in the response key; what a server does not
tell is null.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from fp2.tables import ChoiceOrders, Question

NEVER, SOMETIMES = "never", "sometimes"
Orders = Sequence[Sequence[int]]
Body = dict[str, Any]
Reply = Mapping[str, Any]


@dataclass(frozen=True)
class Scored:
    """What was read for one question: see `Answer`."""

    text: str
    numbers: dict[str, Any]
    tokens: int = 0


class Way(Protocol):
    """A way of getting probabilities from a server."""

    @property
    def path(self) -> str:
        """The endpoint, below the base address."""
        ...

    @property
    def lacking(self) -> Mapping[str, str]:
        """Numbers of a yes/no answer (`YES_NO_NUMBERS`) that do not always come: `never` or `sometimes`."""
        ...

    def identity(self) -> dict[str, Any]:
        """Return the name with its version, and whatever else can change a number."""
        ...

    def bodies(self, model: str, question: Question, picture: str | None, how: ChoiceOrders) -> list[Body]:
        """Return the requests to send, for a picture (base64 of a PNG; None shows none)."""
        ...

    def read(self, replies: Sequence[Reply], question: Question, how: ChoiceOrders) -> Scored:
        """Return the numbers; `replies` are in the order of `bodies`. Raises `RefusedError` for what cannot be read."""
        ...


def averaged(question: Question, rows: Sequence[Sequence[float]], masses: Sequence[float | None], used: int) -> Scored:
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
    return Scored(question.choices[int(mean.argmax())], numbers, used)
