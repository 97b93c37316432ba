"""Picking the next token: greedy is the maximum; draws follow the softmax and depend on their own seed only."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.special
import scipy.stats
import torch

from fp2.engines.hf.generation import Sampler, greedy
from fp2.tables import Decoding

LOGITS = torch.tensor([1.0, 0.0, -1.0, 2.0])


def test_greedy_takes_the_most_likely() -> None:
    assert greedy([(0, 0), (0, 1)], torch.stack([LOGITS, -LOGITS])) == [3, 2]


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
def test_draws_follow_the_softmax_at_the_temperature(temperature: float) -> None:
    pairs = [(0, prompt) for prompt in range(4000)]
    drawn = Sampler(Decoding(temperature=temperature), lambda pair: pair[1])(pairs, LOGITS.expand(len(pairs), -1))
    expected = scipy.special.softmax(LOGITS.double().numpy() / temperature) * len(pairs)
    assert scipy.stats.chisquare(np.bincount(drawn, minlength=4), expected).pvalue > 1e-3


def test_a_sample_depends_on_its_own_seed_only() -> None:
    pairs = [(0, 3), (1, 1), (2, 2)]
    logits = torch.randn(3, 50, generator=torch.Generator().manual_seed(1))
    together = Sampler(Decoding(temperature=1.0), lambda pair: 10 * pair[0] + pair[1])
    said = [together(pairs, logits), together(pairs, logits)]
    for place, pair in enumerate(pairs):
        alone = Sampler(Decoding(temperature=1.0), lambda pair: 10 * pair[0] + pair[1])
        own = [alone([pair], logits[place : place + 1])[0] for _ in range(2)]
        assert own == [step[place] for step in said]
    first, second = (Sampler(Decoding(temperature=1.0), lambda pair: 7)(pairs[i : i + 1], logits[:1]) for i in (0, 1))
    assert first == second
