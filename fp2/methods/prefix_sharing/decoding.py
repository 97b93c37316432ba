"""The state of texts that are generated together after a common prefix: tokens so far, and their places in the cache.

In each pass every text that has not ended is a chain of tokens: its newest one, and a draft of what may follow
(`Drafts`). The chain is verified token by token: what the model generates after each of its tokens is appended to the
text, up to the first token that the draft does not have. The rest of the draft is taken out of the cache.

A draft is what often followed the same words in earlier answers to the same prompt, since models repeat themselves over
images ("Based on the image, it is difficult to determine ..."). It is computed by the model in one pass with the last
token, and kept as far as it is what the model would have generated token by token (speculative decoding, Leviathan et
al. 2023, doi.org/10.48550/arXiv.2211.17192; here the draft comes from n-grams of earlier answers and not from a second
model). The answer does not depend on the draft.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from fp2.extension import Pair, Pick, Tokens
from fp2.methods.prefix_sharing.token_tree import TreeRow

_ORDERS = (8, 4, 2)
"""Lengths of the contexts that are looked up, the longest first."""
_BEGIN = -1
"""Stands before the first token of an answer."""
_LEARNED = 256
"""Answers to a prompt that are learned from; later ones add little and would fill the memory."""


class Drafts:
    """An n-gram model of the answers to each prompt so far.

    Parameters
    ----------
    least : float
        A draft goes on while the estimated probability that all of it is right is at least this.
    longest : int
        Most tokens of a draft.
    """

    def __init__(self, least: float = 0.5, longest: int = 16) -> None:
        self.least, self.longest = least, longest
        self.proposed = self.accepted = 0
        self._next: dict[tuple[int, ...], Counter[int]] = {}
        self._prompts: dict[tuple[int, ...], int] = {}
        self._learned: Counter[int] = Counter()

    def learn(self, prompt: tuple[int, ...], answer: Sequence[int]) -> None:
        """Count the n-grams of an answer (token ids) to `prompt` (token ids)."""
        prompt_number = self._prompts.setdefault(prompt, len(self._prompts))
        if self._learned[prompt_number] >= _LEARNED:
            return
        self._learned[prompt_number] += 1
        tokens = (_BEGIN, *answer)
        for end in range(1, len(tokens)):
            for context in {tokens[max(0, end - order) : end] for order in _ORDERS}:
                self._next.setdefault((prompt_number, *context), Counter())[tokens[end]] += 1

    def propose(self, prompt: tuple[int, ...], answer: Sequence[int], room: int) -> list[int]:
        """Return at most `room` tokens that may follow the tokens of `answer` so far; often none."""
        prompt_number = self._prompts.get(prompt)
        if prompt_number is None:
            return []
        tokens = [_BEGIN, *answer]
        draft: list[int] = []
        certainty = 1.0
        while len(draft) < min(room, self.longest):
            follower = self._following((prompt_number, *tokens[-_ORDERS[0] :]))
            if follower is None:
                break
            token, share = follower
            certainty *= share
            if certainty < self.least:
                break
            draft.append(token)
            tokens.append(token)
        return draft

    def _following(self, context: tuple[int, ...]) -> tuple[int, float] | None:
        """Return the most frequent next token after the longest known context, and its estimated probability."""
        for order in _ORDERS:
            counts = self._next.get((context[0], *context[1:][-order:]))
            if counts:
                ((token, count),) = counts.most_common(1)
                return token, count / (counts.total() + 1)
        return None


Array = npt.NDArray[Any]


@dataclass(frozen=True, eq=False)
class Chain:
    """What is computed of one text in a pass: `tokens`, from place `start` of its image's row."""

    pair: Pair
    start: int
    tokens: list[int]


@dataclass(frozen=True, eq=False)
class Pass:
    """The tokens of a pass over R images, in rows of T tokens after L in the cache.

    Attributes
    ----------
    chains : list of Chain
    ids, own : int64 array, (R, T)
        Tokens and their positions; shorter rows are filled up.
    attends : bool array, (R, T, L + T)
    positions : int64 array, (R, L + T)
        Of the tokens in the cache and in the pass.
    """

    chains: list[Chain]
    ids: Array
    own: Array
    attends: Array
    positions: Array


class DecodingState:
    """Texts that are generated for each of R images and S prompts.

    Parameters
    ----------
    suffixes : sequence of tokens
        What each prompt has after the common prefix.
    row : TreeRow
        `suffixes`, packed.
    n_prefix, n_images : int
    end_tokens : set of int
    max_new : int
        Most tokens of a text.
    """

    def __init__(
        self,
        suffixes: Sequence[Tokens],
        row: TreeRow,
        n_prefix: int,
        n_images: int,
        *,
        end_tokens: set[int],
        max_new: int,
    ) -> None:
        self._suffixes, self._end_tokens, self._max_new = suffixes, end_tokens, max_new
        n_accepted = np.empty(len(suffixes), dtype=np.int64)
        n_accepted[list(row.sequences)] = row.ends
        self.ends: Array = n_accepted
        """Place in the row of the end of each suffix, in the order of the suffixes."""
        self.texts: list[list[list[int]]] = [[[] for _ in suffixes] for _ in range(n_images)]
        self._lengths: Array = n_prefix + row.depths[n_accepted] + 1
        after = np.concatenate([np.ones((len(n_accepted), n_prefix), dtype=bool), row.attends[n_accepted]], axis=1)
        self._attends: Array = np.repeat(after[None], n_images, axis=0)
        positions = np.concatenate([np.arange(n_prefix), n_prefix + row.depths])
        self._positions: Array = np.repeat(positions[None], n_images, axis=0)

    @property
    def going(self) -> list[Pair]:
        """(image, prompt) of every text that has not ended, by image."""
        return [
            (image, prompt)
            for image, texts in enumerate(self.texts)
            for prompt, text in enumerate(texts)
            if not self._ended(text)
        ]

    def begin(self, logits: torch.Tensor, pick: Pick) -> None:
        """Append the first token of each text, from the logits [R, S, vocabulary] after the prompts."""
        pairs = self.going
        for (image, prompt), token in zip(pairs, pick(pairs, logits.flatten(0, 1)), strict=True):
            self.texts[image][prompt].append(token)

    def next_pass(self, drafts: Drafts, most: int) -> Pass:
        """Return the newest token of each text and its draft: rows of at most `most` tokens, or one token a text."""
        chains: list[Chain] = []
        going, filled = self.going, [0] * len(self.texts)
        counts = np.bincount([image for image, _ in going], minlength=len(filled))
        for image, prompt in going:
            text = self.texts[image][prompt]
            room = min(most // int(counts[image]) - 1, self._max_new - len(text) - 1)
            draft = drafts.propose(self._suffixes[prompt], text, room) if room > 0 else []
            chains.append(Chain((image, prompt), filled[image], [text[-1], *draft]))
            filled[image] += 1 + len(draft)
        return self._pass(chains, max(filled))

    def _pass(self, chains: list[Chain], length: int) -> Pass:
        n_images, cached = self._positions.shape
        ids = np.zeros((n_images, length), dtype=np.int64)
        own_positions = np.zeros((n_images, length), dtype=np.int64)
        attends = np.zeros((n_images, length, cached + length), dtype=bool)
        attends[:, :, cached:] = np.eye(length, dtype=bool)  # a filled place has to attend to something
        for chain in chains:
            (image, prompt), positions = chain.pair, slice(chain.start, chain.start + len(chain.tokens))
            first = self._lengths[prompt] + len(self.texts[image][prompt]) - 1
            ids[image, positions] = chain.tokens
            own_positions[image, positions] = first + np.arange(len(chain.tokens))
            attends[image, positions, :cached] = self._attends[image, prompt]
            after = slice(cached + positions.start, cached + positions.stop)
            attends[image, positions, after] = np.tri(len(chain.tokens), dtype=bool)
        return Pass(chains, ids, own_positions, attends, np.concatenate([self._positions, own_positions], axis=1))

    def verify(self, computed: Pass, logits: torch.Tensor, pick: Pick, drafts: Drafts) -> Array:
        """Append to each text what the model generates along its chain; return the places to be kept, (R, kept).

        Parameters
        ----------
        computed : Pass
        logits : tensor [R, T, vocabulary]
        pick : Pick
            Called once for each new token of a text, in the order of its tokens.
        drafts : Drafts
            Counts what was proposed and accepted.
        """
        live, depth = computed.chains, 0
        accepted: list[list[tuple[Pair, int]]] = [[] for _ in self.texts]
        while live:
            at = torch.tensor([(chain.pair[0], chain.start + depth) for chain in live], device=logits.device)
            picked = pick([chain.pair for chain in live], logits[at[:, 0], at[:, 1]])
            right = []
            for chain, token in zip(live, picked, strict=True):
                image, prompt = chain.pair
                text = self.texts[image][prompt]
                text.append(token)
                accepted[image].append((chain.pair, chain.start + depth))
                if not self._ended(text) and chain.tokens[depth + 1 : depth + 2] == [token]:
                    right.append(chain)
            drafts.accepted += len(right)
            live, depth = right, depth + 1
        drafts.proposed += sum(len(chain.tokens) - 1 for chain in computed.chains)
        return self._keep(computed, accepted)

    def _keep(self, computed: Pass, accepted: list[list[tuple[Pair, int]]]) -> Array:
        """File the tokens that stay in the cache; texts that have ended need none of theirs."""
        accepted = [
            [(pair, index) for pair, index in row if not self._ended(self.texts[pair[0]][pair[1]])] for row in accepted
        ]
        width = max(len(row) for row in accepted)
        places = np.zeros((len(accepted), width), dtype=np.int64)
        own_mask = np.zeros((*self._attends.shape[:2], width), dtype=bool)
        for image, row in enumerate(accepted):
            for index, ((_, prompt), at) in enumerate(row):
                places[image, index], own_mask[image, prompt, index] = at, True
        self._attends = np.concatenate([self._attends, own_mask], axis=2)
        positions = np.take_along_axis(computed.own, places, axis=1)
        self._positions = np.concatenate([self._positions, positions], axis=1)
        return places

    def _ended(self, text: list[int]) -> bool:
        return len(text) >= self._max_new or (bool(text) and text[-1] in self._end_tokens)
