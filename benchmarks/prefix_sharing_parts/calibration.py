"""Is the machine ours alone? The same matrix product, timed again and again between the measurements."""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass, field

LARGEST_SPREAD = 0.2


@dataclass
class Calibration:
    """Times of a float32 product of 768 x 768 matrices, one sample at each `sample()`."""

    times: list[float] = field(default_factory=list)

    def sample(self) -> None:
        """Time the product (the median of 25, after a warm-up)."""
        import torch

        left, right = torch.ones(768, 768), torch.ones(768, 768)
        took = []
        for _ in range(30):
            started = time.perf_counter()
            left @ right
            took.append(time.perf_counter() - started)
        self.times.append(statistics.median(took[5:]))

    @property
    def spread(self) -> float:
        """How much longer the slowest sample took than the fastest."""
        return max(self.times) / min(self.times) - 1

    @property
    def void(self) -> bool:
        """Whether something else was running, so that no ratio can be trusted."""
        return self.spread > LARGEST_SPREAD
