"""Checkpoints with model code of their own, behind the interface of a model of transformers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


class ModelAdapter:
    """Gives `inner`, a model with an interface of its own, the attributes that a session uses."""

    inner: Any

    @property
    def device(self) -> Any:
        """Its device."""
        return self.inner.device

    @property
    def dtype(self) -> Any:
        """Its dtype."""
        return self.inner.dtype

    def modules(self) -> Iterator[Any]:
        """Yield its modules."""
        yield from self.inner.modules()

    def num_parameters(self) -> int:
        """Return the number of its weights."""
        return sum(weight.numel() for weight in self.inner.parameters())
