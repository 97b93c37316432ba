"""Many token sequences after one common prefix, packed as trees: a token that several share is computed once.

A tree is packed into one row of tokens. Each token attends to its ancestors and itself, and has the position that it
has in its own sequence, so that one forward pass gives the same logits as one pass for each sequence.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fp2.extension import Tokens, common_prefix_length


@dataclass(frozen=True, eq=False)
class TreeRow:
    """One packed tree of T tokens with n of the sequences.

    Attributes
    ----------
    tokens : int64 array, (T,)
    depths : int64 array, (T,)
        Place in its sequence: 0 for the first token after the common prefix.
    attends : bool array, (T, T)
        `attends[i, j]`: token i attends to token j (its ancestors and itself).
    sequences : tuple of int
        Indices of the n sequences that end in this row.
    ends : int64 array, (n,)
        Place in the row of the last token of each.
    """

    tokens: npt.NDArray[np.int64]
    depths: npt.NDArray[np.int64]
    attends: npt.NDArray[np.bool_]
    sequences: tuple[int, ...]
    ends: npt.NDArray[np.int64]


@functools.lru_cache(maxsize=8)
def pack(sequences: tuple[Tokens, ...], max_tokens: int) -> tuple[TreeRow, ...]:
    """Pack `sequences` into as few rows of at most `max_tokens` tokens as possible; a longer one gets its own row.

    Sequences with a common prefix are adjacent; what two rows share is in both.

    Raises
    ------
    ValueError
        If a sequence is empty or `max_tokens` is below 1.
    """
    if max_tokens < 1 or not all(sequences):
        raise ValueError("sequences and rows must have at least one token")
    order = sorted(range(len(sequences)), key=lambda index: sequences[index])
    rows: list[TreeRow] = []
    builder = _RowBuilder()
    # The row length that splits the tree into equal parts, as few as `max_tokens` allows
    n_tokens = 0
    before: Tokens = ()
    for position in order:
        n_tokens += len(sequences[position]) - common_prefix_length([before, sequences[position]])
        before = sequences[position]
    limit = min(max_tokens, math.ceil(n_tokens / math.ceil(n_tokens / max_tokens)) + 16) if n_tokens else max_tokens
    for index in order:
        if builder.ends and builder.length_with(sequences[index]) > limit:
            rows.append(builder.row())
            builder = _RowBuilder()
        builder.add(index, sequences[index])
    if builder.ends:
        rows.append(builder.row())
    return tuple(rows)


class _RowBuilder:
    """Packs sorted sequences: what a sequence shares with the last one is its path in the tree."""

    def __init__(self) -> None:
        self.tokens: list[int] = []
        self.depths: list[int] = []
        self.parents: list[int] = []
        self.path: list[int] = []
        self.last: Tokens = ()
        self.sequences: list[int] = []
        self.ends: list[int] = []

    def length_with(self, sequence: Tokens) -> int:
        """Return the length of the row with `sequence` added."""
        return len(self.tokens) + len(sequence) - common_prefix_length([self.last, sequence])

    def add(self, index: int, sequence: Tokens) -> None:
        """Add `sequence` after the last one."""
        shared = common_prefix_length([self.last, sequence])
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
        attends = np.eye(len(self.tokens), dtype=bool)
        for token, parent in enumerate(self.parents):
            if parent >= 0:
                attends[token] |= attends[parent]
        return TreeRow(
            np.array(self.tokens), np.array(self.depths), attends, tuple(self.sequences), np.array(self.ends)
        )
