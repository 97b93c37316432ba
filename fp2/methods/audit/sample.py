"""Which answers are asked again, and what their number says of all answers of a run.

The draw is deterministic, and nobody can foresee it who does not know the nonce: with seed = SHA-256(digest of the
passport's payload (32 bytes) || nonce (UTF-8)), the i-th number is SHA-256(seed || i (8 bytes, big-endian)) modulo the
number of leaves, i = 0, 1, ...; a number that was drawn before is skipped.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from itertools import count

from fp2.extension import plural

CONFIDENCE = 0.95


def draw(payload_sha256: str, nonce: str, n_leaves: int, k: int) -> list[int]:
    """Return k different leaves of n, from 0, in the order in which they are drawn; all of them if k > n."""
    seed = hashlib.sha256(bytes.fromhex(payload_sha256) + nonce.encode()).digest()
    drawn: dict[int, None] = {}
    for number in count():
        if len(drawn) == min(k, n_leaves):
            return list(drawn)
        drawn[int.from_bytes(hashlib.sha256(seed + number.to_bytes(8, "big")).digest(), "big") % n_leaves] = None
    raise AssertionError


@dataclass(frozen=True)
class Bound:
    """How many answers of a run may have been altered, given how many of a random sample were found to be.

    Attributes
    ----------
    differ, sampled, total : int
        Answers that differ, of those that were drawn, of all.
    altered : int
        Upper confidence bound of the altered answers among all: hypergeometric, since the total is known (the largest
        number for which so few differing ones have a probability above 5 %).
    share : float
        Upper confidence bound of the share by Clopper and Pearson (1934), which holds for any total.
    power : float
        The probability that an altered answer differs. That k answers have none that differs while a share s was
        altered has the probability (1 - s power)^k.
    """

    differ: int
    sampled: int
    total: int
    altered: int
    share: float
    power: float

    def __str__(self) -> str:
        at_most = f"at most {self.altered:,} of {plural(self.total, 'answer')} ({self.altered / self.total:.1%}) were"
        return (
            f"{self.differ} of {self.sampled} differ: with {CONFIDENCE:.0%} confidence {at_most} altered, "
            f"if an altered one differs with probability {self.power:.2g} "
            f"(hypergeometric; Clopper-Pearson, of any number: {self.share:.1%})"
        )


def bound(differ: int, sampled: int, total: int, power: float = 1.0) -> Bound:
    """Return the bound for `differ` of `sampled` answers, drawn without replacement from `total`."""
    import numpy as np
    from scipy.stats import beta, binom, hypergeom

    share = 1.0 if differ == sampled else float(beta.ppf(CONFIDENCE, differ + 1, sampled - differ))
    drawn = np.arange(sampled + 1)
    low, high = differ, total if power < 1 else total - (sampled - differ)
    few = binom.cdf(differ, drawn, power)  # the probability that so few differ, of the altered ones that are drawn
    while low < high:  # it falls with the number of altered ones
        middle = (low + high + 1) // 2
        if hypergeom.pmf(drawn, total, middle, sampled) @ few > 1 - CONFIDENCE:
            low = middle
        else:
            high = middle - 1
    return Bound(differ, sampled, total, low, min(1.0, share / power), power)
