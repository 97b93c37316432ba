"""How much goes side by side: one object that the ways of asking read and the engine shrinks when memory runs out."""

from __future__ import annotations

from dataclasses import dataclass

_FEWEST_TOKENS = 16


@dataclass
class Limits:
    """Most (picture, prompt) pairs that go together, and most tokens in one pass behind a common beginning."""

    batch_size: int
    max_tokens: int

    def copy(self) -> Limits:
        """Return the same limits, which later changes do not touch."""
        return Limits(self.batch_size, self.max_tokens)

    def shrink(self, *, tokens: bool) -> bool:
        """Halve the tokens of a pass, or the pairs; return False, changing nothing, where that cannot be halved."""
        if tokens:
            if self.max_tokens // 2 < _FEWEST_TOKENS:
                return False
            self.max_tokens //= 2
        else:
            if self.batch_size < 2:
                return False
            self.batch_size //= 2
        return True
