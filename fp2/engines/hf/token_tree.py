"""Many token sequences behind one common beginning, laid out as trees: a token that several share is computed once.

A tree is packed into one row of tokens. Each token sees its ancestors and itself, and stands at the position that it
has in its own sequence, so that one forward pass gives what one pass per sequence would.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Tokens = tuple[int, ...]


@dataclass(frozen=True, eq=False)
class TreeRow:
    """One packed tree of T tokens that holds n of the sequences.

    Attributes
    ----------
    tokens : int64 array, (T,)
    depths : int64 array, (T,)
        Place in its sequence: 0 for the first token behind the common beginning.
    sees : bool array, (T, T)
        `sees[i, j]`: token i attends to token j (its ancestors and itself).
    sequences : tuple of int
        Which of the given sequences end in this row, n of them.
    ends : int64 array, (n,)
        Where in the row each of them ends.
    """

    tokens: npt.NDArray[np.int64]
    depths: npt.NDArray[np.int64]
    sees: npt.NDArray[np.bool_]
    sequences: tuple[int, ...]
    ends: npt.NDArray[np.int64]


def common_length(sequences: Sequence[Tokens]) -> int:
    """Return how many tokens all `sequences` begin with in common (0 for no sequence)."""
    if not sequences:
        return 0
    low, high = min(sequences), max(sequences)  # the two that differ earliest
    for place, (left, right) in enumerate(zip(low, high, strict=False)):
        if left != right:
            return place
    return min(len(low), len(high))


@functools.lru_cache(maxsize=8)
def plant(sequences: tuple[Tokens, ...], max_tokens: int) -> tuple[TreeRow, ...]:
    """Lay `sequences` out in as few rows as `max_tokens` tokens a row allow; a longer sequence gets a row of its own.

    Sequences that share a beginning lie side by side; what two rows share is in both.

    Raises
    ------
    ValueError
        If a sequence is empty or `max_tokens` is less than 1.
    """
    if max_tokens < 1 or not all(sequences):
        raise ValueError("a tree needs sequences of at least one token, and rows of at least one")
    order = sorted(range(len(sequences)), key=lambda index: sequences[index])
    rows: list[TreeRow] = []
    builder = _Builder()
    limit = _even(sequences, order, max_tokens)
    for index in order:
        if builder.ends and builder.length_with(sequences[index]) > limit:
            rows.append(builder.row())
            builder = _Builder()
        builder.add(index, sequences[index])
    if builder.ends:
        rows.append(builder.row())
    return tuple(rows)


def _even(sequences: tuple[Tokens, ...], order: Sequence[int], max_tokens: int) -> int:
    """Return the row length that splits the whole tree into equal parts, as few as `max_tokens` allows."""
    whole = 0
    before: Tokens = ()
    for index in order:
        whole += len(sequences[index]) - common_length([before, sequences[index]])
        before = sequences[index]
    return min(max_tokens, math.ceil(whole / math.ceil(whole / max_tokens)) + 16) if whole else max_tokens


class _Builder:
    """Packs sorted sequences: what a sequence shares with the one before is its path in the tree."""

    def __init__(self) -> None:
        self.tokens: list[int] = []
        self.depths: list[int] = []
        self.parents: list[int] = []
        self.path: list[int] = []
        self.last: Tokens = ()
        self.sequences: list[int] = []
        self.ends: list[int] = []

    def length_with(self, sequence: Tokens) -> int:
        """Return how long the row would be with `sequence` in it."""
        return len(self.tokens) + len(sequence) - common_length([self.last, sequence])

    def add(self, index: int, sequence: Tokens) -> None:
        """Put `sequence` behind the last one."""
        shared = common_length([self.last, sequence])
        del self.path[shared:]
        for depth in range(shared, len(sequence)):
            self.parents.append(self.path[-1] if self.path else -1)
            self.path.append(len(self.tokens))
            self.tokens.append(sequence[depth])
            self.depths.append(depth)
        self.last = sequence
        self.sequences.append(index)
        self.ends.append(self.path[-1])

    def row(self) -> TreeRow:
        """Return the packed row."""
        sees = np.eye(len(self.tokens), dtype=bool)
        for token, parent in enumerate(self.parents):
            if parent >= 0:
                sees[token] |= sees[parent]
        return TreeRow(np.array(self.tokens), np.array(self.depths), sees, tuple(self.sequences), np.array(self.ends))
