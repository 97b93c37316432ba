"""What the session asks of any loaded model, for one that runs code of its own and lies behind a facade."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


class Facade:
    """Stands before `inner`, a model with an interface of its own, and shows its parts as a stock model would."""

    inner: Any

    @property
    def device(self) -> Any:
        """Where it is."""
        return self.inner.device

    @property
    def dtype(self) -> Any:
        """In which numbers it computes."""
        return self.inner.dtype

    def modules(self) -> Iterator[Any]:
        """Yield the model's parts."""
        yield from self.inner.modules()

    def num_parameters(self) -> int:
        """Return the number of weights."""
        return sum(weight.numel() for weight in self.inner.parameters())
