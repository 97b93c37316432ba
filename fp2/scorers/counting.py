"""Counting the terms of a lexicon's lists over many texts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from fp2.errors import Fp2Error
from fp2.scorers.lexicon import load_lexicon
from fp2.scorers.matching import matcher


def check_lists(lexicon_file: str, needed: tuple[str, ...]) -> None:
    """Raise Fp2Error unless the lexicon has exactly the lists that a scorer reads."""
    lists = tuple(load_lexicon(lexicon_file).lists)
    if set(lists) != set(needed):
        raise Fp2Error(
            f"the lexicon has the list(s) {', '.join(lists)}", where=lexicon_file, fix=f"Needed: {', '.join(needed)}"
        )


def count_lists(lexicon_file: str, texts: Sequence[str]) -> dict[str, npt.NDArray[np.int64]]:
    """Return for each list of the lexicon the number of its terms in each text, shape (n,)."""
    terms = matcher(lexicon_file)
    counts = [terms.counts(text) for text in texts]
    return {name: np.fromiter((row[name] for row in counts), np.int64, len(counts)) for name in terms.lexicon.lists}
