"""Merkle trees as RFC 6962 defines them (section 2.1), with SHA-256: the root, inclusion proofs and their verification.

https://www.rfc-editor.org/rfc/rfc6962#section-2.1. A leaf is hashed after the byte 0x00, a node after 0x01. A list of
n > 1 leaves is split after k of them, the largest power of two below n; computed level by level, a last node without a
neighbour is carried up unchanged.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence


def leaf_hash(data: bytes) -> bytes:
    """Return the hash of a leaf: SHA-256(0x00 || data)."""
    return hashlib.sha256(b"\x00" + data).digest()


def _levels(leaves: Iterable[bytes]) -> list[list[bytes]]:
    """Return the hashes of the tree, level by level, from those of the leaves to the root."""
    levels = [list(leaves)]
    while len(level := levels[-1]) > 1:
        pairs = zip(level[::2], level[1::2], strict=False)
        above = [hashlib.sha256(b"\x01" + left + right).digest() for left, right in pairs]
        levels.append(above + level[-1:] if len(level) % 2 else above)
    return levels


def root(leaves: Iterable[bytes]) -> bytes:
    """Return the root of a tree from the hashes of its leaves; of no leaves, the SHA-256 of nothing."""
    top = _levels(leaves)[-1]
    return top[0] if top else hashlib.sha256().digest()


def inclusion_proofs(leaves: Sequence[bytes], indices: Iterable[int]) -> list[list[bytes]]:
    """Return the audit path of each leaf: the hashes that lead from it to the root, from below (section 2.1.1).

    Parameters
    ----------
    leaves : sequence of bytes
        The hashes of all leaves.
    indices : iterable of int
        Which leaves, from 0.
    """
    levels = _levels(leaves)

    def path(index: int) -> list[bytes]:
        hashes = []
        for level in levels[:-1]:
            if index ^ 1 < len(level):
                hashes.append(level[index ^ 1])
            index //= 2
        return hashes

    return [path(index) for index in indices]


def included(leaf: bytes, index: int, n: int, path: Sequence[bytes], stated_root: bytes) -> bool:
    """Return whether `path` leads from the hash of leaf `index` (of `n`) to the root (RFC 9162, section 2.1.3.2)."""
    if not 0 <= index < n:
        return False
    node, last = index, n - 1
    for sibling in path:
        if last == 0:
            return False
        if node % 2 or node == last:
            leaf = hashlib.sha256(b"\x01" + sibling + leaf).digest()
            while node % 2 == 0 and node:
                node, last = node // 2, last // 2
        else:
            leaf = hashlib.sha256(b"\x01" + leaf + sibling).digest()
        node, last = node // 2, last // 2
    return last == 0 and leaf == stated_root
