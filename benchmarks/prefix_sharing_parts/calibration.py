"""Is the machine ours alone? The same matrix product, timed again and again between the measurements."""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass, field

LARGEST_SPREAD = 0.2


def clock() -> float:
    """Return seconds: of this process without a GPU, so that other work on the machine is not counted."""
    import torch

    return time.perf_counter() if torch.cuda.is_available() else time.process_time()


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
            started = clock()
            left @ right
            took.append(clock() - started)
        self.times.append(statistics.median(took[5:]))

    @property
    def spread(self) -> float:
        """How much longer the slowest sample took than the fastest."""
        return max(self.times) / min(self.times) - 1

    @property
    def void(self) -> bool:
        """Whether something else was running, so that no ratio can be trusted."""
        return self.spread > LARGEST_SPREAD
