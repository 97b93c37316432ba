"""The packed tree: every sequence is in it once, sees itself and nothing else, and shares what can be shared."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fp2.methods.prefix_sharing.token_tree import common_prefix_length, pack

SEQUENCES = st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=7).map(tuple), min_size=1, max_size=25).map(tuple)


@given(SEQUENCES, st.integers(1, 40))
def test_each_sequence_is_read_back_from_what_its_last_token_sees(
    sequences: tuple[tuple[int, ...], ...], max_tokens: int
) -> None:
    rows = pack(sequences, max_tokens)
    found = {}
    for row in rows:
        for index, end in zip(row.sequences, row.ends, strict=True):
            seen = np.flatnonzero(row.attends[end])
            assert row.depths[seen].tolist() == list(range(len(seen)))
            found[index] = tuple(row.tokens[seen].tolist())
        assert len(row.tokens) <= max(max_tokens, max(len(sequences[index]) for index in row.sequences))
    assert found == dict(enumerate(sequences))


@given(SEQUENCES)
def test_one_row_holds_every_distinct_beginning_once(sequences: tuple[tuple[int, ...], ...]) -> None:
    (row,) = pack(sequences, 10_000)
    beginnings = {sequence[: end + 1] for sequence in sequences for end in range(len(sequence))}
    assert len(row.tokens) == len(beginnings)
    assert not np.triu(row.attends, 1).any()  # nothing sees what comes behind it


def test_templates_stay_together() -> None:
    sequences = tuple((template, 9, trait) for trait in range(50) for template in range(4))
    rows = pack(sequences, 100)
    assert sum(len(row.tokens) for row in rows) == 4 * 52 + 2 * 2  # a cut costs one template's two tokens again
    assert max(len(row.tokens) for row in rows) <= 100


@given(SEQUENCES)
def test_the_common_length(sequences: tuple[tuple[int, ...], ...]) -> None:
    shared = common_prefix_length(sequences)
    assert len({sequence[:shared] for sequence in sequences}) == 1
    assert len({sequence[: shared + 1] for sequence in sequences}) > 1 or shared == min(map(len, sequences))


def test_nothing_to_pack() -> None:
    assert common_prefix_length([]) == 0
    assert pack((), 8) == ()
    with pytest.raises(ValueError, match="at least one"):
        pack(((1,), ()), 8)
    with pytest.raises(ValueError, match="at least one"):
        pack(((1,),), 0)
