"""Drafts of answers: what often followed the same words in earlier answers to the same prompt.

Models repeat themselves over images ("Based on the image, it is difficult to determine ..."). A draft is computed by
the model in one pass with the last token, and kept as far as it is what the model would have generated token by token
(speculative decoding, Leviathan et al. 2023, doi.org/10.48550/arXiv.2211.17192; here the draft comes from n-grams of
earlier answers and not from a second model). The answer does not depend on the draft.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

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
        place = self._prompts.setdefault(prompt, len(self._prompts))
        if self._learned[place] >= _LEARNED:
            return
        self._learned[place] += 1
        tokens = (_BEGIN, *answer)
        for end in range(1, len(tokens)):
            for context in {tokens[max(0, end - order) : end] for order in _ORDERS}:
                self._next.setdefault((place, *context), Counter())[tokens[end]] += 1

    def propose(self, prompt: tuple[int, ...], answer: Sequence[int], room: int) -> list[int]:
        """Return at most `room` tokens that may follow the tokens of `answer` so far; often none."""
        place = self._prompts.get(prompt)
        if place is None:
            return []
        tokens = [_BEGIN, *answer]
        draft: list[int] = []
        certainty = 1.0
        while len(draft) < min(room, self.longest):
            found = self._following((place, *tokens[-_ORDERS[0] :]))
            if found is None:
                break
            token, share = found
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
