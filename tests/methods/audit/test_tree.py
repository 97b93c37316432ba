"""Merkle trees by RFC 6962: the known vectors, proofs of every leaf, and forged proofs."""

from __future__ import annotations

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fp2.methods.audit.tree import included, inclusion_proofs, leaf_hash, root

# The inputs and roots that implementations of RFC 6962 share (certificate-transparency's merkle_tree_test).
INPUTS = [bytes.fromhex(word) for word in (
    "", "00", "10", "2021", "3031", "40414243", "5051525354555657", "606162636465666768696a6b6c6d6e6f"
)]  # fmt: skip
ROOTS = (
    "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
    "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
    "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
    "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
    "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
    "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
    "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
)
HASHES = [leaf_hash(data) for data in INPUTS]


def by_definition(leaves: list[bytes]) -> bytes:
    """The recursion of section 2.1, word for word."""
    if len(leaves) < 2:
        return leaves[0] if leaves else hashlib.sha256().digest()
    k = 1 << (len(leaves) - 1).bit_length() - 1
    return hashlib.sha256(b"\x01" + by_definition(leaves[:k]) + by_definition(leaves[k:])).digest()


@pytest.mark.parametrize("n", range(1, 9))
def test_known_roots(n: int) -> None:
    assert root(HASHES[:n]).hex() == ROOTS[n - 1]


def test_no_leaves() -> None:
    assert root([]).hex() == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"


PATHS = {
    (0, 1): (),
    (0, 8): (
        "96a296d224f285c67bee93c30f8a309157f0daa35dc5b87e410b78630a09cfc7",
        "5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e",
        "6b47aaf29ee3c2af9af889bc1fb9254dabd31177f16232dd6aab035ca39bf6e4",
    ),
    (5, 8): (
        "bc1a0643b12e4d2d7c77918f44e0f4f79a838b6cf9ec5b5c283e1f4d88599e6b",
        "ca854ea128ed050b41b35ffc1b87b8eb2bde461e9e3b5596ece6b9d5975a0ae0",
        "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    ),
    (2, 3): ("fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",),
    (1, 5): (
        "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
        "5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e",
        "bc1a0643b12e4d2d7c77918f44e0f4f79a838b6cf9ec5b5c283e1f4d88599e6b",
    ),
}
"""(leaf, leaves of the tree) -> audit path, of the same tests."""


@pytest.mark.parametrize(("index", "n"), PATHS)
def test_known_paths(index: int, n: int) -> None:
    (path,) = inclusion_proofs(HASHES[:n], [index])
    assert tuple(node.hex() for node in path) == PATHS[index, n]
    stated = [bytes.fromhex(node) for node in PATHS[index, n]]
    assert included(HASHES[index], index, n, stated, bytes.fromhex(ROOTS[n - 1]))


@given(st.integers(1, 130), st.data())
def test_every_proof_holds_for_its_leaf_only(n: int, data: st.DataObject) -> None:
    leaves = [leaf_hash(str(number).encode()) for number in range(n)]
    top = root(leaves)
    assert top == by_definition(leaves)
    index = data.draw(st.integers(0, n - 1))
    (path,) = inclusion_proofs(leaves, [index])
    assert included(leaves[index], index, n, path, top)
    assert not included(leaf_hash(b"other"), index, n, path, top)
    assert not included(leaves[index], index, n, [*path, top], top)
    assert not included(leaves[index], n, n, path, top)
    if n > 1:
        other = data.draw(st.integers(0, n - 1).filter(lambda number: number != index))
        assert not included(leaves[index], other, n, path, top)
        assert not included(leaves[index], index, n, path[1:], top)
